"""Executions as their caller sees them, and calls as a client stores them. Spec: SSP §5; specs §4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from skillwire.errors import ExecutionError, PendingError, SourceLocation
from skillwire.model.execution import ExecutionStatus

T = TypeVar("T")

#: Reason of a failure → what its caller can do.
_FIXES = {
    "worker_lost": "It may have done a part of its work: see what became of that, then call the skill again; its"
    " provider can let it be run again by itself, with idempotent = true.",
    "unavailable": "Ask the operator of the provider to correct this; other inputs do not help.",
    "not_granted": "Ask the operator of the provider to grant the skill, with skillwire grant add, or to give a server"
    " with --grant-all a SKILLWIRE_HOME of its own; other inputs do not help.",
}
_CODES = {ExecutionStatus.FAILED: "EXECUTION_FAILED", ExecutionStatus.TIMEOUT: "EXECUTION_TIMED_OUT"}


class RemoteFailure(NamedTuple):
    """Why an execution failed, in the provider's words without hidden characters; ``retry_after`` in seconds."""

    code: Annotated[str, "The provider's code"]
    message: Annotated[str, "The provider's message"]
    details: Annotated[object, "Details; null without any"] = None
    retry_after: Annotated[float | None, "Seconds after which a retry may help; null if unknown"] = None

    @property
    def reason(self) -> str | None:
        """The reason in ``details``, as our servers give it: ``cancelled``, ``worker_lost``."""
        reason = self.details.get("reason") if isinstance(self.details, dict) else None
        return reason if isinstance(reason, str) else None


class RemoteBlob(NamedTuple):
    """A file that a run left at its server: id, media type, size in bytes, name."""

    blob_id: Annotated[str, "ID for skillwire cat REFERENCE BLOB_ID"]
    kind: Annotated[str, "Media type; empty if unknown"]
    size: Annotated[int, "Bytes"]
    name: Annotated[str, "Name; empty if unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteExecution:
    """One call of a skill, as its caller sees it.

    Args:
        execution_id: the provider's id; None for an immediate output.
        reference: as typed; empty when only the status URL was given.
        output: after completion: a JSON value, or an immediate text or bytes.
        content_type: of an immediate output; otherwise JSON.
        created_at, updated_at, completed_at: ISO 8601 from the provider, or empty.
        result_url: where the output is, when the status does not contain it.
        summary, log, blobs: from the Skills Protocol only.
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
        """Whether it has completed, failed or timed out."""
        return self.status.is_final

    @property
    def is_completed(self) -> bool:
        """Whether ``output`` is the skill's result."""
        return self.status is ExecutionStatus.COMPLETED

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled [ours]; in the protocol it has failed."""
        return self.status is ExecutionStatus.FAILED and self.error is not None and self.error.reason == "cancelled"

    def check(self) -> Self:
        """Return the execution if it has completed. Raises ExecutionError, PendingError (``EXECUTION_PENDING``)."""
        if self.is_completed:
            return self
        place = SourceLocation(self.status_url or self.reference)
        if not self.is_final:
            name = self.execution_id or "it"
            raise PendingError("EXECUTION_PENDING", f"{name} is {self.status}", place=place, details=self._facts())
        code = "EXECUTION_CANCELLED" if self.is_cancelled else _CODES[self.status]
        message = self.error.message if self.error is not None else "the provider does not say why"
        fix = None if self.error is None else _FIXES.get(self.error.reason or "")
        raise ExecutionError(code, message, place=place, fix=fix, details=self._facts())

    def output_as(self, into: type[T]) -> T:
        """Return the output of a completed execution as a value of the type ``into``, such as a dataclass.

        Raises:
            ValidationError: ``OUTPUT_DIFFERS`` with the place in the output. UsageError: ``USAGE`` for another type.
                Otherwise as :meth:`check`.
        """
        from skillwire.model.typed_output import check_type, convert_output  # noqa: PLC0415  # installing does without

        check_type(into)
        return convert_output(self.check().output, into, self.status_url or self.reference)

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "execution_id": self.execution_id,
            "status": str(self.status),
            "status_url": self.status_url,
        }
        if self.error is not None:
            facts |= {"code": self.error.code, "details": self.error.details}
        return facts


class CallRecord(NamedTuple):
    """One call, as stored by its client; contains no secret and no input.

    Args:
        origins: of the index and the endpoint, where the user named them.
        header: field for an API key; None for ``Authorization``.
        is_lent: whether the credential goes to an origin that the user only consented to, or that is below a named one.
        fingerprint: equal for equal calls; None once answered.
        context: the options of the call, part of its identity until it is answered.
        execution_id: the provider's id; None before the answer.
    """

    key: str
    reference: str
    skill_id: str
    url: str
    created: float
    origins: tuple[str, ...] = ()
    header: str | None = None
    is_lent: bool = False
    fingerprint: str | None = None
    context: Mapping[str, Any] = MappingProxyType({})
    execution_id: str | None = None
    status_url: str | None = None
    result_url: str | None = None
