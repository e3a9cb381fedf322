"""The answer that tells of an execution: its header fields, and the whole of it where one was accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.invocation.view import encode_execution, tag_of
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.skill_sharing.paths import EXECUTIONS
from skillwire.server.headers import encode_fields, join_fields
from skillwire.server.prepared import Ready

if TYPE_CHECKING:
    from skillwire.model.execution import Execution

_FIELDS: Final = {"Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Accept, Prefer"}
#: Seconds until it is worth asking again, by how long an execution has taken: young ones end soon.
_PAUSES: Final = ((10.0, 1), (60.0, 2), (600.0, 5), (float("inf"), 15))
_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\n" + join_fields(encode_fields(_FIELDS, OPEN_FIELDS))


def answer_fields(execution: Execution, tag: str, size: int, now: float) -> dict[str, str]:
    """Return the header fields of an answer with a body of this tag and size, which tells of an execution ``now``."""
    return {**_FIELDS, **_own_fields(execution, tag, size, now)}


def _own_fields(execution: Execution, tag: str, size: int, now: float) -> dict[str, str]:
    fields = {"ETag": tag, "Content-Length": str(size)}
    if not execution.status.is_final:
        fields["Retry-After"] = str(pause_of(now - execution.created))
    return fields


def pause_of(age: float) -> int:
    """Return after how many seconds it is worth asking again about an execution of this age."""
    return next(pause for until, pause in _PAUSES if age < until)


def location_of(execution: Execution, site: str) -> str:
    """Return where an execution is followed."""
    return f"{site}{EXECUTIONS}/{execution.execution_id}"


def ready_accepted(execution: Execution, site: str, now: float) -> Ready:
    """Return the answer to a call that was accepted, as it goes over the wire."""
    body = encode_execution(execution)
    own_fields = _own_fields(execution, tag_of(body), len(body), now)
    own = encode_fields(own_fields, {"Location": location_of(execution, site)})
    return Ready(202, _ACCEPTED + join_fields(own), body)
