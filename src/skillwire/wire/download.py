"""Downloading: a fetch that continues after an interruption, without IO.

:func:`download` asks again when a connection breaks or times out, and continues after the bytes of its sink, from this
run or an earlier one. The caller checks the digest of the whole, so no validator is sent with the range: servers of one
origin often disagree on ``ETag``, and bytes that do not fit show in the digest. A server that ignores ranges answers
200 and the download begins anew, as it does after a 416 and after a wrong part.

Tries without progress, requests and time are bounded. 429, 502, 503 and 504 are asked again after ``Retry-After``, or a
growing time with jitter; a longer ``Retry-After`` ends the download. Spec: RFC 9110 §14, §10.2.3.
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

_FIRST_WAIT: Final = 0.25  # seconds; doubled with each try without progress
_BUSY: Final = frozenset({429, 502, 503, 504})
_UNFIT: Final = frozenset({"HTTP_SYNTAX", "CONTENT_ENCODING"})
_PARTIAL, _UNSATISFIABLE = 206, 416


def download(
    request: HttpRequest, sink: Sink | None, *, end: float, clock: Callable[[], float] = time.monotonic
) -> Flow[HttpResponse]:
    """Make a request, and more within the bounds; return the answer, with any status.

    Args:
        request: a ``GET`` for the whole.
        sink: has the earlier bytes, and receives a large body; None to keep nothing.
        end: of the time, by ``clock``.
        clock: seconds.
    """
    tries = _Tries(end, clock)
    while True:
        before, headers = sink.size if sink is not None else 0, request.headers
        if before:  # a part of a compressed body is useless
            headers = {**headers, "Range": f"bytes={before}-", "Accept-Encoding": "identity"}
        timeout = min(request.timeout, tries.left())
        try:
            asked = request._replace(headers=headers, timeout=timeout, sink=sink)
            if tries.wait:
                yield Sleep(tries.wait)
            response = yield from fetch(asked)
        except FetchError as error:
            came = (sink.size if sink is not None else 0) - before
            is_unfit = error.code in _UNFIT and before > 0
            if is_unfit and sink is not None:
                sink.discard()
                came = 0
            if not (is_unfit or _may_pass(error, came, tries)) or not tries.again(came, None):
                raise
            continue
        is_useless = response.status == _UNSATISFIABLE or (response.status == _PARTIAL and not response.in_sink)
        if sink is not None and before and is_useless:
            sink.discard()
        elif response.status not in _BUSY:
            return response
        if not tries.again(0, response.headers.get("retry-after")):
            return response


def _may_pass(error: FetchError, came: int, tries: _Tries) -> bool:
    """Whether another try may succeed: a server that never began is not tried twice."""
    return error.code == "CONNECTION_LOST" or (
        error.code in {"TIMEOUT", "CONNECT_FAILED"} and (came > 0 or tries.made > 0)
    )


class _Tries:
    """The rest of the bounds, and the time until the next request."""

    def __init__(self, end: float, clock: Callable[[], float]) -> None:
        self.wait = 0.0
        self.made = 0
        self._in_vain = 0
        self._end = end
        self._clock = clock

    def left(self) -> float:
        """Return the seconds for the next request; more than 0, so that the request itself times out."""
        return max(self._end - self._clock() - self.wait, 0.001)

    def again(self, came: int, retry_after: str | None) -> bool:
        """Whether another request is within the bounds, after one that brought ``came`` bytes."""
        self.made += 1
        self._in_vain = 0 if came > 0 else self._in_vain + 1
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            self.wait = float(retry_after[:9])
        else:  # a date is ignored: it needs two clocks that agree
            self.wait = _FIRST_WAIT * 2**self._in_vain * (0.5 + os.urandom(1)[0] / 510)
        return (
            self._in_vain < limits.DOWNLOAD_TRIES
            and self.made < limits.DOWNLOAD_REQUESTS
            and self.wait <= limits.DOWNLOAD_WAIT_SECONDS
            and self._clock() + self.wait < self._end
        )
