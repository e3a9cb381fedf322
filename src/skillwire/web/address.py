"""The address of the site as the client reached it, and the query of a list: ``?q=words&kind=scripts&after=CURSOR``.

Links within the pages are relative. The canonical address and the commands to copy are absolute: they come from
``--base-url``, else from the request's ``Host``, which is untrusted and read as strictly as any other URL, else from
the address of the socket.

Trust: ``Host`` and the query are untrusted. A host that no URL can hold counts as none, and fields are bounded.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.catalog import ORDERS, SearchQuery
from skillwire.model.lan import host_and_port
from skillwire.model.url import parse_url
from skillwire.registry.search import FACETS, facet_value

_MORE_THAN_HOST: Final = re.compile(r"[/?#]")


def site_address(base_url: str, scheme: str, host: str, root_path: str, server: tuple[str, int | None] | None) -> str:
    """Return the absolute URL of the site's root: ``base_url``, else by the untrusted ``host``, else by the socket."""
    if base_url:
        return base_url
    socket = "" if server is None or server[1] is None else host_and_port(server[0], server[1])
    return host_address(scheme, host, root_path) or host_address(scheme, socket, root_path) or "http://localhost"


@lru_cache(maxsize=256)  # clients know a site by few names; bounded, because they may write any
def host_address(scheme: str, host: str, root_path: str = "") -> str:
    """Return the URL of a site at an untrusted ``host``; empty when that is no host and port."""
    if not host.isascii() or _MORE_THAN_HOST.search(host):
        return ""
    try:
        return str(parse_url(f"{scheme}://{host}{quote(root_path)}")).rstrip("/")
    except ValidationError:  # no host at all, or none that a URL can hold
        return ""


def short_address(address: str) -> str:
    """Return ``address`` without ``https://``, which commands assume."""
    return address.removeprefix("https://")


def way_up(raw_path: bytes, root_path: str) -> str:
    """Return the relative URL of the site's root from ``raw_path``, which begins with ``root_path``: ``../``."""
    return "../" * (raw_path.count(b"/") - root_path.count("/") - 1) or "./"


_FIELDS: Final = 64


def read_query(query_string: bytes) -> SearchQuery:
    """Return the search in an untrusted query; unknown fields are ignored, and too many fields count as none."""
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), max_num_fields=_FIELDS)
    except ValueError:  # too many fields: no filter has so many
        return SearchQuery(limit=limits.PAGE_SKILLS)
    facets: dict[str, set[str]] = {}
    single = {}
    for field, value in pairs:
        if field in FACETS:
            facets.setdefault(field, set()).add(facet_value(field, value))
        else:
            single[field] = value
    return SearchQuery(
        text=single.get("q", "").strip(),
        facets={facet: frozenset(values) for facet, values in facets.items()},
        limit=limits.PAGE_SKILLS,
        after=single.get("after") or None,
        order=single.get("order", "") if single.get("order") in ORDERS else "",
    )


def single_fields(query_string: bytes, most: int, length: int) -> dict[str, str]:
    """Return the fields of an untrusted query up to ``length``, the last of each name; none of more than ``most``."""
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), max_num_fields=most)
    except ValueError:  # too many fields: no filter has so many
        return {}
    return {name: value.strip() for name, value in pairs if len(value) <= length}


def query_url(query: SearchQuery, **changes: Any) -> str:
    """Return the URL of a list with these ``changes``, from its first page; the list of everything is ``./``."""
    query = replace(query, **{"after": None, **changes})
    pairs = [("q", query.text)] if query.text else []
    pairs += [(facet, value) for facet in FACETS for value in sorted(query.facets.get(facet, ()))]
    pairs += [(name, value) for name, value in (("order", query.order), ("after", query.after)) if value]
    return f"?{urlencode(pairs)}" if pairs else "./"
