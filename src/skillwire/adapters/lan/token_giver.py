"""The keys that members of a scene are given: tokens of the publisher's store, few, short-lived, each for one skill.

Spec: SDP §4.3; docs/decisions/0033.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.protocols.skill_discovery.connection_secrets import SecretRequest
    from skillwire.registry.tokens import Tokens

#: Seconds that a key is good for; one that is asked for again in its first half is the same.
KEY_SECONDS: Final = 3600.0
_KEPT: Final = 1024
#: What the names of these keys begin with, and seconds that they stay in the list of tokens after their end.
_NAMED: Final = "LAN agent "
_LISTED: Final = 86_400.0
_REFUSED: Final = "DISC_004"


class TokenGiver:
    """Makes the keys that are handed out: tokens of the store, for one skill and one hour.

    Of new ones there are so many within an hour, in all and for each host, and they leave the store a day after their
    end. It may be called in several threads.

    Args:
        tokens: of the publisher.
        skill_name: returns the name of the skill that a request is about; None when it is not offered.
        clock: seconds since the epoch.
    """

    def __init__(
        self, tokens: Tokens, skill_name: Callable[[SecretRequest], str | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._tokens = tokens
        self._skill_name = skill_name
        self._clock = clock
        self._given: dict[tuple[str, str], ConnectionSecret] = {}
        self._alone = threading.Lock()
        self._new: Counter[str] = Counter()
        self._counted_since = float("-inf")

    def __call__(self, asked: SecretRequest, host: str) -> ConnectionSecret | None:
        """Return a key; the one that was given before while most of its time is to come, and nobody took it back.

        Args:
            asked: whose sender is proven.
            host: that it comes from.

        Raises:
            TrustError: ``DISC_004`` when enough new keys were made within an hour.
        """
        with self._alone:
            return self._give(asked, host)

    def _give(self, asked: SecretRequest, host: str) -> ConnectionSecret | None:
        name = self._skill_name(asked)
        if name is None:
            return None
        now, whose = self._clock(), (asked.agent_id, name)
        known = self._given.pop(whose, None)
        if known is not None and known.expires - now > KEY_SECONDS / 2 and self._tokens.recognise(known.api_key):
            self._given[whose] = known
            return known
        self._count(host, now)
        issued = self._tokens.issue(f"{_NAMED}{asked.agent_id}"[:128], skills=[name], expires_in=KEY_SECONDS)
        secret = ConnectionSecret(issued.secret, now + KEY_SECONDS)
        self._given[whose] = secret
        if len(self._given) > _KEPT:
            del self._given[next(iter(self._given))]
        return secret

    def _count(self, host: str, now: float) -> None:
        """Count one more new key."""
        if not 0 <= now - self._counted_since < KEY_SECONDS:
            self._counted_since = now
            self._new.clear()
            self._tokens.forget_ended(_NAMED, kept=_LISTED)
        if self._new[host] >= limits.LAN_SECRET_KEYS_PER_HOST or self._new.total() >= limits.LAN_SECRET_KEYS:
            raise TrustError(_REFUSED, "enough keys were made for now; ask in an hour")
        self._new[host] += 1
