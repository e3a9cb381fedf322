"""The local network for operators: a map, the scenes and a table, and the part of the page that is live."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.web.environment import render
from skillwire.web.labels import past
from skillwire.web.lan_map import SIGNS, STATUSES, choose, draw, look_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.lan import LanSkill, LanSnapshot
    from skillwire.web.environment import Frame
    from skillwire.web.lan_map import LanFilters

_VIA: Final = {"multicast": "multicast", "mdns": "mDNS", "cache": "cache"}


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
    counts = Counter(skill.status for skill in found)
    choices = [("", "All", len(found))]
    choices += [(one, STATUSES[one], counts[one]) for one in STATUSES if counts[one] or one == filters.status]
    values: dict[str, Any] = {
        "filters": filters,
        "choices": [
            {
                "label": label,
                "look": status.lower(),
                "sign": SIGNS.get(status, ""),
                "skills": number,
                "url": filters.url(status=status),
                "is_chosen": status == filters.status,
            }
            for status, label, number in choices
        ],
        "numbers": (len(snapshot.skills), len({skill.agent_id for skill in snapshot.skills}), len(snapshot.scenes)),
        "is_suspected": snapshot.is_suspected,
        "trouble": trouble,
        "drawings": [draw(chosen, is_wide=True), draw(chosen, is_wide=False)] if skills else [],
        "chosen": chosen,
        "signs": SIGNS,
        "legend": [(STATUSES[name], name.lower(), sign) for name, sign in SIGNS.items()],
        "scenes": [
            {
                "name": scene.name,
                "primary": next((member for member in scene.members if member.role == "PRIMARY"), None),
                "backups": [member for member in scene.members if member.role != "PRIMARY"],
            }
            for scene in scenes[: limits.CONSOLE_LAN_LISTED_SCENES]
        ],
        "more_scenes": max(0, len(scenes) - limits.CONSOLE_LAN_LISTED_SCENES),
        "page": _page(skills, filters, now),
        "live": filters.url(page=filters.page),
        "now": now,
    }
    return render("lan_live.html" if part else "lan.html", frame, values)


def _page(skills: Sequence[LanSkill], filters: LanFilters, now: float) -> dict[str, Any]:
    """Return the shown part of the table; links are None where there is nothing."""
    size = limits.CONSOLE_LAN_ROWS
    number = min(filters.page, max(1, -(-len(skills) // size)))
    first = (number - 1) * size
    last = min(first + size, len(skills))
    return {
        "rows": [
            {
                "skill": skill,
                "key": f"{skill.agent_id}/{skill.skill_id}",
                "mark": mark_of(skill),
                "status": STATUSES.get(skill.status, skill.status.capitalize()),
                "look": look_of(skill),
                "sign": SIGNS.get(skill.status, SIGNS["UNKNOWN"]),
                "heard": past(skill.heard, now) if skill.heard else None,
                "via": _VIA[skill.found_via.value],
            }
            for skill in skills[first:last]
        ],
        "first": first + 1,
        "last": last,
        "total": len(skills),
        "before": filters.url(page=number - 1) if first else None,
        "after": filters.url(page=number + 1) if last < len(skills) else None,
    }


def mark_of(skill: LanSkill) -> str:
    """Return a text that differs when the page has to show a change of a skill."""
    return " ".join((skill.status, skill.version, skill.endpoint, skill.trust, str(skill.is_stale)))
