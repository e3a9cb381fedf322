"""A desk that keeps executions in memory, for tests of what is built over one."""

import asyncio
import json
import secrets
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

from tests.support.executions import make_execution

from skillwire.errors import UsageError
from skillwire.executions.inputs import OutputRules
from skillwire.executions.task_form import field_mismatch
from skillwire.executions.tasks import rejection
from skillwire.model.execution import Event, Execution, ExecutionStatus, Failure, FoundExecutions, OpenTasks, TaskOwner

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


class FakeDesk:
    """Fills :class:`skillwire.server.execution_service.ExecutionService`, its ledger and its notifier."""

    def __init__(self, *executions):
        self.executions = {execution.execution_id: execution for execution in executions}
        self.ledger = self.changes = self
        self.number = 1
        self._is_told = asyncio.Event()
        self.asked = []

    def put(self, execution):
        self.executions[execution.execution_id] = execution
        self.number += 1
        self._is_told.set()
        self._is_told = asyncio.Event()
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

    async def find(self, execution_id):
        return self.executions.get(execution_id)

    async def find_begun(self, beginning):
        found = [one for name, one in self.executions.items() if name.startswith(beginning)]
        return found[0] if len(found) == 1 else None

    async def search(self, query):
        self.asked.append(query)
        if query.after is not None and not query.after.isdecimal():
            raise UsageError("CURSOR", "this cursor is none of ours")
        found = sorted(
            filter(lambda one: self._fits(one, query), self.executions.values()), key=lambda one: -one.created
        )
        start = int(query.after or 0)
        page = tuple(found[start : start + query.limit])
        return FoundExecutions(page, str(start + query.limit) if len(found) > start + query.limit else None)

    async def tasks(self, worker, whose, *, limit):
        found: dict[TaskOwner, list[Execution]] = {"open": [], "mine": [], "others": []}
        for one in sorted(self.executions.values(), key=lambda one: one.deadline):
            if one.executor == "human" and not one.status.is_final:
                found["open" if one.worker is None else "mine" if one.worker == worker else "others"].append(one)
        return OpenTasks(tuple(found[whose][:limit]), {name: len(tasks) for name, tasks in found.items()})

    async def count(self, query):
        return Counter(one.status for one in self.executions.values() if self._fits(one, query._replace(statuses=None)))

    async def output(self, execution):
        return execution.output

    async def cancel(self, execution_id, by):
        found = self.executions.get(execution_id)
        if found is None or found.status.is_final:
            return found
        self.end(execution_id, failure=Failure("cancelled", "The execution was cancelled"), what="cancel")
        last = self.executions[execution_id].timeline[-1]._replace(by=by)
        ended = self.executions[execution_id]
        return self.put(replace(ended, timeline=(*ended.timeline[:-1], last)))

    async def take_task(self, execution_id, person):
        found = self.executions.get(execution_id)
        if found is None or found.status.is_final or found.worker is not None:
            return None
        return self.run(execution_id, person)

    async def complete_task(self, claim, output):
        found = self._held(claim)
        if found is None:
            return False
        flaw = OutputRules(json.loads(found.task)["output"]).find_flaw(output)
        if flaw is not None:
            raise field_mismatch([flaw])
        self.end(claim.execution_id, output)
        return True

    async def reject_task(self, claim, message):
        failure = rejection(message)
        if self._held(claim) is None:
            return False
        self.end(claim.execution_id, failure=failure)
        return True

    async def release_task(self, claim):
        if self._held(claim) is None:
            return False
        self.step(claim.execution_id, "release", by=claim.worker, worker=None)
        return True

    async def beyond(self, since, seconds):
        if self.number <= since:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_told.wait()
        return self.number

    def _held(self, claim):
        found = self.executions.get(claim.execution_id)
        if found is None or found.status.is_final:
            return None
        return found if (found.worker, found.attempt) == (claim.worker, claim.attempt) else None

    @staticmethod
    def _fits(one, query):
        return (
            (query.statuses is None or one.status in query.statuses)
            and query.skill in {None, one.skill}
            and query.caller in {None, one.caller}
            and query.executor in {None, one.executor}
            and query.trace_id in {None, one.trace_id}
        )
