"""One document of an origin, through the cache.

A fresh answer is used as it is, a stale one is asked about with its validators, and with ``offline`` any is used. How
a document is asked for is the protocol's to say.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from skillwire.errors import FetchError, NotFoundError, Place, SkillwireError, StorageError
from skillwire.model.cached_response import CachedResponse
from skillwire.model.finding import Finding
from skillwire.resolver.flow import fetch, work
from skillwire.resolver.freshness import is_fresh, may_be_kept

if TYPE_CHECKING:
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Session
    from skillwire.wire.exchange import Exchange, HttpResponse

#: Who answered: what was kept, the origin that confirmed it, or the origin anew.
AnsweredBy = Literal["cache", "revalidation", "origin"]
_NOT_MODIFIED: Final = 304


class Ask(Protocol):
    """Begins the exchange that asks for a document; None comes back when there is none."""

    def __call__(self, *, cached: CachedResponse | None, authorization: str | None) -> Exchange[HttpResponse | None]:
        """Return the exchange, conditional on what is ``cached``."""


def read_document(
    url: str, session: Session, ask: Ask, *, last: bool = True
) -> Flow[tuple[CachedResponse | None, AnsweredBy | None]]:
    """Return the document at ``url`` and who answered; None for both when there is none.

    Raises:
        FetchError: ``OFFLINE`` when it is not in the cache, nothing may be asked, and it is the ``last`` to be tried.
    """
    credential = session.credential_for(url)
    cached = yield from work(lambda: session.cache.look_up(url, credential))
    now = session.clock()
    if cached is not None and (session.offline or (not session.refresh and is_fresh(cached, now))):
        return cached, "cache"
    if session.offline:
        if last:
            raise not_in_cache(url)
        return None, None
    response = yield from fetch(ask(cached=cached, authorization=credential))
    if response is None:
        return None, None
    if cached is not None and response.status == _NOT_MODIFIED:
        document = cached._replace(headers={**cached.headers, **response.headers}, fetched_at=now)
    else:
        document = CachedResponse(url, response.body, response.headers, now, response.url)
    if may_be_kept(document.headers):
        yield from work(partial(_keep, document, credential, session))
    return document, "revalidation" if response.status == _NOT_MODIFIED else "origin"


def not_in_cache(url: str) -> FetchError:
    """Return the error that says that a document would have to be fetched."""
    return FetchError("OFFLINE", "the index is not in the cache", place=Place(url))


def is_absence(error: SkillwireError, session: Session) -> bool:
    """Whether ``error`` only says that a document is not there, or not at hand."""
    return isinstance(error, NotFoundError) or (session.offline and error.code == "OFFLINE")


def _keep(document: CachedResponse, credential: str | None, session: Session) -> None:
    """Keep an answer; a cache that cannot be written makes things slower, not impossible."""
    try:
        session.cache.keep(document, credential)
    except StorageError as error:
        session.report(noted(error))


def noted(error: SkillwireError) -> Finding:
    """Return an error that stops nothing as a finding."""
    told = error.diagnostics()
    return Finding(told.code, "note", told.message, told.place or Place(""), told.fix)
