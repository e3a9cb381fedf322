"""The address of the page of the local network, and what it asks for: ``?status=unhealthy&q=weather&page=2``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.lan import LanSkill

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
        found = (skill for skill in skills if all(word in _text_of(skill) for word in words))
        return sorted(found, key=lambda skill: (skill.agent_id, skill.skill_id))


def read_lan_filters(query_string: bytes) -> LanFilters:
    """Return what the query of a URL asks for; what is not known or too long is passed over. Trust: a stranger's."""
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), max_num_fields=_FIELDS)
    except ValueError:  # too many fields
        return LanFilters()
    found = {name: value.strip() for name, value in pairs if len(value) <= _LENGTH}
    status, page = found.get("status", "").upper(), found.get("page", "")
    is_page = page.isascii() and page.isdigit() and len(page) <= _DIGITS
    return LanFilters(status if status in STATUSES else "", found.get("q", ""), max(1, int(page)) if is_page else 1)


def _text_of(skill: LanSkill) -> str:
    parts = (skill.skill_id, skill.agent_id, skill.endpoint, *skill.capabilities, *skill.scenes)
    return "\n".join(parts).lower()
