"""Places for those whose requests take a while: so many in all, and of them a share for each caller.

Who waits for a run, or sends a blob, holds a connection and little else, so one who means ill could take every place
with what one address may open. A caller has a share. Of those who do not say who they are, a neighbourhood has twice
that, since addresses next to each other belong to one hand more often than not; and together they leave a quarter to
those who do say. Trust: strangers ask.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRANGER: Final = "address "
_STRANGERS: Final = "strangers"
#: Of the address or network of a stranger, by its version: whose neighbourhood is a network of so many bits.
_NEAR_BITS: Final = {4: 24, 6: 48}


class Places:
    """Places of one kind. An ``owner`` is as of :func:`skillwire.server.auth.rate_limit.caller_of`.

    Args:
        bounds: returns how many there are, and how many one caller may have.
    """

    def __init__(self, bounds: Callable[[], tuple[int, int]]) -> None:
        self._bounds = bounds
        self._taken: Counter[str] = Counter()
        self._all = 0

    def has_room(self, owner: str) -> bool:
        """Whether there is a place for ``owner``."""
        in_all, of_caller = self._bounds()
        shares = {owner: of_caller}
        if owner.startswith(_STRANGER):
            shares |= {_near(owner): 2 * of_caller, _STRANGERS: in_all - in_all // 4}
        return self._all < in_all and all(self._taken[whose] < share for whose, share in shares.items())

    @contextmanager
    def taking(self, owner: str) -> Iterator[None]:
        """Take a place, whether there is room or not."""
        whose = [owner, _near(owner), _STRANGERS] if owner.startswith(_STRANGER) else [owner]
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


@lru_cache(maxsize=1024)  # who calls, calls again
def _near(owner: str) -> str:
    """Return the name of a stranger's neighbourhood."""
    address = owner.removeprefix(_STRANGER)
    try:
        network = ipaddress.ip_network(address)
    except ValueError:  # the name of a socket
        return f"near {address}"
    return f"near {network.supernet(new_prefix=_NEAR_BITS[network.version])}"
