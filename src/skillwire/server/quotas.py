"""How much one caller may ask: requests a minute, requests at one time, and executions that wait.

A bucket of a :class:`RateLimiter` holds ``burst`` requests and fills by ``per_minute`` a minute; time is an argument.
Callers are principals, or addresses of those who have not said who they are; of IPv6 the /64, since everyone has 2^64
of the rest. The table is bounded: a caller who was silent so long that the bucket is full again is as good as unknown,
and the longest silent is forgotten first. Each of several servers counts for itself against its share of the limit. The
fields are those of draft-ietf-httpapi-ratelimit-headers before its 7th version, which clients read.

A request that waits for a run or uploads a blob holds a connection and little else, so one address could take every
place. Each caller has a share. Anonymous callers of one network have twice that share, since neighbouring addresses
often belong to one person, and all anonymous callers together leave a quarter to authenticated ones. Trust: callers
are untrusted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, in_seconds
from skillwire.model.access import Principal
from skillwire.model.url import without_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.ports import Clock, ExecutionLedger


_MINUTE: Final = 60.0
_ROUNDING: Final = 1e-9  # who waited as long as was asked is not sent away for the last bit of a float
#: Bits of the IPv6 network that counts as one caller.
_IPV6_CALLER_BITS: Final = 64
#: What the name of a caller begins with: a token or a signing key, another principal, or an address without either.
IDENTITY: Final = "identity "
PRINCIPAL: Final = "principal "
ADDRESS: Final = "address "


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
        return f"{IDENTITY}{principal.identity}"
    return f"{PRINCIPAL}{principal.name}" if principal.name else f"{ADDRESS}{network_of(address)}"


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
    return str(ipaddress.IPv6Network((found, _IPV6_CALLER_BITS), strict=False))


@lru_cache(maxsize=1024)  # same
def is_this_machine(address: str) -> bool:
    """Whether an address is of the loopback interface, or no address but the name of a socket."""
    try:
        return ipaddress.ip_address(without_zone(address)).is_loopback
    except ValueError:
        return True


_ALL_ANONYMOUS: Final = "anonymous"
#: Prefix length of the networks whose addresses share a bound for anonymous callers, by IP version.
_NEIGHBOURHOOD_BITS: Final = {4: 24, 6: 48}


class ConcurrencyLimit:
    """Bounds requests at one time; ``bounds`` returns how many in all, and of one ``owner`` (a caller's name)."""

    def __init__(self, bounds: Callable[[], tuple[int, int]]) -> None:
        self._bounds = bounds
        self._taken: Counter[str] = Counter()
        self._all = 0

    def has_capacity(self, owner: str) -> bool:
        """Whether ``owner`` may have one more."""
        in_all, of_caller = self._bounds()
        shares = {owner: of_caller}
        if owner.startswith(ADDRESS):
            shares |= {_neighbourhood_of(owner): 2 * of_caller, _ALL_ANONYMOUS: in_all - in_all // 4}
        return self._all < in_all and all(self._taken[whose] < share for whose, share in shares.items())

    @contextmanager
    def occupy(self, owner: str) -> Iterator[None]:
        """Count one more while the context lasts, whatever the capacity."""
        whose = [owner, _neighbourhood_of(owner), _ALL_ANONYMOUS] if owner.startswith(ADDRESS) else [owner]
        self._all += 1
        self._taken.update(whose)
        try:
            yield
        finally:
            self._all -= 1
            self._taken.subtract(whose)
            for one in whose:
                if not self._taken[one]:
                    del self._taken[one]


@lru_cache(maxsize=1024)  # callers repeat
def _neighbourhood_of(owner: str) -> str:
    address = owner.removeprefix(ADDRESS)
    try:
        network = ipaddress.ip_network(address)
    except ValueError:  # the name of a socket
        return f"near {address}"
    return f"near {network.supernet(new_prefix=_NEIGHBOURHOOD_BITS[network.version])}"


#: Seconds for which a count is believed: when it lets a caller in, and when it does not, since ends are not noticed
#: between two counts.
_COUNT_SECONDS: Final = 5.0
_FULL_SECONDS: Final = 0.25
_FULL_PAUSE: Final = 10  # seconds until it is worth asking again


class QueueQuota:
    """Bounds executions that wait or run, by periodic counts of the ledger and what was accepted here since."""

    def __init__(self, ledger: ExecutionLedger, per_caller: int, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._per_caller = per_caller
        self._waiting: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()  # since the last count began
        self._all = 0
        self._counting = asyncio.Lock()
        self._counted = float("-inf")

    @property
    def is_known(self) -> bool:
        """Whether the numbers are of now, or nearly so."""
        return self._clock().steady - self._counted <= _COUNT_SECONDS

    async def refresh(self, caller: str) -> None:
        """Count again if it is time, or if ``caller`` would be refused by numbers that may be too high.

        A caller that the last count lets in does not wait for another caller's count.
        """
        if self.is_full(caller) or not (self.is_known or self._counting.locked()):
            async with self._counting:
                seconds = _FULL_SECONDS if self.is_full(caller) else _COUNT_SECONDS
                if self._clock().steady - self._counted > seconds:
                    self._counted = self._clock().steady
                    self._taken.clear()
                    counted = await self._ledger.waiting()
                    self._waiting = Counter(counted) + self._taken  # some of these twice, until the next count
                    self._all = self._waiting.total()
                    self._counted = self._clock().steady

    def is_full(self, caller: str) -> bool:
        """Whether too much waits already, as far as is known."""
        return self._waiting[caller] >= self._per_caller or self._all >= limits.EXECUTION_WAITING_IN_ALL

    def check(self, caller: str) -> None:
        """Refuse when too much waits already. Raises ConflictError (``TOO_MANY_EXECUTIONS``)."""
        if self._waiting[caller] >= self._per_caller:
            raise queue_full_error(f"{self._waiting[caller]:,} executions of this caller wait already")
        if self._all >= limits.EXECUTION_WAITING_IN_ALL:
            raise queue_full_error("the ledger holds as many executions that wait as it may")

    def take(self, caller: str) -> None:
        """Count one that was accepted."""
        self._waiting[caller] += 1
        self._taken[caller] += 1
        self._all += 1


def queue_full_error(message: str) -> ConflictError:
    """Return the error that asks the caller to try again later."""
    pause = in_seconds(_FULL_PAUSE)
    fix = f"Try again in {pause}. The operator of the server can let more run at once, see [executions]."
    return ConflictError("TOO_MANY_EXECUTIONS", message, fix=fix, details={"retry_after": _FULL_PAUSE})
