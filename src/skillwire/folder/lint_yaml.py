"""Rules about the YAML of a frontmatter: whether other readers find in it what we find.

There are as many YAMLs as there are readers. We read every value as text, by libyaml's rules. The most used
installer and most agents read with ``yaml`` or ``js-yaml`` of npm or with PyYAML, which give some plain values
another type, and the first of them refuses what libyaml lets pass: a comment right behind a quote, and a quoted
text that goes on without indentation. An installer that gets a number for a name says nothing and skips the skill.
``tests/interop/test_frontmatter_readers.py`` holds these rules against those readers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import Place
from skillwire.trust.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.findings import Findings
    from skillwire.folder.frontmatter import SkillMd

#: Where plain text is no text: YAML 1.1 (PyYAML) and 1.2 (yaml, js-yaml) together.
_TYPED: Final = re.compile(
    r"~|null|true|false|yes|no|on|off|[-+]?\.inf|\.nan|[-+]?0x[\da-f_]+|[-+]?0o?[0-7_]+|[-+]?0b[01_]+"
    r"|[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[-+]?\d+)?|[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?"
    r"|\d{4}-\d\d?-\d\d?(?:(?:[Tt]|\s+)\d\d?:\d\d:\d\d(?:\.\d*)?\s*(?:Z|[-+]\d\d?(?::?\d\d)?)?)?",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(r"\s#.*")
#: A value in quotes, or what announces a block of lines, and the comment that stands right behind it.
_MARKED: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[|>][-+\d]{0,2})(#?)""", re.DOTALL)


def lint_yaml(skill_md: SkillMd, findings: Findings) -> None:
    """Judge whether simpler and stricter readers, the reference validator among them, read the same frontmatter."""
    for place in skill_md.flows:
        findings.add("FLOW_STYLE", "a list or map stands in brackets", place)
    lines = skill_md.head.split("\n")
    for offset, line in enumerate(lines):
        if "---" in line:
            message = "some readers end the frontmatter at these three hyphens"
            findings.add("FRONTMATTER_HYPHENS", message, _line(skill_md, line, offset, line.index("---"), 3))
        if "\t" in line:
            findings.add("FRONTMATTER_YAML", "a tab", _line(skill_md, line, offset, line.index("\t"), 1))
    _lint_marked(skill_md, lines, findings)
    _lint_values(skill_md, lines, findings)


def _lint_marked(skill_md: SkillMd, lines: list[str], findings: Findings) -> None:
    """Judge values in quotes and blocks: where their lines begin, and whether a comment touches them."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for place in skill_md.places.values():
        offset, indent = (place.line or 0) - 2, (place.column or 1) - 1
        if not 0 <= offset < len(lines):
            continue
        start = len(lines[offset].partition(":")[0]) + 1
        found = _MARKED.match(skill_md.head, starts[offset] + start)
        if found is None:
            continue
        first, last = (bisect_right(starts, found.start(1)) - 1, bisect_right(starts, found.end(1)) - 1)
        for number in range(first + 1, last + 1):
            line = lines[number]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                message = "a text in quotes goes on without indentation"
                findings.add("FRONTMATTER_YAML", message, _line(skill_md, line, number, 0, 1))
        if found[2]:
            place_of_comment = _line(skill_md, lines[last], last, found.end(1) - starts[last], 1)
            findings.add("FRONTMATTER_YAML", "a comment without a space before it", place_of_comment)


def _lint_values(skill_md: SkillMd, lines: list[str], findings: Findings) -> None:
    for path, value in _values(skill_md):
        if path[-1] == "<<" or value in ("=", "<<"):
            findings.add("FRONTMATTER_YAML", "some readers give = and << a meaning", skill_md.place(*path))
        elif isinstance(value, str) and _TYPED.fullmatch(value) and _is_plain(value, skill_md.place(*path), lines):
            message = f"{value} is not text to every reader of YAML"
            findings.add("FRONTMATTER_TYPED", message, skill_md.place(*path))


def _values(skill_md: SkillMd) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in skill_md.fields.items():
        yield (key,), value
    metadata = skill_md.fields.get("metadata")
    for key, value in metadata.items() if isinstance(metadata, dict) else ():
        yield ("metadata", key), value


def _is_plain(value: str, place: Place, lines: list[str]) -> bool:
    """Whether ``value`` stands behind its key, or on the next line that says something, without quotes."""
    offset = (place.line or 0) - 2
    if not 0 <= offset < len(lines):
        return False
    said = (_COMMENT.sub("", f" {line}").strip() for line in (lines[offset].partition(":")[2], *lines[offset + 1 :]))
    return next(filter(None, said), None) == value


def _line(skill_md: SkillMd, line: str, offset: int, column: int, width: int) -> Place:
    return Place(skill_md.source, offset + 2, column + 1, column + 1 + width, excerpt(line))
