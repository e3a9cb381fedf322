"""Documents that carry full URLs: each depends on the address under which the client reached us.

One is made when it is first asked for and kept with its audience's other lists.

Trust: without a base URL the address is what a stranger writes into ``Host``, and a list of 10,000 skills takes half
a second to make. So lists for addresses that were not seen yet are made only so often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.messages import JSON
from skillwire.server.auth.rate_limit import RateLimit, RateLimiter
from skillwire.server.problems import ProblemError, too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skillwire.protocols.agent_skills.server import CachePolicy
    from skillwire.server.context import RequestContext
    from skillwire.server.responses import CachedResponse

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
    """Makes documents that carry the address of the site; ``base_url`` is empty when each request says the address."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._new_addresses = RateLimiter(_NEW_ADDRESSES)

    async def respond(self, context: RequestContext, path: str, made: SiteUrlBody) -> CachedResponse:
        """Return the response with a document; ``path`` tells it from others of the same address.

        Raises:
            ProblemError: too many addresses are asked for (429).
        """
        key, view = f"{path} {context.site}", context.view
        if not self._base_url and len(made.skills) >= _MANY and not view.indexes.has(key):
            allowance = self._new_addresses.take("", context.clock())
            if not allowance.allowed:
                message = "too many addresses are asked for; --base-url names the right one"
                raise ProblemError(too_many(message, allowance))
        return await view.indexes.prepare(key, made)
