"""Signed requests on the server's side: whose they are, whether they are of now, and that each counts once.

Every signature that counted is remembered until its time has run out, bounded for each key, so a holder of one key
cannot crowd out others. Requests are recognised in many threads; judging a signature's time, looking for it and
remembering it are one step under one lock, so of two copies that come at once one is refused.

What bears a time before this process began is refused, since nobody remembers whether it counted. A signature may lie
:data:`~skillwire.limits.SIGNATURE_AHEAD_SECONDS` ahead of our clock, so only in the first moments after a start can one
that counted before it count again, and only one that was made by a clock that is ahead. The form of a signature stands
in :mod:`skillwire.protocols.skill_sharing.signing`. Spec: SSP §7.2.3.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import FetchError
from skillwire.model.access import Principal
from skillwire.protocols.skill_sharing.signing import is_signed_by, read_signature
from skillwire.server.auth.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillwire.model.access import Token

    FindKey = Callable[[str], Awaitable[tuple[Token, bytes] | None]]


#: A signature that is as far ahead as it may be stays good for so long.
_REMEMBERED_SECONDS: Final = limits.SIGNATURE_WINDOW_SECONDS + limits.SIGNATURE_AHEAD_SECONDS


class SignedRequests:
    """Recognises who signed a request.

    Args:
        find_key: key ID → token and secret of a key that is good now: ``Tokens.signing_key``.
        clock: seconds since the epoch.
    """

    def __init__(self, find_key: FindKey, clock: Callable[[], float]) -> None:
        self._find_key = find_key
        self._clock = clock
        self._started = math.floor(clock())
        self._seen: dict[str, _UsedSignatures] = {}

    async def recognise(self, header: str, method: str, target: str, body: bytes) -> Principal:
        """Return who signed this request, and remember that it counted.

        Args:
            header: the value of ``X-Signature``.
            method: as it was received.
            target: as it was received, before any decoding.
            body: the bytes as they were received, before any decoding.

        Raises:
            TrustError: ``AUTH_REQUIRED`` with the reason ``malformed``, ``unknown``, ``expired``, ``early`` or
                ``repeated``.
            FetchError: ``TOO_MANY_SIGNATURES``.

        Trust: everything here is a stranger's.
        """
        signature = read_signature(header)
        if signature is None:
            raise refused("the signature is not KEYID:TIMESTAMP:HEX", "malformed")
        found = await self._find_key(signature.key_id)
        secret = found[1] if found else b""  # the work is done for an unknown key too, so that the time tells nothing
        is_good = await asyncio.to_thread(is_signed_by, signature, secret, method, target, body)
        if found is None or not is_good:
            raise refused("no key in use made this signature of this request", "unknown")
        now = self._clock()  # read here, so that signatures are remembered in the order of their time
        self._check_time(signature.timestamp, now)
        self._remember(signature.key_id, bytes.fromhex(signature.digest), now)
        token = found[0]
        return Principal(token.name, token.skills, token.scopes, token.token_id)

    def _check_time(self, timestamp: int, now: float) -> None:
        if now - timestamp > limits.SIGNATURE_WINDOW_SECONDS:
            raise refused(f"the request was signed more than {limits.SIGNATURE_WINDOW_SECONDS} s ago", "expired")
        if timestamp - now > limits.SIGNATURE_AHEAD_SECONDS:
            message = f"the signature's time is more than {limits.SIGNATURE_AHEAD_SECONDS} s ahead; compare the clocks"
            raise refused(message, "early")
        if timestamp < self._started:
            raise refused("the request was signed before this server was started; sign it again", "expired")

    def _remember(self, key_id: str, digest: bytes, now: float) -> None:
        for known in [known for known, seen in self._seen.items() if seen.is_over(now)]:
            del self._seen[known]
        seen = self._seen.setdefault(key_id, _UsedSignatures(deque(), set()))
        seen.forget(now)
        if digest in seen.digests:
            raise refused("the signature was used before", "repeated")
        if len(seen.digests) >= limits.SIGNATURES_KEPT:
            message = f"{limits.SIGNATURES_KEPT} requests in {_REMEMBERED_SECONDS} s were signed with one key"
            raise FetchError(
                "TOO_MANY_SIGNATURES", message, details={"retry_after": int(limits.SIGNATURE_WINDOW_SECONDS)}
            )
        seen.digests.add(digest)
        seen.order.append((now, digest))


class _UsedSignatures(NamedTuple):
    """The signatures of one key: in the order in which they came, with their time, and as a set."""

    order: deque[tuple[float, bytes]]
    digests: set[bytes]

    def is_over(self, now: float) -> bool:
        """Whether all can be forgotten."""
        return not self.order or now - self.order[-1][0] > _REMEMBERED_SECONDS

    def forget(self, now: float) -> None:
        """Drop those whose time has run out."""
        while self.order and now - self.order[0][0] > _REMEMBERED_SECONDS:
            self.digests.discard(self.order.popleft()[1])
