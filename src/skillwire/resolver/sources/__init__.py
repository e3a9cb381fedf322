"""The sources that skills are found in: one row for each protocol, and what a source is asked.

A protocol's consumer side is one module here and one row in :data:`SOURCES`. A source of your own is found by
``find``, ``skill`` and ``add`` as soon as it has a row::

    from skillwire.resolver.sources import SOURCES

    SOURCES["toy"] = ToySource            # toy:PLACE means all skills of a place, toy:PLACE#NAME one of them

Rows name their class as a text where its module is not needed by the install path.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.context import ResolveContext
    from skillwire.wire.exchange import Flow

AGENT_SKILLS: Final = "agent-skills"
SKILL_SHARING: Final = "skill-sharing"
SKILLS_RPC: Final = "skills-rpc"


class Lookup(NamedTuple):
    """What a source is asked: one skill of a place, or, with ``name`` None, all of them.

    Args:
        url: of an index; of an index, a registry or a descriptor of Skill Sharing; of an endpoint.
        name: of the skill. At an endpoint a name that ends in a dot means all skills of that namespace.
        old_url: where generations of Agent Skills Discovery before 0.2.0 have their index, if that is tried.
        source: the row of :data:`SOURCES`.
    """

    url: str
    name: str | None = None
    old_url: str | None = None
    source: str = AGENT_SKILLS

    @property
    def base(self) -> str:
        """What identifies the publisher's place: the URL without the well-known part."""
        return self.url.partition("/.well-known/")[0]


class Source(Protocol):
    """One protocol, asked with what one client holds."""

    def __init__(self, context: ResolveContext) -> None:
        """Ask with ``context``."""

    def find(self, lookup: Lookup, capability_type: str | None) -> Flow[list[SkillRef]]:
        """Return all skills of a place, or those of one capability type.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``. What is wrong with the index otherwise.
        """

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the skill that is named, or all where none is; nothing where the place does not have it.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``, ``SKILL_NOT_FOUND``. What is wrong with the index otherwise.
        """


#: Source → its class, or ``module:class`` of one that is imported when it is first asked.
SOURCES: Final[dict[str, type[Source] | str]] = {
    AGENT_SKILLS: "agent_skills:AgentSkills",
    SKILL_SHARING: "skill_sharing:SkillSharing",
    SKILLS_RPC: "skills_rpc:SkillsRpc",
}
#: Their references have forms of their own; those of every other source begin with its name and a colon.
BUILT_IN: Final = frozenset(SOURCES)


def open_source(name: str, context: ResolveContext) -> Source:
    """Return the source of this name, asked with ``context``."""
    row = SOURCES[name]
    if isinstance(row, str):
        module, _, kind = row.partition(":")
        row = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    source: Source = row(context)
    return source
