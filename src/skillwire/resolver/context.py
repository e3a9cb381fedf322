"""What a source works with: the caches, the credentials and the reports of one client, and documents of an origin.

A document is read through the cache: a fresh answer is used as it is, a stale one is asked about with its validators,
and with ``offline`` any is used. How a document is asked for is the protocol's to say. How long an answer is fresh is
the server's, up to :data:`LONGEST_AGE`. Spec: RFC 9111; ASD Client Implementation 5.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, StorageError
from skillwire.model.install import CachedResponse
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.ports import BlobStore, OriginBook, ResponseCache
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Flow, HttpResponse

#: Who answered: what was kept, the origin that confirmed it, or the origin anew.
AnsweredBy = Literal["cache", "revalidation", "origin"]
_NOT_MODIFIED: Final = 304
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_ALWAYS_ASK: Final = ("no-store", "no-cache")

#: However long a server allows, a list of skills is asked for again after this many seconds.
LONGEST_AGE: Final = 3600.0


def is_fresh(response: CachedResponse, now: float) -> bool:
    """Whether the answer may be used at ``now`` (seconds since the epoch) without asking again."""
    return 0 <= now - response.fetched_at < lifetime(response.headers)


def lifetime(headers: Mapping[str, str]) -> float:
    """Return for how many seconds an answer with these headers is fresh; 0 when the server does not say."""
    control = headers.get("cache-control", "").lower()
    match = _MAX_AGE.search(control)
    if match is None or any(word in control for word in _ALWAYS_ASK):
        return 0.0
    return min(float(match[1]), LONGEST_AGE)


def may_be_kept(headers: Mapping[str, str]) -> bool:
    """Whether the answer may be written to disk at all."""
    return "no-store" not in headers.get("cache-control", "").lower()


class Attempt(NamedTuple):
    """One URL at which an index was looked for, and what came of it.

    Args:
        answered_by: ``cache`` (used as it was kept), ``revalidation`` (asked, and what was kept still holds),
            ``origin`` (fetched); None when there was no answer.
        age: of the answer, in seconds, since the origin gave or confirmed it.
        fresh_for: seconds for which the cache answers in its place; 0 when it is asked each time.
        generation: of the index, ``skill-sharing`` for one of that protocol, ``skills-rpc`` for an endpoint; None when
            there is none at this URL.
        entries: how many skills it lists.
        error: why this URL gave nothing, unless it said that nothing is there.
    """

    url: str
    has_credential: bool = False
    answered_by: AnsweredBy | None = None
    age: float = 0.0
    fresh_for: float = 0.0
    generation: str | None = None
    entries: int = 0
    error: SkillwireError | None = None

    def answered(self, document: CachedResponse, answered_by: AnsweredBy | None, context: ResolveContext) -> Attempt:
        """Return this attempt with the answer that came."""
        age = max(context.clock() - document.fetched_at, 0.0)
        fresh_for = max(lifetime(document.headers) - age, 0.0)
        return self._replace(answered_by=answered_by, age=age, fresh_for=fresh_for)


class ResolveContext(NamedTuple):
    """What a flow works with.

    Args:
        credentials: origin → value of ``Authorization``; each is sent to its origin only.
        offline: use what the cache holds, however old, and nothing else.
        refresh: ask even when the cache holds a fresh answer.
        clock: seconds since the epoch.
        report: called with each finding: what was skipped or is doubtful.
        trace: called with each attempt to read an index, in order.
        addresses: returns where what an index names may lie; None for the places that go with the index itself.
        explain: completes an error of an origin that refuses access with the credential that it was sent.
    """

    cache: ResponseCache
    blobs: BlobStore
    origins: OriginBook
    credentials: Mapping[str, str]
    clock: Callable[[], float]
    report: Callable[[Finding], object]
    sources: tuple[str, ...] = ()
    offline: bool = False
    refresh: bool = False
    trace: Callable[[Attempt], object] = lambda _: None
    addresses: Callable[[], AddressPolicy | None] = lambda: None
    explain: Callable[[SkillwireError], object] = lambda _: None

    def note(self, error: SkillwireError) -> None:
        """Report an error that stops nothing."""
        self.explain(error)
        self.report(as_finding(error))

    def trace_failure(self, attempt: Attempt, error: SkillwireError) -> None:
        """Trace an attempt that ended with an error."""
        self.explain(error)
        self.trace(attempt._replace(error=error))

    def credential_for(self, url: str) -> str | None:
        """Return the credential for the origin of ``url``."""
        return self.credentials.get(parse_url(url).origin) if self.credentials else None


class DocumentRequest(Protocol):
    """Begins the exchange that asks for a document; None comes back when there is none."""

    def __call__(self, *, cached: CachedResponse | None, authorization: str | None) -> Flow[HttpResponse | None]:
        """Return the exchange, conditional on what is ``cached``."""


def read_document(
    url: str, context: ResolveContext, ask: DocumentRequest, *, last: bool = True
) -> Flow[tuple[CachedResponse | None, AnsweredBy | None]]:
    """Return the document at ``url`` and who answered; None for both when there is none.

    Raises:
        FetchError: ``OFFLINE`` when it is not in the cache, nothing may be asked, and it is the ``last`` to be tried.
    """
    credential = context.credential_for(url)
    cached = yield from work(lambda: context.cache.look_up(url, credential))
    now = context.clock()
    if cached is not None and (context.offline or (not context.refresh and is_fresh(cached, now))):
        return cached, "cache"
    if context.offline:
        if last:
            raise not_in_cache(url)
        return None, None
    response = yield from ask(cached=cached, authorization=credential)
    if response is None:
        return None, None
    if cached is not None and response.status == _NOT_MODIFIED:
        document = cached._replace(headers={**cached.headers, **response.headers}, fetched_at=now)
    else:
        document = CachedResponse(url, response.body, response.headers, now, response.url)
    if may_be_kept(document.headers):
        yield from work(partial(_keep, document, credential, context))
    return document, "revalidation" if response.status == _NOT_MODIFIED else "origin"


def not_in_cache(url: str) -> FetchError:
    """Return the error that says that a document would have to be fetched."""
    return FetchError("OFFLINE", "the index is not in the cache", place=SourceLocation(url))


def is_not_found(error: SkillwireError, context: ResolveContext) -> bool:
    """Whether ``error`` only says that a document is not there, or not at hand."""
    return isinstance(error, NotFoundError) or (context.offline and error.code == "OFFLINE")


def _keep(document: CachedResponse, credential: str | None, context: ResolveContext) -> None:
    """Keep an answer; a cache that cannot be written makes things slower, not impossible."""
    try:
        context.cache.keep(document, credential)
    except StorageError as error:
        context.note(error)


def as_finding(error: SkillwireError) -> Finding:
    """Return an error that stops nothing as a finding."""
    found = error.diagnostics()
    return Finding(found.code, "note", found.message, found.place or SourceLocation(""), found.fix)


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
