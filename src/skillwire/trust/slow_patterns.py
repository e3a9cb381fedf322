"""Patterns whose matching may take exponential time in an engine that backtracks.

We match patterns of strangers with an engine that does not. But what we publish or hand on is read by others, and
a pattern such as ``(a+)+$`` stops them for hours. What is found here is a group that repeats without bound and

- holds something that repeats without bound, unless a separator that nothing else in the group can match tells
  the rounds apart, as in ``(-[a-z]+)*``; or
- has branches that may begin with the same character, as ``(a|ab)*``.

The test errs to the safe side: some patterns that it names are harmless.
"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:[:=!>]|P?<[^>]*>|<[=!])|\{\d*,?\d*\}|.", re.DOTALL)
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d*,\}")
_QUANTIFIER: Final = re.compile(r"[*+?]|\{\d*,?\d*\}")
_SEPARATOR: Final = re.compile(r"\\?[^A-Za-z0-9\\\[\](){}|*+?.^$]|\\[.()\[\]{}|*+?^$]")


def may_explode(pattern: str) -> bool:
    """Whether matching ``pattern`` may take exponential time."""
    parts = _PART.findall(pattern)
    opened: list[int] = []
    for position, part in enumerate(parts):
        if part.startswith("("):
            opened.append(position)
        elif part == ")" and opened:
            inner = parts[opened.pop() + 1 : position]
            after = parts[position + 1] if position + 1 < len(parts) else ""
            if _UNBOUNDED.fullmatch(after) and _is_ambiguous(inner):
                return True
    return False


def _is_ambiguous(inner: list[str]) -> bool:
    branches = _branches(inner)
    if len(branches) > 1 and _may_begin_alike(branches):
        return True
    repeats = any(_UNBOUNDED.fullmatch(part) for part in inner)
    return repeats and not all(_is_separated(branch) for branch in branches)


def _branches(parts: list[str]) -> list[list[str]]:
    depth, branches = 0, [list[str]()]
    for part in parts:
        depth += part.startswith("(") - (part == ")")
        if part == "|" and not depth:
            branches.append([])
        else:
            branches[-1].append(part)
    return branches


def _may_begin_alike(branches: list[list[str]]) -> bool:
    begins = [next((part for part in branch if not part.startswith("(")), "") for branch in branches]
    plain = all((len(begin) == 1 and begin != ".") or _SEPARATOR.fullmatch(begin) for begin in begins)
    return not plain or len(set(begins)) < len(begins)


def _is_separated(branch: list[str]) -> bool:
    """Whether one end of a branch is a character, once, that nothing else in it matches."""
    for end, rest in ((branch[:1], branch[1:]), (branch[-1:], branch[:-1])):
        once = not (end == branch[:1] and rest and _QUANTIFIER.fullmatch(rest[0]))
        if end and once and _SEPARATOR.fullmatch(end[0]) and not any(_matches(part, end[0][-1]) for part in rest):
            return True
    return False


def _matches(part: str, character: str) -> bool:
    if _QUANTIFIER.fullmatch(part) or part in {"|", ")"} or part.startswith("("):
        return False
    try:
        return re.fullmatch(part, character) is not None
    except re.error:  # of another dialect: what it matches is not known
        return True
