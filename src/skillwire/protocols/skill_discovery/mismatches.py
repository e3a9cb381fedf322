"""Whoever speaks otherwise than we do: in the other profile, or with another group key. Nothing of that is heard.

Two halves of a network that were set up differently see an empty network, each of them, and nothing is wrong with any
datagram. So what cannot be read or verified is looked at once more: would it be good if *we* were set up otherwise? The
answer counts for nothing but a word to people, told once for each host and kind, and for so many hosts in all: anybody
can make it up. Spec: SDP §10.1; specs §3 "Profiles".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.codec import decode
from skillwire.protocols.skill_discovery.events import Unheard
from skillwire.protocols.skill_discovery.messages import Profile, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.wire.node import Peer

_OTHER: Final = {Profile.OPEN: Profile.SIGNED, Profile.SIGNED: Profile.OPEN}
#: HMAC-SHA256 in hexadecimal; a signature by a key of one's own is longer.
_GROUP: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: Hosts of which it is told, for each kind.
_TOLD: Final = 16


class Mismatches:
    """Looks at what a gate has refused.

    Args:
        profile: ours.
        has_group_key: whether all whom we hear share a key.
        tell: is told of each host and kind once.
    """

    def __init__(self, profile: Profile, *, has_group_key: bool, tell: Callable[[Unheard], object]) -> None:
        self._profile = profile
        self._has_group_key = has_group_key
        self._tell = tell
        self._told: dict[str, set[str]] = {}

    def of_form(self, data: bytes, source: Peer) -> str:
        """Return why a datagram is refused that cannot be read in our profile. Trust: it is a stranger's."""
        other = _OTHER[self._profile]
        try:
            if isinstance(decode(data, other), Unknown):
                return "malformed"
        except DecodeError:
            return "malformed"
        return self._said("another profile", f"speaks the profile {other}, and we {self._profile}", source)

    def of_forged(self, signature: str, source: Peer) -> str:
        """Return why a signature is refused that the key of its signer does not verify. Trust: as above."""
        if not self._has_group_key:
            return "forged"
        is_group = _GROUP.fullmatch(signature) is not None
        theirs = "another group key than we" if is_group else "a key of its own, and we with a group key"
        return self._said("another group key", f"signs with {theirs}", source)

    def of_stranger(self, signature: str, source: Peer) -> str:
        """Return why a signature is refused whose key we do not have; empty when it may yet be shown to us."""
        if _GROUP.fullmatch(signature) is None:
            return ""
        return self._said("another group key", "signs with a group key, and we have none", source)

    def _said(self, reason: str, said: str, source: Peer) -> str:
        told = self._told.setdefault(reason, set())
        if source.host not in told and len(told) < _TOLD:
            told.add(source.host)
            self._tell(Unheard(source, said))
        return reason
