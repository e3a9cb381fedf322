"""What a caller is told of an execution. Spec: SSP §5.4, §8."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from skillwire.invocation.timestamps import written
from skillwire.protocols.skill_sharing.errors import ERRORS
from skillwire.protocols.skill_sharing.messages import ErrorBody, InvocationResponse, Timestamps

if TYPE_CHECKING:
    from skillwire.model.execution import Execution, Failure

#: Stands for an output; no JSON text has it.
_PLACE: Final = b"\0"
_encoder: Final = msgspec.json.Encoder()


def encode_execution(execution: Execution, output: bytes | None = None) -> bytes:
    """Return an execution as the protocol writes it; ``output`` is what it gave, JSON as bytes."""
    return _encoder.encode(
        InvocationResponse(
            execution_id=execution.execution_id,
            status=execution.status,
            skill_id=execution.skill_id,
            output=UNSET if output is None else msgspec.Raw(output),
            error=_error(execution.failure) if execution.failure else UNSET,
            timestamps=Timestamps(
                created_at=written(execution.created),
                updated_at=written(execution.updated),
                completed_at=UNSET if execution.completed is None else written(execution.completed),
            ),
        )
    )


def frame_of(execution: Execution) -> tuple[bytes, bytes]:
    """Return what stands before the output of an execution that completed, and behind it: see encode_execution."""
    head, _, tail = encode_execution(execution, _PLACE).partition(_PLACE)
    return head, tail


def tag_of(body: bytes) -> str:
    """Return the strong entity tag of an answer."""
    return tag_of_digest(hashlib.sha256(body))


def tag_of_digest(digest: hashlib._Hash) -> str:
    """Return the strong entity tag of an answer that has this digest, a SHA-256."""
    return f'"{digest.hexdigest()[:32]}"'


def _error(failure: Failure) -> ErrorBody:
    row = ERRORS.get(failure.code)
    details: dict[str, Any] = {**failure.details, "reason": failure.reason}
    return ErrorBody(
        code=failure.code, message=failure.message, details=details, retry=(row.retry if row else None) or UNSET
    )
