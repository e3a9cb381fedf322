"""Who may see what. One rule for every protocol, in :class:`skillwire.model.catalog.Catalog`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Access(StrEnum):
    """How far a skill is visible. Spec: SSP §3."""

    PUBLIC = "public"
    RESTRICTED = "restricted"
    PRIVATE = "private"


#: The grant of all skills.
EVERY_SKILL: Final = "*"
#: The scope of whoever may see and end every execution, and work on every task.
OPERATOR: Final = "operator"
#: The scope of whoever may work on the tasks that wait for people.
TASKS: Final = "tasks"
#: What an API key or a signing key may be allowed beside the skills that it opens.
SCOPES: Final = (OPERATOR, TASKS)


class Principal(NamedTuple):
    """Someone who asks.

    ``grants`` are the names of the skills that were opened to it, ``*`` for all. ``scopes`` are what else it may do.
    ``identity`` tells it from others where its name need not, as with two tokens of one name.
    """

    name: str
    grants: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    identity: str = ""

    def has(self, skill: str) -> bool:
        """Whether the skill of this name was opened to it."""
        return skill in self.grants or EVERY_SKILL in self.grants


#: Someone who has not said who they are.
ANONYMOUS = Principal("")
