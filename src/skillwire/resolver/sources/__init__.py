"""The sources that skills are found in: the ladder, one row for each protocol, nearest first.

A protocol's consumer side is one module here and one row in :data:`SOURCES`. A source of your own is found by
``find``, ``show`` and ``add`` as soon as it has a row::

    from skillwire.resolver.sources import SOURCES, SourceRow

    SOURCES["toy"] = SourceRow(ToySource)  # toy:PLACE names all skills of a place, toy:PLACE#NAME one of them

A row names its class as a text where the install path does without the module.
"""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple, Protocol

from skillwire.model.ref import SkillRef
from skillwire.resolver.context import ResolveContext
from skillwire.wire.exchange import Flow

FOLDER: Final = "folder"
GIT: Final = "git"
LAN: Final = "lan"
AGENT_SKILLS: Final = "agent-skills"
SKILL_SHARING: Final = "skill-sharing"
SKILLS_RPC: Final = "skills-rpc"


class Lookup(NamedTuple):
    """A question to a source: one skill of a place, or, with ``name`` None, all of them.

    Args:
        url: of an index, a registry, a descriptor or an endpoint; the path of a folder.
        name: of the skill. At an endpoint a name that ends in a dot selects all skills of that namespace.
        old_url: the index of Agent Skills Discovery before 0.2.0, if that is tried.
        source: the row of :data:`SOURCES`.
        version: a version, a range, or a digest; empty for the present version.
    """

    url: str
    name: str | None = None
    old_url: str | None = None
    source: str = AGENT_SKILLS
    version: str = ""

    @property
    def base(self) -> str:
        """The URL without the well-known part, which identifies the publisher's place."""
        return self.url.partition("/.well-known/")[0]


class Source(Protocol):
    """One protocol, asked with the context of one client."""

    def __init__(self, context: ResolveContext) -> None:
        """Ask with ``context``."""

    def find(self, lookup: Lookup, capability_type: str | None) -> Flow[list[SkillRef]]:
        """Return all skills of a place; none of a capability type where the protocol has no such types.

        Raises ``INDEX_NOT_FOUND`` where the place has no index.
        """
        return [] if capability_type is not None else (yield from self.resolve(lookup))

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the named skill, or all without a name; nothing, or ``SKILL_NOT_FOUND``, where it is missing."""


class SourceRow(NamedTuple):
    """A source's class, or ``module:class`` of one imported when it is first asked."""

    kind: type[Source] | str


SOURCES: Final[dict[str, SourceRow]] = {
    FOLDER: SourceRow("folder:Folder"),
    GIT: SourceRow("git:GitSource"),
    LAN: SourceRow("lan:LanSource"),
    AGENT_SKILLS: SourceRow("agent_skills:AgentSkills"),
    SKILL_SHARING: SourceRow("skill_sharing:SkillSharing"),
    SKILLS_RPC: SourceRow("skills_rpc:SkillsRpc"),
}
#: Their references have forms of their own; those of every other source begin with its name and a colon.
BUILT_IN: Final = frozenset(SOURCES)


def open_source(name: str, context: ResolveContext) -> Source:
    """Return the source of this name, asked with ``context``."""
    kind = SOURCES[name].kind
    if isinstance(kind, str):
        module, _, class_name = kind.partition(":")
        kind = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)
    source: Source = kind(context)
    return source
