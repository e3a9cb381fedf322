"""What is searched for in a list of published skills, and what a search gives.

Cursors of lists: opaque to clients, and nothing that their holder does not know, so they are not signed.

A cursor is bytes in base64url without padding, in the one form in which we write it. Trust: it is a stranger's.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class FacetValue(NamedTuple):
    """One value of a facet, and how many of the skills that match have it."""

    value: str
    skills: int


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: words in any order, chosen values of facets, and which part of the hits.

    ``facets`` is facet → values; a skill has to have one of the values of each facet that is named. ``after`` is
    the ``next`` of the page before, and opaque. Empty ``text`` means all, sorted by name. Values of facets are counted
    when ``counted``.
    """

    text: str = ""
    facets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limit: int = 20
    after: str | None = None
    counted: bool = True


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Names of the skills that were found, best first; ``total`` counts the hits of all pages.

    ``facets`` is facet → its values, most frequent first, over the hits of all pages. ``next`` leads to the next
    page and is None on the last one.
    """

    names: tuple[str, ...]
    total: int
    facets: Mapping[str, tuple[FacetValue, ...]] = field(default_factory=dict)
    next: str | None = None


_FORM: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def seal(data: bytes) -> str:
    """Return the cursor that holds ``data``."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unseal(cursor: str, max_length: int) -> bytes:
    """Return what is in a cursor of at most so many characters; nothing for what is none of ours."""
    if len(cursor) > max_length or not _FORM.fullmatch(cursor):
        return b""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        return b""
    return data if seal(data) == cursor else b""
