"""``GET /api/search``: a query's text read, the search asked, its hits told as JSON.

Hits carry what the ``skills`` CLI reads (``id``, ``name``, ``source``, ``installs``) and what ours adds. A client
puts ``source`` and ``@name`` together to an address that it can add from, so ``source`` is this site as the client
reached it. An answer depends on the revision, the query and that address, and on nothing else; those that were
asked for lately are kept.

Trust: query and address are a stranger's. What they may cost is bounded by the search and by the URL's length; a
search that takes more than a millisecond or two is done off the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec

from skillwire import limits
from skillwire.adapters.files.skill_summaries import read_summary
from skillwire.errors import UsageError
from skillwire.model.search import SearchQuery
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.agent_skills.messages import WELL_KNOWN
from skillwire.protocols.agent_skills.server import Cache
from skillwire.registry.facets import FACETS
from skillwire.server.byte_cache import ByteCache
from skillwire.server.headers import encode_fields, join_fields
from skillwire.server.negotiation import matching_tag
from skillwire.server.prepared import Ready

if TYPE_CHECKING:
    from skillwire.adapters.files.packed_skills import PackedSkills
    from skillwire.adapters.sqlite.revision_search import RevisionSearch
    from skillwire.model.search import SearchPage
    from skillwire.server.headers import Fields

SEARCH_PATH: Final = "/api/search"

_SINGLE: Final = ("q", "limit", "after")
_DIGITS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?", re.ASCII)
_PARAMETERS: Final = 64
_READ: Final = (b"GET", b"HEAD")
_COMMON: Final = (("Cache-Control", Cache.BRIEF.value), *OPEN_FIELDS.items())
_FIELDS: Final = encode_fields(dict(_COMMON))
_LINES: Final = join_fields(_FIELDS)
#: What an answer that is kept takes beside its body.
_OVERHEAD: Final = 1 * limits.KIB


class _Hit(msgspec.Struct):
    id: str
    name: str
    source: str
    installs: int
    description: str
    version: str
    digest: str
    url: str
    kind: str


class _Facet(msgspec.Struct):
    value: str
    skills: int


class _Document(msgspec.Struct):
    skills: list[_Hit]
    total: int
    facets: dict[str, list[_Facet]]
    next: str | None


_encoder = msgspec.json.Encoder()


class SearchAnswer:
    """The answer to one search, in its one coding: compressing each would cost more than finding it."""

    __slots__ = ("_lines", "_tag", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
        self._lines = b"etag: %s\r\n%s" % (self._tag.encode("ascii"), _LINES)

    def ready(self, method: bytes, fields: Fields) -> Ready:
        """Return the answer to a GET or HEAD with these header fields."""
        condition = b",".join([value for name, value in fields if name == b"if-none-match"])
        if condition and matching_tag(condition.decode("latin-1"), (self._tag,)):
            return Ready(304, b"HTTP/1.1 304 Not Modified\r\n" + self._lines, b"")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(self.body)
        return Ready(200, head + self._lines, b"" if method == b"HEAD" else self.body)

    def header_fields(self, status: int) -> Fields:
        """Return the fields of the answer with ``status``, as ASGI has them."""
        own = {"ETag": self._tag}
        if status == 200:  # noqa: PLR2004  # as in the head above
            own |= {"Content-Type": "application/json", "Content-Length": str(len(self.body))}
        return [*encode_fields(own), *_FIELDS]


class SearchAnswers:
    """The answers to searches of one revision.

    Args:
        search: over ``skills``.
        skills: what everybody may see.
        base_url: the address of this site, when one was given.
    """

    def __init__(self, search: RevisionSearch, skills: PackedSkills, base_url: str = "") -> None:
        self.search = search
        self._skills = skills
        self._base_url = base_url
        self._kept: ByteCache[tuple[bytes, str], SearchAnswer] = ByteCache(limits.SEARCH_CACHE_BYTES)

    def address(self, scheme: str, host: str, root: str = "") -> str:
        """Return the address of this site, as whoever reached it at ``host`` can reach it, with a final slash.

        Without a base URL, and when ``host`` is none, it is the path ``root`` alone.
        """
        if self._base_url:
            return f"{self._base_url}/"
        return f"{scheme}://{host}{root}/" if _HOST.fullmatch(host) else f"{root}/"

    def ready_at_once(self, url: bytes, method: bytes, fields: Fields) -> Ready | None:
        """Return the answer to a request as :meth:`Application.answer_at_once` does, if a brief search gives it.

        Args:
            url: as the request line says it, over plain HTTP and without a proxy.
            method: in the same way.
            fields: the header fields; their names in lower case.
        """
        hosts = [value for name, value in fields if name == b"host"]
        if method not in _READ or len(url) > limits.URL_LENGTH or len(hosts) != 1:
            return None
        if any(name.startswith(b"x-forwarded-") for name, _ in fields):
            return None
        try:
            answer = self.answer_briefly(url.partition(b"?")[2], self.address("http", hosts[0].decode("latin-1")))
        except UsageError:  # the ordinary way tells it
            return None
        return None if answer is None else answer.ready(method, fields)

    def answer_briefly(self, query: bytes, site: str) -> SearchAnswer | None:
        """Return the answer, if that takes no more than a millisecond or two.

        Args:
            query: of the URL, as it came.
            site: the address of this site as the client reached it, with a final slash.

        Raises:
            UsageError: ``QUERY``, ``CURSOR``.
        """
        kept = self._kept.get((query, site))
        if kept is not None:
            return kept
        page = self.search.search_briefly(read_parameters(query))
        return None if page is None else self._keep(query, site, page)

    async def answer(self, query: bytes, site: str) -> SearchAnswer:
        """Return the answer, see :meth:`answer_briefly`."""
        answer = self._kept.get((query, site))
        if answer is None:
            page = await asyncio.to_thread(self.search.search, read_parameters(query))
            answer = self._keep(query, site, page)
        return answer

    def _keep(self, query: bytes, site: str, page: SearchPage) -> SearchAnswer:
        hits = [self._hit(name, site) for name in page.names]
        facets = {facet: [_Facet(value, skills) for value, skills in values] for facet, values in page.facets.items()}
        answer = SearchAnswer(_encoder.encode(_Document(hits, page.total, facets, page.next)))
        self._kept.put((query, site), answer, len(answer.body) + len(query) + _OVERHEAD)
        return answer

    def _hit(self, name: str, site: str) -> _Hit:
        skill = read_summary(self._skills.packed(name))
        return _Hit(
            id=skill.identifiers[0] if skill.identifiers else f"{skill.publisher}/{name}",
            name=name,
            source=site,
            installs=0,  # nothing is counted: a client need not tell what it installs
            description=skill.description,
            version=skill.version,
            digest=f"sha256:{skill.digest}",
            url=f"{site}{WELL_KNOWN[1:]}/sha256/{skill.digest}{skill.artifact.extension}",
            kind=skill.kind,
        )


def read_parameters(query: bytes) -> SearchQuery:
    """Return the search that a URL's query asks for; parameters that mean nothing here are passed over.

    Raises:
        UsageError: ``QUERY``.
    """
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_PARAMETERS)
    except ValueError as error:
        raise UsageError("QUERY", f"there are more than {_PARAMETERS} parameters") from error
    single: dict[str, str] = {}
    chosen: dict[str, set[str]] = {}
    for name, value in pairs:
        if name in FACETS:
            if value:
                chosen.setdefault(name, set()).add(value)
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
    )
