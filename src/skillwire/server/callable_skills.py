"""The offers of what is published, each made when it is first asked for and kept by its artifact's digest.

Whether skills may run here, as it was a moment ago: a grant is not looked up for each call.

What an operator has still to do so that what is published runs here; said when a skill is published.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.adapters.sqlite.open import has_database, open_grants
from skillwire.executions.callable_skill import callable_code, is_code, make_callable_skill
from skillwire.executions.grants import needs_grant
from skillwire.model.digest import Digest
from skillwire.protocols.skill_sharing.codec import decode_descriptor
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.protocols.skill_sharing.server import Sharing
from skillwire.server.log import GRANT, log_ungranted, log_unset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor


_KEPT: Final = 1_000
#: Where a descriptor that was made here is said to lie: nobody is told it.
_PLACEHOLDER_SITE: Final = "https://skill.invalid"


class CallableSkills:
    """Makes offers.

    Args:
        blobs: where the descriptors that folders have are.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[Digest, CallableSkill] = OrderedDict()

    def known(self, skill: Skill) -> CallableSkill | None:
        """Return the offer of a skill, if it was made."""
        return self._kept.get(skill.artifact.digest)

    def of(self, skill: Skill) -> CallableSkill | None:
        """Return the offer of a skill; None for one that is not executed here. It may read a file."""
        if is_code(skill):
            return callable_code(skill)
        if skill.action is None or skill.sharing is None:
            return None
        kept = self.known(skill)
        if kept is not None:
            return kept
        offer = make_callable_skill(skill, self.descriptor(skill))
        if offer is not None:
            self._kept[skill.artifact.digest] = offer
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return offer

    def descriptor(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill, with URLs that mean nothing where it was made here."""
        described = Sharing({skill.name: skill}, skill.publisher, _PLACEHOLDER_SITE, _NO_AUTH).describe(skill.name)
        if not isinstance(described, Digest):
            return described
        return decode_descriptor(
            self._blobs.read(described) or b"", f"{_PLACEHOLDER_SITE}/{skill.name}/descriptor.json"
        )


#: How callers of guarded skills authenticate is decided by access, before an offer is looked at.
_NO_AUTH: Final = AuthConfig(type=AuthType.NONE)


#: For how long a grant is believed when a call is accepted. Whoever runs it looks again, so what was taken back
#: meanwhile does not run.
_SECONDS: Final = 1.0
#: For so many skills it is remembered that the operator was told.
_LOGGED_SKILLS: Final = 1_000


class GrantCache:
    """Whether skills may run here.

    Args:
        may_run: whether somebody agreed that a skill runs here. Called in a thread.
    """

    def __init__(self, may_run: Callable[[Skill], bool]) -> None:
        self._may_run = may_run
        self._until: dict[Digest, float] = {}
        self._told: set[Digest] = set()
        self._log = structlog.get_logger("skillwire.executions")

    def is_known(self, skill: Skill) -> bool:
        """Whether it is known, without a look, that a skill may run."""
        if not needs_grant(skill):
            return True
        return self._until.get(skill.artifact.digest, 0.0) > asyncio.get_running_loop().time()

    async def look(self, skill: Skill) -> bool:
        """Return whether a skill may run; look if that is not known. The first time that it may not is logged."""
        if self.is_known(skill):
            return True
        now = asyncio.get_running_loop().time()
        self._until = {digest: until for digest, until in self._until.items() if until > now}
        if not await asyncio.to_thread(self._may_run, skill):
            self._tell(skill)
            return False
        self._until[skill.artifact.digest] = asyncio.get_running_loop().time() + _SECONDS
        return True

    def _tell(self, skill: Skill) -> None:
        if skill.artifact.digest in self._told:
            return
        if len(self._told) >= _LOGGED_SKILLS:
            self._told.clear()
        self._told.add(skill.artifact.digest)
        self._log.warning("a call was refused: not granted", skill=skill.name, fix=GRANT)


class PublishWarnings:
    """Looks at skills that are new, or others than before.

    Args:
        grant_all: whether all of them may run, ungranted.
        unset: returns those of some names of secrets that nobody has set; None where no code runs in this process.
    """

    def __init__(self, *, grant_all: bool, unset: Callable[[Iterable[str]], list[str]] | None) -> None:
        self._grant_all = grant_all
        self._unset = unset
        self._log = structlog.get_logger("skillwire")

    def tell(self, skills: Iterable[Skill]) -> None:
        """Log which of them nobody granted, and which secrets of the others nobody has set. Called in a thread.

        Raises:
            StorageError: ``DATABASE``, ``SECRETS_FILE``.
        """
        asking = [skill for skill in skills if needs_grant(skill)]
        ungranted = set() if self._grant_all else set(ungranted_skills(asking))
        log_ungranted(self._log, sorted(ungranted))
        if self._unset is None:
            return
        wanted = {
            name: skill.name
            for skill in asking
            if skill.action is not None and skill.name not in ungranted
            for name in skill.action.permissions.secrets
        }
        names = self._unset(wanted)
        log_unset(self._log, names, sorted({wanted[name] for name in names}))


def ungranted_skills(skills: Iterable[Skill]) -> list[str]:
    """Return the names of those that nobody granted as they are, though they need it."""
    asking = [skill for skill in skills if needs_grant(skill)]
    if not asking or not has_database():  # none is made for the sake of the question
        return [skill.name for skill in asking]
    grants = open_grants()
    return [skill.name for skill in asking if not grants.allows(skill)]
