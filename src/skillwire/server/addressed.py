"""Documents that carry full URLs: each depends on the address under which the client reached us.

One is made when it is first asked for and kept with its audience's other lists.

Trust: without a base URL the address is what a stranger writes into ``Host``, and a list of 10,000 skills takes half
a second to make. So lists for addresses that were not seen yet are made only so often.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.messages import JSON
from skillwire.server.auth.rate_limit import RateLimit, RateLimiter
from skillwire.server.http import site_of
from skillwire.server.problems import too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import Scope, Send

    from skillwire.protocols.agent_skills.server import CachePolicy
    from skillwire.server.access import AccessView

#: So many skills make a list that takes a while.
_MANY: Final = 200
_NEW_ADDRESSES: Final = RateLimit(30, 30)


@dataclass(frozen=True, slots=True)
class SiteUrlBody:
    """An answer that is made of ``skills`` when it is wanted, and kept as the indexes of sites are."""

    skills: Collection[str]
    encode: Callable[[], bytes]
    cache: CachePolicy
    media_type: str = JSON


class SiteUrlCache:
    """Sends documents that carry the address of the site.

    Args:
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._new_addresses = RateLimiter(_NEW_ADDRESSES)

    async def send(self, path: str, made: SiteUrlBody, audience: AccessView, scope: Scope, send: Send) -> None:
        """Answer a GET or HEAD; ``path`` tells this document from others of the same address."""
        key = f"{path} {site_of(scope, self._base_url)}"
        if not self._base_url and len(made.skills) >= _MANY and not audience.listings.has(key):
            allowance = self._new_addresses.take("", time.monotonic())
            if not allowance.allowed:
                problem = too_many("too many addresses are asked for; --base-url names the right one", allowance)
                await problem.send(send, head=scope["method"] == "HEAD")
                return
        prepared = await audience.listings.prepare(key, made)
        await prepared.send(scope, send)
