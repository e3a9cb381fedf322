"""The map of a local network: which skills, agents and scenes are drawn, and what a drawing is made of.

Where everything stands is decided in :mod:`skillwire.web.lan_drawing`.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.web.lan_query import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.lan import LanScene, LanSkill

#: Status → its sign, as a path around (0, 0): told apart by shape, and by colour where that is seen.
SIGNS: Final = {
    "HEALTHY": "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
    "DEGRADED": "M0-6.5L7 6H-7z",
    "UNHEALTHY": "M0-7.5L7.5 0L0 7.5L-7.5 0z",
    "MAINTENANCE": "M-5.5-6h4v12h-4zM1.5-6h4v12h-4z",
    "OFFLINE": "M-5-5L5 5M5-5L-5 5",
    "UNKNOWN": "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0z",
}
_SKILLS_OF_AGENT: Final = 8


class Card(NamedTuple):
    """A skill: where it stands, what it says, in full and as far as there is room, and how it looks, as classes."""

    x: float
    y: float
    width: float
    skill: LanSkill
    name: str
    says: str
    told: str
    look: str
    sign: str


class Hub(NamedTuple):
    """An agent: its round node, its words and where they stand, and the paths to its skills."""

    x: float
    y: float
    radius: float
    agent_id: str
    name: str
    address: str
    says: str
    look: str
    skills: int
    text: tuple[float, float]
    anchor: str
    spokes: tuple[str, ...]
    more: tuple[float, float, int] | None


class Stop(NamedTuple):
    """A scene: its box, its words, and the number of its colour."""

    x: float
    y: float
    width: float
    height: float
    name: str
    full: str
    says: str
    colour: int


class Link(NamedTuple):
    """A line between a skill and a scene that it takes part in."""

    path: str
    colour: int
    role: str
    says: str


class Drawing(NamedTuple):
    """All of a map. ``form`` holds the classes of its form, ``wide`` or ``narrow`` first."""

    form: str
    width: float
    height: float
    hubs: tuple[Hub, ...]
    cards: tuple[Card, ...]
    stops: tuple[Stop, ...]
    links: tuple[Link, ...]


class Chosen(NamedTuple):
    """What is drawn of a network: skills by agent, scenes with their PRIMARY, and how much is not drawn."""

    agents: tuple[tuple[LanSkill, ...], ...]
    scenes: tuple[LanScene, ...]
    own: str
    agents_in_all: int
    skills_in_all: int

    @property
    def drawn_of_each(self) -> int:
        """How many skills of an agent are drawn at the most."""
        return min(_SKILLS_OF_AGENT, limits.CONSOLE_LAN_SKILLS // max(1, len(self.agents)))

    @property
    def drawn(self) -> int:
        """How many skills are drawn."""
        return sum(min(len(skills), self.drawn_of_each) for skills in self.agents)


def choose(skills: Sequence[LanSkill], scenes: Sequence[LanScene], own: str = "") -> Chosen:
    """Return what a map shows of ``skills``, sorted by agent: of many agents those in trouble, then those in scenes."""
    agents = [tuple(of_one) for _, of_one in groupby(skills, key=lambda skill: skill.agent_id)]
    kept = sorted(agents, key=_weight)[: limits.CONSOLE_LAN_AGENTS]
    kept.sort(key=lambda of_one: of_one[0].agent_id)
    names = {name for of_one in kept for skill in of_one for name in skill.scenes}
    keys = {(skill.agent_id, skill.skill_id) for of_one in kept for skill in of_one}
    shown = [
        scene
        for scene in scenes
        if scene.name in names or any((member.agent_id, member.skill_id) in keys for member in scene.members)
    ]
    return Chosen(tuple(kept), tuple(shown[: limits.CONSOLE_LAN_SCENES]), own, len(agents), len(skills))


def says_of(skill: LanSkill) -> str:
    """Return what a map says below a skill: its health, and what is to be known about it."""
    words = [STATUSES.get(skill.status, skill.status.capitalize())]
    words += [] if skill.is_verified else [skill.told_trust]
    words += ["stale"] if skill.is_stale else []
    return " · ".join(words)


def look_of(skill: LanSkill) -> str:
    """Return the classes of a skill's health and trust."""
    trust = {"verified": "", "unverified": " unverified", "not known": " hearsay"}[skill.trust]
    return f"{skill.status.lower()}{trust}{' stale' if skill.is_stale else ''}"


def agents_of(skills: Iterable[LanSkill]) -> int:
    """Return how many agents offer these skills."""
    return len({skill.agent_id for skill in skills})


def _weight(skills: Sequence[LanSkill]) -> tuple[bool, bool, str]:
    is_fine = all(skill.status == "HEALTHY" for skill in skills)
    return is_fine, not any(skill.scenes for skill in skills), skills[0].agent_id
