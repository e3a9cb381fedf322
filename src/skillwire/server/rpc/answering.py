"""Answering what came: one call or a batch, each call on its own, a few of a batch at a time.

What a call does to others of its batch is nothing: one that fails is told so in its own answer. What is asked for
together is answered together, so the answers of a batch are bounded in all; what does not fit is told as too large
where it stands, and can be asked for alone.

What failed inside is told as a failure and no more: the log has the rest. Spec: JSON-RPC 2.0 §5, §6. Trust: what came
is a stranger's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError
from skillwire.protocols.skills_rpc.json_rpc import (
    Batch,
    Call,
    Refused,
    Single,
    decode,
    encode_error,
    encode_result,
    join_batch,
)
from skillwire.server.rpc.methods import LASTING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillwire.server.rpc.methods import Caller, Methods
    from skillwire.server.rpc.room import Room

#: So many bytes are read faster than a thread is woken.
_FEW: Final = 64 * limits.KIB
_INTERNAL: Final = SkillwireError("INTERNAL", "the server failed; its log says how")

#: What came: one request, several, or nothing that is one.
Request = Single | Batch | Refused


class Answering:
    """Answers what came by calling methods.

    Args:
        methods: what can be called.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._turn = asyncio.Lock()
        self._log = structlog.get_logger("skillwire.rpc")

    async def decode(self, data: bytes) -> Request:
        """Return what ``data`` asks for; what is large in a thread, one at a time: it takes 25 times the room."""
        if len(data) <= _FEW:
            return decode(data)
        async with self._turn:
            return await asyncio.to_thread(decode, data)

    async def answer(self, request: Request, caller: Caller, room: Room) -> bytes | None:
        """Return the answer, as JSON; None when there is none, since nothing but notifications came."""
        if isinstance(request, Refused):
            return encode_error(request.request_id, request.error)
        if isinstance(request, Single):
            return await self._answer(request.item, caller, room)
        answers: list[bytes | None] = [None] * len(request.items)
        left = iter(enumerate(request.items))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limits.RPC_BATCH_AT_ONCE, len(answers))):
                group.create_task(self._work(left, answers, caller, room))
        return join_batch(answers)

    async def _work(
        self, left: Iterator[tuple[int, Call | Refused]], answers: list[bytes | None], caller: Caller, room: Room
    ) -> None:
        for number, item in left:
            answers[number] = await self._answer(item, caller, room)

    async def _answer(self, item: Call | Refused, caller: Caller, room: Room) -> bytes | None:
        if isinstance(item, Refused):
            return encode_error(item.request_id, item.error)
        try:
            if not item.is_notification:
                room.check()
            result = await self._methods.call(item, caller)
            answer = None if item.is_notification else room.take(encode_result(item.request_id, result))
        except SkillwireError as error:
            return None if item.is_notification else encode_error(item.request_id, self._told(error, item))
        except Exception:  # noqa: BLE001  # whatever it is, the caller is told, and the log has the reason
            self._log.exception("a call failed", method=item.method)
            return None if item.is_notification else encode_error(item.request_id, _INTERNAL)
        return answer

    def _told(self, error: SkillwireError, call: Call) -> SkillwireError:
        if not isinstance(error, StorageError):
            return error
        self._log.error("a call failed", method=call.method, error=str(error))
        return StorageError(error.code, "the server cannot keep or read what this needs at the moment")


def calls_of(request: Request) -> Sequence[Call]:
    """Return the calls in what came."""
    if isinstance(request, Refused):
        return ()
    items = (request.item,) if isinstance(request, Single) else request.items
    return [item for item in items if isinstance(item, Call)]


def is_lasting(request: Request) -> bool:
    """Whether the answer may take long."""
    return any(call.method in LASTING for call in calls_of(request))
