"""An answer that is kept for a later request, which may ask whether it still holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """An answer kept from an earlier request. ``fetched_at`` is in seconds since the epoch."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    fetched_at: float
