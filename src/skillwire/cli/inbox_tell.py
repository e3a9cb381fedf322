"""How ``skillwire inbox`` tells of tasks: as a list, one in full, and as JSON.

What a caller typed and what a skill says are strangers' words; they are printed like any other text from outside.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.client_options import shortened
from skillwire.cli.duration import in_words
from skillwire.cli.output import bad, doubtful, faint, good, strong
from skillwire.invocation.forms import form_of
from skillwire.invocation.inbox import holder_of, read_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.cli.output import Output, Part
    from skillwire.invocation.forms import Field
    from skillwire.invocation.inbox import Inbox
    from skillwire.model.execution import Execution

#: As much of an ID as tells a few thousand tasks apart.
_SHORT: Final = len("exec-") + 8
_TITLE: Final = 60  # columns
#: With less than this part of its time left a task is urgent.
_URGENT: Final = 0.1


def short_id(task: Execution) -> str:
    """Return how a task is called in lists; commands take it for the whole ID."""
    return task.execution_id[:_SHORT]


def tell_tasks(output: Output, inbox: Inbox, tasks: Sequence[Execution]) -> None:
    """Print a line for each task, or a document with all of them."""
    output.document("inbox/1", {"tasks": [task_object(inbox, task) for task in tasks]})
    now = time.time()
    output.table(
        [strong(short_id(task)), _state(inbox, task), _due(task, now), shortened(read_task(task).title, _TITLE)]
        for task in tasks
    )
    if not tasks:
        output.note("no task waits for a person")


def tell_task(say: Callable[..., None], inbox: Inbox, task: Execution) -> None:
    """Print all that somebody needs to know who works on a task."""
    told, now = read_task(task), time.time()
    say(strong(told.title))
    for line in told.description.splitlines():
        say(line)
    rows: list[tuple[str, list[Part]]] = [
        ("id", [task.execution_id]),
        ("skill", [f"{task.skill} {task.version}"]),
        ("asked", [f"{_moment(task.created)}, by {task.caller_id}, as it calls itself"]),
        ("state", [_state(inbox, task)]),
        ("due", [_moment(task.deadline), ", ", _due(task, now)]),
    ]
    if task.priority != "normal":
        rows.append(("priority", [doubtful(task.priority.value)]))
    for label, parts in rows:
        say(faint(f"  {label:<9}"), *parts)
    inputs = json.loads(task.inputs)
    if inputs:
        say("given:")
    for name, value in inputs.items():
        about = told.about_inputs.get(name)
        say(f"  {name}: ", strong(_as_text(value)), faint(f"  {about}") if about else "")
    if not task.status.is_final:
        say("to be handed in:", faint(f" {told.about_output}") if told.about_output else "")
        for field in form_of(told.output):
            say(*_field_line(field))


def describe(field: Field) -> str:
    """Return what may be typed into a field, in words."""
    words = {
        "text": "text",
        "boolean": "true or false",
        "integer": "whole number",
        "date": "date such as 2025-07-01",
        "datetime": "time such as 2025-07-01T12:00:00Z",
        "time": "time such as 12:00:00Z",
        "email": "email address",
        "url": "URL",
        "lines": "texts",
        "json": "JSON",
        "choice": "",
    }
    kind = words.get(field.kind, field.kind)
    return ", ".join(filter(None, [kind, " | ".join(field.choices), _range(field)]))


def task_document(inbox: Inbox, task: Execution) -> dict[str, Any]:
    """Return a task for ``--json``, with what is given and what is asked for."""
    told = read_task(task)
    return {
        "task": task_object(inbox, task),
        "inputs": json.loads(task.inputs),
        "output_schema": told.output,
        "fields": [_field_object(field) for field in form_of(told.output)],
    }


def task_object(inbox: Inbox, task: Execution) -> dict[str, Any]:
    """Return what lists say of a task for ``--json``."""
    told = read_task(task)
    return {
        "id": task.execution_id,
        "skill": task.skill,
        "version": task.version,
        "title": told.title,
        "description": told.description,
        "status": task.status.value,
        "held_by": holder_of(task),
        "mine": inbox.has(task),
        "priority": task.priority.value,
        "caller": task.caller_id,
        "created_at": _moment(task.created),
        "due_at": _moment(task.deadline),
    }


def _field_object(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "kind": field.kind,
        "label": field.label,
        "description": field.description,
        "required": field.is_required,
        "choices": list(field.choices),
        "default": field.default,
    }


def _field_line(field: Field) -> Iterator[Part]:
    yield f"  {field.name}"
    yield faint(f" ({describe(field)}{', required' if field.is_required else ''})")
    about = field.description or (field.label if field.label != field.name else "")
    yield f"  {about}" if about else ""


def _range(field: Field) -> str:
    unit = {"text": " characters", "lines": " of them"}.get(field.kind, "")
    low, high = None if unit and not field.minimum else field.minimum, field.maximum
    if low is not None and high is not None:
        return f"{low} to {high}{unit}"
    if high is not None:
        return f"at most {high}{unit}"
    return "" if low is None else f"at least {low}{unit}"


def _state(inbox: Inbox, task: Execution) -> Part:
    holder = holder_of(task)
    if task.status.is_final:
        return faint(task.status.value)
    if inbox.has(task):
        return doubtful("yours")
    return good("free") if holder is None else faint(f"{holder} has it")


def _due(task: Execution, now: float) -> Part:
    left = task.deadline - now
    if task.status.is_final:
        return faint("ended")
    if left <= 0:
        return bad("too late")
    words = f"{in_words(left)} left"
    return doubtful(words) if left < task.timeout * _URGENT else words


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
