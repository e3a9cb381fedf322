"""What is remembered of a publisher's place between two runs."""

from __future__ import annotations

from typing import NamedTuple


class OriginRecord(NamedTuple):
    """What is remembered of a publisher's place.

    Args:
        first_seen: RFC 3339 in UTC.
        accepted: whether the user has agreed to install from there.
        generation: the highest index generation that it has given, such as ``0.2.0``.
    """

    first_seen: str
    accepted: bool = False
    generation: str | None = None
