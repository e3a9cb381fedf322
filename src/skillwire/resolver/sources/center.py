"""Skills of the SkillCenter of the settings, by what they are: the rung below the local network and the DHT.

Each row of the answer leads to a skill of the SkillCenter's own origin, read as any other skill of that origin, so its
digest comes from an index; a row that states another digest of the version stops the search. The answer is kept for as
long as ``skillCenter.cache`` says; the cache's rung reads it again without a request. Spec: SDP §7.2, §13.2.

Trust: the answer is hostile. A row with another origin is skipped.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.ref import CachedResponse
from skillwire.model.url import parse_url
from skillwire.resolver.rank import conflicting_digests
from skillwire.resolver.references import parse_reference
from skillwire.resolver.resolve import resolve
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import Flow, HttpRequest, work
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.ladder import Query

_OFFERED: Final = 16  # rows of the answer that are read
_OK: Final = 200


def search_center(settings: LanSettings, query: Query, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the skills that have what ``query`` asks for, or else those of its name; offline, of a kept answer.

    Raises FetchError, DecodeError, ValidationError (``REGISTRY_ANSWER``).
    """
    wanted: dict[str, object] = {"capabilities": query.capabilities, "scenes": query.scenes, "types": query.types}
    found: list[SkillRef] = []
    if query.words or any(wanted.values()) or not query.name:
        found = yield from _search(settings, {**wanted, "keywords": query.words.split()}, context)
    if not found and query.name:
        named = yield from _search(settings, {"keywords": [query.name]}, context, f"/{query.name}")
        found = [skill for skill in named if skill.name == query.name]
    return found


def _search(
    settings: LanSettings, search: dict[str, object], context: ResolveContext, end: str = ""
) -> Flow[list[SkillRef]]:
    """Return the skills of a search whose addresses have this ``end``; raise the first error where no row is usable."""
    url = f"{settings.center_url.rstrip('/')}/api/skills/search"
    body = json.dumps({key: value for key, value in search.items() if value}, sort_keys=True).encode()
    answer = yield from _ask(settings, url, body, context)
    if answer is None:
        return []
    found: list[SkillRef] = []
    failures: list[SkillwireError] = []
    for row in [row for row in _rows(answer.body, url) if str(row.get("endpoint")).endswith(end)][:_OFFERED]:
        try:
            found += yield from _resolve_row(row, url, context)
        except SkillwireError as error:
            if error.code == "DIGEST_CONFLICT":
                raise
            failures.append(error)
    if failures and not found:
        raise failures[0]
    for failure in failures:
        context.note(failure)
    skills = [skill for skill in found if not skill.has_no_artifact]
    if not context.offline:
        return skills
    return [skill._replace(freshness="cached", fetched_at=answer.fetched_at) for skill in skills]


def _ask(settings: LanSettings, url: str, body: bytes, context: ResolveContext) -> Flow[CachedResponse | None]:
    """Return the answer to a search, which is kept; offline the kept one, or None without one that is fresh."""
    key, credential = f"{url}#{hashlib.sha256(body).hexdigest()}", context.credential_for(url)
    if context.offline:
        kept = yield from work(lambda: context.cache.look_up(key, credential))
        return kept if kept is not None and 0 <= context.clock() - kept.fetched_at < settings.center_ttl else None
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if credential:
        headers["Authorization"] = credential
    request = HttpRequest(url, "POST", headers, body, limits.CALL_ANSWER_BYTES, settings.center_timeout)
    response = yield from fetch(request)
    if response.status != _OK:
        message = server_message(response.body) or f"status {response.status} came"
        raise FetchError("HTTP_STATUS", message, place=SourceLocation(url))
    answer = CachedResponse(key, response.body, response.headers, context.clock())
    _rows(answer.body, url)  # another answer is not kept
    if settings.keeps_center:
        yield from work(partial(context.keep, answer, credential))
    return answer


def _resolve_row(row: dict[str, Any], url: str, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the skill of a row. Raises TrustError (``DIGEST_CONFLICT``) where its index, asked anew, disagrees."""
    endpoint = str(row.get("endpoint", ""))
    if parse_url(endpoint).origin != parse_url(url).origin:
        raise ValidationError("URL", f"{ascii(endpoint)[:120]} is not of the SkillCenter's origin")
    stated = Digest.parse(str(row["digest"])) if row.get("digest") else None
    is_last = context.refresh or context.offline
    conflict: SkillwireError | None = None
    for asked in (context,) if is_last else (context, context._replace(refresh=True)):  # a cache may be behind
        skills = yield from resolve(parse_reference(endpoint), asked)
        rows = [one._replace(version=str(row.get("version")), digest=stated, found_via="a search") for one in skills]
        conflict = conflicting_digests([*skills, *rows])
        if conflict is None:
            return skills
    assert conflict is not None  # noqa: S101  # the loop runs once at least
    raise conflict


def _rows(body: bytes, url: str) -> Sequence[dict[str, Any]]:
    document = load_json(body, max_bytes=limits.CALL_ANSWER_BYTES, source=url)
    rows: Any = document.get("skills") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValidationError("REGISTRY_ANSWER", "the answer has no list named skills", place=SourceLocation(url))
    return rows
