"""Turns to ask endpoints that hints lead to: few of one host, few in all, and not those that are something else.

Anybody can tell by mDNS that there is more at the printer or at the router, under as many names as he likes, and every
agent of the network would go and ask. So it is the endpoint that counts and not the agent: each is asked once in a
while, and once in ten minutes after it had something else to say. The path that is ours counts apart from those that
a hint makes up, so that a made-up one keeps nobody from being asked. Spec: specs §3 "mDNS".
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from skillwire import limits

#: Seconds for which what was told is good, and in which turns are counted.
GOOD: Final = 60.0
#: Seconds for which an endpoint is let alone that answers with something else.
BACK_OFF: Final = 600.0


class Door(NamedTuple):
    """Where something is asked: address, port, and whether by the path that is ours."""

    host: str
    port: int
    is_ours: bool


class Turns:
    """Which endpoints were asked lately; times are seconds of the steady clock."""

    def __init__(self) -> None:
        self._closed: dict[Door, float] = {}
        self._taken: list[tuple[float, str]] = []

    def may_ask(self, door: Door, now: float) -> bool:
        """Whether an endpoint may be asked now."""
        if self._closed.get(door, now) > now:
            return False
        self._taken = [(at, host) for at, host in self._taken if at > now - GOOD]
        of_host = Counter(host for _, host in self._taken)[door.host]
        return of_host < limits.LAN_DETAILS_PER_HOST and len(self._taken) < limits.LAN_DETAILS_PER_MINUTE

    def take(self, door: Door, now: float) -> bool:
        """Take the turn of an endpoint, which is closed until somebody says otherwise; False when it has none."""
        if not self.may_ask(door, now):
            return False
        self._taken.append((now, door.host))
        self._closed = {one: until for one, until in self._closed.items() if until > now}
        self._closed[door] = now + BACK_OFF
        return True

    def again_soon(self, door: Door, now: float) -> None:
        """Take note that an endpoint is what a hint says that it is, or that there is nothing yet."""
        self._closed[door] = now + GOOD
