"""Exchange: a conversation over HTTP, written once and driven twice.

An exchange is a generator. It yields an :class:`HttpRequest`, is sent the :class:`HttpResponse`, and
returns its result. It opens no socket and knows no library, so the same flow runs under the synchronous
driver (the command line), the asynchronous one (:class:`skillwire.AsyncClient`) and a simulated publisher
(the tests). A driver makes exactly one request for each yield: it follows no redirect, keeps no cookie
and sends no header of its own that identifies the user. What a driver must enforce: the address policy at
connect, ``max_bytes`` on the body as it arrives and after content decoding, ``timeout`` over the whole
request, which begins after ``delay``. A driver throws :class:`~skillwire.errors.FetchError`, ``TrustError`` or
``StorageError`` into the generator.

Most exchanges do not yield requests themselves but ``yield from`` :func:`skillwire.wire.fetch.fetch`, which
follows redirects.

Flow: a use case of the client, written once and driven twice.

A flow is a generator, as an exchange is, one level higher. It yields *steps*: conversations to hold
(:class:`Fetch`, :class:`FetchAll`), work on files (:class:`Work`) and pauses (:class:`Pause`), and is sent
their results. The synchronous client does each step in place; the asynchronous one awaits the conversations
and hands the work to a thread. So what a client does is decided in one place, and neither blocks where it
must not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError


T = TypeVar("T")


class Sink(Protocol):
    """Where a large body goes as it comes, so that it is nowhere in memory whole, and can be continued."""

    @property
    def size(self) -> int:
        """How many bytes it holds."""

    def begin(self, position: int) -> bool:
        """Go on at ``position``, forgetting what was behind it; False when it cannot take anything."""

    def append(self, data: bytes | bytearray) -> None:
        """Take the next bytes."""

    def digest(self) -> str:
        """Return the digest of what it holds, ``sha256:`` and 64 hexadecimal characters."""

    def discard(self) -> None:
        """Forget everything."""


class HttpRequest(NamedTuple):
    """One request, in full.

    Args:
        url: absolute, in a form that :func:`skillwire.model.url.parse_url` takes.
        method: in capitals.
        headers: as sent; names in any case, values without line breaks.
        body: what is sent; None for nothing.
        max_bytes: how large the body may be, in bytes, before and after content decoding.
        timeout: seconds for the whole request: lookup, connecting, and the last byte of the body.
        delay: seconds to wait before it is made; they do not count as its time.
        sink: where a large body may go instead of :attr:`HttpResponse.body`.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    max_bytes: int = limits.INDEX_BYTES
    timeout: float = limits.HTTP_REQUEST_SECONDS
    delay: float = 0.0
    sink: Sink | None = None

    def header(self, name: str) -> str | None:
        """Return the value of a header by its lower-case name."""
        return next((value for key, value in self.headers.items() if key.lower() == name), None)


class HttpResponse(NamedTuple):
    """One answer: status, header fields by lower-case name (repeated ones joined with ``, ``), whole body.

    ``body`` is content-decoded; it is empty when ``in_sink`` says that it went there. ``url`` is the URL that answered
    (never another one's).
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    in_sink: bool = False


Exchange = Generator[HttpRequest, HttpResponse, T]


def one(request: HttpRequest) -> Exchange[HttpResponse]:
    """Make one request, and return its answer."""
    return (yield request)


def follow(exchange: Exchange[T], responses: Iterable[HttpResponse | Exception]) -> T:
    """Drive ``exchange`` with canned answers, in order: for tests and doctests.

    Args:
        exchange: not yet started.
        responses: what is sent in for each request; an exception is thrown in, as a driver would.

    Raises:
        LookupError: the exchange asks for more than there are answers.
    """
    answers = iter(responses)
    try:
        request = next(exchange)
        while True:
            answer = next(answers, None)
            if answer is None:
                exchange.close()
                raise LookupError(f"no answer left for {request.method} {request.url}")
            request = exchange.throw(answer) if isinstance(answer, Exception) else exchange.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


class Fetch(NamedTuple):
    """Hold one conversation; its result is sent back, its error thrown in."""

    exchange: Exchange[Any]


class All(NamedTuple):
    """Hold conversations at once; a list of results or errors, in order, is sent back.

    ``on_done`` is told after each, for progress.
    """

    exchanges: Iterable[Exchange[Any]]
    on_done: Callable[[], object]


class Work(NamedTuple):
    """Call something that may touch the disk; its result is sent back, its error thrown in."""

    call: Callable[[], Any]


class Sleep(NamedTuple):
    """Let so many seconds pass; nothing is sent back."""

    seconds: float


Step: TypeAlias = Fetch | All | Work | Sleep
Flow = Generator[Step, Any, T]


def work(call: Callable[[], T]) -> Flow[T]:
    """Yield ``call`` as one step and return its result, typed."""
    result: T = yield Work(call)
    return result


def fetch(exchange: Exchange[T]) -> Flow[T]:
    """Yield ``exchange`` as one step and return its result, typed."""
    result: T = yield Fetch(exchange)
    return result


def fetch_all(exchanges: Iterable[Exchange[T]], on_done: Callable[[], object]) -> Flow[list[T | SkillwireError]]:
    """Yield ``exchanges`` as one step and return their results or errors, typed."""
    results: list[T | SkillwireError] = yield All(exchanges, on_done)
    return results
