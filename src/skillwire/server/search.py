"""``GET /api/search``: the query's parameters, the search, and its hits as JSON; and ``GET /api/skills/ID``.

A hit carries the fields that the ``skills`` CLI reads (``id``, ``name``, ``source``, ``installs``) and ours. A client
joins ``source`` and ``@name`` to an address that it can add from, so ``source`` is this site's address as the client
reached it. An answer depends on the revision, the query and that address only; recent answers are cached. Facet values
are counted on request: pages show them, agents do not use them.

Trust: query and address come from the client. The search and the URL's length bound what they cost; a search that
takes more than a millisecond or two runs off the event loop.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import msgspec

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.catalog import SearchQuery, read_summary
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS, JSON, WELL_KNOWN
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.protocols.skill_discovery.center import SKILLS, center_details, center_id
from skillwire.registry.search import FACETS, facet_value, skill_kind
from skillwire.server.http import read_pairs
from skillwire.server.responses import WIRE_READ, ByteCache, CachedResponse
from skillwire.web.address import host_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.errors import StorageError
    from skillwire.model.catalog import Explanation, PackedSkills, SearchPage
    from skillwire.ports import SkillSearch
    from skillwire.server.http import Fields
    from skillwire.server.responses import WireResponse

_HIT: Final = (
    b'{"id":%s,"name":%s,"source":"%s","installs":0,"description":%s,"version":%s,'  # installs are not counted
    b'"digest":"sha256:%s","url":"%s%s/sha256/%s%s","kind":"%s"}'
)
_encode: Final = msgspec.json.Encoder().encode


def encode_hits(skills: PackedSkills, names: Iterable[str], site: str) -> bytes:
    """Return the hits for the skills of these names as the items of a JSON array; ``site`` ends with a slash."""
    address = _encode(site)[1:-1]
    hits = []
    for name in names:
        skill = read_summary(skills.packed(name))
        namespace, is_namespaced, _ = name.rpartition("/")
        digest = skill.artifact.raw_digest.hex().encode("ascii")
        hits.append(
            _HIT
            % (
                _encode(skill.identifiers[0] if skill.identifiers else f"{skill.publisher}/{skill.name}"),
                _encode(skill.name),
                address + f"@{namespace}".encode() if is_namespaced else address,
                _encode(skill.description),
                _encode(skill.version),
                digest,
                address,
                WELL_KNOWN[1:].encode("ascii"),
                digest,
                skill.artifact.extension.encode("ascii"),
                skill_kind(skill).encode("ascii"),
            )
        )
    return b",".join(hits)


SEARCH_PATH: Final = "/api/search"
DETAILS: Final = f"{SKILLS}/".encode("ascii")

_SINGLE: Final = ("q", "limit", "after", "facets")
_DIGITS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_PARAMETERS: Final = 64
#: What an answer that is kept takes beside its body.
_OVERHEAD: Final = 4 * limits.KIB


def _uncompressed(body: bytes) -> CachedResponse:
    """Return an answer to keep: compressing would cost more than finding it."""
    return CachedResponse(body, JSON, CachePolicy.BRIEF, vary=IDENTITY_FIELDS)


class NoSearch:
    """Fills :class:`~skillwire.ports.SkillSearch` where the index fails: each search raises this ``error``."""

    def __init__(self, error: StorageError) -> None:
        self._error = error

    def search(self, query: SearchQuery, values: Mapping[str, float] = {}) -> SearchPage:  # noqa: ARG002  # all fail alike
        """Raise the error."""
        raise self._error

    def explain(self, text: str, names: Sequence[str]) -> Explanation:  # noqa: ARG002  # all fail alike
        """Raise the error."""
        raise self._error

    def suggest(self, text: str) -> Sequence[str]:  # noqa: ARG002  # all fail alike
        """Raise the error."""
        raise self._error

    def search_briefly(self, query: SearchQuery) -> SearchPage | None:  # noqa: ARG002  # all fail alike
        """Return None, since :meth:`search` reports the error."""
        return None

    def rank(self, text: str) -> Sequence[str]:  # noqa: ARG002  # all fail alike
        """Raise the error."""
        raise self._error


class SearchAnswers:
    """The responses to searches of ``skills``, the public skills of one revision."""

    def __init__(self, search: SkillSearch, skills: PackedSkills, base_url: str = "") -> None:
        self.search = search
        self.base_url = base_url
        self._skills = skills
        self._kept: ByteCache[tuple[bytes, str], CachedResponse] = ByteCache(limits.SEARCH_CACHE_BYTES)

    def ready_at_once(self, url: bytes, method: bytes, fields: Fields) -> WireResponse | None:
        """Return the response to a plain HTTP request without a proxy, if a brief search gives it."""
        site = self.site_of(fields)
        if method not in WIRE_READ or len(url) > limits.URL_LENGTH or not site:
            return None
        if url.startswith(DETAILS):
            answer = self.details(url[len(DETAILS) :].decode("latin-1"), site)
            return None if answer is None else answer.ready(method, fields)
        try:
            answer = self.answer_briefly(url.partition(b"?")[2], f"{site}/")
        except UsageError:  # the ordinary way tells it
            return None
        return None if answer is None else answer.ready(method, fields)

    def site_of(self, fields: Fields) -> str:
        """Return the address of the site in a plain HTTP request; empty where the ordinary way finds another."""
        hosts = [value for name, value in fields if name == b"host"]
        if len(hosts) != 1 or any(name.startswith(b"x-forwarded-") for name, _ in fields):
            return ""
        return self.base_url or host_address("http", hosts[0].decode("latin-1"))

    def details(self, skill_id: str, site: str) -> CachedResponse | None:
        """Return the details of the skill whose name and ID this is, if everyone may use it."""
        key = DETAILS + skill_id.encode(), site
        if (kept := self._kept.get(key)) is not None:
            return kept
        skill = self._skills.get(skill_id)
        if skill is None or center_id(skill) != skill_id:
            return None
        answer = _uncompressed(_encode(center_details(skill, site)))
        self._kept.put(key, answer, answer.size + _OVERHEAD)
        return answer

    def answer_briefly(self, query: bytes, site: str) -> CachedResponse | None:
        """Return the answer if it takes at most a millisecond or two; ``site`` ends with a slash. Raises UsageError."""
        if (kept := self._kept.get((query, site))) is not None:
            return kept
        page = self.search.search_briefly(read_parameters(query))
        return None if page is None else self._keep(query, site, page)

    async def answer(self, query: bytes, site: str) -> CachedResponse:
        """Return the answer, see :meth:`answer_briefly`."""
        if (kept := self._kept.get((query, site))) is not None:
            return kept
        return self._keep(query, site, await asyncio.to_thread(self.search.search, read_parameters(query)))

    def _keep(self, query: bytes, site: str, page: SearchPage) -> CachedResponse:
        body = b'{"skills":[%s],"total":%d' % (encode_hits(self._skills, page.names, site), page.total)
        if page.facets:
            facets = {facet: [value._asdict() for value in values] for facet, values in page.facets.items()}
            body += b',"facets":%s' % _encode(facets)
        answer = _uncompressed(b'%s,"next":%s}' % (body, _encode(page.next)))
        self._kept.put((query, site), answer, answer.size + len(query) + _OVERHEAD)
        return answer


def read_parameters(query: bytes) -> SearchQuery:
    """Return the search in a URL's query; unknown parameters are ignored. Raises UsageError (``QUERY``)."""
    single: dict[str, str] = {}
    chosen: dict[str, set[str]] = {}
    for name, value in read_pairs(query, _PARAMETERS):
        if name in FACETS:
            if value:
                chosen.setdefault(name, set()).add(facet_value(name, value))
        elif name in _SINGLE:
            if name in single:
                raise UsageError("QUERY", f"{name} is given twice")
            single[name] = value
    limit = single.get("limit", "20")
    return SearchQuery(
        text=single.get("q", ""),
        facets={facet: frozenset(values) for facet, values in chosen.items()},
        limit=int(limit) if _DIGITS.fullmatch(limit) else 0,
        after=single.get("after") or None,
        counted=single.get("facets") == "1",
    )
