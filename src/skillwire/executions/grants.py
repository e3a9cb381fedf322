"""Grants: nothing of a skill's folder is executed until a person has allowed it.

A grant names the digest of the artifact and the set of permissions, so any change of the folder or of what it asks for
needs a new grant; nothing is granted by name. The address of an upstream API is one of the permissions. Skills that a
person works on, and functions of the publisher's own process, execute nothing of a folder and need no grant.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import NotFoundError, UsageError, did_you_mean
from skillwire.model.execution import Grant
from skillwire.model.skill import GRANTED, Action, Skill

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.ports import GrantStore


#: A digest, or at least so much of its beginning as lists show.
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{12,64}")


class GrantChanges(NamedTuple):
    """What a skill has and asks for beyond what was granted of it last."""

    since: Grant
    network: tuple[str, ...]
    secrets: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]


class Grants:
    """The permissions to run skills on this machine."""

    def __init__(self, store: GrantStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    async def allows(self, skill: Skill) -> bool:
        """Whether the skill may run as it is: it has a grant, or needs none."""
        if skill.action is None:
            return False
        return not needs_grant(skill) or await self._store.has(str(skill.artifact.digest), skill.action.permissions)

    async def agree(self, skill: Skill, by: str) -> Grant:
        """Grant the skill as it is, with the permissions it asks for. Raises UsageError (``GRANT_NEEDLESS``)."""
        action = granted_action(skill)
        files = {file.path: str(file.digest) for file in skill.files}
        digest = str(skill.artifact.digest)
        grant = Grant(digest, action.permissions, skill.name, skill.version, by, self._clock(), files)
        await self._store.add(grant)
        return grant

    async def find(self, which: str) -> tuple[Grant, ...]:
        """Return the grants of a skill's name or a digest's beginning. Raises NotFoundError (``GRANT_NOT_FOUND``)."""
        is_digest = _DIGEST.fullmatch(which) is not None
        found = tuple(
            grant
            for grant in await self._store.all()
            if (grant.digest.startswith(which) if is_digest else grant.skill == which)
        )
        if not found:
            name = which.rstrip("/").rpartition("/")[2]  # of a folder, as it was granted by
            fix = did_you_mean(name, {grant.skill for grant in await self._store.all()})
            raise NotFoundError("GRANT_NOT_FOUND", f"nothing was granted of {ascii(which)[:80]}", fix=fix)
        return found

    async def take_back(self, which: str) -> tuple[Grant, ...]:
        """Revoke the grants that :meth:`find` finds; return them. Raises NotFoundError (``GRANT_NOT_FOUND``)."""
        found = await self.find(which)
        for digest in dict.fromkeys(grant.digest for grant in found):
            await self._store.remove(digest)
        return found

    async def all(self) -> Sequence[Grant]:
        """Return every grant, oldest first."""
        return await self._store.all()

    async def changes(self, skill: Skill) -> GrantChanges | None:
        """Return what is new in a skill since the last grant of one of its name; None when there was none."""
        earlier = [grant for grant in await self._store.all() if grant.skill == skill.name]
        if not earlier or skill.action is None:
            return None
        since, wanted = earlier[-1], skill.action.permissions
        files = {file.path: str(file.digest) for file in skill.files}
        return GrantChanges(
            since,
            network=tuple(sorted(set(wanted.network) - set(since.permissions.network))),
            secrets=tuple(sorted(set(wanted.secrets) - set(since.permissions.secrets))),
            new=tuple(sorted(files.keys() - since.files.keys())),
            changed=tuple(sorted(path for path in files.keys() & since.files if files[path] != since.files[path])),
            gone=tuple(sorted(since.files.keys() - files.keys())),
        )


def needs_grant(skill: Skill) -> bool:
    """Whether something that the skill's folder says would be executed."""
    return skill.action is not None and skill.action.executor in GRANTED


def granted_action(skill: Skill) -> Action:
    """Return how a skill is executed, which needs a grant. Raises UsageError (``GRANT_NEEDLESS``)."""
    if skill.action is None:
        raise UsageError("GRANT_NEEDLESS", f"{skill.name} is instructions: nothing of it is executed here")
    if skill.action.executor not in GRANTED:
        who = "a person does" if skill.action.executor == "human" else "the publisher's own program does"
        raise UsageError("GRANT_NEEDLESS", f"{skill.name} runs no code of its folder: {who} what it says")
    return skill.action
