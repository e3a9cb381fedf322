"""Callable skills of this server: their descriptors, their grants, and warnings about missing grants."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.executions.callable_skill import CallableSkill, callable_code, is_code, make_callable_skill
from skillwire.executions.grants import needs_grant
from skillwire.model.digest import Digest
from skillwire.protocols.skill_sharing.codec import decode_descriptor
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, SkillDescriptor
from skillwire.protocols.skill_sharing.server import Sharing
from skillwire.server.log import GRANT, log_ungranted, log_unset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore


_KEPT: Final = 1_000
#: Access decides how callers authenticate, before a descriptor is read.
_NO_AUTH: Final = AuthConfig(type=AuthType.NONE)
#: The site in descriptors made here; it is never shown.
_PLACEHOLDER_SITE: Final = "https://skill.invalid"


class CallableSkills:
    """Makes callable skills, and keeps those that are used; ``blobs`` hold the descriptors that folders have."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[Digest, CallableSkill] = OrderedDict()

    def known(self, skill: Skill) -> CallableSkill | None:
        """Return the callable skill, if it was made before."""
        return self._kept.get(skill.artifact.digest)

    def of(self, skill: Skill) -> CallableSkill | None:
        """Return the callable skill; None for one that is not executed here. It may read a file."""
        if is_code(skill):
            return callable_code(skill)
        if skill.action is None or skill.sharing is None:
            return None
        kept = self.known(skill)
        if kept is not None:
            return kept
        callable_skill = make_callable_skill(skill, self.descriptor(skill))
        if callable_skill is not None:
            self._kept[skill.artifact.digest] = callable_skill
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return callable_skill

    def descriptor(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill, with URLs that mean nothing where it was made here."""
        described = Sharing({skill.name: skill}, skill.publisher, _PLACEHOLDER_SITE, _NO_AUTH).describe(skill.name)
        if not isinstance(described, Digest):
            return described
        return decode_descriptor(
            self._blobs.read(described) or b"", f"{_PLACEHOLDER_SITE}/{skill.name}/descriptor.json"
        )


#: Seconds for which a grant is believed when a call is accepted. The worker looks again, so a skill whose grant was
#: revoked meanwhile does not run.
_SECONDS: Final = 1.0
#: For how many skills a refusal is logged once only.
_LOGGED_SKILLS: Final = 1_000


class GrantCache:
    """Whether skills may run here, remembered for a second."""

    def __init__(self, may_run: Callable[[Skill], Awaitable[bool]]) -> None:
        self._may_run = may_run
        self._until: dict[Digest, float] = {}
        self._logged: set[Digest] = set()
        self._log = structlog.get_logger("skillwire.executions")

    def is_known(self, skill: Skill) -> bool:
        """Whether a skill certainly may run, without reading the grants."""
        if not needs_grant(skill):
            return True
        return self._until.get(skill.artifact.digest, 0.0) > asyncio.get_running_loop().time()

    async def allows(self, skill: Skill, *, is_call: bool) -> bool:
        """Return whether a skill may run. The first refused call of a skill is logged."""
        if self.is_known(skill):
            return True
        digest, loop = skill.artifact.digest, asyncio.get_running_loop()
        self._until = {digest: until for digest, until in self._until.items() if until > loop.time()}
        if await self._may_run(skill):
            self._until[digest] = loop.time() + _SECONDS
            return True
        if is_call and digest not in self._logged:
            if len(self._logged) >= _LOGGED_SKILLS:
                self._logged.clear()
            self._logged.add(digest)
            self._log.warning("a call was refused: not granted", skill=skill.name, fix=GRANT.format(skill.name))
        return False


async def log_publish_warnings(
    skills: Iterable[Skill],
    ungranted: Callable[[Iterable[Skill]], Awaitable[list[str]]],
    unset: Callable[[Iterable[str]], list[str]] | None,
) -> None:
    """Log the skills without the grant they need, and the secrets of the others without a value.

    ``unset`` is None where no code runs in this process. Raises StorageError (``DATABASE``, ``SECRETS_FILE``).
    """
    log, asking = structlog.get_logger("skillwire"), [skill for skill in skills if needs_grant(skill)]
    names = set(await ungranted(asking))
    log_ungranted(log, sorted(names))
    if unset is None:
        return
    secrets = {
        secret: skill.name
        for skill in asking
        if skill.action is not None and skill.name not in names
        for secret in skill.action.permissions.secrets
    }
    missing = await asyncio.to_thread(unset, secrets)
    log_unset(log, missing, sorted({secrets[secret] for secret in missing}))
