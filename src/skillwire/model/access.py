"""Who may see what. One rule for every protocol: :meth:`skillwire.model.catalog.Catalog.visible_to`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Access(StrEnum):
    """How far a skill is visible. Spec: SSP §3."""

    PUBLIC = "public"
    RESTRICTED = "restricted"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone who asks. ``grants`` are the names of the skills that were opened to it."""

    name: str
    grants: frozenset[str] = frozenset()


#: Someone who has not said who they are.
ANONYMOUS = Principal("")
