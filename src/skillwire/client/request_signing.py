"""Requests signed with a stored key, each just before it is sent.

A signature is valid once, and two equal requests of one second would share it. So the second one is dated a second
later, which a server must allow. Another process may use the same key: if the server has seen a signature, the next
seconds are tried, then random ones of the past, which concurrent processes rarely share. Spec: SSP §7.2.3.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.signing import HEADER, sign
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.credential import Credential
    from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse

_UNAUTHORIZED: Final = 401
_ATTEMPTS: Final = 6  # after the first
_NEXT_SECONDS: Final = 3  # of these, well below what a server allows a clock to be ahead


class RequestSigner:
    """Signs requests, in any thread; ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[str | None, str, str, bytes], int] = {}

    def send(self, request: HttpRequest, key: Credential) -> Flow[HttpResponse]:
        """Send ``request`` signed with ``key``."""
        response: HttpResponse = yield self.sign(request, key)
        for attempt in range(_ATTEMPTS):
            if not _is_repeated(response):
                break
            is_crowded = attempt >= _NEXT_SECONDS
            past = 1 + secrets.randbelow(int(limits.SIGNATURE_WINDOW_SECONDS) // 2) if is_crowded else 0
            response = yield self.sign(request, key, past=past)
        return response

    def sign(self, request: HttpRequest, key: Credential, *, past: int = 0) -> HttpRequest:
        """Return ``request`` with a new signature in place of ``Authorization``, dated ``past`` seconds ago."""
        body = request.body or b""
        target = parse_url(request.url).target
        asked = (key.key_id, request.method, request.url, body)
        timestamp = int(self._clock()) - past if past else self._next_time(asked)
        signature = sign(str(key.key_id), key.secret.encode("ascii"), request.method, target, body, timestamp=timestamp)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "authorization"}
        return request._replace(headers={**headers, HEADER: str(signature)})

    def _next_time(self, signed: tuple[str | None, str, str, bytes]) -> int:
        with self._lock:
            now = int(self._clock())
            self._last = {known: time for known, time in self._last.items() if time >= now}
            self._last[signed] = max(now, self._last.get(signed, 0) + 1)
            return self._last[signed]


def _is_repeated(response: HttpResponse) -> bool:
    """Whether the server has refused the signature as repeated. Trust: a false claim costs a few requests."""
    if response.status != _UNAUTHORIZED:
        return False
    try:
        document: Any = load_json(response.body, max_bytes=limits.DESCRIPTOR_BYTES, source=response.url)
        return bool(document["error"]["details"]["reason"] == "repeated")
    except (DecodeError, LookupError, TypeError):  # an error of another form
        return False
