"""Searches over published skills, their results, and the cursors of lists.

A cursor is bytes in base64url without padding, in one canonical form. Its holder knows all that it contains, so it is
not signed. Trust: cursors are hostile.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class FacetValue(NamedTuple):
    """One value of a facet, and the number of matching skills that have it."""

    value: str
    skills: int


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: words in any order; a skill must have one of the chosen values of each named facet.

    Empty ``text`` matches all, sorted by name. ``after`` is ``next`` of the previous page. ``order`` is one of
    :data:`ORDERS`, where it is not the best first.
    """

    text: str = ""
    facets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limit: int = 20
    after: str | None = None
    counted: bool = True
    order: str = ""


#: By name; the last two only on a registry, which knows when packages changed and how often they are fetched.
ORDERS: Final = ("name", "updated", "downloads")


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Names of the found skills, best first; ``total`` and ``facets`` (most frequent first) cover all pages."""

    names: tuple[str, ...]
    total: int
    facets: Mapping[str, tuple[FacetValue, ...]] = field(default_factory=dict)
    next: str | None = None


class Explanation(NamedTuple):
    """Why skills match: name → column (``name``, ``description``, ``tags``, ``files``) → pieces, and which match.

    ``corrections`` are words of the query that no skill has → the similar word of the hits.
    """

    matches: Mapping[str, Mapping[str, Sequence[tuple[str, bool]]]] = {}
    corrections: Mapping[str, str] = {}


_FORM: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def seal(data: bytes) -> str:
    """Return the cursor that holds ``data``."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unseal(cursor: str, max_length: int) -> bytes:
    """Return the bytes in a cursor of at most ``max_length`` characters; empty for any other text."""
    if len(cursor) > max_length or not _FORM.fullmatch(cursor):
        return b""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        return b""
    return data if seal(data) == cursor else b""
