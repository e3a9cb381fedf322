"""The context of a source: caches, credentials and reports of one client; and documents read through the cache.

A fresh answer is used as it is, a stale one is revalidated, and ``offline`` uses any. The protocol makes the request.
The server decides how long an answer is fresh, up to :data:`LONGEST_AGE`. Spec: RFC 9111; ASD Client Implementation 5.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, StorageError
from skillwire.model.ref import CachedResponse
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.resolver.ladder import Ladder, Rung, RungTrace
from skillwire.wire.exchange import Flow, HttpResponse, may_store, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from skillwire.model.lan import Freshness
    from skillwire.model.ref import SkillRef
    from skillwire.ports import BlobStore, OriginBook, ResponseCache
    from skillwire.trust.address import AddressPolicy

#: The cache, the origin that confirmed the cache, or the origin anew.
AnsweredBy = Literal["cache", "revalidation", "origin"]
_NOT_MODIFIED: Final = 304
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=\"?(\d{1,9})", re.ASCII | re.IGNORECASE)

#: However long a server allows, a list of skills is asked for again after this many seconds.
LONGEST_AGE: Final = 3600.0


def is_fresh(response: CachedResponse, now: float) -> bool:
    """Whether the answer may be used at ``now`` without revalidation."""
    return 0 <= now - response.fetched_at < lifetime(response.headers)


def lifetime(headers: Mapping[str, str]) -> float:
    """Return the seconds for which an answer with these headers is fresh; 0 if the server does not say."""
    control, age = headers.get("cache-control", "").lower(), headers.get("age", "")
    match = _MAX_AGE.search(control)
    if match is None or not may_store(headers) or "no-cache" in control:
        return 0.0
    in_caches = float(age) if age.isascii() and age.isdigit() else 0.0  # of others, before it came. RFC 9111 §5.1
    return max(min(float(match[1]) - in_caches, LONGEST_AGE), 0.0)


def freshness(document: CachedResponse, answered_by: AnsweredBy | None, context: ResolveContext) -> Freshness:
    """Return ``live``, or whether the answer of the cache is within its lifetime."""
    if answered_by != "cache":
        return "live"
    return "cached" if is_fresh(document, context.clock()) else "stale"


class Attempt(NamedTuple):
    """The request for one index, and its outcome.

    Args:
        answered_by: None without an answer.
        age: seconds since the origin gave or confirmed the answer.
        fresh_for: seconds for which the cache answers in its place; 0 when it is asked each time.
        generation: of the index, ``skill-sharing``, or ``skills-rpc`` for an endpoint; None without an index.
        entries: the number of skills that it lists.
        error: why this URL gave nothing, unless nothing is published there.
    """

    url: str
    has_credential: bool = False
    answered_by: AnsweredBy | None = None
    age: float = 0.0
    fresh_for: float = 0.0
    generation: str | None = None
    entries: int = 0
    error: SkillwireError | None = None


class Discovery(Protocol):
    """The rungs that find skills by what they are, as the settings have them."""

    def named(self, name: str, *, asks_lan: bool) -> list[Rung[SkillRef]]:
        """Return the rungs that find the skill called ``name``, read at its publisher."""


class GitMemory(NamedTuple):
    """What a client has read of repositories: objects by name; of each repository its place and server's features."""

    objects: dict[str, bytes]
    servers: dict[str, tuple[str, frozenset[str]]]


class ResolveContext(NamedTuple):
    """The context of a flow.

    Args:
        credentials: origin → value of ``Authorization``; each is sent to its origin only.
        offline: use the cache, however old, and nothing else.
        refresh: ask even when the cache holds a fresh answer.
        min_age: seconds since its release that a version needs to be taken, unless it is locked or named exactly.
        clock: seconds since the epoch.
        report: called with each finding: what was skipped or is doubtful.
        trace: called with each attempt to read an index, in order.
        addresses: returns the policy for addresses that an index names; None for those near the index itself.
        explain: completes an error of an origin that refuses access with the credential that it was sent.
        root: the paths of local skills are relative to it.
        git: what was read of repositories.
        upload_pack: answers a request to a repository of this machine: its path, the request, the most bytes.
        discovery: returns the rungs of local network, SkillCenter and cache; None without settings for any.
        ladder: of the client, which remembers durations and negative answers.
        on_climb: called with the rungs that were tried for an answer.
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
    min_age: float = 0.0
    trace: Callable[[Attempt], object] = lambda _: None
    addresses: Callable[[], AddressPolicy | None] = lambda: None
    explain: Callable[[SkillwireError], object] = lambda _: None
    root: Path = Path()
    git: GitMemory = GitMemory({}, {})
    upload_pack: Callable[[str, bytes, int], bytes] = lambda *_: b""
    discovery: Callable[[], Discovery | None] = lambda: None
    ladder: Ladder | None = None
    on_climb: Callable[[Sequence[RungTrace]], object] = lambda _: None

    def open_ladder(self) -> Ladder:
        """Return the ladder of the client, or a new one."""
        return self.ladder or Ladder(time.monotonic)

    def note(self, error: SkillwireError) -> None:
        """Report an error that stops nothing."""
        self.explain(error)
        self.report(as_finding(error))

    def keep(self, document: CachedResponse, credential: str | None) -> None:
        """Cache an answer, or drop an earlier one where its server forbids to keep it.

        A cache that cannot be written is reported, since it only makes things slower.
        """
        try:
            if may_store(document.headers):
                self.cache.keep(document, credential)
            else:
                self.cache.drop(document.url, credential)
        except StorageError as error:
            self.note(error)

    def try_change(self, change: Callable[[], object]) -> Flow[None]:
        """Change a file that the flow can do without; report a failure, and go on."""
        try:
            yield from work(change)
        except StorageError as error:
            self.note(error)

    def trace_answer(
        self, attempt: Attempt, document: CachedResponse, answered_by: AnsweredBy | None, generation: str, entries: int
    ) -> None:
        """Trace an attempt with the answer that came."""
        age = max(self.clock() - document.fetched_at, 0.0)
        fresh_for = max(lifetime(document.headers) - age, 0.0)
        self.trace(
            attempt._replace(
                answered_by=answered_by, age=age, fresh_for=fresh_for, generation=generation, entries=entries
            )
        )

    @contextmanager
    def attempt(self, url: str) -> Iterator[Attempt]:
        """Give an attempt to read ``url``; an error of the block is traced as its outcome."""
        attempt = Attempt(url, self.credential_for(url) is not None)
        try:
            yield attempt
        except SkillwireError as error:
            self.explain(error)
            self.trace(attempt._replace(error=error))
            raise

    def credential_for(self, url: str) -> str | None:
        """Return the credential for the origin of ``url``."""
        return self.credentials.get(parse_url(url).origin) if self.credentials else None


class DocumentRequest(Protocol):
    """Makes the request for a document."""

    def __call__(self, *, cached: CachedResponse | None, authorization: str | None) -> Flow[HttpResponse | None]:
        """Return the response, conditional on ``cached``; None without a document."""


def read_document(
    url: str, context: ResolveContext, ask: DocumentRequest, *, last: bool = True
) -> Flow[tuple[CachedResponse | None, AnsweredBy | None]]:
    """Return the document at ``url`` and where it came from; None for both without a document.

    Raises FetchError (``OFFLINE``) when it is not in the cache and is the ``last`` to be tried, TrustError for an
    address that the policy refuses, cached or not.
    """
    if (policy := context.addresses()) is not None:
        policy.check_url(parse_url(url))
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
        document = cached._replace(headers={**cached.headers, "age": "", **response.headers}, fetched_at=now)
    else:
        document = CachedResponse(url, response.body, response.headers, now, response.url)
    yield from work(partial(context.keep, document, credential))
    return document, "revalidation" if response.status == _NOT_MODIFIED else "origin"


def not_in_cache(url: str) -> FetchError:
    """Return the error for a document that is needed offline."""
    return FetchError("OFFLINE", "the index is not in the cache", place=SourceLocation(url))


def is_not_found(error: SkillwireError, context: ResolveContext) -> bool:
    """Whether ``error`` only means that a document is missing, or not in the cache when offline."""
    return isinstance(error, NotFoundError) or (context.offline and error.code == "OFFLINE")


def as_finding(error: SkillwireError) -> Finding:
    """Return an error that stops nothing as a finding."""
    found = error.diagnostics()
    return Finding(found.code, "note", found.message, found.place or SourceLocation(""), found.fix)


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
