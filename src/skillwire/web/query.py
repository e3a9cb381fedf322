"""A list's address and the search that it stands for: ``?q=words&kind=scripts&tag=data&after=CURSOR``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from skillwire import limits
from skillwire.model.search import SearchQuery
from skillwire.registry.facets import FACETS

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = "q"
_AFTER: Final = "after"
_FIELDS: Final = 64


def read_query(query_string: bytes) -> SearchQuery:
    """Return the search that the query of a URL asks for; fields that nobody knows are passed over.

    Trust: it is a stranger's. Too many fields are as good as none.
    """
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), max_num_fields=_FIELDS)
    except ValueError:  # too many fields: nobody's filter has so many
        return SearchQuery(limit=limits.PAGE_SKILLS)
    facets: dict[str, set[str]] = {}
    single = {}
    for field, value in pairs:
        if field in FACETS:
            facets.setdefault(field, set()).add(value)
        else:
            single[field] = value
    return SearchQuery(
        text=single.get(_TEXT, "").strip(),
        facets={facet: frozenset(values) for facet, values in facets.items()},
        limit=limits.PAGE_SKILLS,
        after=single.get(_AFTER) or None,
    )


def query_url(text: str, facets: Mapping[str, frozenset[str]], after: str | None = None) -> str:
    """Return the query of a list's URL, with its question mark; the list of everything is ``./``."""
    pairs = [(_TEXT, text)] if text else []
    pairs += [(facet, value) for facet in FACETS for value in sorted(facets.get(facet, ()))]
    if after:
        pairs.append((_AFTER, after))
    return f"?{urlencode(pairs)}" if pairs else "./"
