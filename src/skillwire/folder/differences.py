"""The differences between two versions of a skill: files that were added, removed or changed, and lines of texts.

Trust: both versions are hostile. :mod:`difflib` takes cubic time for some texts, so the lines that it reads, with their
twins in the other text, are counted. All files of a comparison share the bounds of bytes, steps and lines
(``PAGE_DIFF_BYTES``, ``PAGE_DIFF_STEPS``, ``PAGE_DIFF_LINES``); a file beyond one of them is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from skillwire import limits
from skillwire.model.digest import Digest
from skillwire.model.skill import FileContent, SkillFile
from skillwire.trust.hidden_text import neutralise


class DiffLine(NamedTuple):
    """A line with its numbers in both versions; the sign ``@`` stands for unchanged lines that are left out."""

    sign: Annotated[Literal["+", "-", " ", "@"], "@ stands for unchanged lines, whose number is the text"]
    old: Annotated[int | None, "Line in the version before; null without one"]
    new: Annotated[int | None, "Line in the version after; null without one"]
    text: Annotated[str, "The line; hidden characters are escaped"]


class FileChange(NamedTuple):
    """A changed file: ``old`` and ``new`` are None where it is not there; without ``lines`` there is a ``reason``.

    With ``only_line_ends`` the bytes of both are the same but for carriage returns before line feeds.
    """

    path: str
    old: SkillFile | None
    new: SkillFile | None
    lines: Sequence[DiffLine] = ()
    reason: str = ""
    only_line_ends: bool = False

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """What happened to the file."""
        return "added" if self.old is None else "removed" if self.new is None else "changed"


class Budget:
    """What is left of the bounds of one comparison."""

    def __init__(self) -> None:
        self.bytes = int(limits.PAGE_DIFF_BYTES)
        self.steps = int(limits.PAGE_DIFF_STEPS)
        self.lines = int(limits.PAGE_DIFF_LINES)


class TooManyStepsError(Exception):
    """The steps of a comparison are used up."""


class _CountedLines(list[str]):
    """Lines that take a step for each reading, and for each of their ``twins``, from a budget."""

    def __init__(self, lines: Sequence[str], twins: Mapping[str, Sequence[int]], budget: Budget) -> None:
        super().__init__(lines)
        self._twins = twins
        self._budget = budget

    def __getitem__(self, index: Any) -> Any:
        line = super().__getitem__(index)
        self._budget.steps -= 1 + len(self._twins.get(line, ()))
        if self._budget.steps < 0:
            raise TooManyStepsError
        return line


def compare_files(
    old: Sequence[SkillFile], new: Sequence[SkillFile], read: Callable[[Digest], bytes | None]
) -> list[FileChange]:
    """Return the changed files by path; ``read`` returns the bytes of a digest. Takes up to half a second."""
    before, after = ({file.path: file for file in files} for files in (old, new))
    budget = Budget()
    return [
        _compare(FileChange(path, before.get(path), after.get(path)), read, budget)
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def compare_contents(old: Iterable[FileContent], new: Iterable[FileContent]) -> list[FileChange]:
    """Return :func:`compare_files` of files with their bytes."""
    contents: dict[Digest, bytes] = {}

    def describe(files: Iterable[FileContent]) -> Iterator[SkillFile]:
        for path, content, executable in files:
            data = bytes(content)
            digest = Digest.of(data)
            contents[digest] = data
            yield SkillFile(path, len(data), digest, executable)

    return compare_files([*describe(old)], [*describe(new)], contents.get)


def _compare(change: FileChange, read: Callable[[Digest], bytes | None], budget: Budget) -> FileChange:
    old, new = change.old, change.new
    if old is not None and new is not None and old.digest == new.digest:
        return change._replace(reason=f"It is {'now' if new.executable else 'no longer'} executable.")
    sizes = [file.size for file in (old, new) if file is not None]
    budget.bytes -= sum(sizes)
    if budget.bytes < 0 or max(sizes) > limits.PAGE_FILE_BYTES:
        return change._replace(reason="It is too large to be compared here.")
    contents = [b"" if file is None else read(file.digest) or b"" for file in (old, new)]
    before, after = map(read_text_file, contents)
    if before is None or after is None:
        return change._replace(reason="It is not a text.")
    try:
        lines = list(islice(compare_lines(before, after, budget), budget.lines + 1))
    except TooManyStepsError:
        return change._replace(reason="It has too many differences to be shown here.")
    if len(lines) > budget.lines:
        return change._replace(reason="It has more changed lines than there is room for.")
    budget.lines -= len(lines)
    same = "Only a byte order mark or the end of the last line differs." if old and new else "It is empty."
    unix = {content.replace(b"\r\n", b"\n") for content in contents}
    return change._replace(lines=lines, reason="" if lines else same, only_line_ends=bool(lines) and len(unix) == 1)


def compare_lines(old: str, new: str, budget: Budget) -> Iterator[DiffLine]:
    """Yield the lines that differ, with three around them. Raises TooManyStepsError."""
    matcher: Any = SequenceMatcher(None, (), split_lines(new))
    matcher.set_seq1(_CountedLines(split_lines(old), matcher.b2j, budget))
    before, after = split_lines(neutralise(old)), split_lines(neutralise(new))
    end = 0
    for group in matcher.get_grouped_opcodes():
        if group[0][1] > end:
            yield DiffLine("@", None, None, str(group[0][1] - end))
        for tag, x, x_end, y, y_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", x + n + 1, y + n + 1, after[y + n]) for n in range(x_end - x))
            else:
                yield from (DiffLine("-", n + 1, None, before[n]) for n in range(x, x_end))
                yield from (DiffLine("+", None, n + 1, after[n]) for n in range(y, y_end))
        end = group[-1][2]


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
