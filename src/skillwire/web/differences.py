"""The differences between two versions of a skill: files that were added, removed or changed, and lines of texts.

Lines are compared as Myers does ("An O(ND) Difference Algorithm", 1986): little work for few differences, squares for
many. Trust: both versions are hostile. All files of one page share the bounds of bytes, steps and lines
(``PAGE_DIFF_BYTES``, ``PAGE_DIFF_STEPS``, ``PAGE_DIFF_LINES``); a file beyond one of them is listed with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillwire.model.skill import Skill, SkillFile
    from skillwire.ports import BlobStore

#: Unchanged lines that are shown around a changed one.
_CONTEXT: Final = 3


class DiffLine(NamedTuple):
    """A line with its numbers in both versions; the sign ``@`` stands for unchanged lines that are left out."""

    sign: Literal["+", "-", " ", "@"]
    old: int | None
    new: int | None
    text: str


class FileChange(NamedTuple):
    """A changed file: ``old`` and ``new`` are None where it is not there; without ``lines`` there is a ``reason``."""

    path: str
    old: SkillFile | None
    new: SkillFile | None
    lines: Sequence[DiffLine] = ()
    reason: str = ""

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """What happened to the file."""
        return "added" if self.old is None else "removed" if self.new is None else "changed"


class Budget:
    """What is left of the bounds of one page."""

    def __init__(self) -> None:
        self.bytes = int(limits.PAGE_DIFF_BYTES)
        self.steps = int(limits.PAGE_DIFF_STEPS)
        self.lines = int(limits.PAGE_DIFF_LINES)


def compare_skills(old: Skill, new: Skill, blobs: BlobStore) -> list[FileChange]:
    """Return the changed files by path. Takes up to half a second: not for the event loop."""
    before, after = ({file.path: file for file in skill.files} for skill in (old, new))
    budget = Budget()
    return [
        _compare(path, before.get(path), after.get(path), blobs, budget)
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _compare(path: str, old: SkillFile | None, new: SkillFile | None, blobs: BlobStore, budget: Budget) -> FileChange:
    change = FileChange(path, old, new)
    files = [file for file in (old, new) if file is not None]
    if old is not None and new is not None and old.digest == new.digest:
        return change._replace(reason=f"It is {'now' if new.executable else 'no longer'} executable.")
    budget.bytes -= sum(file.size for file in files)
    if budget.bytes < 0 or any(file.size > limits.PAGE_FILE_BYTES for file in files):
        return change._replace(reason="It is too large to be compared here.")
    texts = ["" if file is None else read_text_file(blobs.read(file.digest) or b"") for file in (old, new)]
    if texts[0] is None or texts[1] is None:
        return change._replace(reason="It is not a text.")
    ours, theirs = split_lines(texts[0]), split_lines(texts[1])
    matches = match_lines(ours, theirs, budget)
    if matches is None:
        return change._replace(reason="It has too many differences to be shown here.")
    ours, theirs = split_lines(neutralise(texts[0])), split_lines(neutralise(texts[1]))
    lines = list(_shorten(list(_join(ours, theirs, matches))))
    if len(lines) > budget.lines:
        return change._replace(reason="It has more changed lines than this page has room for.")
    budget.lines -= len(lines)
    return change._replace(lines=lines, reason="" if lines else "It is empty.")


def match_lines(old: Sequence[str], new: Sequence[str], budget: Budget) -> list[tuple[int, int]] | None:
    """Return the indexes of lines that stay, in order; None when finding them takes more steps than are left."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] != new[index]), most)
    most -= start
    end = next((index for index in range(most) if old[-1 - index] != new[-1 - index]), most)
    first, second = old[start : len(old) - end], new[start : len(new) - end]
    between = _match_changed(first, second, budget)
    if between is None:
        return None
    last = [(len(old) - index, len(new) - index) for index in range(end, 0, -1)]
    return [*((index, index) for index in range(start)), *((x + start, y + start) for x, y in between), *last]


def _match_changed(old: Sequence[str], new: Sequence[str], budget: Budget) -> list[tuple[int, int]] | None:
    numbers: dict[str, int] = {}  # comparing numbers costs the same for lines of any length
    first, second = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new))
    reached = {1: 0}  # diagonal → how far in the first text the best path with so many changes comes
    history: list[list[int]] = []
    for changes in range(len(first) + len(second) + 1):
        for diagonal in range(-changes, changes + 1, 2):
            inserts = diagonal == -changes or (diagonal != changes and reached[diagonal - 1] < reached[diagonal + 1])
            x = reached[diagonal + 1] if inserts else reached[diagonal - 1] + 1
            begin = x
            while x < len(first) and 0 <= x - diagonal < len(second) and first[x] == second[x - diagonal]:
                x += 1
            reached[diagonal] = x
            budget.steps -= x - begin + 1
            if x >= len(first) and x - diagonal >= len(second):
                return list(reversed(list(_trace_back(history, x, x - diagonal))))
        if budget.steps < 0:
            return None
        history.append([reached[diagonal] for diagonal in range(-changes, changes + 1, 2)])
    return []


def _trace_back(history: Sequence[Sequence[int]], x: int, y: int) -> Iterator[tuple[int, int]]:
    """Yield the matches of the path that ends at ``x`` and ``y``, the last one first."""
    for changes in range(len(history), -1, -1):
        before = history[changes - 1] if changes else []
        reached = {2 * index - changes + 1: end for index, end in enumerate(before)}
        diagonal = x - y
        inserts = reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
        begin = reached.get(diagonal + 1, 0) if inserts else reached.get(diagonal - 1, -1) + 1
        while x > begin and x > 0 and y > 0:
            x, y = x - 1, y - 1
            yield x, y
        if changes:
            x, y = (x, y - 1) if inserts else (x - 1, y)


def _join(old: Sequence[str], new: Sequence[str], matches: Iterable[tuple[int, int]]) -> Iterator[DiffLine]:
    """Yield each line of both texts once, unchanged ones with both numbers."""
    x = y = 0
    for next_x, next_y in (*matches, (len(old), len(new))):
        for index in range(x, next_x):
            yield DiffLine("-", index + 1, None, old[index])
        for index in range(y, next_y):
            yield DiffLine("+", None, index + 1, new[index])
        if next_x < len(old) and next_y < len(new):
            yield DiffLine(" ", next_x + 1, next_y + 1, new[next_y])
        x, y = next_x + 1, next_y + 1


def _shorten(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yield the changed lines with some around them, and ``@`` for those between that are left out."""
    near = {
        number
        for index, line in enumerate(lines)
        if line.sign != " "
        for number in range(index - _CONTEXT, index + _CONTEXT + 1)
    }
    left_out = 0
    for index, line in enumerate(lines):
        if index in near:
            if left_out:
                yield DiffLine("@", None, None, str(left_out))
            yield line
        left_out = 0 if index in near else left_out + 1


def read_text_file(content: bytes) -> str | None:
    """Return a text; None for other content."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:  # no text: it can be downloaded
        return None


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; ``neutralise`` leaves their number as it is."""
    return text.removesuffix("\n").split("\n") if text else []
