"""Webhooks: callers learn at an address of theirs that an execution has ended.

The ledger decides which callback is due. A process that takes one has a minute to deliver it, so a delivery that is
lost with its process is made again. Trust: the address is an untrusted peer's. Each connection goes through the address
policy, redirects are not followed, a response is read up to a limit and ignored, and a slow receiver holds a few places
for a few seconds, never all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final

import structlog

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, TrustError, ValidationError, one_line
from skillwire.executions.view import encode_execution, without_ids
from skillwire.executions.webhooks import GONE, message_id, next_delivery, payload, sign, webhook_owner, webhook_secret
from skillwire.model.execution import Execution
from skillwire.model.url import parse_url
from skillwire.server.execution_service import ExecutionService
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.tracing import read_trace, send_traced

if TYPE_CHECKING:
    from skillwire.adapters.http.asynchronous import AsyncDriver

#: Seconds between two looks at what is due, when nothing has changed.
_LOOK_SECONDS: Final = 1.0
#: Seconds between two looks, however much changes: a busy ledger changes thousands of times a second.
_PAUSE_SECONDS: Final = 0.05
#: Seconds until a delivery comes back whose host is at its limit.
_HOST_PAUSE_SECONDS: Final = 3.0
#: The statuses by which a receiver has taken it.
_SUCCESS: Final = range(200, 300)


class WebhookSender:
    """Delivers due webhooks of one queue until it is stopped.

    ``key`` returns the server's key; it is called once, in a thread. The driver's policy bounds the addresses.
    """

    def __init__(
        self, service: ExecutionService, driver: AsyncDriver, key: Callable[[], bytes], *, queue: str = ""
    ) -> None:
        self._service = service
        self._queue = queue
        self._driver = driver
        self._read_key = key
        self._key = b""
        self._stopping = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], str] = {}  # each delivery and its host
        self._log = structlog.get_logger("skillwire.webhooks")

    def secret_of(self, execution: Execution) -> str:
        """Return what the callbacks of an execution are signed with."""
        return webhook_secret(self._key or self._read_key(), webhook_owner(execution))

    async def work(self) -> None:
        """Deliver, until :meth:`stop`."""
        seen, service = 0, self._service

        async def begin_due() -> None:
            nonlocal seen
            self._key = self._key or await asyncio.to_thread(self._read_key)
            free = limits.WEBHOOK_CONCURRENCY - len(self._under_way)
            if free > 0:
                for one in await service.ledger.due_callbacks(service.clock(), limit=free, queue=self._queue):
                    await self._begin(one)
            if len(self._under_way) < limits.WEBHOOK_CONCURRENCY:
                seen = await service.changes.beyond(seen, _LOOK_SECONDS)
            else:
                await asyncio.wait(self._under_way, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)

        await service.background.repeat("webhooks", begin_due, asyncio.sleep, _PAUSE_SECONDS, self._stopping.is_set)

    async def stop(self, seconds: float) -> None:
        """Begin no more deliveries; wait ``seconds`` for those under way, then leave them to be made again."""
        self._stopping.set()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._driver.close()

    async def _begin(self, execution: Execution) -> None:
        """Begin to deliver, unless as many deliveries go to the same host already: then it comes back soon."""
        host = parse_url(execution.webhook).host if execution.webhook else ""
        if list(self._under_way.values()).count(host) >= limits.WEBHOOK_HOST_CONCURRENCY:
            until = self._service.clock().wall + _HOST_PAUSE_SECONDS
            await self._service.ledger.put_off_callback(execution.execution_id, until, was_tried=False)
            return
        task = asyncio.create_task(self._deliver(execution), context=Context())
        self._under_way[task] = host
        task.add_done_callback(self._end)  # also of one that is cancelled before it begins

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def _deliver(self, execution: Execution) -> None:
        try:
            until = await self._send(execution)
            await self._service.ledger.put_off_callback(execution.execution_id, until)
            if (task := asyncio.current_task()) is not None:
                self._end(task)  # from here on another delivery may begin
        except SkillwireError as error:
            self._log.error("the ledger failed", error=one_line(error))  # a minute later it is tried again
        except Exception as error:  # noqa: BLE001  # nothing else would log it; a minute later it is tried again
            self._log.error("a delivery raised", execution=without_ids(execution.execution_id), exc_info=error)

    async def _send(self, execution: Execution) -> float | None:
        """Make one delivery; return when to make the next, None for never."""
        if execution.webhook is None:
            return None
        output = await self._service.ledger.output(execution)
        is_large = output is not None and len(output) > limits.WEBHOOK_BYTES
        body = payload(execution, encode_execution(execution, None if is_large else output))
        headers = sign(self.secret_of(execution), message_id(execution), body, self._service.clock().wall)
        request = HttpRequest(
            execution.webhook,
            "POST",
            headers,
            body,
            max_bytes=limits.WEBHOOK_ANSWER_BYTES,
            timeout=limits.WEBHOOK_SECONDS,
        )
        log = self._log.bind(execution=without_ids(execution.execution_id))
        try:
            status = (await send_traced(self._driver.send, request, read_trace(execution.trace_id))).status
        except FetchError as error:
            status, reason = 0, error.code
        except (TrustError, ValidationError) as error:
            log.warning("a callback is not allowed", reason=error.message)
            return None
        else:
            reason = str(status)
        if status in _SUCCESS:
            log.info("delivered", delivery=execution.callbacks)
            return None
        if status == GONE:
            log.info("the receiver is gone")
            return None
        until = next_delivery(execution.callbacks, self._service.clock().wall)
        message = "a delivery failed" if until is not None else "the last delivery failed"
        log.warning(message, delivery=execution.callbacks, reason=reason)
        return until
