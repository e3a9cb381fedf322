"""What came of an execution, as a run tells it. Spec: specs §4, "run"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from skillwire.model.execution import ExecutionStatus
from skillwire.model.run_blob import PREFIX
from skillwire.protocols.skills_rpc.messages import OutputBlob, Run, RunError

if TYPE_CHECKING:
    from skillwire.model.execution import Execution
    from skillwire.server.invocation.desk import Desk

#: Reason of ours → what a run calls it, where that differs.
_TYPES: Final = {"deadline": "timeout"}
#: Seconds in the queue that are worth a word.
_WAITED: Final = 1.0


async def result_of(desk: Desk, execution: Execution, called: str) -> Run:
    """Return the run that an execution was, which has ended.

    Args:
        desk: has its output.
        execution: as it is now.
        called: what sentences call that which was run.
    """
    blobs = tuple(
        OutputBlob(PREFIX + one.digest.removeprefix("sha256:"), one.kind, one.size, one.name) for one in execution.blobs
    )
    run_id, failure = execution.execution_id, execution.failure
    if execution.status is not ExecutionStatus.COMPLETED:
        reason = failure.reason if failure else "exception"
        message = failure.message if failure else "it failed"
        error = RunError(_TYPES.get(reason, reason), message)
        return Run("failed", run_id, f"{called} failed: {message}", None, blobs, _preview(execution), error)
    output = await desk.output_of(execution)
    value = None if output is None else msgspec.json.decode(output)
    return Run("completed", run_id, _summary(called, execution), value, blobs, execution.log)


def _preview(execution: Execution) -> str:
    """Return the end of what a run printed that failed, and where it raised, as Python prints that."""
    trace = execution.failure.details.get("traceback") if execution.failure else None
    return execution.log + (trace if isinstance(trace, str) else "")


def _summary(called: str, execution: Execution) -> str:
    begun = next((event.at for event in execution.timeline if event.what == "claim"), execution.created)
    ran, waited = (execution.completed or execution.updated) - begun, begun - execution.created
    number = len(execution.blobs)
    left = f" and handed out {number} {'file' if number == 1 else 'files'}" if number else ""
    before = f" after waiting {waited:.2f} s for its turn" if waited > _WAITED else ""
    return f"{called} completed in {ran:.2f} s{before}{left}"
