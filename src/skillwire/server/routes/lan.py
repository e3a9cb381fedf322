"""A server on a local network over HTTP: its agent, the whole network for operators, and certificates.

Clients that found a skill by datagram read at ``/.well-known/skill-discovery`` which agent announces it, where it hands
out connection secrets, and lists that mDNS has no space for. ``/lan.json`` shows the whole network to operators: people
who signed in to the console with a key of the scope ``operator``, and programs with such a key.

An authority renews certificates, one request at a time, and publishes the signed list of revocations; both are public,
because a request carries its own proof. Names are those of Skill Discovery's own JSON; instants are seconds since the
epoch. Spec: SDP §4.3, §10, §11.3. Trust: values of other agents are sent unchanged; pages neutralise them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skillwire.model.access import OPERATOR
from skillwire.model.lan import FoundVia, Trust
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.skill_discovery.dnssd import PATH, details_of
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.components import Protocol
from skillwire.server.http import encode_fields
from skillwire.server.openapi import problem
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.responses import BytesResponse, json_response
from skillwire.server.routes.pki import certificate_routes
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Scope

    from skillwire.model.lan import LanScene, LanSkill, LanSnapshot
    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.server.lan.service import LanService

SNAPSHOT_PATH: Final = "/lan.json"
_PRIVATE: Final = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Cookie"}
_UNAUTHENTICATED: Final = Problem(
    401,
    "AUTH_REQUIRED",
    "the LAN is shown to operators: sign in, or show a key of the scope operator",
    fields={"WWW-Authenticate": 'Bearer realm="skillwire"'},
)
_DENIED: Final = Problem(403, "ACCESS_DENIED", "the LAN is shown to operators; this key is not of the scope operator")


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
    "The agent's name, and its port for connection secrets",
    {"200": Answer("Its agent.", {JSON: LanAgentDocument}, ("Cache-Control",)), "404": "NotFound", "503": _NO_LAN},
)
_SNAPSHOT: Final = Operation(
    "The local network, for operators",
    {**_OPERATORS, "200": Answer("All that is known.", {JSON: LanSnapshotDocument}, ("Cache-Control", "Vary"))},
)


class SkillDiscovery(Protocol):
    """Skill Discovery over HTTP: the agent of a server on a local network, and the network."""

    name = "Skill Discovery"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the agent, of the network, and of an authority; each is there where its part is."""
        lan = services.lan
        answers = None if lan is None else LanRoutes(lan, services.console.is_operator)
        route = partial(Route, label="service", loads=False)
        return [
            route(PATH, answers.agent if answers else None, describes=_AGENT),
            route(SNAPSHOT_PATH, answers.snapshot if answers else None, answers_preflight=False, describes=_SNAPSHOT),
            *certificate_routes(services),
        ]


class LanRoutes:
    """Answers about the network of ``service``; ``is_operator`` returns whether a browser is signed in as operator."""

    def __init__(self, service: LanService, is_operator: Callable[[Scope], Awaitable[bool]]) -> None:
        self._service = service
        self._is_operator = is_operator

    async def agent(self, _: RequestContext) -> ASGIApp:
        """Return our agent, to every caller."""
        agent_id = self._service.agent_id
        if not agent_id:
            return _unavailable(self._service)
        details = await asyncio.to_thread(details_of, agent_id, self._service.offers)
        return json_response(msgspec.json.encode(LanAgentDocument(agent_id, self._service.tls_port, details or None)))

    async def snapshot(self, context: RequestContext) -> ASGIApp:
        """Return the known network, to an operator."""
        if context.principal is not None:
            if OPERATOR not in context.principal.scopes:
                raise ProblemError(_DENIED)
        elif not await self._is_operator(context.scope):
            raise ProblemError(_UNAUTHENTICATED)
        service = self._service
        known = service.snapshot(), service.trouble, dict(service.counters)
        body = await asyncio.to_thread(encode_snapshot, *known)  # ten thousand skills take a while
        return BytesResponse(200, body, encode_fields(_PRIVATE))


def _unavailable(service: LanService) -> Problem:
    message = service.trouble or "this server is not on the LAN yet"
    return Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"})
