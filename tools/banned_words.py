"""Refuse words that hide the actor or the thing, in strings, docstrings, names and pages.

STYLE: the subject of a sentence is a named component or the reader; names are the words of the protocols and the field.
Quoted text of the protocols is exempt by line: end the line with ``# words:`` and the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT: Final = Path(__file__).parent.parent
SOURCE: Final = PROJECT / "src" / "skillwire"
PROSE: Final = re.compile(
    r"\b(who(?:so)?ever|nobody|somebody|anybody|everybody|told|tells? of|hearsay|stranger|mend(?:s|ed|ing)?|is none of"
    r"|stands? in|what it takes|as well as it|by itself alone|goes? on with|on its way|of which|at its own"
    r"|is about it|(?<!ask )(?<!asks )(?<!wait )(?<!waits )for it)\b",
    re.IGNORECASE,
)
NAMES: Final = frozenset(
    """door doors annex visit reception told tell tells hearsay doubts enough tellable together wanted keeping keeper
    news room desk desks shelves lend workplace neighbours figures troubles obstacles asker says silences taken
    suspects upkeep sweep beats held noted strong faint doubtful whole""".split()  # noqa: SIM905  # a list of words is read as words
)
#: Pages whose prose is checked; text in fences and in generated blocks comes from programs.
PAGES: Final = ("*.md", "changelog.d/*.md", "docs/**/*.md")
_FOREIGN: Final = re.compile(r"<!-- generated.*?end of generated -->|^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_EXEMPT: Final = "# words:"


def main() -> int:
    """Print each banned word with its place; return the exit code."""
    found = [row for path in sorted(SOURCE.rglob("*.py")) for row in words_of(path)]
    found += [row for pages in PAGES for path in sorted(PROJECT.glob(pages)) for row in words_of_page(path)]
    for path, line, word in found:
        print(f"{path.relative_to(PROJECT)}:{line}: {word}")
    if found:
        print("fix: name the actor, or use the word of the field (CONTRIBUTING.md, Style)")
    return 1 if found else 0


def words_of(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the banned words of a module: place and word."""
    source = path.read_text()
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if line and _EXEMPT in lines[line - 1]:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((path, line, match[0]) for match in PROSE.finditer(node.value))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).lower())
            yield from ((path, line, node.name) for part in parts if part in NAMES)
    yield from ((path, 1, f"module {path.stem}") for part in path.stem.split("_") if part in NAMES)


def words_of_page(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the banned words of a page's prose: place and word."""
    text = _FOREIGN.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
    yield from ((path, text.count("\n", 0, match.start()) + 1, match[0]) for match in PROSE.finditer(text))


if __name__ == "__main__":
    sys.exit(main())
