"""Documents that list our skills for other ecosystems: an AI Catalog with its search, and an agent card of A2A.

The AI Catalog is ``/.well-known/ai-catalog.json``. It lists artifacts, each with an identifier, a media type and a URL.
A skill is one entry with its artifact's digest URL, so the listed bytes are the fetched ones; the digest is in the
official metadata extension. A site with a domain names entries ``urn:air:DOMAIN:skill:NAME``; a site at an IP address
names them by URL, because an address does not identify a publisher.

``POST /search`` is Agentic Resource Discovery: a text, a filter, a page; hits are entries with a ``score``, which shows
only the order, and a ``source``. Spec: specs §5; AI Catalog 1.0 (Agent-Card working group), ARD 0.91 §5.3. Trust: a
query is hostile; it is bounded, and searches public skills only.

The agent card is ``/.well-known/agent-card.json``. It lists callable skills for directories and agents that collect
cards. They are called by Skill Sharing, and by the Skills Protocol where that is open; A2A allows interfaces with
bindings of their own, and the card names those two. ``message/send`` is not implemented: an agent that speaks only
A2A's bindings finds none here, instead of failing with its first call. Spec: specs §5; A2A 1.0 §4.4.1, §5.8 (custom
bindings).

A static site can contain the catalog, which has full URLs, and a ``marketplace.json`` for a site used as a folder or
repository branch, because its paths are relative to its folder. It has no agent card: a static host runs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from skillwire import limits
from skillwire.bridges.marketplace import (
    MARKETPLACE_PATH,
    ListedSkill,
    check_marketplace_name,
    encode_marketplace,
)
from skillwire.errors import SkillwireError, UsageError
from skillwire.model.catalog import SearchQuery
from skillwire.model.skill import Skill
from skillwire.model.url import is_ipv4
from skillwire.protocols.agent_skills.messages import WELL_KNOWN
from skillwire.registry.search import profile_of
from skillwire.trust.guarded_json import load_json
from skillwire.version import VERSION

CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
SEARCH_PATH: Final = "/search"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CARD_TYPE: Final = "application/a2a-agent-card+json"
SPEC_VERSION: Final = "1.0"

_TYPES: Final = {
    ".md": "application/agent-skills+md",
    ".tar.gz": "application/agent-skills+gzip",
    ".zip": "application/agent-skills+zip",
}
_METADATA: Final = "https://ai-catalog.org/extensions/metadata"
_PAGE: Final = 10
_BEST: Final = 100
#: Filter of the protocol → facet of ours.
_FILTERS: Final = {"tags": "tag"}
_encode: Final = msgspec.json.Encoder().encode


class CatalogSearch(NamedTuple):
    """A search request: the query, allowed media types (all if empty), and the number of hits on earlier pages."""

    query: SearchQuery
    types: frozenset[str]
    before: int


def encode_catalog(skills: Iterable[Skill], publisher: str, site: str, *, card: str | None = None) -> bytes:
    """Return the catalog of ``skills``, by name; ``site`` has no final slash, ``card`` is the agent card's path."""
    host = _host(site)
    entries = [entry_of(skill, site) for skill in sorted(skills, key=lambda skill: skill.name)]
    if card is not None:
        named = f"urn:air:{host}:agent:{publisher}" if _has_domain(host) else f"{site}{card}"
        entries.append({"identifier": named, "type": CARD_TYPE, "url": f"{site}{card}"})
    operator = {"displayName": publisher, "identifier": host}
    return _encode({"specVersion": SPEC_VERSION, "host": operator, "entries": entries})


def entry_of(skill: Skill, site: str) -> dict[str, Any]:
    """Return the entry that ``skill`` is on ``site``."""
    host, digest = _host(site), skill.artifact.digest
    url = f"{site}{WELL_KNOWN}"
    tags = profile_of(skill).tag
    return {
        "identifier": f"urn:air:{host}:skill:{skill.name}" if _has_domain(host) else f"{url}/{skill.name}/SKILL.md",
        "displayName": skill.name,
        "type": _TYPES[skill.artifact.extension],
        "url": f"{url}/sha256/{digest.hex}{skill.artifact.extension}",
        "description": skill.description,
        **({"tags": list(tags)} if tags else {}),
        "version": skill.version,
        "extensions": {_METADATA: {"digest": str(digest)}},
    }


def read_search(data: bytes) -> CatalogSearch:
    """Return the search in the body of a ``POST /search``.

    Unknown members are ignored; an unknown filter is refused, because it would return what it should exclude. Raises
    DecodeError (``LIMIT_SIZE``, ``JSON_...``), UsageError (``QUERY``, ``CURSOR``).
    """
    document = load_json(data, max_bytes=limits.CATALOG_SEARCH_BYTES, source="request")
    query = document.get("query") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(query, dict) or not isinstance(query.get("text"), str):
        raise UsageError("QUERY", 'the request has to be {"query": {"text": "..."}}')
    size = document.get("pageSize", _PAGE)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= limits.SEARCH_HITS:
        raise UsageError("QUERY", f"pageSize has to be a whole number from 1 to {limits.SEARCH_HITS}")
    before, after = _read_token(document.get("pageToken"))
    wanted = query.get("filter", {})
    if not isinstance(wanted, dict):
        raise UsageError("QUERY", "filter has to be an object")
    filters = {}
    for name, value in wanted.items():
        values = value if isinstance(value, list) else [value]
        if name != "type" and name not in _FILTERS:
            raise UsageError("QUERY", f"there is no filter {name[:40]!a}; there are type and tags")
        if not all(isinstance(one, str) for one in values):
            raise UsageError("QUERY", f"the values of the filter {name} have to be texts")
        filters[name] = frozenset(values)
    types = filters.pop("type", frozenset())
    facets = {_FILTERS[name]: values for name, values in filters.items()}
    return CatalogSearch(SearchQuery(query["text"], facets, size, after, counted=False), types, before)


def encode_hits(search: CatalogSearch, skills: Sequence[Skill], following: str | None, site: str) -> bytes:
    """Return the answer to ``search``: its page of skills, best first, and the cursor of the next page."""
    results = [
        {**entry, "score": max(1, _BEST - search.before - place), "source": f"{site}/"}
        for place, entry in enumerate(entry_of(skill, site) for skill in skills)
        if not search.types or entry["type"] in search.types
    ]
    token = {} if following is None else {"pageToken": f"{search.before + len(skills)}.{following}"}
    return _encode({"results": results, **token})


def encode_refusal(error: SkillwireError) -> bytes:
    """Return what a search is answered that cannot be made."""
    return _encode({"errorCode": "INVALID_ARGUMENT", "message": f"{error.message} ({error.code})"})


def _read_token(token: object) -> tuple[int, str | None]:
    if token is None or token == "":
        return 0, None
    before, _, after = token.partition(".") if isinstance(token, str) else ("", "", "")
    if not (before.isascii() and before.isdecimal() and len(before) < 7 and after):  # noqa: PLR2004  # digits
        raise UsageError("CURSOR", "pageToken is none that was given here")
    return int(before), after


def _host(site: str) -> str:
    return urlsplit(site).hostname or ""


def _has_domain(host: str) -> bool:
    return "." in host and ":" not in host and not is_ipv4(host)


CARD_PATH: Final = "/.well-known/agent-card.json"
CARD_VERSION: Final = "1.0"
#: Own bindings and their paths: A2A requires a URI that no other binding uses.
SHARING_BINDING: Final = "urn:x-skillwire:binding:skill-sharing:1.0"
RPC_BINDING: Final = "urn:x-skillwire:binding:skills-protocol:0.1"

_JSON: Final = ["application/json"]


def encode_card(
    skills: Iterable[Skill], publisher: str, site: str, interfaces: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Return the agent card of ``site``, an address without a final slash; ``skills`` are the executed ones.

    ``interfaces`` are the path and the binding of each.
    """
    listed = list(skills)
    number = "1 skill" if len(listed) == 1 else f"{len(listed)} skills"
    return _encode(
        {
            "name": publisher,
            "description": f"Runs {number} of {publisher}; each is called by itself, with arguments as JSON.",
            "supportedInterfaces": [
                {"url": f"{site}{path}", "protocolBinding": binding, "protocolVersion": CARD_VERSION}
                for path, binding in interfaces
            ],
            "provider": {"organization": publisher, "url": f"{site}/"},
            "version": VERSION,
            "capabilities": {"streaming": False, "pushNotifications": False},
            "defaultInputModes": _JSON,
            "defaultOutputModes": _JSON,
            "skills": [_skill(skill) for skill in listed],
        }
    )


def _skill(skill: Skill) -> dict[str, Any]:
    # Tags have to be there, and may not be none.
    tags = list(profile_of(skill).tag) or [skill.kind]
    return {"id": skill.name, "name": skill.name, "description": skill.description, "tags": tags}


def check_bridges(bridges: Collection[str], publisher: str, base_url: str) -> None:
    """Check that a site of ``publisher`` can have the files of ``bridges``.

    Raises UsageError (``USAGE`` for a catalog without a base URL, ``MARKETPLACE_NAME``).
    """
    if "ai-catalog" in bridges and not base_url:
        fix = "Give --base-url with the address that the site will have."
        raise UsageError("USAGE", "an AI Catalog holds full URLs", fix=fix)
    if "marketplace" in bridges:
        check_marketplace_name(publisher)


def static_files(
    bridges: Collection[str], skills: Collection[Skill], publisher: str, base_url: str
) -> Mapping[str, bytes]:
    """Return the files of ``bridges`` by their paths in a site: ``ai-catalog``, ``marketplace``."""
    files = {}
    if "ai-catalog" in bridges:
        files[CATALOG_PATH[1:]] = encode_catalog(skills, publisher, base_url)
    if "marketplace" in bridges:
        listed = (ListedSkill(skill, f"{WELL_KNOWN[1:]}/{skill.name}") for skill in skills)
        files[MARKETPLACE_PATH] = encode_marketplace(publisher, publisher, listed)
    return files
