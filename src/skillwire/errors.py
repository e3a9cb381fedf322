"""The tree of errors: ten classes below :class:`SkillwireError`.

Bytes from a peer raise only ``DecodeError``, ``ValidationError`` and ``TrustError``; fuzzing
checks it. Each error carries a *code* (a row of :data:`skillwire.codes.CODES`, which holds the cause, the
fix, the retry advice and the exit code), a message for this one case, and, where there is one, the *place*.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from skillwire.codes import CODES, DOCS_PAGE, PYTHON_FIXES

#: Codes of a server that is not reached.
UNREACHED: Final = frozenset({"CONNECT_FAILED", "HOST_NOT_FOUND"})


class SourceLocation(NamedTuple):
    """A file or URL and, in a text, line and columns, counted from 1."""

    source: Annotated[str, "File or URL"]
    line: Annotated[int | None, "Line, from 1; null if unknown"] = None
    column: Annotated[int | None, "Column in characters, from 1; null if unknown"] = None
    end_column: Annotated[int | None, "Column after the last character; null if unknown"] = None
    excerpt: Annotated[str | None, "Text of the line; null if unknown"] = None

    def __str__(self) -> str:
        position = "".join(f":{part}" for part in (self.line, self.column) if part is not None)
        return f"{self.source}{position}"


class Diagnostics(NamedTuple):
    """An error's parts, for people and for ``--json``; the texts in ``Annotated`` describe them there."""

    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    message: Annotated[str, "What happened in this case"]
    cause: Annotated[str, "Usual cause"]
    place: Annotated[SourceLocation | None, "Location; null without one"]
    fix: Annotated[str, "What to do"]
    retryable: Annotated[bool, "Whether the same call may succeed later"]
    documentation: Annotated[str | None, "Page of the documentation; null without SKILLWIRE_DOCS_URL"]
    details: Annotated[Mapping[str, object], "Facts for programs, specific to the code; not stable"]


class SkillwireError(Exception):
    """The root of the tree.

    ``message`` is one sentence without a final stop; ``fix`` replaces the general advice of ``code``, and ``in_python``
    what a program does where that is a command; ``details`` are JSON values for machines, never a secret.
    """

    #: That of the code; of a code without one, which ends no command, that of the class.
    exit_code = 1
    #: Of a failed call: whether the provider may have accepted it. If False, another provider can be called.
    may_be_accepted: bool | None = None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: SourceLocation | None = None,
        fix: str | None = None,
        in_python: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.place = place
        self.fix = fix
        self.in_python = PYTHON_FIXES.get(code, "") if in_python is None else in_python
        self.details: Mapping[str, object] = details or {}
        if (exit_code := CODES[code].exit_code) is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        found = self.diagnostics()
        python = f"\n  in Python: {self.in_python}" if self.in_python else ""
        return f"{one_line(self)}\n  cause: {found.cause}\n  fix: {found.fix}{python}"

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, unchanged."""
        return CODES[self.code].retryable

    def diagnostics(self) -> Diagnostics:
        """Return code, message, general cause, place, fix and documentation address."""
        code = CODES[self.code]
        return Diagnostics(
            code=self.code,
            message=self.message,
            cause=code.cause,
            place=self.place,
            fix=self.fix or code.fix,
            retryable=code.retryable,
            documentation=documentation_link(f"{DOCS_PAGE}#{self.code.lower()}"),
            details=self.details,
        )


def documentation_link(page: str) -> str | None:
    """Return the link to ``page``, a path in the repository, below ``SKILLWIRE_DOCS_URL``; None if that is not set."""
    site = os.environ.get("SKILLWIRE_DOCS_URL")
    return f"{site.rstrip('/')}/{page.removeprefix('docs/').replace('.md', '.html', 1)}" if site else None


class UsageError(SkillwireError):
    """The command, option or argument is invalid."""

    exit_code = 2


class DecodeError(SkillwireError):
    """Bytes do not match their declared format."""


class ValidationError(SkillwireError):
    """Well-formed data that breaks a rule."""


class TrustError(SkillwireError):
    """Continuing would be unsafe."""

    exit_code = 4


class FetchError(SkillwireError):
    """The network or a server failed."""

    exit_code = 5


class NotFoundError(SkillwireError):
    """The requested object does not exist."""

    exit_code = 3


class ConflictError(SkillwireError):
    """Existing data conflicts, and is not overwritten."""

    exit_code = 6


class StorageError(SkillwireError):
    """The disk or its permissions failed."""

    exit_code = 7


class ExecutionError(SkillwireError):
    """A called skill did not complete."""

    exit_code = 8


class PendingError(SkillwireError):
    """A called skill is not finished yet."""

    exit_code = 9


def first_of(names: Sequence[str], most: int) -> str:
    """Return at most ``most`` names as text, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def did_you_mean(name: str, known: Iterable[str], n: int = 3) -> str | None:
    """Return a hint at ``known`` names similar to ``name``, if there are any."""
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, list(known), n=n)
    return f"Did you mean {' or '.join(close)}?" if close else None


def in_seconds(seconds: float) -> str:
    """Return a duration as messages write it: ``0.25 s``, ``2 s``, ``1,200 s``."""
    return f"{seconds:.2g} s" if seconds < 1 else f"{f'{seconds:,.1f}'.removesuffix('.0')} s"


def one_line(error: BaseException) -> str:
    """Return an error for a log: of ours code, message and place, without cause and fix."""
    if not isinstance(error, SkillwireError):
        return str(error)
    return f"{error.code}: {error.message}" + (f" ({error.place})" if error.place else "")
