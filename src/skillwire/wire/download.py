"""Downloading: a fetch that goes on where it broke off, without any input or output.

:func:`download` asks again when a connection breaks or times out on the way, and goes on after the bytes that its
sink holds, from this run or an earlier one. The digest of the whole is known and is checked by who called, so it is
the digest that names the bytes, and no validator is sent with the range: servers of one origin often disagree on
``ETag`` s, and bytes that do not fit together show in the digest. A server that ignores ranges answers 200 and the
download begins anew, as it does after a 416 and after a part that is not the one that was asked for.

What a server may be asked for again is bounded: tries that bring nothing, requests in all, and time in all. 429,
502, 503 and 504 are asked again after the time that ``Retry-After`` gives, or a growing one with jitter; a server that
wants to be left alone for longer is. Spec: RFC 9110 §14, §10.2.3.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError
from skillwire.wire.exchange import Sleep
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sink

_FIRST_WAIT: Final = 0.25  # seconds; doubled with each try that brings nothing
_BUSY: Final = frozenset({429, 502, 503, 504})
_UNFIT: Final = frozenset({"HTTP_SYNTAX", "CONTENT_ENCODING"})
_PARTIAL, _UNSATISFIABLE = 206, 416


def download(
    request: HttpRequest, sink: Sink | None, *, end: float, clock: Callable[[], float] = time.monotonic
) -> Flow[HttpResponse]:
    """Make a request, and as many more as it takes within the bounds; return the answer, whatever status it has.

    Args:
        request: a ``GET`` for the whole.
        sink: what came before, and where a large body goes; None when nothing is kept.
        end: when to give up, as ``clock`` counts.
        clock: seconds.

    Raises:
        FetchError, TrustError: as :func:`skillwire.wire.fetch.fetch`, after the last try.
    """
    tries = _Tries(end, clock)
    while True:
        before = sink.size if sink is not None else 0
        headers = {**request.headers, **_continuing(before)} if before else request.headers
        timeout = min(request.timeout, tries.left())
        try:
            asked = request._replace(headers=headers, timeout=timeout, sink=sink)
            if tries.wait:
                yield Sleep(tries.wait)
            response = yield from fetch(asked)
        except FetchError as error:
            came = (sink.size if sink is not None else 0) - before
            if error.code in _UNFIT and before and sink is not None:
                sink.discard()
                came = 0
            elif not _may_pass(error, came, tries):
                raise
            if not tries.again(came, None):
                raise
            continue
        if sink is not None and before and _is_useless(response):
            sink.discard()
        elif response.status not in _BUSY:
            return response
        if not tries.again(0, response.headers.get("retry-after")):
            return response


def _continuing(position: int) -> dict[str, str]:
    return {"Range": f"bytes={position}-", "Accept-Encoding": "identity"}  # a part of something compressed is no use


def _may_pass(error: FetchError, came: int, tries: _Tries) -> bool:
    """Whether another try may end better: a server that never began is not tried twice."""
    return error.code == "CONNECTION_LOST" or (
        error.code in {"TIMEOUT", "CONNECT_FAILED"} and (came > 0 or tries.made > 0)
    )


def _is_useless(response: HttpResponse) -> bool:
    """Whether an answer to a range says that what is there cannot be continued."""
    return response.status == _UNSATISFIABLE or (response.status == _PARTIAL and not response.in_sink)


class _Tries:
    """What is left of the bounds, and how long to wait before the next request."""

    def __init__(self, end: float, clock: Callable[[], float]) -> None:
        self.wait = 0.0
        self.made = 0
        self._in_vain = 0
        self._end = end
        self._clock = clock

    def left(self) -> float:
        """Return the seconds for the next request, more than 0: it is what tells that the time is over."""
        return max(self._end - self._clock() - self.wait, 0.001)

    def again(self, came: int, retry_after: str | None) -> bool:
        """Whether there may be another request, after one that brought ``came`` bytes."""
        self.made += 1
        self._in_vain = 0 if came > 0 else self._in_vain + 1
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            self.wait = float(retry_after[:9])
        else:  # a date, which needs a calendar and two clocks that agree, counts as none
            self.wait = _FIRST_WAIT * 2**self._in_vain * (0.5 + os.urandom(1)[0] / 510)
        return (
            self._in_vain < limits.DOWNLOAD_TRIES
            and self.made < limits.DOWNLOAD_REQUESTS
            and self.wait <= limits.DOWNLOAD_WAIT_SECONDS
            and self._clock() + self.wait < self._end
        )
