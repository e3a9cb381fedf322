"""An answer that is kept for a later request, which may ask whether it still holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class CachedResponse(NamedTuple):
    """An answer kept from an earlier request.

    Args:
        url: that was asked.
        fetched_at: seconds since the epoch.
        answered_by: the URL that answered, where redirects led elsewhere.
    """

    url: str
    body: bytes
    headers: Mapping[str, str]
    fetched_at: float
    answered_by: str = ""

    @property
    def base_url(self) -> str:
        """What relative URLs in the body are resolved against. Spec: RFC 3986 §5.1.3."""
        return self.answered_by or self.url
