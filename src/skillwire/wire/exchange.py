"""HTTP and use cases without IO: requests, answers, and the flows that make and read them.

A *flow* is a generator: it yields steps (:class:`HttpRequest`, :class:`All`, :class:`Work`, :class:`Sleep`), is sent
the result of each, and returns its own result. It opens no socket, so the same code runs under the synchronous runner,
the asynchronous one and a simulated publisher. Every runner uses :func:`drive` or :func:`drive_async`, which throw the
error of a step into the flow.

A runner makes exactly one request for each :class:`HttpRequest`, without redirects, cookies or headers of its own that
identify the user. It enforces the address policy at connect, ``max_bytes`` on the body before and after content
decoding, and ``timeout`` over the whole request. It throws :class:`~skillwire.errors.FetchError`, ``TrustError`` or
``StorageError``. Most flows use :func:`skillwire.wire.fetch.fetch`, which follows redirects.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, UsageError, in_seconds

T = TypeVar("T")
_SHORTEST: Final = 0.1  # seconds of a step at the end of the time


class Sink(Protocol):
    """Receives a large body as it arrives, so that it is never in memory whole, and can be continued."""

    @property
    def size(self) -> int:
        """The number of bytes in it."""

    def begin(self, position: int) -> bool:
        """Continue at ``position`` and drop the bytes behind it; False if it cannot take any."""

    def append(self, data: bytes | bytearray) -> None:
        """Take the next bytes."""

    def digest(self) -> str:
        """Return the digest of its bytes, ``sha256:`` and 64 hexadecimal characters."""

    def discard(self) -> None:
        """Drop everything."""


class HttpRequest(NamedTuple):
    """One request.

    Args:
        max_bytes: largest body, before and after content decoding.
        timeout: seconds for the whole request: lookup, connecting, and the last byte of the body.
        sink: receives a large body instead of :attr:`HttpResponse.body`.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    max_bytes: int = limits.INDEX_BYTES
    timeout: float = limits.HTTP_REQUEST_SECONDS
    sink: Sink | None = None

    def header(self, name: str) -> str | None:
        """Return the value of a header by its lower-case name."""
        return next((value for key, value in self.headers.items() if key.lower() == name), None)


class HttpResponse(NamedTuple):
    """One answer: header fields by lower-case name (repeated ones joined with ``, ``), and the decoded body.

    The body is empty if it is ``in_sink``. ``url`` is the URL that answered.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    in_sink: bool = False


def may_store(headers: Mapping[str, str]) -> bool:
    """Whether a cache may keep an answer with these headers, for the caller itself. Spec: RFC 9111 §5.2.2.5."""
    return "no-store" not in headers.get("cache-control", "").lower()


class All(NamedTuple):
    """Run flows at the same time; a list of results or errors, in order, is sent back. ``on_done``: after each.

    After a result that ``is_enough`` the others are abandoned, and the list has None for each of them. With ``delays``,
    the flow after each one begins so many seconds later, or when one of those that run ends without being enough.
    """

    flows: Sequence[Flow[Any]]
    on_done: Callable[[], object] = lambda: None
    is_enough: Callable[[Any], bool] = lambda _: False
    delays: Sequence[float] = ()


class Work(NamedTuple):
    """Call something that may touch the disk; its result, or that of a concurrent future, is sent back."""

    call: Callable[[], Any]


class Sleep(NamedTuple):
    """Let time pass, in seconds; nothing is sent back."""

    seconds: float


Step: TypeAlias = HttpRequest | All | Work | Sleep
Flow: TypeAlias = Generator[Step, Any, T]


def work(call: Callable[[], T]) -> Flow[T]:
    """Yield ``call`` as one step and return its result, typed."""
    result: T = yield Work(call)
    return result


def run_all(flows: Sequence[Flow[T]], on_done: Callable[[], object]) -> Flow[list[T | SkillwireError]]:
    """Yield ``flows`` as one step and return their results or errors, typed."""
    results: list[T | SkillwireError] = yield All(flows, on_done)
    return results


def drive(flow: Flow[T], do: Callable[[Step], Any]) -> T:
    """Run ``flow`` to its end with ``do``, which does one step and returns its result; return the flow's result."""
    try:
        step = next(flow)
        while True:
            try:
                result = do(step)
            except BaseException as error:  # noqa: BLE001  # the flow cleans up after an interruption, too
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any


async def drive_async(flow: Flow[T], do: Callable[[Step], Awaitable[Any]]) -> T:
    """Run ``flow`` as :func:`drive` does, and await each step."""
    try:
        step = next(flow)
        while True:
            try:
                result = await do(step)
            except BaseException as error:  # noqa: BLE001  # the flow cleans up after an interruption, too
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any


#: A step whose result is how many seconds the flow has left; infinite without a limit.
TIME_LEFT: Final = Work(lambda: math.inf)


def within(flow: Flow[T], seconds: float, clock: Callable[[], float]) -> Flow[T]:
    """Run ``flow``; a request that has no answer ``seconds`` from now, or begins later, fails with ``TIMEOUT``."""
    end = clock() + seconds

    def bounded(flow: Flow[Any]) -> Flow[Any]:
        try:
            step = next(flow)
            while True:
                try:
                    if isinstance(step, HttpRequest):
                        if (left := end - clock()) <= 0:
                            message = f"the time limit of {in_seconds(seconds)} is over"
                            raise FetchError("TIMEOUT", message, place=SourceLocation(step.url))  # noqa: TRY301  # into the flow
                        step = step._replace(timeout=min(step.timeout, left))
                    elif isinstance(step, All):
                        step = step._replace(flows=[bounded(one) for one in step.flows])
                    result = yield step
                    if step is TIME_LEFT:
                        result = min(result, max(end - clock(), 0.0))
                except BaseException as error:  # noqa: BLE001  # the flow cleans up
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as stop:
            return stop.value

    result: T = yield from bounded(flow)
    return result


class TimeLimit:
    """A time limit for several steps together, from now on; raises ``USAGE`` for a malformed one."""

    def __init__(self, timeout: float | None) -> None:
        self.seconds, self._started = seconds_of(timeout), time.monotonic()

    def left(self) -> float | None:
        """Return the seconds for the next step, at least a tenth; None without a limit."""
        if self.seconds is None:
            return None
        return max(self.seconds - (time.monotonic() - self._started), _SHORTEST)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.seconds is not None and time.monotonic() - self._started >= self.seconds


def seconds_of(timeout: float | None) -> float | None:
    """Return ``timeout``; raise ``USAGE`` outside its range."""
    given: object = timeout  # untyped programs may pass anything
    if given is not None and not isinstance(given, int | float):
        fix = "Give a number, such as timeout=30."
        raise UsageError("USAGE", f"a timeout is a number of seconds, not {ascii(given)[:80]}", fix=fix)
    if timeout is not None and not 0 < timeout <= limits.CALL_WAIT_SECONDS:
        raise UsageError("USAGE", f"a timeout is more than 0 and at most {in_seconds(limits.CALL_WAIT_SECONDS)}")
    return timeout


def limit_time(flow: Flow[T], timeout: float | None) -> Flow[T]:
    """Return ``flow``, whose requests end within ``timeout`` seconds from now."""
    seconds = seconds_of(timeout)
    return flow if seconds is None else within(flow, seconds, time.monotonic)


def share_time(flow: Flow[T], seconds: float, *, is_last: bool) -> Flow[T]:
    """Run ``flow`` for at most ``seconds``, and for half of the time that is left unless it ``is_last``."""
    left: float = yield TIME_LEFT
    return (yield from within(flow, min(seconds, left if is_last else left / 2), time.monotonic))


def follow(flow: Flow[T], responses: Iterable[HttpResponse | Exception]) -> T:
    """Drive ``flow`` with canned answers or errors, in order, without waiting; for tests, and flows without requests.

    Raises:
        LookupError: no answer is left.
    """
    answers = iter(responses)

    def do(step: Step) -> Any:
        if isinstance(step, Work):
            return step.call()
        if isinstance(step, Sleep):
            return None
        assert isinstance(step, HttpRequest)  # noqa: S101  # flows that run at the same time have no order of answers
        answer = next(answers, None)
        if answer is None:
            flow.close()
            raise LookupError(f"no answer left for {step.method} {step.url}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return drive(flow, do)
