"""The synchronous driver: flows over plain sockets, for the command line's install path.

Start-up time matters most there, so this module needs only ``socket``: ``http.client`` imports the ``email`` package,
which costs as much as a hundred small downloads (docs/decisions/0002). :mod:`skillwire.wire.http1` encodes and reads
HTTP; this module resolves, connects, keeps connections and watches the clock.

The policy checks the URL, a kept connection before its reuse, and each address right before a connection. A ``GET`` is
sent once more if a server closes a kept connection before it answers; :mod:`skillwire.wire.fetch` does all other
retries. Drivers add no cookie, and no credential but that of a proxy (:mod:`skillwire.adapters.http.connection`).

A new thread starts only when no call has ended for some milliseconds: calls to a distant server overlap, and calls to
a near one run one after another, which is faster under one interpreter lock.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from skillwire import limits
from skillwire.adapters.http.connection import (
    Connection,
    Deadline,
    HttpDriver,
    Proxy,
    check_peer,
    client_context,
    known_addresses,
    look_up,
    may_repeat,
    more_serious,
    no_address_error,
    open_connection,
)
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.url import Url
from skillwire.wire.exchange import All, Flow, HttpRequest, HttpResponse, Step, Work, drive
from skillwire.wire.http1 import ResponseReader, decode_content

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Sequence


T = TypeVar("T")

_PATIENCE_SECONDS: Final = 0.005  # a server that answers sooner gains nothing from a second thread


def run_parallel(calls: Sequence[Callable[[], T]], threads: int) -> Iterator[tuple[int, T | BaseException]]:
    """Run ``calls`` on at most ``threads`` threads; yield each index with its result or exception, as it ends.

    When the caller stops early, no further call begins; running ones end by themselves.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[int, T | BaseException]] = queue.SimpleQueue()
    for index in range(len(calls)):
        waiting.put(index)

    def work() -> None:
        while (index := _next(waiting, 0)) is not None:
            _run(calls, index, ended)

    started, most = 0, min(threads, len(calls))
    try:
        for _ in calls:
            while (outcome := _next(ended, None if started == most else _PATIENCE_SECONDS if started else 0)) is None:
                threading.Thread(target=work, daemon=True).start()
                started += 1
            yield outcome
    finally:
        while _next(waiting, 0) is not None:
            pass


def run_staggered(calls: Sequence[Callable[[], T]], delays: Sequence[float]) -> Iterator[tuple[int, T | BaseException]]:
    """Run each call on a thread; yield as :func:`run_parallel` does.

    A call begins when one has ended and its outcome was taken, or ``delays`` seconds after the one before.
    """
    ended: queue.SimpleQueue[tuple[int, T | BaseException]] = queue.SimpleQueue()
    begun = 0
    for _ in calls:
        outcome = None
        while outcome is None:
            if begun < len(calls):
                threading.Thread(target=_run, args=(calls, begun, ended), daemon=True).start()
                begun += 1
            outcome = _next(ended, delays[begun - 1] if begun < len(calls) else None)
        yield outcome


def call_within(call: Callable[[], T], seconds: float) -> T | None:
    """Run a call in a thread; return its result, or None when it takes longer than ``seconds`` and is left running."""
    ended: queue.SimpleQueue[tuple[int, T | BaseException]] = queue.SimpleQueue()
    threading.Thread(target=_run, args=([call], 0, ended), daemon=True).start()
    _, outcome = _next(ended, seconds) or (0, None)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _run(calls: Sequence[Callable[[], T]], index: int, ended: queue.SimpleQueue[tuple[int, T | BaseException]]) -> None:
    try:
        ended.put((index, calls[index]()))
    except BaseException as error:  # noqa: BLE001 - the caller's thread decides what to make of it
        ended.put((index, error))


def _next(waiting: queue.SimpleQueue[T], seconds: float | None) -> T | None:
    try:
        return waiting.get(timeout=seconds)
    except queue.Empty:
        return None


class SyncDriver(HttpDriver[Connection]):
    """Runs flows, one or several at a time; its methods may be called from any thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections. The driver may be used again, and then opens new ones."""
        self._kept.close()

    def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end and return its result; errors are thrown into it first."""
        return drive(flow, self._do)

    def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], T] | None = None,
        concurrency: int = limits.HTTP_CONCURRENCY,
        on_done: Callable[[], object] = lambda: None,
        is_enough: Callable[[T], bool] = lambda _: False,
        delays: Sequence[float] = (),
    ) -> list[T | SkillwireError]:
        """Run independent ``flows`` on threads, each by ``run``; return their results or errors in order.

        ``on_done`` is called in the caller's thread after each. After one that ``is_enough``, those without a result
        run to their end unheard, within their own deadlines. ``delays`` are those of ``All``.
        """
        calls = [functools.partial(run or self.run, flow) for flow in flows]
        results: list[T | SkillwireError | None] = [None] * len(calls)
        for index, outcome in run_staggered(calls, delays) if delays else run_parallel(calls, concurrency):
            if isinstance(outcome, BaseException) and not isinstance(outcome, SkillwireError):
                raise outcome
            results[index] = outcome
            on_done()
            if not isinstance(outcome, BaseException) and is_enough(outcome):
                break
        return cast("list[T | SkillwireError]", results)

    def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return self.send(step)
        if isinstance(step, All):
            return self.run_all(**step._asdict())
        return step.call() if isinstance(step, Work) else time.sleep(step.seconds)

    def send(self, request: HttpRequest) -> HttpResponse:
        """Make one request and return its answer, content-decoded."""
        url, proxy, message = self._prepare(request)
        deadline = Deadline(request)
        kept, reader = self._kept.take(self.policy, url, proxy), ResponseReader(request)
        try:
            response = self._converse(kept or self._connect(url, proxy, deadline), url, message, reader, deadline)
        except FetchError as error:
            if kept is None or not may_repeat(request, reader, error):
                raise
            connection = self._connect(url, proxy, deadline)
            response = self._converse(connection, url, message, ResponseReader(request), deadline)
        if proxy is not None:
            proxy.check(response, url, is_tunnel=False)
        return decode_content(response, request.max_bytes)

    def _converse(
        self, connection: Connection, url: Url, message: bytes, reader: ResponseReader, deadline: Deadline
    ) -> HttpResponse:
        response = None
        try:
            connection.send(message, deadline)
            while response is None:
                data = connection.receive(deadline)
                self.on_traffic(url.authority, len(data))
                response = reader.feed(data) if data else reader.end()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise deadline.passed() from error
            if isinstance(error, OSError):
                raise reader.lost(str(error)) from error
            raise
        if reader.reusable:
            self._kept.keep(url.origin, connection)
        else:
            connection.close()
        return response

    def _connect(self, url: Url, proxy: Proxy | None, deadline: Deadline) -> Connection:
        """Connect to the first address, of the host or its proxy, that the policy allows and that answers."""
        peer = proxy.url if proxy else url
        addresses = known_addresses(peer.host) or call_within(
            lambda: look_up(self._resolve, peer.host, proxy), deadline.remaining()
        )
        if addresses is None:
            raise deadline.passed()
        addresses = addresses[: limits.HTTP_ADDRESSES]
        end = time.monotonic() + min(deadline.remaining(), limits.HTTP_CONNECT_SECONDS)
        context = self._tls() if url.scheme == "https" else None
        failure: SkillwireError | None = None
        for index, address in enumerate(addresses):
            seconds = max(end - time.monotonic(), 0.001) / (len(addresses) - index)
            try:
                check_peer(self.policy, url, proxy, address)
                return open_connection(url, address, seconds, context, proxy)
            except (FetchError, TrustError) as error:
                failure = more_serious(failure, error)
        if not isinstance(failure, TrustError):
            deadline.remaining()  # when the time is over, that is the reason
        raise failure or no_address_error(peer)

    def _tls(self) -> ssl.SSLContext:
        with self._context_lock:
            if self._context is None:
                self._context = client_context()
            return self._context
