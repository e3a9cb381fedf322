"""An execution as a stream of server-sent events: one for each change, until it has ended. Ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire.invocation.view import encode_execution, tag_of
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.server.headers import encode_fields
from skillwire.server.invocation.answer_body import small_output_of
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from skillwire.model.execution import Execution
    from skillwire.server.invocation.desk import Desk

_FIELDS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
#: Seconds after which a line that means nothing shows that the stream lives.
_HEARTBEAT: Final = 15.0
_CROWDED: Final = Problem(
    503, "ENDPOINT_UNREACHABLE", "too many follow executions already", fields={"Retry-After": "5"}
)


async def stream(desk: Desk, execution: Execution, caller: str, receive: Receive, send: Send) -> None:
    """Send ``execution`` and each of its changes to ``caller``, until it has ended or the client has gone."""
    if not desk.places.has_room(caller):
        await _CROWDED.send(send)
        return
    with desk.places.taking(caller):
        await _stream(desk, execution, receive, send)


async def _stream(desk: Desk, execution: Execution, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": encode_fields(_FIELDS, OPEN_FIELDS)})
    sending = asyncio.create_task(_send_changes(desk, execution, send))
    gone = asyncio.create_task(until_gone(receive))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        sending.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


async def until_gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_changes(desk: Desk, execution: Execution, send: Send) -> None:
    loop = asyncio.get_running_loop()
    end, shown = loop.time() + max(0.0, execution.deadline - desk.clock().wall) + _HEARTBEAT, ""
    with desk.changes.follow(execution.execution_id) as following:
        while True:
            now = await desk.look_up(execution.execution_id) or execution
            body = encode_execution(now, await small_output_of(desk, now))
            tag = tag_of(body)
            piece = b": \n\n" if tag == shown else b"event: status\nid: %s\ndata: %s\n\n" % (tag.encode(), body)
            shown = tag
            is_last = now.status.is_final or loop.time() > end or desk.changes.is_closed
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})
            if is_last:
                return
            await following.wait(_HEARTBEAT)
