"""Tasks for people: executions that a person claims, completes, declines or gives back.

A task is claimed under a person's name until the person hands it in, gives it back, or its deadline comes. An output
is validated against the requested schema before anything is stored, and counts only while the claim holds: a caller's
cancellation or the deadline may have been first.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, UsageError
from skillwire.executions.callable_skill import OutputRules
from skillwire.executions.task_form import field_mismatch
from skillwire.model.execution import Claim, Execution, ExecutionQuery, ExecutionStatus, Failure, Moment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.ports import ExecutionLedger


#: Before a person's name where the ledger has the name of a worker.
PERSON: Final = "human:"
_OPEN: Final = (ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING)
_PAGE: Final = 200
_BEGINNING: Final = re.compile(r"exec-[0-9a-f]{4,44}")
_NAME_LENGTH: Final = 64
_IDENTITY: Final = re.compile(r"#[a-z2-7]{16}\Z")


class Task(NamedTuple):
    """A person's task; ``output`` is the schema of its result, ``about_output`` and ``about_inputs`` explain."""

    title: str
    description: str = ""
    output: Mapping[str, Any] | None = None
    about_output: str = ""
    about_inputs: Mapping[str, str] = {}


def read_task(execution: Execution) -> Task:
    """Return what is asked in a task."""
    told = json.loads(execution.task or b"{}")
    output, about_inputs = told.get("output"), told.get("inputs")
    return Task(
        told.get("title") or execution.skill,
        told.get("description") or "",
        output if isinstance(output, dict) else None,
        told.get("output_description") or "",
        about_inputs if isinstance(about_inputs, dict) else {},
    )


def given_inputs(execution: Execution, task: Task) -> list[tuple[str, Any, str]]:
    """Return name, value and description of each given input, in the order in which the skill declares them."""
    given = json.loads(execution.inputs)
    names = sorted(given, key=[*task.about_inputs, *given].index)
    return [(name, given[name], str(task.about_inputs.get(name) or "")) for name in names]


def person_worker(name: str, identity: str = "") -> str:
    """Return the worker name of a person; identities distinguish two people of one name."""
    return f"{PERSON}{name}#{identity}" if identity else f"{PERSON}{name}"


def person_name(worker: str) -> str:
    """Return a worker as it is shown: a person by the name alone."""
    return _IDENTITY.sub("", worker.removeprefix(PERSON)) if worker.startswith(PERSON) else worker


def holder_of(execution: Execution) -> str | None:
    """Return the name of the person that holds a task."""
    return None if execution.worker is None else person_name(execution.worker)


def check_task_output(task: Execution, output: Any) -> bytes:
    """Return a person's output as JSON. Raises ValidationError with all its errors."""
    flaws = OutputRules(read_task(task).output).find_flaws(output)
    if flaws:
        raise field_mismatch(flaws)
    return json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode()


def rejection(reason: str) -> Failure:
    """Return the failure of a declined task. Raises UsageError (``USAGE``) for a missing or too long reason."""
    reason = reason.strip().replace("\r\n", "\n")
    if not reason or len(reason) > limits.TASK_REASON_LENGTH:
        message = f"a reason has 1 to {limits.TASK_REASON_LENGTH:,} characters"
        raise UsageError("USAGE", message, fix="Say why in a sentence.")
    return Failure("rejected", reason)


class Inbox:
    """The tasks of a ledger, for one person. Raises UsageError (``USAGE``) for an invalid name."""

    def __init__(self, ledger: ExecutionLedger, person: str, clock: Callable[[], Moment]) -> None:
        if not person.strip() or len(person) > _NAME_LENGTH or not person.isprintable():
            raise UsageError("USAGE", f"{ascii(person)[:80]} is no name", fix="A name is a short text of one line.")
        self._ledger = ledger
        self._worker = person_worker(person)
        self._clock = clock

    async def tasks(self, skill: str | None = None) -> list[Execution]:
        """Return the tasks that are open or held, newest first; those of one ``skill`` only."""
        found: list[Execution] = []
        after: str | None = None
        while True:
            query = ExecutionQuery(statuses=_OPEN, skill=skill, executor="human", limit=_PAGE, after=after)
            page = await self._ledger.search(query)
            found += page.executions
            after = page.after
            if after is None:
                return found

    async def look_up(self, which: str) -> Execution:
        """Return a task by its ID, or the only open one with this beginning. Raises NotFoundError, UsageError."""
        found = await self._ledger.find(which)
        if found is not None and found.executor == "human":
            return found
        which = which if which.startswith("exec-") else f"exec-{which}"
        is_beginning = _BEGINNING.fullmatch(which) is not None
        begun = [task for task in await self.tasks() if is_beginning and task.execution_id.startswith(which)]
        if len(begun) > 1:
            raise UsageError("USAGE", f"{len(begun)} tasks begin with {which}", fix="Write more of the ID.")
        if not begun:
            raise NotFoundError("TASK_NOT_FOUND", f"there is no task {ascii(which)[:80]}")
        return begun[0]

    def has(self, task: Execution) -> bool:
        """Whether the person has the task."""
        return not task.status.is_final and task.worker == self._worker

    async def take(self, task: Execution) -> Execution:
        """Claim a task, unless the person has it already. Raises ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        if self.has(task):
            return task
        taken = await self._ledger.claim_task(task.execution_id, self._worker, self._clock())
        return taken if taken is not None else await self._missed(task.execution_id)

    async def complete(self, task: Execution, output: Any) -> Execution:
        """Hand in the output of a held task. Raises ValidationError, ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        encoded = check_task_output(task, output)
        return await self._settled(task, is_done=await self._ledger.complete(self._claim(task), encoded, self._clock()))

    async def reject(self, task: Execution, reason: str) -> Execution:
        """Decline a held task; the caller gets the reason. Raises UsageError, ConflictError as :meth:`complete`."""
        return await self._settled(
            task, is_done=await self._ledger.fail(self._claim(task), rejection(reason), self._clock())
        )

    async def release(self, task: Execution) -> Execution:
        """Give back a held task. Raises ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        return await self._settled(task, is_done=await self._ledger.release(self._claim(task), self._clock()))

    def _claim(self, task: Execution) -> Claim:
        return Claim(task.execution_id, self._worker, task.attempt)

    async def _settled(self, task: Execution, *, is_done: bool) -> Execution:
        found = await self._ledger.find(task.execution_id) if is_done else None
        return found if found is not None else await self._missed(task.execution_id)

    async def _missed(self, execution_id: str) -> Execution:
        """Raise the reason why a person cannot have a task."""
        task = await self._ledger.find(execution_id)
        if task is None or task.status.is_final or task.deadline <= self._clock().wall:
            status = "forgotten" if task is None else task.status.value if task.status.is_final else "past its deadline"
            raise ConflictError("TASK_ENDED", f"the task is {status}", details={"status": status})
        holder = holder_of(task)
        who = "it is open" if holder is None else f"{ascii(holder)[1:-1]} has it"
        raise ConflictError("TASK_TAKEN", f"the task is not yours: {who}", details={"holder": holder})
