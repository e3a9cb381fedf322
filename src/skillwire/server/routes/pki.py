"""The certificates of a SkillCenter over HTTP: its chain, its revocations, first certificates, and renewals.

``/api/pki/...`` **[ours]** serves what the figure of the text draws: a root, the SkillCenter CA below it, and the
skills and agents that it certifies. An account of the registry gets a certificate for the agent of its own name, and
for the IDs of skills of namespaces where it publishes; an operator for every name. Where everyone who signs in makes an
account and chooses its name, the namespace of that name has to be proven. A certificate is renewed at
``/lan/certificates``, without a token. Requests are answered one at a time. Spec: SDP §10.2. Trust: requests are
hostile.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from skillwire import limits
from skillwire.model.access import OPERATOR
from skillwire.model.package import Change, Role
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.skill_discovery.center import center_id
from skillwire.registry.accounts import PUBLISH
from skillwire.server.openapi import TEXT, problem
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.responses import BytesResponse, json_response
from skillwire.server.routes.registry_requests import actor_of, decode_request
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp

    from skillwire.adapters.lan.certificates import RenewalResponse, RenewalService
    from skillwire.model.access import Principal
    from skillwire.registry.accounts import Actor
    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.trust.certificates import RequestedNames

#: Both are named in ``protocols.skill_discovery.renewal`` too, which imports cryptography: most servers do without.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_PKI: Final = "/api/pki"
_RENEWALS_WAITING: Final = 32
_OK: Final = 200
_RENEWALS_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a question has at most {limits.LAN_RENEWAL_BYTES:,} bytes")
_UNAUTHENTICATED: Final = Problem(
    401,
    "AUTH_REQUIRED",
    "a first certificate needs the token of an account",
    fields={"WWW-Authenticate": 'Bearer realm="skillwire"'},
)


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


def certificate_routes(services: Services) -> Sequence[Route]:
    """Return the rows of an authority; without one nothing is there."""
    found = None if services.authority is None else CertificateRoutes(services.authority, services)
    route = partial(Route, label="service", loads=False)
    renew, revocations, chain, enroll = (
        (found.renew, found.revocations, found.chain, found.enroll) if found else (None, None, None, None)
    )
    return [
        route(CERTIFICATES_PATH, renew, methods=("POST",), describes=_RENEWAL),
        route(REVOCATIONS_PATH, revocations, describes=_REVOCATIONS),
        route(f"{_PKI}/chain", chain, describes=_CHAIN),
        route(f"{_PKI}/revocations", revocations, describes=_REVOCATIONS),
        route(f"{_PKI}/enroll", enroll, methods=("POST",), describes=_ENROLLMENT),
    ]


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
            raise ProblemError(_UNAUTHENTICATED)
        actor = actor_of(context) if self._packages else None
        refusal = await self._refusal_for(context.principal, actor)
        requested: list[RequestedNames] = []

        def check(names: RequestedNames) -> str:
            requested.append(names)
            return refusal(names)

        asked = decode_request(await context.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE), EnrollmentRequest)
        answer = await self._in_turn(partial(self._authority.enroll, refusal=check), asked.request.encode())
        if self._packages and actor and actor.account and answer.status == _OK:
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
        account, namespaces = "", set()
        if actor is not None and actor.account and self._packages:
            account = actor.account
            roles = await self._packages.registry.store.roles(account)
            allowed = {name for name, role in roles.items() if actor.allows(PUBLISH, name)}
            namespaces = {name for name in allowed if roles[name].includes(Role.PUBLISHER)}
            is_chosen = (sign_in := self._authentication.sign_in) is not None and sign_in.makes_accounts
            if not actor.allows(PUBLISH, account) or (is_chosen and not await self._is_proven(account)):
                account = ""
        catalog = self._catalog.current

        def refusal(names: RequestedNames) -> str:
            skills = catalog.public_view.listed_usable.skills.values() if catalog is not None and names.skills else ()
            own = {center_id(skill) for skill in skills if skill.publisher in namespaces}
            foreign = [*names.hosts, *({*names.agents} - {account}), *({*names.skills} - own)]
            return f"only an operator gets a certificate for {foreign[0]}" if foreign else ""

        return refusal

    async def _is_proven(self, namespace: str) -> bool:
        found = await self._packages.registry.store.namespace(namespace) if self._packages else None
        return found is not None and found.proof.kind != ""

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
