"""What keeps a published skill from running here, as far as the server knows before anybody calls it.

What is found is told to the network, so it says what is wrong and names nothing: no secret, no path, no program.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError
from skillwire.server.invocation.readiness import ungranted_skills

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from skillwire.invocation.settings import ExecutionSettings
    from skillwire.model.skill import Skill

UNGRANTED: Final = "nobody granted it here"
UNSET: Final = "a secret that it needs is not set"
NO_SANDBOX: Final = "there is no sandbox to run it in"
#: Seconds until a sandbox that did not start is tried again.
_AGAIN: Final = 60.0


class Obstacles:
    """Looks for what is in the way of skills.

    Args:
        settings: of executions here.
        unset: returns those of some names of secrets that nobody has set.
        check_sandbox: starts a sandbox; raises ``TrustError`` where none starts.
        clock: seconds that never run backwards.
    """

    def __init__(
        self,
        settings: ExecutionSettings,
        unset: Callable[[Iterable[str]], list[str]],
        check_sandbox: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._unset = unset
        self._check_sandbox = check_sandbox
        self._clock = clock
        self._sandbox: bool | None = None
        self._looked = 0.0
        self._lock = threading.Lock()

    def find(self, skills: Iterable[Skill]) -> Mapping[str, str]:
        """Return what is in the way, by the name of the skill; those that can run are not in it. Called in a thread.

        Where this process runs nothing (``concurrency = 0``), only grants are looked at: the rest is another's.
        """
        acting = [skill for skill in skills if skill.action is not None]
        try:
            ungranted = set() if self._settings.grant_all else set(ungranted_skills(acting))
        except SkillwireError:  # what cannot be read grants nothing
            ungranted = {skill.name for skill in acting}
        found = dict.fromkeys(ungranted, UNGRANTED)
        if not self._settings.concurrency:
            return found
        for skill in acting:
            if skill.name not in found and (reason := self._obstacle(skill)) is not None:
                found[skill.name] = reason
        return found

    def _obstacle(self, skill: Skill) -> str | None:
        action = skill.action
        if action is None:
            return None
        if action.permissions.secrets and self._lacks(action.permissions.secrets):
            return UNSET
        return NO_SANDBOX if action.executor == "python" and not self._has_sandbox() else None

    def _lacks(self, secrets: Iterable[str]) -> bool:
        try:
            return bool(self._unset(secrets))
        except SkillwireError:
            return True

    def _has_sandbox(self) -> bool:
        with self._lock:
            now = self._clock()
            if self._sandbox or (self._sandbox is False and now < self._looked + _AGAIN):
                return self._sandbox
            try:
                self._check_sandbox()
            except SkillwireError:
                self._sandbox = False
            else:
                self._sandbox = True
            self._looked = now
            return self._sandbox
