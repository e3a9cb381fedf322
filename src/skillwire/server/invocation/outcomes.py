"""What came of an attempt: an output that is what was promised, or why there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire import limits
from skillwire.model.execution import Failure

if TYPE_CHECKING:
    from skillwire.invocation.offer import Offer

#: Beyond so many bytes an output is held against its schema in a thread: the loop has others to serve.
_LARGE: Final = 64 * 1024


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error`` means that the task at work was cancelled, and not that somebody just raised it."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def checked_output(value: Any, offer: Offer | None) -> tuple[bytes, Failure | None]:
    """Return the output as JSON, and what is wrong with it."""
    try:
        output = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        return b"", Failure("output", f"What the skill gave cannot be written as JSON: {error}")
    if len(output) > limits.EXECUTION_OUTPUT_BYTES:
        message = f"What the skill gave has {len(output):,} bytes, at most {limits.EXECUTION_OUTPUT_BYTES:,} are kept"
        return b"", Failure("output", message)
    if offer is None:
        return output, None
    find = offer.output.find_flaw
    flaw = find(value) if len(output) <= _LARGE else await asyncio.to_thread(find, value)
    if flaw is not None:
        details = {"errors": [flaw.as_object()]}
        return b"", Failure("output", "What the skill gave is not what its descriptor promises", details=details)
    return output, None
