"""What may be executed here, of what one who asks may use: it is executed by whoever publishes it, and granted.

Which skills are actions is found once for each audience, since all of them are unpacked for it. Grants come and go
while a revision stays, so they are looked at again after a while. Both are done in a thread, once for all who wait.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from skillwire.adapters.sqlite.open import has_database, open_grants
from skillwire.bridges.agent_card import executed
from skillwire.invocation.grants import needs_grant
from skillwire.server.shared_work import has_failed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.skill import Skill
    from skillwire.server.audience import Audience
    from skillwire.server.listings import Listings

#: For how long what was granted is taken to be so. Nobody runs anything by what is listed.
_SECONDS: Final = 10.0


class Runnable(NamedTuple):
    """The names of what may be executed; ``version`` is another for others."""

    names: tuple[str, ...]
    version: str


class _Look(NamedTuple):
    until: float
    task: asyncio.Task[Runnable]


class Running:
    """Knows what may be executed here; used by one event loop.

    Args:
        grant_all: whether all that is published may run, ungranted.
    """

    def __init__(self, *, grant_all: bool) -> None:
        self._grant_all = grant_all
        self._actions: WeakKeyDictionary[Listings, tuple[str, ...]] = WeakKeyDictionary()
        self._looks: WeakKeyDictionary[Listings, _Look] = WeakKeyDictionary()

    async def of(self, audience: Audience) -> Runnable:
        """Return what may be executed of what ``audience`` may use.

        Raises:
            StorageError: ``DATABASE``.
        """
        now = asyncio.get_running_loop().time()
        look = self._looks.get(audience.listings)
        if look is None or (look.task.done() and (look.until <= now or has_failed(look.task))):
            look = _Look(now + _SECONDS, asyncio.create_task(asyncio.to_thread(self._look, audience)))
            self._looks[audience.listings] = look
        return await asyncio.shield(look.task)  # who goes away leaves the work to the others who wait for it

    def _look(self, audience: Audience) -> Runnable:
        skills = audience.usable.skills
        actions = self._actions.get(audience.listings)
        if actions is None:
            called = (skill for skill in executed(skills.values()) if skill.sharing is not None)
            actions = self._actions[audience.listings] = tuple(skill.name for skill in called)
        names = tuple(self._granted(skills[name] for name in actions))
        return Runnable(names, hashlib.sha256("\n".join(names).encode()).hexdigest())

    def _granted(self, skills: Iterable[Skill]) -> Iterable[str]:
        grants = open_grants() if has_database() else None  # none is made for the sake of the question
        for skill in skills:
            if self._grant_all or not needs_grant(skill) or (grants is not None and grants.allows(skill)):
                yield skill.name
