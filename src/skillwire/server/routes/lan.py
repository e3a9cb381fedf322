"""A server on a local network over HTTP: its agent, the whole network for operators, and certificates.

Clients that found a skill by datagram read at ``/.well-known/skill-discovery`` which agent announces it, where it hands
out connection secrets, and lists that mDNS has no space for. ``/lan.json`` shows the whole network to operators: people
who signed in to the console with a key of the scope ``operator``, and programs with such a key.

An authority renews certificates at ``/lan/certificates``, one request at a time, and publishes the signed list of
revocations; both are public, because a request carries its own proof. ``/api/pki/...`` **[ours]** also has the chain,
and first certificates: an account of the registry gets one for the agent of its own name, and for the IDs of skills of
namespaces where it publishes; an operator for every name. Where everyone who signs in makes an account and chooses its
name, the namespace of that name has to be proven.

Names are those of Skill Discovery's own JSON; instants are seconds since the epoch. Spec: SDP §4.3, §10, §11.3. Trust:
requests are hostile; values of other agents are sent unchanged, and pages neutralise them.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skillwire import limits
from skillwire.model.access import OPERATOR
from skillwire.model.lan import FoundVia, Trust
from skillwire.model.package import Change, Role
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.skill_discovery.center import center_id
from skillwire.protocols.skill_discovery.dnssd import PATH, details_of
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.registry.accounts import PUBLISH
from skillwire.server.components import Protocol
from skillwire.server.openapi import TEXT, problem
from skillwire.server.problems import Problem, ProblemError, unauthenticated
from skillwire.server.responses import BytesResponse, json_response, private_json
from skillwire.server.routes.registry_requests import actor_of, decode_request
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Scope

    from skillwire.adapters.lan.certificates import RenewalResponse, RenewalService
    from skillwire.model.access import Principal
    from skillwire.model.lan import LanSnapshot
    from skillwire.registry.accounts import Actor
    from skillwire.server.components import Services
    from skillwire.server.lan.service import LanService
    from skillwire.server.routing import RequestContext
    from skillwire.trust.certificates import RequestedNames

SNAPSHOT_PATH: Final = "/lan.json"
_UNAUTHENTICATED: Final = unauthenticated("the LAN is shown to operators: sign in, or show a key of the scope operator")
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
    fields = LanSkillDocument.__struct_fields__
    skills = [LanSkillDocument(**{name: getattr(one, name) for name in fields}) for one in snapshot.skills]
    scenes = [
        LanSceneDocument(
            scene.name,
            scene.group_id,
            [LanMemberDocument(one.agent_id, one.skill_id, cast("Any", one.role)) for one in scene.members],
        )
        for scene in snapshot.scenes
    ]
    document = LanSnapshotDocument(
        snapshot.agent_id, skills, scenes, snapshot.at, snapshot.is_suspected, dict(counters)
    )
    return msgspec.json.encode(document)


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
        lan = None if services.lan is None else LanRoutes(services.lan, services.console.is_operator)
        authority = None if services.authority is None else CertificateRoutes(services.authority, services)
        route = partial(Route, label="service", loads=False)
        revocations = authority.revocations if authority else None
        return [
            route(PATH, lan.agent if lan else None, describes=_AGENT),
            route(SNAPSHOT_PATH, lan.snapshot if lan else None, answers_preflight=False, describes=_SNAPSHOT),
            route(CERTIFICATES_PATH, authority.renew if authority else None, methods=("POST",), describes=_RENEWAL),
            route(REVOCATIONS_PATH, revocations, describes=_REVOCATIONS),
            route(f"{_PKI}/chain", authority.chain if authority else None, describes=_CHAIN),
            route(f"{_PKI}/revocations", revocations, describes=_REVOCATIONS),
            route(f"{_PKI}/enroll", authority.enroll if authority else None, methods=("POST",), describes=_ENROLLMENT),
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
            message = self._service.trouble or "this server is not on the LAN yet"
            return Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"})
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
        return private_json(body)


#: Both are named in ``protocols.skill_discovery.credentials`` too, which imports cryptography: most servers do without.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_PKI: Final = "/api/pki"
_RENEWALS_WAITING: Final = 32
_RENEWALS_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a question has at most {limits.LAN_RENEWAL_BYTES:,} bytes")
_NO_ACCOUNT: Final = unauthenticated("a first certificate needs the token of an account")


class RenewalDocument(Struct):
    """A request for a new certificate: PKCS 10 in PEM, the one that is still good, milliseconds, and a signature."""

    request: str
    certificate: str
    timestamp: int
    signature: str


class IssuedCertificate(Struct, forbid_unknown_fields=True):
    """The new certificate: DER, in base64."""

    certificate: str


class EnrollmentRequest(Struct, forbid_unknown_fields=True):
    """A request for a first certificate: PKCS 10 in PEM, signed by the key to certify."""

    request: str


_ISSUED: Final[dict[str, Answer | str]] = {
    "200": Answer("The certificate.", {JSON: IssuedCertificate}, ("Cache-Control",)),
    "400": problem("Not a request for a certificate: `CERTIFICATE_REQUEST`, or what is wrong with its JSON."),
    "403": problem("Nothing is certified on it, or not these names: `CERTIFICATE_REFUSED`."),
    "404": "NotFound",
    "413": problem(f"It has more than {limits.LAN_RENEWAL_BYTES:,} bytes: `LIMIT_SIZE`."),
    "429": problem("Requests come too often, or this was certified often enough: `CERTIFICATE_REFUSED`.", "Pause"),
    "503": problem("The server is not ready, or the authority cannot sign at the moment: `NOT_READY`.", "Pause"),
}
_RENEWAL: Final = Operation("Renew a certificate", _ISSUED, body={JSON: RenewalDocument})
_REVOCATIONS: Final = Operation(
    "The revocation lists",
    {
        "200": Answer("The list, signed: PEM.", {"application/x-pem-file": TEXT}, ("Cache-Control",)),
        "404": "NotFound",
        "503": problem("The server is not ready, or the list cannot be signed at the moment: `NOT_READY`.", "Pause"),
    },
)


_CHAIN: Final = Operation(
    "The SkillCenter CAs, the issuing one first, and the root",
    {"200": Answer("PEM.", {"application/x-pem-file": TEXT}, ("Cache-Control",)), "404": "NotFound"},
)
_ENROLLMENT: Final = Operation(
    "Request a first certificate",
    {**_ISSUED, "401": problem("No token of an account was sent: `AUTH_REQUIRED`.", "WWW-Authenticate")},
    body={JSON: EnrollmentRequest},
)


class CertificateRoutes:
    """Issues and renews certificates and publishes revocations for one authority."""

    def __init__(self, authority: RenewalService, services: Services) -> None:
        self._authority = authority
        self._packages, self._catalog = services.packages, services.catalog
        self._authentication = services.authentication
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def renew(self, context: RequestContext) -> ASGIApp:
        """Answer a request for a new certificate."""
        body = await context.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE)
        return _response(await self._in_turn(self._authority.renew, body))

    async def enroll(self, context: RequestContext) -> ASGIApp:
        """Answer a request for a first certificate with the token of an account; the audit log has its names."""
        if context.principal is None:
            raise ProblemError(_NO_ACCOUNT)
        actor = actor_of(context) if self._packages else None
        refusal = await self._refusal_for(context.principal, actor)
        requested: list[RequestedNames] = []

        def check(names: RequestedNames) -> str:
            requested.append(names)
            return refusal(names)

        asked = decode_request(await context.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE), EnrollmentRequest)
        answer = await self._in_turn(partial(self._authority.enroll, refusal=check), asked.request.encode())
        if self._packages and actor and actor.account and answer.status == HTTPStatus.OK:
            details = {kind: list(names) for kind, names in requested[-1]._asdict().items() if names}
            change = Change(
                time.time(), actor.account, "certificate.issue", actor.account, details, actor.address, actor.request_id
            )
            await self._packages.registry.store.record(change)
        return _response(answer)

    async def chain(self, _: RequestContext) -> ASGIApp:
        """Return the certificates to trust."""
        return _response(await asyncio.to_thread(self._authority.chain))

    async def _refusal_for(self, principal: Principal, actor: Actor | None) -> Callable[[RequestedNames], str]:
        """Return what says why the caller may not have names; an empty text allows them."""
        if OPERATOR in principal.scopes or (actor is not None and actor.is_operator):
            return lambda _: ""
        account, namespaces, scope = "", set(), ""
        if actor is not None and actor.account and self._packages:
            account = actor.account
            roles = await self._packages.registry.store.roles(account)
            allowed = {name for name, role in roles.items() if actor.allows(PUBLISH, name)}
            namespaces = {name for name in allowed if roles[name].includes(Role.PUBLISHER)}
            is_chosen = (sign_in := self._authentication.sign_in) is not None and sign_in.makes_accounts
            if not actor.allows(PUBLISH, account):
                scope = f", or {account} by a token with the scope {PUBLISH},"
                account = ""
            elif is_chosen:
                found = await self._packages.registry.store.namespace(account)
                account = account if found is not None and found.proof.kind else ""
        catalog = self._catalog.current

        def refusal(names: RequestedNames) -> str:
            skills = catalog.public_view.listed_usable.skills.values() if catalog is not None and names.skills else ()
            own = {center_id(skill) for skill in skills if skill.publisher in namespaces}
            foreign = [*names.hosts, *({*names.agents} - {account}), *({*names.skills} - own)]
            return f"only an operator{scope} gets a certificate for {foreign[0]}" if foreign else ""

        return refusal

    async def _in_turn(self, answer: Callable[[bytes], RenewalResponse], body: bytes) -> RenewalResponse:
        if self._waiting >= _RENEWALS_WAITING:
            raise ProblemError(_RENEWALS_CROWDED)
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(answer, body)
        finally:
            self._waiting -= 1

    async def revocations(self, _: RequestContext) -> ASGIApp:
        """Return the signed list."""
        return _response(await asyncio.to_thread(self._authority.revocations))


def _response(answer: RenewalResponse) -> BytesResponse:
    return json_response(answer.body, answer.status, answer.media_type)
