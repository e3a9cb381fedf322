"""What a docstring says of a function: what it does, what each argument means, what comes back.

The first paragraph is the summary. Sections are those of Google's style: ``Args:`` with an entry for each argument,
``Returns:``. Other sections (``Raises:``, ``Example:``) are for readers of the code and are passed over.
"""

from __future__ import annotations

import inspect
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTION: Final = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|See Also|Todo|Warnings?):\s*"
)
_ENTRY: Final = re.compile(r"\*{0,2}(\w+(?:, ?\w+)*)(?: ?\([^()]*\))?: ?(.*)")
_ARGUMENTS: Final = frozenset({"Args", "Arguments", "Parameters"})


class Docstring(NamedTuple):
    """A docstring, taken apart. ``details`` is what stands between the summary and the first section."""

    summary: str = ""
    details: str = ""
    arguments: Mapping[str, str] = MappingProxyType({})
    returns: str = ""


def read_docstring(text: str | None) -> Docstring:
    """Return what a docstring says."""
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    into = prose
    for line in inspect.cleandoc(text or "").split("\n"):
        if heading := _SECTION.fullmatch(line):
            into = sections.setdefault(heading[1], [])
        else:
            into.append(line)
    summary, _, details = "\n".join(prose).strip().partition("\n\n")
    arguments: dict[str, str] = {}
    for name in _ARGUMENTS & sections.keys():
        arguments |= _entries(sections[name])
    returns = next((_flow(lines) for name, lines in sections.items() if name.startswith("Return")), "")
    return Docstring(_flow([summary]), details.strip(), arguments, returns)


def _entries(lines: list[str]) -> dict[str, str]:
    """Return the text of each argument; what is indented deeper than its name goes on with it."""
    entries: dict[str, list[str]] = {}
    into: list[str] = []
    block = inspect.cleandoc("\n" + "\n".join(lines)).split("\n")
    for line in block:
        entry = _ENTRY.fullmatch(line)
        if entry and not line.startswith(" "):
            into = [entry[2]]
            for name in entry[1].split(","):
                entries[name.strip()] = into
        else:
            into.append(line)
    return {name: _flow(text) for name, text in entries.items()}


def _flow(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
