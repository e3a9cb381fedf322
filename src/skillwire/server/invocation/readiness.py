"""What an operator has still to do so that what is published runs here; said when a skill is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from skillwire.adapters.sqlite.open import has_database, open_grants
from skillwire.invocation.grants import needs_grant
from skillwire.server.log import log_ungranted, log_unset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.model.skill import Skill


class Readiness:
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
