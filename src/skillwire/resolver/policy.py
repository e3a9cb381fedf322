"""What may be installed from where: the policy that every ``add`` and ``update`` asks.

A skill is instructions that an agent will follow, so where it comes from is a decision, made by a person or
written down in settings, never by default. The policy is a value; asking a person is the caller's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from skillwire.model.origin_record import OriginRecord

Decision = Literal["allow", "ask", "refuse"]


@dataclass(frozen=True, slots=True)
class InstallPolicy:
    """Which origins may be installed from.

    Args:
        trusted_origins: origins (``https://example.com``) or whole hosts (``example.com``) that need no question.
        only_trusted: refuse every other origin instead of asking.
    """

    trusted_origins: frozenset[str] = frozenset()
    only_trusted: bool = False

    def decide(self, base: str, record: OriginRecord | None) -> Decision:
        """Decide about a publisher's place: its URL without the well-known part, and what is remembered of it."""
        url = parse_url(base)
        if {base, str(url.origin), url.host, url.authority} & self.trusted_origins:
            return "allow"
        if self.only_trusted:
            return "refuse"
        return "allow" if record is not None and record.accepted else "ask"
