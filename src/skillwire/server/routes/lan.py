"""A server on a local network over HTTP: its agent, the whole network for operators, and certificates.

Clients that found a skill by datagram read at ``/.well-known/skill-discovery`` which agent announces it, where it hands
out connection secrets, and lists that mDNS has no space for. ``/lan.json`` and ``/lan/events`` show the whole network
to operators: people who signed in to the console with a key of the scope ``operator``, and programs with such a key.
The first event of the stream is ``snapshot``; each that follows is a ``change``, or another ``snapshot`` for a reader
that was too slow. A stream ends with its reader, its reader's right to look, the server, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`.

An authority renews certificates, one request at a time, and publishes the signed list of revocations; both are public,
because a request carries its own proof. Names are those of Skill Discovery's own JSON; instants are seconds since the
epoch. Spec: SDP §4.3, §10, §11.3. Trust: values of other agents are sent unchanged; pages neutralise them.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skillwire import limits
from skillwire.model.access import OPERATOR
from skillwire.model.lan import FoundVia, Trust
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.skill_discovery.dnssd import PATH, details_of
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.components import Protocol
from skillwire.server.event_streams import HEARTBEAT, STILL_HERE, OpenStreams, part
from skillwire.server.http import encode_fields
from skillwire.server.openapi import TEXT, problem
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.responses import BytesResponse, json_response
from skillwire.server.routes.pki import certificate_routes
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot
    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.server.lan.service import LanService

#: Both are named in ``protocols.skill_discovery.renewal`` too, which imports cryptography: most servers do without.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
SNAPSHOT_PATH: Final = "/lan.json"
EVENTS_PATH: Final = "/lan/events"
#: Seconds for which a reader's right to look is not checked again.
_RIGHT_SECONDS: Final = 1.0
_RENEWALS_WAITING: Final = 32
_PRIVATE: Final = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Cookie"}
_CROWDED: Final = Problem(503, "ENDPOINT_UNREACHABLE", "too many follow the LAN already", fields={"Retry-After": "30"})
_UNAUTHENTICATED: Final = Problem(
    401,
    "AUTH_REQUIRED",
    "the LAN is shown to operators: sign in, or show a key of the scope operator",
    fields={"WWW-Authenticate": 'Bearer realm="skillwire"'},
)
_DENIED: Final = Problem(403, "ACCESS_DENIED", "the LAN is shown to operators; this key is not of the scope operator")
_RENEWALS_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a question has at most {limits.LAN_RENEWAL_BYTES:,} bytes")


class LanSkillDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A skill on the network; ``endpoint`` is HOST:PORT, ``heard`` in seconds since the epoch."""

    agent_id: str
    skill_id: str
    version: str
    skill_type: str
    endpoint: str
    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]
    status: HealthStatus
    trust: Trust
    found_via: FoundVia
    heard: float
    is_stale: bool


class LanMemberDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A skill that takes part in a scene."""

    agent_id: str
    skill_id: str
    role: Literal["PRIMARY", "BACKUP"]


class LanSceneDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A scene."""

    scene_id: str
    group_id: str
    members: list[LanMemberDocument]


class LanSnapshotDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """The known network; without an agent ``trouble`` says why. Many silent at once make the network *suspected*."""

    agent_id: str | None
    skills: list[LanSkillDocument]
    scenes: list[LanSceneDocument]
    at: float | UnsetType = UNSET
    is_suspected: bool | UnsetType = UNSET
    counters: dict[str, int] | UnsetType = UNSET
    trouble: str | UnsetType = UNSET


class LanChangeDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A change; ``reason`` says why a skill is gone, where that is known."""

    kind: Literal["registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene"]
    at: float
    skill: LanSkillDocument | UnsetType = UNSET
    scene: LanSceneDocument | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LanAgentDocument(Struct, rename="camel", omit_defaults=True):
    """Our agent, the port where it hands out connection secrets, and lists that mDNS has no space for."""

    agent_id: str
    tls_port: int = 0
    skills: Any = None


def encode_snapshot(snapshot: LanSnapshot | None, trouble: str, counters: Mapping[str, int]) -> bytes:
    """Return the known network as JSON; without one, the reason."""
    if snapshot is None:
        return msgspec.json.encode(LanSnapshotDocument(None, [], [], trouble=trouble or "not on the LAN yet"))
    skills, scenes = list(map(_skill, snapshot.skills)), list(map(_scene, snapshot.scenes))
    document = LanSnapshotDocument(
        snapshot.agent_id, skills, scenes, snapshot.at, snapshot.is_suspected, dict(counters)
    )
    return msgspec.json.encode(document)


def encode_change(change: LanChange) -> bytes:
    """Return one change as JSON."""
    document = LanChangeDocument(
        change.kind,  # type: ignore[arg-type]  # a reader that was too slow gets a snapshot in place of "missed"
        change.at,
        UNSET if change.skill is None else _skill(change.skill),
        UNSET if change.scene is None else _scene(change.scene),
        change.reason or UNSET,
    )
    return msgspec.json.encode(document)


def _skill(skill: LanSkill) -> LanSkillDocument:
    return LanSkillDocument(
        skill.agent_id,
        skill.skill_id,
        skill.version,
        skill.skill_type,
        skill.endpoint,
        skill.capabilities,
        skill.scenes,
        HealthStatus(skill.status),
        skill.trust,
        skill.found_via,
        skill.heard,
        skill.is_stale,
    )


def _scene(scene: LanScene) -> LanSceneDocument:
    members = [LanMemberDocument(one.agent_id, one.skill_id, cast("Any", one.role)) for one in scene.members]
    return LanSceneDocument(scene.name, scene.group_id, members)


_NO_LAN: Final = problem(
    "The server is not ready, or this server is not on the local network yet: `LAN_UNAVAILABLE`.",
    "Pause",
    schema=("Problem", "SharingError"),
)
_OPERATORS: Final[dict[str, Answer | str]] = {
    "401": problem("No session and no key were sent: `AUTH_REQUIRED`.", "WWW-Authenticate"),
    "403": problem("The caller is no operator: `ACCESS_DENIED`.", schema=("Problem", "SharingError")),
    "404": "NotFound",
}
_AGENT: Final = Operation(
    "Which agent announces these skills, and where it hands out connection secrets",
    {"200": Answer("Its agent.", {JSON: LanAgentDocument}, ("Cache-Control",)), "404": "NotFound", "503": _NO_LAN},
)
_SNAPSHOT: Final = Operation(
    "The network, for operators",
    {**_OPERATORS, "200": Answer("All that is known.", {JSON: LanSnapshotDocument}, ("Cache-Control", "Vary"))},
)
_STREAM: Final = {
    **TEXT,
    "description": "The `data` of each event is JSON in one line.",
    "x-event-data": {"snapshot": LanSnapshotDocument, "change": LanChangeDocument},
}
_EVENTS: Final = Operation(
    "`snapshot` and each `change` of the network as they happen, for operators",
    {**_OPERATORS, "200": Answer("The stream.", {"text/event-stream": _STREAM}, ("Cache-Control",)), "503": _NO_LAN},
)


class SkillDiscovery(Protocol):
    """Skill Discovery over HTTP: the agent of a server on a local network, and the network."""

    name = "Skill Discovery"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the agent, of the network, and of an authority; each is there where its part is."""
        lan = services.lan
        answers = None if lan is None else LanRoutes(lan, services.console.is_operator)
        if answers is not None:
            services.close_streams.append(answers.close)
        route = partial(Route, label="service", loads=False)
        return [
            route(PATH, answers.agent if answers else None, describes=_AGENT),
            route(SNAPSHOT_PATH, answers.snapshot if answers else None, answers_preflight=False, describes=_SNAPSHOT),
            route(EVENTS_PATH, answers.events if answers else None, answers_preflight=False, describes=_EVENTS),
            *certificate_routes(services),
        ]


class LanRoutes:
    """Answers about the network of ``service``; ``is_operator`` returns whether a browser is signed in as operator."""

    def __init__(self, service: LanService, is_operator: Callable[[Scope], Awaitable[bool]]) -> None:
        self._service = service
        self._is_operator = is_operator
        self._streams = LanStreams(service)

    async def agent(self, _: RequestContext) -> ASGIApp:
        """Return our agent, to every caller."""
        agent_id = self._service.agent_id
        if not agent_id:
            return _unavailable(self._service)
        details = await asyncio.to_thread(details_of, agent_id, self._service.offers)
        return json_response(msgspec.json.encode(LanAgentDocument(agent_id, self._service.tls_port, details or None)))

    async def snapshot(self, context: RequestContext) -> ASGIApp:
        """Return the known network, to an operator."""
        await self._check_operator(context)
        return BytesResponse(200, await encoded_snapshot(self._service), encode_fields(_PRIVATE))

    async def events(self, context: RequestContext) -> None:
        """Send an operator the changes of the network as they happen."""
        may_look = await self._check_operator(context)
        await self._streams.serve(may_look, context.receive, context.send)

    def close(self) -> None:
        """End the streams."""
        self._streams.close()
        self._service.close_streams()

    async def _check_operator(self, context: RequestContext) -> Callable[[], Awaitable[bool]]:
        """Return a function that says whether the caller may still look. Raises ProblemError (401, 403)."""

        async def always() -> bool:  # a stream ends after a while, and the next one shows the key again
            return True

        if context.principal is not None:
            if OPERATOR not in context.principal.scopes:
                raise ProblemError(_DENIED)
            return always
        if not await self._is_operator(context.scope):
            raise ProblemError(_UNAUTHENTICATED)
        return partial(self._is_operator, context.scope)


class LanStreams(OpenStreams):
    """The open streams of changes; ``heartbeat`` seconds without one send a line that keeps the connection open."""

    def __init__(self, service: LanService, heartbeat: float = HEARTBEAT) -> None:
        super().__init__()
        self._service = service
        self._heartbeat = heartbeat

    async def serve(self, may_look: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        """Send the changes for as long as the reader stays, and ``may_look``."""
        if self.is_full:
            await _CROWDED.send(send)
        elif (changes := self._service.listen()) is None:
            await _unavailable(self._service).send(send)
        else:
            await self.keep(partial(self._write, changes, may_look), receive, send)

    async def _write(
        self, changes: AsyncIterator[LanChange], may_look: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        await send(_event(b"snapshot", await encoded_snapshot(self._service)))
        checked = time.monotonic()
        end = checked + limits.CONSOLE_STREAM_SECONDS
        coming = asyncio.ensure_future(anext(changes, None))
        try:
            while time.monotonic() < end:
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                # Checked by the clock, since a busy network may never be quiet.
                if not done or time.monotonic() >= checked + _RIGHT_SECONDS:
                    if not await may_look():
                        return
                    checked = time.monotonic()
                if not done:
                    await send(part(STILL_HERE))
                    continue
                change = coming.result()
                if change is None:  # the agent has ended
                    return
                if change.kind == "missed":
                    await send(_event(b"snapshot", await encoded_snapshot(self._service)))
                else:
                    await send(_event(b"change", encode_change(change)))
                coming = asyncio.ensure_future(anext(changes, None))
        finally:
            coming.cancel()


async def encoded_snapshot(service: LanService) -> bytes:
    """Return the known network as JSON; changes during the encoding are not in it."""
    known = service.snapshot(), service.trouble, dict(service.counters)
    return await asyncio.to_thread(encode_snapshot, *known)  # ten thousand skills take a while


def _event(name: bytes, data: bytes) -> dict[str, object]:
    return part(b"event: " + name + b"\ndata: " + data + b"\n\n")  # JSON as we write it has no line ends


def _unavailable(service: LanService) -> Problem:
    message = service.trouble or "this server is not on the LAN yet"
    return Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"})
