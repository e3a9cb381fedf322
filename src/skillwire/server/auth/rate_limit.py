"""How often anyone may ask: a token bucket for each caller, without a clock of its own.

A bucket holds ``burst`` requests and fills by ``per_minute`` a minute. Callers are principals, or addresses of those
who have not said who they are; of IPv6 the /64, since everyone has 2^64 of the rest. The table is bounded: a caller
who was silent so long that the bucket is full again is as good as unknown, and the longest silent is forgotten first.
Each of several servers counts for itself against its share of the limit.
The fields are those of draft-ietf-httpapi-ratelimit-headers before its 7th version, which clients read.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.model.access import Principal
from skillwire.model.url import without_zone

_MINUTE: Final = 60.0
_ROUNDING: Final = 1e-9  # who waited as long as was asked is not sent away for the last bit of a float
_PREFIX_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many requests a minute, and how many at once after a pause; each at least 1."""

    per_minute: float
    burst: int

    @property
    def per_second(self) -> float:
        """How fast a bucket fills."""
        return self.per_minute / _MINUTE


class Allowance(NamedTuple):
    """Whether a request may be answered. In seconds: ``reset`` until the bucket is full, ``retry_after`` to wait."""

    allowed: bool
    limit: int
    remaining: int
    reset: int
    retry_after: int

    def headers(self) -> dict[str, str]:
        """Return the header fields of the answer; ``Retry-After`` only with a refusal."""
        fields = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset),
        }
        return fields if self.allowed else {**fields, "Retry-After": str(self.retry_after)}


class RateLimiter:
    """Counts the requests of at most ``callers`` callers against one limit, which ``servers()`` servers share."""

    def __init__(
        self, limit: RateLimit, *, servers: Callable[[], int] = lambda: 1, callers: int = limits.RATE_LIMIT_CALLERS
    ) -> None:
        self._whole = limit
        self._servers = servers
        self._callers = callers
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller → requests left, when

    def __len__(self) -> int:
        return len(self._buckets)

    @property
    def _limit(self) -> RateLimit:
        """The share of this server."""
        whole, servers = self._whole, self._servers()
        return whole if servers == 1 else RateLimit(whole.per_minute / servers, max(1, whole.burst // servers))

    def look(self, caller: str, now: float) -> Allowance:
        """Return whether a request of ``caller`` would be answered, without counting one; arguments as of take."""
        return self._allowance(self._left(caller, now))

    def take(self, caller: str, now: float) -> Allowance:
        """Count one request of ``caller``; ``now`` is seconds of a clock. Nothing is filled where it runs backwards."""
        left = self._left(caller, now)
        allowance = self._allowance(left, 1)
        _, then = self._buckets.pop(caller, (left, now))
        self._buckets[caller] = (max(0.0, left - allowance.allowed), max(now, then))
        if len(self._buckets) > self._callers:
            self._buckets.popitem(last=False)
        return allowance

    def _left(self, caller: str, now: float) -> float:
        limit = self._limit
        left, then = self._buckets.get(caller, (limit.burst, now))
        return min(float(limit.burst), left + max(0.0, now - then) * limit.per_second)

    def _allowance(self, left: float, taken: int = 0) -> Allowance:
        limit = self._limit
        allowed = left >= 1.0 - _ROUNDING
        if allowed:
            left = max(0.0, left - taken)
        wait = 0 if allowed else max(1, math.ceil((1.0 - left) / limit.per_second))
        reset = math.ceil((limit.burst - left) / limit.per_second)
        return Allowance(allowed, limit.burst, max(0, math.floor(left)), reset, wait)


def caller_of(principal: Principal, address: str) -> str:
    """Return the name under which requests of ``principal`` from ``address`` are counted.

    Trust: an issuer may choose a principal's name, so each kind of name has its own prefix.
    """
    if principal.identity:
        return f"identity {principal.identity}"
    return f"principal {principal.name}" if principal.name else f"address {network_of(address)}"


@lru_cache(maxsize=1024)  # who calls, calls again
def network_of(address: str) -> str:
    """Return the address itself, or the /64 of an IPv6 one; what is no address stays as it is."""
    try:
        found = ipaddress.ip_address(without_zone(address))
    except ValueError:  # the name of a socket: all who come through it are one caller
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _PREFIX_BITS), strict=False))


@lru_cache(maxsize=1024)  # same
def is_this_machine(address: str) -> bool:
    """Whether an address is of the loopback interface, or no address but the name of a socket."""
    try:
        return ipaddress.ip_address(without_zone(address)).is_loopback
    except ValueError:
        return True
