"""How long a cached answer may be used without asking again. Spec: RFC 9111; ASD Client Implementation 5."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.cached_response import CachedResponse

_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_ALWAYS_ASK: Final = ("no-store", "no-cache")

#: However long a server allows, a list of skills is asked for again after this many seconds.
LONGEST_AGE: Final = 3600.0


def is_fresh(response: CachedResponse, now: float) -> bool:
    """Whether the answer may be used at ``now`` (seconds since the epoch) without asking again."""
    return 0 <= now - response.fetched_at < lifetime(response.headers)


def lifetime(headers: Mapping[str, str]) -> float:
    """Return for how many seconds an answer with these headers is fresh; 0 when the server does not say."""
    control = headers.get("cache-control", "").lower()
    match = _MAX_AGE.search(control)
    if match is None or any(word in control for word in _ALWAYS_ASK):
        return 0.0
    return min(float(match[1]), LONGEST_AGE)


def may_be_kept(headers: Mapping[str, str]) -> bool:
    """Whether the answer may be written to disk at all."""
    return "no-store" not in headers.get("cache-control", "").lower()
