"""The local network for operators: a map, the scenes and a table, and the part of the page that is live."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.web.environment import render
from skillwire.web.labels import Instant, past
from skillwire.web.lan_map import SIGNS, STATUSES, agents_of, choose, draw, look_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.lan import LanMember, LanScene, LanSkill, LanSnapshot
    from skillwire.web.environment import Frame
    from skillwire.web.lan_map import LanFilters

_VIA: Final = {"multicast": "multicast", "mdns": "mDNS", "cache": "cache"}


class LanRow(NamedTuple):
    """A line of the table."""

    skill: LanSkill
    key: str
    mark: str
    status: str
    look: str
    sign: str
    heard: Instant | None
    via: str


class Choice(NamedTuple):
    """A status to filter by: its name, its class, its sign, how many there are, where choosing it leads."""

    label: str
    look: str
    sign: str
    skills: int
    url: str
    is_chosen: bool


class SceneRow(NamedTuple):
    """A scene of the list: who is its PRIMARY, and who would take over."""

    name: str
    primary: LanMember | None
    backups: tuple[LanMember, ...]


class Page(NamedTuple):
    """Which part of the table is shown; links are None where there is nothing."""

    rows: tuple[LanRow, ...]
    first: int
    last: int
    total: int
    before: str | None
    after: str | None


def lan_page(
    snapshot: LanSnapshot, now: float, filters: LanFilters, frame: Frame, *, part: bool = False, trouble: str = ""
) -> str:
    """Return the page; with ``part`` only the live part. ``trouble`` is the reason why there is no network."""
    found = filters.matching(snapshot.skills)
    skills = [skill for skill in found if not filters.status or skill.status == filters.status]
    scenes = sorted(snapshot.scenes, key=lambda scene: scene.name)
    if filters.status or filters.words:
        names = {name for skill in skills for name in skill.scenes}
        scenes = [scene for scene in scenes if scene.name in names]
    chosen = choose(skills, scenes, snapshot.agent_id)
    values: dict[str, Any] = {
        "filters": filters,
        "choices": _choices(found, filters),
        "numbers": (len(snapshot.skills), agents_of(snapshot.skills), len(snapshot.scenes)),
        "is_suspected": snapshot.is_suspected,
        "trouble": trouble,
        "drawings": [draw(chosen, is_wide=True), draw(chosen, is_wide=False)] if skills else [],
        "chosen": chosen,
        "signs": SIGNS,
        "legend": [(STATUSES[name], name.lower(), sign) for name, sign in SIGNS.items()],
        "scenes": [_scene(scene) for scene in scenes[: limits.CONSOLE_LAN_LISTED_SCENES]],
        "more_scenes": max(0, len(scenes) - limits.CONSOLE_LAN_LISTED_SCENES),
        "page": _page(skills, filters, now),
        "live": filters.url(page=filters.page),
        "now": now,
    }
    return render("lan_live.html" if part else "lan.html", frame, values)


def _choices(found: Sequence[LanSkill], filters: LanFilters) -> list[Choice]:
    counts = Counter(skill.status for skill in found)
    found_as = [status for status in STATUSES if counts[status] or status == filters.status]
    return [
        Choice("All", "", "", len(found), filters.url(status=""), not filters.status),
        *(
            Choice(STATUSES[one], one.lower(), SIGNS[one], counts[one], filters.url(status=one), one == filters.status)
            for one in found_as
        ),
    ]


def _page(skills: Sequence[LanSkill], filters: LanFilters, now: float) -> Page:
    size = limits.CONSOLE_LAN_ROWS
    number = min(filters.page, max(1, -(-len(skills) // size)))
    first = (number - 1) * size
    rows = tuple(_row(skill, now) for skill in skills[first : first + size])
    last = first + len(rows)
    return Page(
        rows,
        first + 1,
        last,
        len(skills),
        filters.url(page=number - 1) if first else None,
        filters.url(page=number + 1) if last < len(skills) else None,
    )


def _row(skill: LanSkill, now: float) -> LanRow:
    return LanRow(
        skill,
        f"{skill.agent_id}/{skill.skill_id}",
        mark_of(skill),
        STATUSES.get(skill.status, skill.status.capitalize()),
        look_of(skill),
        SIGNS.get(skill.status, SIGNS["UNKNOWN"]),
        past(skill.heard, now) if skill.heard else None,
        _VIA[skill.found_via.value],
    )


def mark_of(skill: LanSkill) -> str:
    """Return what differs when something of a skill has changed that is to be shown."""
    return " ".join((skill.status, skill.version, skill.endpoint, skill.trust, str(skill.is_stale)))


def _scene(scene: LanScene) -> SceneRow:
    primary = next((member for member in scene.members if member.role == "PRIMARY"), None)
    return SceneRow(scene.name, primary, tuple(member for member in scene.members if member is not primary))
