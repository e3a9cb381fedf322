"""An execution as who called the skill sees it: how far it is, what it gave, how it is asked for again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from skillwire.errors import ExecutionError, PendingError, Place
from skillwire.model.execution import ExecutionStatus

_LOST = (
    "It may have done a part of its work: see what became of that, then call the skill again; its provider can let it"
    " be run again by itself, with idempotent = true."
)
_CODES = {
    ExecutionStatus.FAILED: "EXECUTION_FAILED",
    ExecutionStatus.TIMEOUT: "EXECUTION_TIMED_OUT",
}
_CANCELLED = "cancelled"


class RemoteFailure(NamedTuple):
    """Why an execution did not complete, in the provider's words, made harmless.

    ``details`` are any JSON value. Calling again may help after ``retry_after`` seconds, where that is given.
    """

    code: str
    message: str
    details: Any = None
    retry_after: float | None = None

    @property
    def reason(self) -> str | None:
        """The word for it in ``details``, as our own servers give it: ``cancelled``, ``worker_lost``."""
        reason = self.details.get("reason") if isinstance(self.details, dict) else None
        return reason if isinstance(reason, str) else None


class RemoteBlob(NamedTuple):
    """A file that a run left where it ran: its id there, its media type, its size in bytes, and its name."""

    blob_id: str
    kind: str
    size: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteExecution:
    """One call of a skill.

    Args:
        execution_id: what the provider calls it; None where the output came at once, without one.
        skill_id: of the skill that was called.
        reference: what was typed to mean the skill; empty where only the URL of the status was given.
        status: how far it is.
        output: what the skill gave, once it has completed: a JSON value, or a text or bytes that came at once.
        content_type: of an output that came at once; that of others is JSON.
        error: why it failed or timed out.
        created_at, updated_at, completed_at: ISO 8601, as the provider says; empty where it does not.
        status_url: where it is asked for again; None where nothing tells.
        result_url: where its output is, when the status does not have it.
        summary: the provider's word on it in a sentence; this and what follows only the Skills Protocol says.
        log: the end of what it printed.
        blobs: files that it left at the endpoint.
    """

    execution_id: str | None
    skill_id: str
    reference: str
    status: ExecutionStatus
    output: Any = field(default=None, repr=False)
    content_type: str = "application/json"
    error: RemoteFailure | None = None
    created_at: str = ""
    updated_at: str = ""
    completed_at: str = ""
    status_url: str | None = None
    result_url: str | None = None
    summary: str = ""
    log: str = ""
    blobs: tuple[RemoteBlob, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether nothing follows: it has completed, failed or timed out."""
        return self.status.is_final

    @property
    def is_completed(self) -> bool:
        """Whether ``output`` is what the skill gave."""
        return self.status is ExecutionStatus.COMPLETED

    @property
    def is_cancelled(self) -> bool:
        """Whether it was taken back. Ours: in the text it has failed."""
        return self.status is ExecutionStatus.FAILED and self.error is not None and self.error.reason == _CANCELLED

    def check(self) -> Self:
        """Return the execution if it has completed.

        Raises:
            ExecutionError: ``EXECUTION_FAILED``, ``EXECUTION_TIMED_OUT``, ``EXECUTION_CANCELLED``.
            PendingError: ``EXECUTION_PENDING``.
        """
        if self.is_completed:
            return self
        place = Place(self.status_url or self.reference)
        if not self.is_final:
            name = self.execution_id or "it"
            raise PendingError("EXECUTION_PENDING", f"{name} is {self.status}", place=place, details=self._facts())
        code = "EXECUTION_CANCELLED" if self.is_cancelled else _CODES[self.status]
        message = self.error.message if self.error is not None else "the provider does not say why"
        fix = _LOST if self.error is not None and self.error.reason == "worker_lost" else None
        raise ExecutionError(code, message, place=place, fix=fix, details=self._facts())

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "execution_id": self.execution_id,
            "status": str(self.status),
            "status_url": self.status_url,
        }
        if self.error is not None:
            facts |= {"code": self.error.code, "details": self.error.details}
        return facts
