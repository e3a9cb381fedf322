"""A server on a local network over HTTP: its agent, the whole network for operators, and certificates.

Clients that found a skill by datagram read at ``/.well-known/skill-discovery`` which agent announces it, where it hands
out connection secrets, and lists that mDNS has no space for. ``/lan.json`` and ``/lan/events`` show the whole network
to operators: people who signed in to the console with a key of the scope ``operator``, and programs with such a key.
The first event of the stream is ``snapshot``; each that follows is a ``change``, or another ``snapshot`` for a reader
that was too slow. A stream ends with its reader, its reader's right to look, the server, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`.

An authority renews certificates, one request at a time, and publishes the signed list of revocations; both are public,
because a request carries its own proof. Names are those of Skill Discovery's own JSON; instants are seconds since the
epoch. Spec: SDP §4.3, §10, §11.3. Trust: what others sent is passed on as it is; pages neutralise it.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

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
from skillwire.server.problems import READ, Problem, ProblemError
from skillwire.server.responses import BytesResponse, json_response
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from skillwire.adapters.lan.certificates import RenewalResponse, RenewalService
    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot
    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.server.lan.service import LanService
    from skillwire.server.routing import Handler


#: Both are named in ``protocols.skill_discovery.renewal`` too, which imports cryptography: most servers do without.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_encode = msgspec.json.Encoder().encode


def encode_snapshot(snapshot: LanSnapshot | None, trouble: str, counters: Mapping[str, int]) -> bytes:
    """Return all that is known; without a network, why there is none."""
    if snapshot is None:
        return _encode({"agentId": None, "trouble": trouble or "not on the LAN yet", "skills": [], "scenes": []})
    return _encode(
        {
            "agentId": snapshot.agent_id,
            "at": snapshot.at,
            "isSuspected": snapshot.is_suspected,
            "skills": [_skill(skill) for skill in snapshot.skills],
            "scenes": [_scene(scene) for scene in snapshot.scenes],
            "counters": dict(counters),
        }
    )


def encode_change(change: LanChange) -> bytes:
    """Return one change; with ``reason`` where it is known why a skill is gone."""
    document: dict[str, Any] = {"kind": change.kind, "at": change.at}
    if change.skill is not None:
        document["skill"] = _skill(change.skill)
    if change.reason:
        document["reason"] = change.reason
    if change.scene is not None:
        document["scene"] = _scene(change.scene)
    return _encode(document)


def _skill(skill: LanSkill) -> dict[str, Any]:
    return {
        "agentId": skill.agent_id,
        "skillId": skill.skill_id,
        "version": skill.version,
        "skillType": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": skill.capabilities,
        "scenes": skill.scenes,
        "status": skill.status,
        "trust": skill.trust,
        "foundVia": skill.found_via.value,
        "heard": skill.heard,
        "isStale": skill.is_stale,
    }


def _scene(scene: LanScene) -> dict[str, Any]:
    members = [
        {"agentId": member.agent_id, "skillId": member.skill_id, "role": member.role} for member in scene.members
    ]
    return {"sceneId": scene.name, "groupId": scene.group_id, "members": members}


#: Seconds in which a reader is believed that it may look, however many changes it is told.
_BELIEVED: Final = 1.0
_CROWDED: Final = Problem(503, "ENDPOINT_UNREACHABLE", "too many follow the LAN already", fields={"Retry-After": "30"})


class LanStreams(OpenStreams):
    """The streams that are open.

    Args:
        service: that is followed.
        heartbeat: seconds until a line shows that a quiet stream lives.
    """

    def __init__(self, service: LanService, heartbeat: float = HEARTBEAT) -> None:
        super().__init__()
        self._service = service
        self._heartbeat = heartbeat

    async def serve(self, may_look: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        """Send what happens for as long as the reader stays, and ``may_look``."""
        if self.is_full:
            await _CROWDED.send(send)
            return
        changes = self._service.listen()
        if changes is None:
            message = self._service.trouble or "this server is not on the LAN yet"
            await Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}).send(send)
            return
        await self.keep(partial(self._write, changes, may_look), receive, send)

    async def _write(
        self, changes: AsyncIterator[LanChange], may_look: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        await send(_event(b"snapshot", await encoded_snapshot(self._service)))
        believed = time.monotonic()
        end = believed + limits.CONSOLE_STREAM_SECONDS
        coming = asyncio.ensure_future(anext(changes, None))
        try:
            while time.monotonic() < end:
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                # Asked by the clock, since a network on which much happens may never be quiet.
                if not done or time.monotonic() >= believed + _BELIEVED:
                    if not await may_look():
                        return
                    believed = time.monotonic()
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
    """Return all that is known now; what changes while it is encoded is not in it."""
    known = service.snapshot(), service.trouble, dict(service.counters)
    return await asyncio.to_thread(encode_snapshot, *known)  # ten thousand skills take a while


def _event(name: bytes, data: bytes) -> dict[str, object]:
    return part(b"event: " + name + b"\ndata: " + data + b"\n\n")  # JSON as we write it has no line ends


SNAPSHOT_PATH: Final = "/lan.json"
EVENTS_PATH: Final = "/lan/events"
_UNASKED: Final = Problem(
    401,
    "AUTH_REQUIRED",
    "the LAN is shown to operators: sign in, or show a key of the scope operator",
    fields={"WWW-Authenticate": 'Bearer realm="skillwire"'},
)
_DENIED: Final = Problem(403, "ACCESS_DENIED", "the LAN is shown to operators; this key is not of the scope operator")
_PRIVATE: Final = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Cookie"}


class LanSkillDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A skill on the network; ``endpoint`` is HOST:PORT, ``heard`` in seconds since the epoch."""

    agent_id: str
    skill_id: str
    version: str
    skill_type: str
    endpoint: str
    capabilities: list[str]
    scenes: list[str]
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
    """All that is known; without an agent ``trouble`` says why. Many silent at once make the network *suspected*."""

    agent_id: str | None
    skills: list[LanSkillDocument]
    scenes: list[LanSceneDocument]
    at: float = 0.0
    is_suspected: bool = False
    counters: dict[str, int] = {}
    trouble: str = ""


class LanChangeDocument(Struct, rename="camel", forbid_unknown_fields=True):
    """A change; ``reason`` says why a skill is gone, where that is known."""

    kind: Literal["registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene"]
    at: float
    skill: LanSkillDocument | None = None
    scene: LanSceneDocument | None = None
    reason: str = ""


class LanAgentDocument(Struct, rename="camel", omit_defaults=True):
    """Our agent, the port where it hands out connection secrets, and lists that mDNS has no space for."""

    agent_id: str
    tls_port: int = 0
    skills: Any = None


class RenewalDocument(Struct):
    """A request for a new certificate: PKCS 10 in PEM, the one that is still good, milliseconds, and a signature."""

    request: str
    certificate: str
    timestamp: int
    signature: str


class IssuedCertificate(Struct, forbid_unknown_fields=True):
    """The new certificate: DER, in base64."""

    certificate: str


_NO_LAN: Final = problem(
    "As above, or this server is not on the local network yet: `LAN_UNAVAILABLE`.",
    "Pause",
    schema=("Problem", "SharingError"),
)
_OPERATORS: Final[dict[str, Answer | str]] = {
    "401": problem("Nobody is signed in, and no key was sent: `AUTH_REQUIRED`.", "WWW-Authenticate"),
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
_RENEWAL: Final = Operation(
    "Renew a certificate, before it ends",
    {
        "200": Answer("The new one.", {JSON: IssuedCertificate}, ("Cache-Control",)),
        "400": problem("Not a request for a certificate: `CERTIFICATE_REQUEST`, or what is wrong with its JSON."),
        "403": problem("Nothing is certified on it: `CERTIFICATE_REFUSED`."),
        "404": "NotFound",
        "413": problem(f"It has more than {limits.LAN_RENEWAL_BYTES:,} bytes: `LIMIT_SIZE`."),
        "429": problem("As above, or it was renewed often enough: `CERTIFICATE_REFUSED`.", "Pause"),
        "503": problem("As above, or the authority cannot sign at the moment: `NOT_READY`.", "Pause"),
    },
    body={JSON: RenewalDocument},
)
_REVOCATIONS: Final = Operation(
    "Which certificates were revoked",
    {
        "200": Answer("The list, signed: PEM.", {"application/x-pem-file": TEXT}, ("Cache-Control",)),
        "404": "NotFound",
        "503": problem("As above, or the list cannot be signed at the moment: `NOT_READY`.", "Pause"),
    },
)


class SkillDiscovery(Protocol):
    """Skill Discovery over HTTP: what a server on a local network says of its agent, and of the network."""

    name = "Skill Discovery"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the agent, of the network, and of an authority; each is there where its part is."""
        lan, authority = services.lan, services.authority
        answers = None if lan is None else LanRoutes(lan, services.console.is_operator)
        certificates = None if authority is None else CertificateRoutes(authority)
        if answers is not None:
            services.close_streams.append(answers.close)
        rows: list[tuple[str, Handler | None, Sequence[str], bool, Operation]] = [
            (PATH, None if answers is None else answers.agent, READ, True, _AGENT),
            (SNAPSHOT_PATH, None if answers is None else answers.snapshot, READ, False, _SNAPSHOT),
            (EVENTS_PATH, None if answers is None else answers.events, READ, False, _EVENTS),
            (CERTIFICATES_PATH, None if certificates is None else certificates.renew, ("POST",), True, _RENEWAL),
            (REVOCATIONS_PATH, None if certificates is None else certificates.revocations, READ, True, _REVOCATIONS),
        ]
        return [
            Route(
                path, handler, "service", methods=methods, cross_origin=cross_origin, loads=False, describes=operation
            )
            for path, handler, methods, cross_origin, operation in rows
        ]


class LanRoutes:
    """Answers about one server.

    Args:
        service: what it does on the network.
        is_operator: whether a browser is signed in as one.
    """

    def __init__(self, service: LanService, is_operator: Callable[[Scope], Awaitable[bool]]) -> None:
        self._service = service
        self._is_operator = is_operator
        self._streams = LanStreams(service)

    async def agent(self, _: RequestContext) -> ASGIApp:
        """Return which agent is ours, to anyone."""
        agent = self._service.agent_id
        if not agent:
            message = self._service.trouble or "this server is not on the LAN yet"
            return Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"})
        document: dict[str, object] = {"agentId": agent}
        if self._service.tls_port:
            document["tlsPort"] = self._service.tls_port
        if details := await asyncio.to_thread(details_of, agent, self._service.offers):
            document["skills"] = details
        return json_response(msgspec.json.encode(document))

    async def snapshot(self, context: RequestContext) -> ASGIApp:
        """Return what is known of the network, to an operator."""
        await self._check_operator(context)
        return BytesResponse(200, await encoded_snapshot(self._service), encode_fields(_PRIVATE))

    async def events(self, context: RequestContext) -> None:
        """Answer an operator with what happens, as it happens."""
        may_look = await self._check_operator(context)
        await self._streams.serve(may_look, context.receive, context.send)

    def close(self) -> None:
        """End the streams."""
        self._streams.close()
        self._service.close_streams()

    async def _check_operator(self, context: RequestContext) -> Callable[[], Awaitable[bool]]:
        """Return a function that says whether the caller may still look.

        Raises:
            ProblemError: the caller is no operator (401, 403).
        """
        if context.principal is not None:
            if OPERATOR not in context.principal.scopes:
                raise ProblemError(_DENIED)
            return _always  # a stream ends after a while, and the next one shows the key again
        if not await self._is_operator(context.scope):
            raise ProblemError(_UNASKED)
        return lambda: self._is_operator(context.scope)


async def _always() -> bool:
    return True


_RENEWALS_WAITING: Final = 32
_RENEWALS_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a question has at most {limits.LAN_RENEWAL_BYTES:,} bytes")


class CertificateRoutes:
    """Answers for one authority.

    Args:
        desk: that it does.
    """

    def __init__(self, desk: RenewalService) -> None:
        self._desk = desk
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def renew(self, context: RequestContext) -> ASGIApp:
        """Answer a request for a new certificate."""
        body = await context.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE)
        if self._waiting >= _RENEWALS_WAITING:
            return _RENEWALS_CROWDED
        self._waiting += 1
        try:
            async with self._turn:
                return _response(await asyncio.to_thread(self._desk.renew, body))
        finally:
            self._waiting -= 1

    async def revocations(self, _: RequestContext) -> ASGIApp:
        """Answer with the signed list."""
        return _response(await asyncio.to_thread(self._desk.revocations))


def _response(answer: RenewalResponse) -> BytesResponse:
    return json_response(answer.body, answer.status, answer.media_type)
