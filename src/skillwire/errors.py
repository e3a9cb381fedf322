"""Everything that can go wrong, as one shallow tree.

::

    SkillwireError
    ├── UsageError         what was asked for makes no sense as asked
    ├── DecodeError        bytes are not what they claim to be
    ├── ValidationError    well-formed, but breaks a rule
    ├── TrustError         safety forbids going on
    ├── FetchError         the network or a server failed us
    ├── NotFoundError      the thing asked for is not there
    ├── ConflictError      something is in the way, and is not ours to overwrite
    ├── StorageError       the disk or its permissions failed us
    ├── ExecutionError     a skill was called, and did not complete
    └── PendingError       a skill was called, and is not done yet

Bytes from a peer can raise nothing but ``DecodeError``, ``ValidationError`` and ``TrustError``; fuzzing
checks it. Each error carries a *code* (a row of :data:`skillwire.codes.CODES`, which holds the cause, the
fix and the retry advice), a message for this one case, and, where there is one, the *place*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.codes import CODES, DOCS_PAGE

if TYPE_CHECKING:
    from collections.abc import Mapping


class SourceLocation(NamedTuple):
    """Where something is: a file or URL, and, in a text, line and columns (both from 1)."""

    source: str
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    excerpt: str | None = None

    def __str__(self) -> str:
        position = "".join(f":{part}" for part in (self.line, self.column) if part is not None)
        return f"{self.source}{position}"


class Diagnostics(NamedTuple):
    """An error, taken apart for people and for ``--json``."""

    code: str
    message: str
    cause: str
    place: SourceLocation | None
    fix: str
    retryable: bool
    documentation: str
    details: Mapping[str, object]


class SkillwireError(Exception):
    """The root of the tree.

    Args:
        code: a key of :data:`skillwire.codes.CODES`.
        message: what happened in this case, one sentence without a final stop.
        place: where, when there is a place.
        fix: what to do in this case; the code's general advice otherwise.
        details: facts for machines, JSON values only. Never a secret.

    ``may_be_accepted`` says, of a call that has failed, whether the provider may have accepted it all the same; None
    where the error is not about that. What was certainly not accepted can be asked of another provider.
    """

    exit_code = 1
    may_be_accepted: bool | None = None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: SourceLocation | None = None,
        fix: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.place = place
        self.fix = fix
        self.details: Mapping[str, object] = details or {}

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.place})" if self.place else "")

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
            documentation=f"{DOCS_PAGE}#{self.code.lower()}",
            details=self.details,
        )


class UsageError(SkillwireError):
    """What was asked for makes no sense as asked."""

    exit_code = 2


class DecodeError(SkillwireError):
    """Bytes are not what they claim to be."""


class ValidationError(SkillwireError):
    """Well-formed, but breaks a rule."""


class TrustError(SkillwireError):
    """Safety forbids going on."""

    exit_code = 4


class FetchError(SkillwireError):
    """The network or a server failed us."""

    exit_code = 5


class NotFoundError(SkillwireError):
    """The thing asked for is not there."""

    exit_code = 3


class ConflictError(SkillwireError):
    """Something is in the way, and is not ours to overwrite."""

    exit_code = 6


class StorageError(SkillwireError):
    """The disk or its permissions failed us."""

    exit_code = 7


class ExecutionError(SkillwireError):
    """A skill was called, and did not complete."""

    exit_code = 8


class PendingError(SkillwireError):
    """A skill was called, and is not done yet."""

    exit_code = 9
