#!/usr/bin/env python3
"""Marks the words of a menu that the glossary knows, with their translations.

The longest term wins where several begin, and terms count as whole words only: "Ei" is not in "Eis".
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "assets" / "menu.json"
LANGUAGES = ("de", "en", "fr", "it")
WORD = re.compile(r"\w+")

USAGE = """usage: main.py JSON
Marks the words of a menu with their translations. JSON is an object with
segments and source, and optionally target; - reads it from standard input.
example: main.py '{"segments": ["Forelle mit Butter"], "source": "de"}'
"""


def main(args: dict) -> dict:
    """Return the marks, and how many words have none.

    Args:
        args: ``segments``, ``source`` and, when it is not English, ``target``.

    Raises:
        ValueError: A language is not known here, or there are no texts.
    """
    segments, source, target = args.get("segments"), args.get("source"), args.get("target") or "en"
    if not isinstance(segments, list) or not all(isinstance(one, str) for one in segments):
        raise ValueError("segments: expected a list of texts")
    for name, language in (("source", source), ("target", target)):
        if language not in LANGUAGES:
            raise ValueError(f"{name}: expected one of {', '.join(LANGUAGES)}, not {language!r}")
    terms = {entry[source].lower(): entry[target] for entry in json.loads(GLOSSARY.read_text(encoding="utf-8"))}
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)
    overlay, unknown = [], 0
    for number, text in enumerate(segments):
        marks = list(pattern.finditer(text))
        known = sum(len(WORD.findall(mark[0])) for mark in marks)
        unknown += len(WORD.findall(text)) - known
        overlay += [
            {"segment": number, "start": mark.start(), "end": mark.end(), "translation": terms[mark[0].lower()]}
            for mark in marks
        ]
    return {"overlay": overlay, "unknown": unknown}


def command_line(arguments: list[str]) -> int:
    """Run ``main`` with JSON from the command line; return the exit code."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if len(arguments) != 1:
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        args = json.loads(sys.stdin.read() if arguments[0] == "-" else arguments[0])
        result = main(args if isinstance(args, dict) else {})
    except ValueError as error:  # a JSON error is one too
        print(f"main.py: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(command_line(sys.argv[1:]))
