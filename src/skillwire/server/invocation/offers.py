"""The offers of what is published, each made when it is first asked for and kept by its artifact's digest."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from skillwire.invocation.code import code_offer, is_code
from skillwire.invocation.offer import make_offer
from skillwire.model.digest import Digest
from skillwire.protocols.skill_sharing.codec import decode_descriptor
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.protocols.skill_sharing.server import Sharing

if TYPE_CHECKING:
    from skillwire.invocation.offer import Offer
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor

_KEPT: Final = 1_000
#: Where a descriptor that was made here is said to lie: nobody is told it.
_NOWHERE: Final = "https://skill.invalid"


class Offers:
    """Makes offers.

    Args:
        blobs: where the descriptors that folders have are.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[Digest, Offer] = OrderedDict()

    def known(self, skill: Skill) -> Offer | None:
        """Return the offer of a skill, if it was made."""
        return self._kept.get(skill.artifact.digest)

    def of(self, skill: Skill) -> Offer | None:
        """Return the offer of a skill; None for one that is not executed here. It may read a file."""
        if is_code(skill):
            return code_offer(skill)
        if skill.action is None or skill.sharing is None:
            return None
        kept = self.known(skill)
        if kept is not None:
            return kept
        offer = make_offer(skill, self.descriptor(skill))
        if offer is not None:
            self._kept[skill.artifact.digest] = offer
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return offer

    def descriptor(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill, with URLs that mean nothing where it was made here."""
        described = Sharing({skill.name: skill}, skill.publisher, _NOWHERE, _NOBODY).describe(skill.name)
        if not isinstance(described, Digest):
            return described
        return decode_descriptor(self._blobs.read(described) or b"", f"{_NOWHERE}/{skill.name}/descriptor.json")


#: How callers of guarded skills authenticate is decided by access, before an offer is looked at.
_NOBODY: Final = AuthConfig(type=AuthType.NONE)
