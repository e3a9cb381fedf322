"""The service of executions over a ledger in memory whose rows a test writes, for what is built over the service."""

import json
import secrets
import time
from dataclasses import replace

from tests.support.executions import make_execution
from tests.support.memory_ledger import MemoryLedger, _Row

from skillwire.adapters.clock import moment
from skillwire.model.execution import Event, ExecutionQuery, ExecutionSettings, ExecutionStatus
from skillwire.server.execution_service import ExecutionService

RUNNING, COMPLETED, FAILED = ExecutionStatus.RUNNING, ExecutionStatus.COMPLETED, ExecutionStatus.FAILED


def new_execution(skill="csv-profile", *, age=0.0, timeout=300.0, inputs=None, task=None, **more):
    """Return an execution that was accepted ``age`` seconds ago."""
    values = {
        "execution_id": f"exec-{secrets.token_hex(16)}",
        "skill_id": f"acme/{skill}",
        "version": "1.2.0",
        "digest": "sha256:" + "5e" * 32,
        "executor": "human" if task else "python",
        "caller": "principal agent-7",
        "caller_id": "agent-7",
        "inputs": json.dumps({"path": "data.csv"} if inputs is None else inputs).encode(),
        "task": json.dumps(task).encode() if task else None,
    }
    return make_execution(time.time() - age, skill=skill, timeout=timeout, **{**values, **more})


class FakeDesk(ExecutionService):
    """The service, and changes of its rows without their rules; used on one event loop."""

    def __init__(self):
        self._memory = MemoryLedger()
        super().__init__(
            self._memory,
            settings=ExecutionSettings(),
            clock=moment,
            log_accepted=False,
        )
        self.asked: list[ExecutionQuery] = []
        search = self._memory.search

        async def recorded(query):
            self.asked.append(query)
            return await search(query)

        self._memory.search = recorded  # type: ignore[method-assign]  # to see the queries

    @property
    def executions(self):
        return {name: row.execution for name, row in self._memory._rows.items()}

    def put(self, execution):
        executions = {**self.executions, execution.execution_id: execution}
        in_order = sorted(executions.items(), key=lambda item: item[1].created)  # as if they were accepted so
        self._memory._rows = {name: _Row(number, one) for number, (name, one) in enumerate(in_order, 1)}
        self._memory._number = len(in_order)
        self.changes.notify(execution.execution_id)
        return execution

    def step(self, execution_id, what, *, by="", note="", at=None, **changes):
        old = self.executions[execution_id]
        at = at or time.time()
        event = Event(at, what, by, note)
        return self.put(replace(old, updated=at, timeline=(*old.timeline, event), **changes))

    def run(self, execution_id, worker="worker-1", *, at=None):
        """Let a worker take an execution up."""
        attempt = self.executions[execution_id].attempt + 1
        return self.step(execution_id, "claim", by=worker, at=at, status=RUNNING, worker=worker, attempt=attempt)

    def end(self, execution_id, output=None, failure=None, *, what="", status=None, at=None):
        at = at or time.time()
        status = status or (FAILED if failure else COMPLETED)
        what = what or ("fail" if failure else "complete")
        output = None if failure else json.dumps(output).encode()
        more = {"status": status, "worker": None, "completed": at, "output": output, "failure": failure}
        return self.step(execution_id, what, at=at, note=failure.message if failure else "", **more)
