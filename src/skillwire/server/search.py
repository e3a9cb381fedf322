"""A hit of a search as JSON, made once for each skill and kept in a file.

Twenty of them are most of what an answer costs to make, and only the address of the site differs from one answer
to the next. It is left out of what is kept, as a byte that JSON text never holds.

``GET /api/search``: a query's text read, the search asked, its hits told as JSON.

Hits carry what the ``skills`` CLI reads (``id``, ``name``, ``source``, ``installs``) and what ours adds. A client
puts ``source`` and ``@name`` together to an address that it can add from, so ``source`` is this site as the client
reached it. An answer depends on the revision, the query and that address, and on nothing else; those that were
asked for lately are kept.

Values of facets are counted for who asks for them, as pages do; agents have no use for them.

Trust: query and address are a stranger's. What they may cost is bounded by the search and by the URL's length; a
search that takes more than a millisecond or two is done off the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from skillwire import limits
from skillwire.adapters.files.skill_store import RowFile, read_summary
from skillwire.errors import StorageError, UsageError
from skillwire.model.search import SearchQuery
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS, WELL_KNOWN
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.registry.search import FACETS
from skillwire.server.http import encode_fields, join_fields, matching_tag, read_pairs
from skillwire.server.responses import WIRE_READ, ByteCache, WireResponse
from skillwire.web.address import host_address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skillwire.adapters.files.skill_store import PackedSkills, Rows
    from skillwire.adapters.sqlite.search import RevisionSearch
    from skillwire.model.search import SearchPage
    from skillwire.server.http import Fields


_SITE: Final = b"\0"
_HIT: Final = (
    b'{"id":%s,"name":%s,"source":"\0","installs":0,"description":%s,"version":%s,'  # nobody counts installs
    b'"digest":"sha256:%s","url":"\0%s/sha256/%s%s","kind":"%s"}'
)
_encode: Final = msgspec.json.Encoder().encode


class SearchHits:
    """The hits that the skills in ``rows`` are; used by one thread.

    Args:
        rows: skills, packed.
        directory: where the file is made.
    """

    def __init__(self, rows: Rows, directory: Path) -> None:
        self.rows = rows
        self._kept = RowFile(directory)
        self._places = array("I")  # by the skill's row: that of its hit, counted from one

    def join(self, numbers: Iterable[int], site: str) -> bytes:
        """Return the hits that the rows of these numbers are, as the items of a JSON array.

        Args:
            numbers: of rows.
            site: the address of this site, with a final slash.
        """
        return b",".join(map(self._hit, numbers)).replace(_SITE, _encode(site)[1:-1])

    def _hit(self, number: int) -> bytes:
        places = self._places
        if number >= len(places):
            places.frombytes(bytes((number + 1 - len(places)) * places.itemsize))
        if place := places[number]:
            return self._kept[place - 1]
        hit = encode_hit(self.rows[number])
        with suppress(StorageError):  # it is then made again the next time
            places[number] = self._kept.add(hit) + 1
        return hit


def encode_hit(packed: bytes) -> bytes:
    """Return the hit that a packed skill is, with a zero byte wherever the address of the site belongs."""
    skill = read_summary(packed)
    digest = skill.digest.encode("ascii")
    return _HIT % (
        _encode(skill.identifiers[0] if skill.identifiers else f"{skill.publisher}/{skill.name}"),
        _encode(skill.name),
        _encode(skill.description),
        _encode(skill.version),
        digest,
        WELL_KNOWN[1:].encode("ascii"),
        digest,
        skill.artifact.extension.encode("ascii"),
        skill.kind.encode("ascii"),
    )


SEARCH_PATH: Final = "/api/search"

_SINGLE: Final = ("q", "limit", "after", "facets")
_DIGITS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_PARAMETERS: Final = 64
_COMMON: Final = (("Cache-Control", CachePolicy.BRIEF.value), *OPEN_FIELDS.items())
_FIELDS: Final = encode_fields(dict(_COMMON))
_LINES: Final = join_fields(_FIELDS)
#: What an answer that is kept takes beside its body.
_OVERHEAD: Final = 1 * limits.KIB


class SearchAnswer:
    """The answer to one search, in its one coding: compressing each would cost more than finding it."""

    __slots__ = ("_lines", "_tag", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
        self._lines = b"etag: %s\r\n%s" % (self._tag.encode("ascii"), _LINES)

    def ready(self, method: bytes, fields: Fields) -> WireResponse:
        """Return the answer to a GET or HEAD with these header fields."""
        condition = b",".join([value for name, value in fields if name == b"if-none-match"])
        if condition and matching_tag(condition.decode("latin-1"), (self._tag,)):
            return WireResponse(304, b"HTTP/1.1 304 Not Modified\r\n" + self._lines, b"")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(self.body)
        return WireResponse(200, head + self._lines, b"" if method == b"HEAD" else self.body)

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
        hits: of their rows.
        base_url: the address of this site, when one was given.
    """

    def __init__(self, search: RevisionSearch, skills: PackedSkills, hits: SearchHits, base_url: str = "") -> None:
        self.search = search
        self.base_url = base_url
        self._skills = skills
        self._hits = hits
        self._kept: ByteCache[tuple[bytes, str], SearchAnswer] = ByteCache(limits.SEARCH_CACHE_BYTES)

    def ready_at_once(self, url: bytes, method: bytes, fields: Fields) -> WireResponse | None:
        """Return the answer to a request, if a brief search gives it.

        As :meth:`skillwire.server.application.Application.answer_at_once` does.

        Args:
            url: as the request line says it, over plain HTTP and without a proxy.
            method: in the same way.
            fields: the header fields; their names in lower case.
        """
        hosts = [value for name, value in fields if name == b"host"]
        if method not in WIRE_READ or len(url) > limits.URL_LENGTH or len(hosts) != 1:
            return None
        if any(name.startswith(b"x-forwarded-") for name, _ in fields):
            return None
        site = self.base_url or host_address("http", hosts[0].decode("latin-1"))
        if not site:  # the ordinary way knows another
            return None
        try:
            answer = self.answer_briefly(url.partition(b"?")[2], f"{site}/")
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
        body = b'{"skills":[%s],"total":%d' % (self._hits.join(map(self._skills.number, page.names), site), page.total)
        if page.facets:
            facets = {facet: [value._asdict() for value in values] for facet, values in page.facets.items()}
            body += b',"facets":%s' % _encode(facets)
        answer = SearchAnswer(b'%s,"next":%s}' % (body, _encode(page.next)))
        self._kept.put((query, site), answer, len(answer.body) + len(query) + _OVERHEAD)
        return answer


def read_parameters(query: bytes) -> SearchQuery:
    """Return the search that a URL's query asks for; parameters that mean nothing here are passed over.

    Raises:
        UsageError: ``QUERY``.
    """
    single: dict[str, str] = {}
    chosen: dict[str, set[str]] = {}
    for name, value in read_pairs(query, _PARAMETERS):
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
        counted=single.get("facets") == "1",
    )
