"""Exchange: a conversation over HTTP, written once and driven twice.

An exchange is a generator. It yields an :class:`HttpRequest`, is sent the :class:`HttpResponse`, and
returns its result. It opens no socket and knows no library, so the same flow runs under the synchronous
driver (the command line), the asynchronous one (:class:`skillwire.AsyncClient`) and a simulated publisher
(the tests). A driver makes exactly one request for each yield: it follows no redirect, keeps no cookie
and sends no header of its own that identifies the user. What a driver must enforce: the address policy at
connect, ``max_bytes`` on the body as it arrives and after content decoding, ``timeout`` over the whole
request. A driver throws :class:`~skillwire.errors.FetchError` or ``TrustError`` into the generator.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from skillwire import limits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, in full.

    Args:
        url: absolute, already checked by :func:`skillwire.model.url.parse_url`.
        headers: as sent; names in any case, values without line breaks.
        max_bytes: how large the body may be, in bytes, before and after content decoding.
        timeout: seconds for the whole request, body included.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    max_bytes: int = limits.INDEX_BYTES
    timeout: float = limits.HTTP_REQUEST_SECONDS


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer: status, header fields by lower-case name (repeated ones joined with ``, ``), whole body.

    ``body`` is content-decoded. ``url`` is the URL that answered (never another one's).
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


Exchange = Generator[HttpRequest, HttpResponse, T]


def follow(exchange: Exchange[T], responses: Iterable[HttpResponse]) -> T:
    """Drive ``exchange`` with canned answers, in order: for tests and doctests."""
    answers = iter(responses)
    next(exchange)
    while True:
        try:
            exchange.send(next(answers))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any
