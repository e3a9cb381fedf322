"""The local network for operators: a map, the scenes and a table, and the part of the page that is live.

On the map (``?status=unhealthy&q=weather``) an agent is a round node from which its skills fan out. Scenes are in the
middle, between the agents of the left and those of the right, so that no link crosses a word. A narrow screen gets a
form of its own: one agent below the other, the scenes at the right edge. All figures are units of the drawing; a screen
as wide as the form shows each as a pixel.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from skillwire import limits
from skillwire.model.lan import USABLE_STATUSES, LanScene, LanSkill, LanSnapshot
from skillwire.web.address import single_fields
from skillwire.web.environment import Frame, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.model.lan import DhtBucket, DhtStatus

#: Statuses as the page calls them, in the order in which they are offered.
STATUSES: Final = {
    "HEALTHY": "Healthy",
    "DEGRADED": "Degraded",
    "UNHEALTHY": "Unhealthy",
    "MAINTENANCE": "Maintenance",
    "OFFLINE": "Offline",
    "UNKNOWN": "Unknown",
}
_FIELDS: Final = 16
_LENGTH: Final = 128
_DIGITS: Final = 6


class LanFilters(NamedTuple):
    """What a person looks for: a status, words that a skill has to hold, and a page of the table, from 1."""

    status: str = ""
    words: str = ""
    page: int = 1

    def url(self, **changes: object) -> str:
        """Return the query of the page with these changes, with its question mark; the first page of the table."""
        wanted = self._replace(page=1)._replace(**changes)  # type: ignore[arg-type]  # names of fields
        pairs = [("status", wanted.status.lower()), ("q", wanted.words), ("page", str(wanted.page))]
        shown = [(name, value) for name, value in pairs if value and (name, value) != ("page", "1")]
        return f"?{urlencode(shown)}" if shown else "?"

    def matching(self, skills: Iterable[LanSkill]) -> list[LanSkill]:
        """Return the skills that hold all the words, whatever their status, by agent and name."""
        words = self.words.lower().split()
        found = []
        for skill in skills:
            parts = (skill.skill_id, skill.agent_id, skill.endpoint, *skill.capabilities, *skill.scenes)
            text = "\n".join(parts).lower()
            if all(word in text for word in words):
                found.append(skill)
        return sorted(found, key=lambda skill: (skill.agent_id, skill.skill_id))


def read_lan_filters(query_string: bytes) -> LanFilters:
    """Return what the query of a URL asks for; what is not known or too long is passed over. Trust: untrusted."""
    found = single_fields(query_string, _FIELDS, _LENGTH)
    status, page = found.get("status", "").upper(), found.get("page", "")
    is_page = page.isascii() and page.isdigit() and len(page) <= _DIGITS
    return LanFilters(status if status in STATUSES else "", found.get("q", ""), max(1, int(page)) if is_page else 1)


#: Status → its sign, as a path around (0, 0): distinguished by shape, and by colour where that is seen.
SIGNS: Final = {
    "HEALTHY": "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
    "DEGRADED": "M0-6.5L7 6H-7z",
    "UNHEALTHY": "M0-7.5L7.5 0L0 7.5L-7.5 0z",
    "MAINTENANCE": "M-5.5-6h4v12h-4zM1.5-6h4v12h-4z",
    "OFFLINE": "M-5-5L5 5M5-5L-5 5",
    "UNKNOWN": "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0z",
}
_SKILLS_OF_AGENT: Final = 8
#: Buckets that are drawn: a million nodes fill about twenty.
_BUCKETS: Final = 24


class Card(NamedTuple):
    """A skill: its place, its line of text, in full and shortened, its look, and whether scenes are at its right."""

    x: float
    y: float
    width: float
    skill: LanSkill
    name: str
    summary: str
    short: str
    look: str
    sign: str
    is_left: bool


class Hub(NamedTuple):
    """An agent: its round node, its words and where they stand, and the paths to its skills."""

    x: float
    y: float
    radius: float
    agent_id: str
    name: str
    address: str
    summary: str
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
    summary: str
    colour: int


class Link(NamedTuple):
    """A line between a skill and a scene that it takes part in."""

    path: str
    colour: int
    role: str
    summary: str


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

    def weight(skills: Sequence[LanSkill]) -> tuple[bool, bool, str]:
        is_fine = all(skill.status == "HEALTHY" for skill in skills)
        return is_fine, not any(skill.scenes for skill in skills), skills[0].agent_id

    agents = [tuple(of_one) for _, of_one in groupby(skills, key=lambda skill: skill.agent_id)]
    kept = sorted(agents, key=weight)[: limits.CONSOLE_LAN_AGENTS]
    kept.sort(key=lambda of_one: of_one[0].agent_id)
    names = {name for of_one in kept for skill in of_one for name in skill.scenes}
    keys = {(skill.agent_id, skill.skill_id) for of_one in kept for skill in of_one}
    shown = [
        scene
        for scene in scenes
        if scene.name in names or any((member.agent_id, member.skill_id) in keys for member in scene.members)
    ]
    return Chosen(tuple(kept), tuple(shown[: limits.CONSOLE_LAN_SCENES]), own, len(agents), len(skills))


def status_text(skill: LanSkill) -> str:
    """Return the text of a map below a skill: its health, and what is to be known about it."""
    words = [STATUSES.get(skill.status, skill.status.capitalize())]
    words += [] if skill.is_verified else [skill.trust_label]
    words += ["stale"] if skill.is_stale else []
    return " · ".join(words)


def look_of(skill: LanSkill) -> str:
    """Return the classes of a skill's health and trust."""
    trust = {"verified": "", "unverified": " unverified", "not known": " unknown-trust"}.get(skill.trust, "")
    return f"{skill.status.lower()}{trust}{' stale' if skill.is_stale else ''}"


_COLOURS: Final = 6
_CARD: Final = 38
_STEP: Final = 46
_MORE: Final = 22
_LETTER: Final = 7.3  # of the names of skills
_SMALL: Final = 6.1  # of what is said below them
_BOLD: Final = 6.9  # of what is said of those in trouble
_BOLD_STATUSES: Final = frozenset({"DEGRADED", "UNHEALTHY"})
_MARGIN: Final = 6
_SPREAD: Final = 7.0  # between links at one side of a scene


def draw(chosen: Chosen, *, is_wide: bool) -> Drawing:
    """Return the map in the form for wide screens, or the one for narrow ones."""
    return _Wide(chosen).draw() if is_wide else _Narrow(chosen).draw()


class _Form:
    """What both forms have in common: blocks of agents below each other, and links to scenes."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen
        self.hubs: list[Hub] = []
        self.cards: list[Card] = []

    def shown(self, skills: Sequence[LanSkill]) -> list[LanSkill]:
        """Return those of an agent's skills that are drawn: where there are many, those in trouble before others."""
        first = sorted(skills, key=lambda skill: (skill.status == "HEALTHY", not skill.scenes, skill.skill_id))
        return sorted(first[: self.chosen.drawn_of_each], key=lambda skill: skill.skill_id)

    def card(self, skill: LanSkill, x: float, y: float, width: float, *, is_left: bool = True) -> Card:
        name = _short(skill.skill_id, int((width - 38) / _LETTER))
        summary = status_text(skill)
        short = _short(summary, int((width - 36) / (_BOLD if skill.status in _BOLD_STATUSES else _SMALL)))
        return Card(x, y, width, skill, name, summary, short, look_of(skill), skill.status, is_left)

    def words(self, skills: Sequence[LanSkill], room: int) -> tuple[str, str, str, str, str]:
        """Return an agent's ID, and its name of ``room`` letters, address, health and look."""
        agent_id = skills[0].agent_id
        usable = sum(skill.status in USABLE_STATUSES for skill in skills)
        healthy = sum(skill.status == "HEALTHY" for skill in skills)
        return (
            agent_id,
            _short(agent_id, room),
            "this server" if self.chosen.own and agent_id == self.chosen.own else skills[0].host,
            "all healthy" if healthy == len(skills) else f"{healthy} of {len(skills)} healthy",
            "none" if not usable else "some" if healthy < len(skills) else "all",
        )

    def ties(self) -> dict[str, list[tuple[Card, str]]]:
        """Return scene → the cards that take part in it, by height, with their roles there."""
        roles = {
            (scene.name, member.agent_id, member.skill_id): member.role
            for scene in self.chosen.scenes
            for member in scene.members
        }
        found: dict[str, list[tuple[Card, str]]] = {scene.name: [] for scene in self.chosen.scenes}
        for card in sorted(self.cards, key=lambda card: card.y):
            skill = card.skill
            for name, tied in found.items():
                role = roles.get((name, skill.agent_id, skill.skill_id), "")
                if role or name in skill.scenes:
                    tied.append((card, role))
        return found

    def drawing(self, form: str, size: tuple[float, float], x: float, letters: tuple[int, int]) -> Drawing:
        """Return the drawing, once its agents are placed: scenes at ``x``, with links to their skills.

        ``size`` is the width of the drawing, and of a scene; ``letters`` the room for the name of a scene, and for its
        provider below it, where 0 leaves that out.
        """
        ties = self.ties()
        height = 44 if letters[1] else 28
        middles = self.middles(ties, height + (14 if letters[1] else 10))
        stops = {}
        for number, scene in enumerate(self.chosen.scenes):
            first = next((member for member in scene.members if member.role == "PRIMARY"), None)
            others = f" + {len(scene.members) - 1}" if len(scene.members) > 1 else ""
            summary = (
                _short(f"by {first.skill_id}{others}" if first else "no provider", letters[1]) if letters[1] else ""
            )
            name, top = _short(scene.name, letters[0]), middles[scene.name] - height / 2
            stops[scene.name] = Stop(x, top, size[1], height, name, scene.name, summary, number % _COLOURS)
        lowest = max([self.height(), *(stop.y + stop.height + _MARGIN for stop in stops.values())])
        links = tuple(self.links(ties, stops))
        return Drawing(form, size[0], lowest, tuple(self.hubs), tuple(self.cards), tuple(stops.values()), links)

    def middles(self, ties: Mapping[str, Sequence[tuple[Card, str]]], step: float) -> dict[str, float]:
        """Return scene → the height of its middle: near its skills, and no two within ``step``, in that order."""
        wished = {name: sum(card.y for card, _ in tied) / max(1, len(tied)) + _CARD / 2 for name, tied in ties.items()}
        placed: dict[str, float] = {}
        lowest = step / 2
        for name in sorted(wished, key=lambda name: (wished[name], name)):
            placed[name] = max(wished[name], lowest)
            lowest = placed[name] + step
        # What was pushed below the last skill goes up again, as far as there is room.
        highest = max(self.height(), lowest - step / 2) - step / 2
        for name in reversed(placed):
            placed[name] = min(placed[name], highest)
            highest = placed[name] - step
        return placed

    def height(self) -> float:
        cards = [card.y + _CARD for card in self.cards]
        more = [hub.more[1] + _MARGIN for hub in self.hubs if hub.more]
        below = [hub.text[1] + 34 for hub in self.hubs]
        return max([*cards, *more, *below, 0.0]) + _MARGIN

    def links(self, ties: Mapping[str, Sequence[tuple[Card, str]]], stops: Mapping[str, Stop]) -> list[Link]:
        """Return the lines between skills and scenes; several at one side of a scene are spread."""
        found = []
        for name, tied in ties.items():
            stop = stops[name]
            for is_left in (True, False):
                side = [(card, role) for card, role in tied if card.is_left is is_left]
                gap = min(_SPREAD, (stop.height - 10) / max(1, len(side)))
                for number, (card, role) in enumerate(side):
                    y = stop.y + stop.height / 2 + (number - (len(side) - 1) / 2) * gap
                    start = (card.x + card.width if is_left else card.x, card.y + _CARD / 2)
                    end = (stop.x if is_left else stop.x + stop.width, y)
                    what = f"{card.skill.skill_id}: {role or 'takes part'} in {name}"
                    found.append(Link(_curve(*start, *end), stop.colour, role.lower() or "part", what))
        return found


class _Wide(_Form):
    """Agents at the left and at the right, scenes between them."""

    HUB, RADIUS, CARDS, WIDTH, SCENE, GAP = 62.0, 25.0, 142.0, 212.0, 168.0, 74.0

    def draw(self) -> Drawing:
        inner = 2 * self.GAP + self.SCENE if self.chosen.scenes else 70.0
        beside = self.CARDS + self.WIDTH
        is_alone = len(self.chosen.agents) == 1
        width = beside + (self.GAP + self.SCENE + _MARGIN if is_alone else inner + beside)
        depths = [float(_MARGIN), float(_MARGIN)]
        for skills in self.chosen.agents:
            side = 0 if is_alone or depths[0] <= depths[1] else 1
            depths[side] = self._place(skills, depths[side], width, is_left=side == 0) + 24
        form = "wide alone" if is_alone else "wide" if self.chosen.scenes else "wide bare"
        return self.drawing(form, (width, self.SCENE), beside + self.GAP, (20, 25))

    def _place(self, skills: Sequence[LanSkill], top: float, width: float, *, is_left: bool) -> float:
        shown = self.shown(skills)
        more = len(skills) - len(shown)
        tall = len(shown) * _STEP - (_STEP - _CARD) + (_MORE if more else 0)
        room = max(tall, 2 * self.RADIUS + 54)
        first = top + (room - tall) / 2
        middle = top + room / 2 - 25
        x = self.CARDS if is_left else width - self.CARDS - self.WIDTH
        hub = self.HUB if is_left else width - self.HUB
        cards = [
            self.card(skill, x, first + number * _STEP, self.WIDTH, is_left=is_left)
            for number, skill in enumerate(shown)
        ]
        self.cards += cards
        edge = x if is_left else x + self.WIDTH
        from_hub = hub + (self.RADIUS if is_left else -self.RADIUS)
        spokes = tuple(_curve(from_hub, middle, edge, card.y + _CARD / 2) for card in cards)
        words, at = self.words(skills, 17), (hub, middle + self.RADIUS + 17)
        counted = (x + 12, first + tall - 5, more) if more else None
        self.hubs.append(Hub(hub, middle, self.RADIUS, *words, len(skills), at, "middle", spokes, counted))
        return top + room


class _Narrow(_Form):
    """One agent below the other, its skills below it, scenes at the right edge."""

    CARDS, WIDTH, RADIUS, GAP, SCENE, ALL = 36.0, 190.0, 15.0, 36.0, 70.0, 336.0

    def draw(self) -> Drawing:
        depth = float(_MARGIN)
        for skills in self.chosen.agents:
            depth = self._place(skills, depth) + 20
        return self.drawing("narrow", (self.ALL, self.SCENE), self.ALL - self.SCENE - 2, (9, 0))

    def _place(self, skills: Sequence[LanSkill], top: float) -> float:
        shown = self.shown(skills)
        more = len(skills) - len(shown)
        width = self.WIDTH if self.chosen.scenes else self.ALL - self.CARDS - 2
        first = top + 2 * self.RADIUS + 12
        cards = [self.card(skill, self.CARDS, first + number * _STEP, width) for number, skill in enumerate(shown)]
        self.cards += cards
        hub = (self.RADIUS + 2, top + self.RADIUS + 1, self.RADIUS)
        start = hub[1] + self.RADIUS
        spokes = tuple(
            f"M{hub[0]:.1f} {start:.1f}V{card.y + _CARD / 2 - 8:.1f}q0 8 8 8H{self.CARDS:.1f}" for card in cards
        )
        below = first + len(shown) * _STEP - (_STEP - _CARD)
        counted = (self.CARDS + 2, below + 17, more) if more else None
        words, at = self.words(skills, 34), (hub[0] + 24, hub[1] - 2)
        self.hubs.append(Hub(*hub, *words, len(skills), at, "start", spokes, counted))
        return below + (_MORE if more else 0)


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


_VIA: Final = {"multicast": "multicast", "mdns": "mDNS", "cache": "cache"}


class DhtView(NamedTuple):
    """The node of the server in the DHT: its state, None until it has started, and a note for operators."""

    status: DhtStatus | None
    note: str = ""

    @property
    def rows(self) -> list[tuple[DhtBucket, str]]:
        """The buckets that are drawn, the farthest first, each with what is said of it."""
        buckets = () if self.status is None else self.status.buckets[:_BUCKETS]
        return [(one, f"{one.prefix} {'bit' if one.prefix == 1 else 'bits'} in common") for one in buckets]


def lan_page(
    snapshot: LanSnapshot | None,
    now: float,
    filters: LanFilters,
    frame: Frame,
    *,
    port: int,
    part: bool = False,
    trouble: str = "",
    dht: DhtView | None = None,
) -> str:
    """Return the page; with ``part`` only the live part.

    ``port`` is the UDP port of the network; ``trouble`` is the reason why there is no network; ``snapshot`` is None for
    a server that is in the DHT alone.
    """
    has_lan = snapshot is not None
    snapshot = snapshot or LanSnapshot("", now, (), ())
    found = filters.matching(snapshot.skills)
    skills = [skill for skill in found if not filters.status or skill.status == filters.status]
    scenes = sorted(snapshot.scenes, key=lambda scene: scene.name)
    if filters.status or filters.words:
        names = {name for skill in skills for name in skill.scenes}
        scenes = [scene for scene in scenes if scene.name in names]
    chosen = choose(skills, scenes, snapshot.agent_id)
    counts = Counter[str](skill.status for skill in found)
    choices = [("", "All", len(found))]
    choices += [(one, STATUSES[one], counts[one]) for one in STATUSES if counts[one] or one == filters.status]
    values: dict[str, Any] = {
        "filters": filters,
        "choices": choices,
        "numbers": (len(snapshot.skills), len({skill.agent_id for skill in snapshot.skills}), len(snapshot.scenes)),
        "is_suspected": snapshot.is_suspected,
        "trouble": trouble,
        "drawings": [draw(chosen, is_wide=True), draw(chosen, is_wide=False)] if skills else [],
        "chosen": chosen,
        "signs": SIGNS,
        "statuses": STATUSES,
        "scenes": scenes[: limits.CONSOLE_LAN_LISTED_SCENES],
        "more_scenes": max(0, len(scenes) - limits.CONSOLE_LAN_LISTED_SCENES),
        "page": _page(skills, filters),
        "live": filters.url(page=filters.page),
        "has_lan": has_lan,
        "port": port,
        "dht": dht,
        "own": () if dht is None or dht.status is None else dht.status.own[: limits.CONSOLE_LAN_ROWS],
        "now": now,
    }
    return render("lan_live.html" if part else "lan.html", frame, values)


def _page(skills: Sequence[LanSkill], filters: LanFilters) -> dict[str, Any]:
    """Return the shown part of the table; links are None where there is nothing."""
    size = limits.CONSOLE_LAN_ROWS
    number = min(filters.page, max(1, -(-len(skills) // size)))
    first = (number - 1) * size
    last = min(first + size, len(skills))
    return {
        "rows": [(skill, look_of(skill), mark_of(skill), _VIA[skill.found_via.value]) for skill in skills[first:last]],
        "first": first + 1,
        "last": last,
        "total": len(skills),
        "before": filters.url(page=number - 1) if first else None,
        "after": filters.url(page=number + 1) if last < len(skills) else None,
    }


def mark_of(skill: LanSkill) -> str:
    """Return a text that differs when the page has to show a change of a skill."""
    return " ".join((skill.status, skill.version, skill.endpoint, skill.trust, str(skill.is_stale)))
