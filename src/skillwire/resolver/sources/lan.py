"""Skills of a local network and of the SkillCenter, by capability, in the order in which they are called.

``lan:CAPABILITY`` means the providers of that capability, or, without any, the skills of that name; the ladder decides
which sources are asked. Every client calls the providers of a rung in the same order: healthy before unknown, certified
before others, then by name. If a provider fails before it accepts the call, the client calls the next one. If it may
have accepted the call, the client stops, since the call could run twice. A time limit bounds all providers together.
The reason for each skipped provider is reported.

The SkillCenter is the rung below the local network and the DHT. Each row of its answer names a skill of its origin,
whose digest is read from that origin's index; a row that states another digest of the version stops the search. The
answer is cached as long as ``skillCenter.cache`` says; the cache rung reads it without a request.

Spec: SDP §3, §7.2, §8, §12, §13.2; docs/decisions/0013. Trust: announcements are untrusted; unverified skills are used
only when the user allows it. Answers of the SkillCenter are hostile: a row with another origin is skipped.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import (
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    in_seconds,
)
from skillwire.model.digest import Digest
from skillwire.model.lan import REVOKED, REVOKED_FIX, LanSkill, SceneResult, host_and_port
from skillwire.model.ref import CachedResponse, SkillRef
from skillwire.model.url import parse_url
from skillwire.resolver.rank import conflicting_digests, rank
from skillwire.resolver.references import parse_reference
from skillwire.resolver.resolve import resolve
from skillwire.resolver.sources import Source
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import Flow, HttpRequest, work
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.ladder import Climb, Query, RungTrace
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import TimeLimit

Stage = Literal["reading", "checking", "calling"]

_MAX_REASONS: Final = 5  # reasons in one message
_MAX_ROWS: Final = 16  # rows that are read of a SkillCenter's answer
_OK: Final = 200
_UNVERIFIED_FIX: Final = (
    "Compare its key's words: skillwire lan trust AGENT; or name its certificate's root in [discovery.trust] roots. To "
    "use it all the same, if you trust everyone on this network, give --unverified, or use_unverified=True in a "
    "program."
)
_CONFLICT_FIX: Final = (
    "Ask again in a moment: a version that was just published has a new record within seconds. If it stays, ask the "
    "publisher which digest is right."
)
_UNHEARD_FIX: Final = (
    "Ask again in a moment: it may not have registered here yet. If it never does, its own agent does not reach this "
    "machine; skillwire lan lists the agents that do."
)


class LanSource(Source):
    """The source of the local network, which only a search can name; the ladder resolves bare names."""

    def __init__(self, context: ResolveContext) -> None:
        del context

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Raise UsageError (``REFERENCE``)."""
        del lookup
        yield from ()
        fix = "skillwire find --lan lists the skills; give the reference of one."
        raise UsageError("REFERENCE", "lan: names a whole network, which only find searches", fix=fix)


def http_url(skill: LanSkill) -> str:
    """Return the address of a skill's server."""
    return skill.url or f"http://{skill.endpoint}"


def ref_of(skill: LanSkill) -> SkillRef:
    """Return the reference of a skill of the network."""
    return SkillRef(
        name=skill.skill_id,
        origin=http_url(skill),
        description=describe_lan_skill(skill),
        version=skill.version,
        digest=Digest.parse(skill.digest) if skill.digest else None,
        found_via=skill.source,
        fetched_at=skill.heard,
        capabilities=skill.capabilities,
        scenes=skill.scenes,
        freshness=skill.freshness,
        lan=skill,
    )


def answers(skills: Sequence[LanSkill], query: Query) -> list[LanSkill]:
    """Return the skills that match ``query``, or else those of its name, in call order; words rank them."""
    filters = query.capabilities, query.scenes, query.types
    found = [skill for skill in skills if skill.fits(*filters)] if any(filters) or not query.name else []
    if not found and query.name:
        found = [skill for skill in skills if skill.skill_id == query.name]
    ordered = sorted(found, key=lambda one: one.call_order)
    hits = rank(
        query.words, ordered, lambda one: (one.skill_id, " ".join((*one.capabilities, *one.scenes))), needs_all=True
    )
    return [skill for skill, _ in hits]


def asked_capability(skill: LanSkill, query: str) -> str:
    """Return the capability that matches the words of ``query`` best, else the first one, else the skill's name."""
    named = [one for one, _ in rank(query, skill.capabilities, lambda one: (one, ""))]
    return next(iter((*named, *skill.capabilities, skill.skill_id)))


def describe_lan_skill(skill: LanSkill) -> str:
    """Return capabilities and scenes as a description, which datagrams lack."""
    able = ", ".join(skill.capabilities)
    scenes = f"scene {', '.join(skill.scenes)}" if skill.scenes else ""
    return "; ".join(part for part in (able, scenes) if part) or str(skill.skill_type)


def matching(skill: LanSkill, found: Sequence[SkillRef]) -> SkillRef:
    """Return the announced skill as its server publishes it, with the digest of the server's index.

    Datagrams have no digest; the one of a DHT record must equal the index's. Raises FetchError (``DISC_006``) if the
    server has no skill of this name, TrustError (``DIGEST_CONFLICT``).
    """
    name, named = skill.skill_id, list[SkillRef]()
    for one in found:
        shared = one.shared.id if one.shared is not None else ""
        if name in {one.name, shared, shared.rpartition("/")[2]}:
            named.append(one)
    if conflict := conflicting_digests(named):
        raise conflict
    if not named:
        message = f"the server that announces {name} does not publish it"
        raise FetchError("DISC_006", message, place=SourceLocation(http_url(skill)))
    published = named[0]
    if skill.digest and published.digest != skill.digest:
        stated = f"{skill.digest} in the record of {skill.agent_id}, and {published.digest or 'none'} at its server"
        message = f"{name} {skill.version} has two digests: {stated}"
        raise TrustError("DIGEST_CONFLICT", message, place=SourceLocation(http_url(skill)), fix=_CONFLICT_FIX)
    found_via = f"{skill.source}, {published.found_via}"
    return published._replace(found_via=found_via, requested_by_name=True, lan=skill)


class SkippedProvider(NamedTuple):
    """A skill that was not called, and why."""

    ref: SkillRef
    error: SkillwireError

    @property
    def reason(self) -> str:
        """The skill, its publisher and the error in a sentence."""
        return f"{self.ref.name} {provider_label(self.ref)} was passed over: {self.error.message}"


def provider_label(ref: SkillRef) -> str:
    """Return ``of AGENT at HOST:PORT``, or ``at ORIGIN`` if no agent announces the skill."""
    return ref.lan.publisher_label if ref.lan is not None else f"at {ref.origin}"


class Providers:
    """Yields the providers of a capability, rung by rung; ``passed`` has the skipped ones.

    Args:
        capability: a capability, or the name of a skill.
        climb: finds the providers.
        use_unverified: use skills without a certified key.
        limit: time for all providers together.
        on_climb: called with the rungs that were tried for a provider.
    """

    def __init__(
        self,
        capability: str,
        climb: Climb[SkillRef],
        *,
        use_unverified: bool,
        limit: TimeLimit,
        on_climb: Callable[[Sequence[RungTrace]], object],
    ) -> None:
        self.capability, self.climb = capability, climb
        self.passed: list[SkippedProvider] = []
        self.limit, self._use_unverified, self._on_climb = limit, use_unverified, on_climb
        self._waiting: list[SkillRef] = []
        self._seen: set[tuple[str, str]] = set()

    def next(self) -> Flow[SkillRef]:
        """Return the provider to call next.

        Raises:
            NotFoundError: ``DISC_002``, no skill offers the capability.
            TrustError: ``DISC_004``, all its skills are unverified.
            FetchError: ``DISC_001``, no agent answers; ``DISC_006``, no provider is left; ``TIMEOUT``.
        """
        while not self._waiting:
            passed = len(self.passed)
            try:
                found = yield from self.climb.next()
            finally:
                self._on_climb(self.climb.traces)
            if not found:
                message = f"no skill offers {self.capability}, or has this name"
                raise NotFoundError("DISC_002", message, fix="List names and capabilities: skillwire find --lan.")
            self._add(found)
            if not self._waiting and len(self.passed) > passed:
                self.climb.reject(self._exhausted())
        if self.limit.is_over:
            reasons = "".join(f"; {one.reason}" for one in self.passed[:_MAX_REASONS])
            raise FetchError(
                "TIMEOUT", f"no provider could be called within {in_seconds(self.limit.seconds or 0)}{reasons}"
            )
        return self._waiting.pop(0)

    def _add(self, found: Iterable[SkillRef]) -> None:
        for ref in found:
            place, skill = SourceLocation(ref.origin), ref.lan
            if (ref.name, ref.origin) in self._seen:
                continue
            self._seen.add((ref.name, ref.origin))
            if skill is not None and skill.is_revoked:
                self.passed.append(SkippedProvider(ref, revoked(skill.agent_id, ref.name, ref.origin)))
            elif skill is not None and not skill.is_usable:
                error = FetchError("DISC_006", f"{skill.skill_id} is {skill.status}", place=place)
                self.passed.append(SkippedProvider(ref, error))
            elif skill is not None and not (skill.is_verified or self._use_unverified):
                self.passed.append(SkippedProvider(ref, unusable(skill)))
            else:
                self._waiting.append(ref)

    def _exhausted(self) -> SkillwireError:
        if len(self.passed) == 1:
            return self._only(self.passed[0])
        count, are_unverified = len(self.passed), [one.error.code == "DISC_004" for one in self.passed]
        fix = _UNVERIFIED_FIX if any(are_unverified) else None
        if all(are_unverified):
            message = f"none of the {count} skills that offer {self.capability} has a certified key"
            return TrustError("DISC_004", message, fix=fix)
        reasons = "; ".join(one.reason for one in self.passed[:_MAX_REASONS])
        more = f"; and {count - _MAX_REASONS} more" if count > _MAX_REASONS else ""
        message = f"none of the {count} skills that offer {self.capability} could be called: {reasons}{more}"
        return FetchError("DISC_006", message, fix=fix)

    def lookup_seconds(self) -> float:
        """Return how many seconds a document of the last provider may take.

        While another provider is known, it is a few seconds and at most half of the remaining time.
        """
        share, bound = (2, limits.CALL_LOOKUP_SECONDS) if self._waiting else (1, limits.CALL_LAST_LOOKUP_SECONDS)
        return min((self.limit.left() or math.inf) / share, float(bound))

    def failed(self, ref: SkillRef, error: SkillwireError, stage: Stage, *, is_safe: bool = False) -> None:
        """Skip a provider that could not be called; raise ``error`` if no other one may be called.

        Args:
            ref: from :meth:`next`.
            error: the error of the call.
            stage: ``reading`` the descriptor, ``checking`` the call against it, or ``calling``.
            is_safe: whether the call may run twice without harm.
        """
        # Invalid inputs are invalid for every provider; an invalid address is a fault of this one.
        may_go_on = stage == "reading" or isinstance(error, TrustError)
        if stage == "calling":
            may_go_on = error.may_be_accepted is False or (is_safe and isinstance(error, FetchError))
        if not may_go_on:
            raise error
        self.passed.append(SkippedProvider(ref, error))
        if not self._waiting:
            self.climb.reject(self._exhausted())

    def _only(self, passed: SkippedProvider) -> SkillwireError:
        error = passed.error
        if error.code in {"DISC_004", "DISC_006"}:
            return error
        message = f"the only skill that offers {self.capability} could not be called: {passed.reason}"
        return FetchError("DISC_006", message, place=error.place, fix=error.diagnostics().fix)


def no_answer(settings: LanSettings, scene: str = "") -> FetchError:
    """Return the error for a network that does not answer, to a request for ``scene`` if given."""
    groups = ", ".join(host_and_port(group, settings.port) for group in (settings.group, settings.group6) if group)
    serve = "skillwire serve FOLDER --lan" + (f" --scene {scene}" if scene else "")
    return FetchError(
        "DISC_001",
        f"no agent on the local network answered within {in_seconds(settings.discovery.patience)}: there is none, or "
        "datagrams do not get through",
        place=SourceLocation(groups) if settings.multicast else None,
        fix="Ask again, each time after a longer pause; skillwire lan lists the agents that this machine hears. "
        f"To offer a skill yourself: {serve}.",
    )


def not_joined(result: SceneResult, capabilities: Sequence[str], settings: LanSettings) -> SkillwireError:
    """Return the error for a scene without a provider of these capabilities, or without any answer."""
    if not result.is_missing:
        return no_answer(settings, result.scene)
    what = "capability" if len(capabilities) == 1 else "capabilities"
    able = f" with the {what} {' and '.join(capabilities)}" if capabilities else ""
    return NotFoundError("DISC_007", f"no agent on the local network provides the scene {result.scene}{able}")


def unusable(skill: LanSkill) -> SkillwireError:
    """Return the error for an unverified skill: its agent has no certified key, or no agent offers it."""
    if not skill.agent_id:
        message = f"only other agents mention {skill.skill_id}, and its own agent does not answer"
        return FetchError("DISC_006", message, place=SourceLocation(http_url(skill)), fix=_UNHEARD_FIX)
    message = f"{skill.agent_id}, which offers {skill.skill_id}, has no certified key"
    return TrustError("DISC_004", message, place=SourceLocation(http_url(skill)), fix=_UNVERIFIED_FIX)


def revoked(agent_id: str, skill_id: str, place: str) -> TrustError:
    """Return the error for a skill of an agent whose key was revoked."""
    message = f"{agent_id}, which offers {skill_id}, is refused: {REVOKED}"
    return TrustError("DISC_004", message, place=SourceLocation(place), fix=REVOKED_FIX.format(agent=agent_id))


def unverified_scene(scene: str, skill_id: str, endpoint: str, *, is_heard: bool = True) -> TrustError:
    """Return the error for a scene whose provider has no certified key.

    ``is_heard``: the provider has registered with this agent; otherwise only other agents name it.
    """
    if is_heard:
        message = f"{skill_id}, which provides the scene {scene}, has no certified key"
        return TrustError("DISC_004", message, place=SourceLocation(endpoint), fix=_UNVERIFIED_FIX)
    message = f"{skill_id} has not announced the scene {scene} itself; only other agents have"
    return TrustError("DISC_004", message, place=SourceLocation(endpoint), fix=_UNHEARD_FIX)


def unreachable_scene(scene: str, endpoints: Sequence[str]) -> FetchError:
    """Return the error for a scene whose providers all refuse connections."""
    message = f"no provider of the scene {scene} takes a connection; tried {', '.join(dict.fromkeys(endpoints))}"
    fix = "Start the provider again, or allow TCP connections to its port; then request the scene again."
    return FetchError("DISC_006", message, place=SourceLocation(endpoints[0]), fix=fix)


def search_center(settings: LanSettings, query: Query, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the SkillCenter's skills that match ``query``, or else those of its name; offline from the cache.

    Raises FetchError, DecodeError, ValidationError (``REGISTRY_ANSWER``).
    """
    wanted: dict[str, object] = {"capabilities": query.capabilities, "scenes": query.scenes, "types": query.types}
    found: list[SkillRef] = []
    if query.words or any(wanted.values()) or not query.name:
        found = yield from _search_center(settings, {**wanted, "keywords": query.words.split()}, context)
    if not found and query.name:
        named = yield from _search_center(settings, {"keywords": [query.name]}, context, f"/{query.name}")
        found = [skill for skill in named if skill.name == query.name]
    return found


def _search_center(
    settings: LanSettings, search: dict[str, object], context: ResolveContext, end: str = ""
) -> Flow[list[SkillRef]]:
    """Return the skills of a search whose endpoints end with ``end``; raise the first error if no row is usable."""
    url = f"{settings.center_url.rstrip('/')}/api/skills/search"
    body = json.dumps({key: value for key, value in search.items() if value}, sort_keys=True).encode()
    answer = yield from _ask_center(settings, url, body, context)
    if answer is None:
        return []
    found: list[SkillRef] = []
    failures: list[SkillwireError] = []
    for row in [row for row in _rows_of(answer.body, url) if str(row.get("endpoint")).endswith(end)][:_MAX_ROWS]:
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


def _ask_center(settings: LanSettings, url: str, body: bytes, context: ResolveContext) -> Flow[CachedResponse | None]:
    """Return the answer to a search, and cache it; offline the cached one, or None without a fresh one."""
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
    _rows_of(answer.body, url)  # an invalid answer is not cached
    if settings.keeps_center:
        yield from work(partial(context.keep, answer, credential))
    return answer


def _resolve_row(row: dict[str, Any], url: str, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the skill of a row. Raises TrustError (``DIGEST_CONFLICT``) if the refreshed index has another digest."""
    endpoint = str(row.get("endpoint", ""))
    if parse_url(endpoint).origin != parse_url(url).origin:
        raise ValidationError("URL", f"{ascii(endpoint)[:120]} is not of the SkillCenter's origin")
    stated = Digest.parse(str(row["digest"])) if row.get("digest") else None
    is_last = context.refresh or context.offline
    conflict: SkillwireError | None = None
    for asked in (context,) if is_last else (context, context._replace(refresh=True)):  # the cached index may be old
        skills = yield from resolve(parse_reference(endpoint), asked)
        rows = [one._replace(version=str(row.get("version")), digest=stated, found_via="a search") for one in skills]
        conflict = conflicting_digests([*skills, *rows])
        if conflict is None:
            return skills
    assert conflict is not None  # noqa: S101  # the loop runs once at least
    raise conflict


def _rows_of(body: bytes, url: str) -> Sequence[dict[str, Any]]:
    document = load_json(body, max_bytes=limits.CALL_ANSWER_BYTES, source=url)
    rows: Any = document.get("skills") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValidationError("REGISTRY_ANSWER", "the answer has no list named skills", place=SourceLocation(url))
    return rows
