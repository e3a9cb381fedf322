"""The doors of a server that certifies others: a certificate that is renewed, and the list of what was taken back.

They are open to everybody: a question for a certificate carries its own proof, and the list is signed. Questions are
judged one after the other, off the event loop; when too many wait, others are sent away for a moment. Spec: SDP §10.2.

Where members of a scene get keys for the skills that are announced here: a port of TLS, beside HTTP.

It is opened when the first skill that takes part in a scene is announced, and told at ``/.well-known/skill-discovery``.
A key is a token of this server's store, for one skill and one hour. Where all agents share a group key nobody has a
certificate to show, and there is no such port. Spec: SDP §4.3; docs/decisions/0009.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

import structlog

from skillwire import limits
from skillwire.adapters.lan.connection_secrets import SecretsServer, TokenIssuer
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS
from skillwire.protocols.skill_discovery.renewal import CERTIFICATES_PATH, REVOCATIONS_PATH
from skillwire.server.auth.authentication import ProblemError
from skillwire.server.doors import Plugin
from skillwire.server.http import encode_fields
from skillwire.server.problems import READ, Problem, answer_other_method, answer_preflight, method_not_allowed
from skillwire.trust.ecdsa import EcdsaIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.adapters.lan.certificates import RenewalResponse, RenewalService
    from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret, SecretRequest
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.registry.tokens import Tokens
    from skillwire.server.context import RequestContext
    from skillwire.server.metrics import Route


_ALLOWED: Final = "POST, OPTIONS"
_WAITING: Final = 32
_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
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

    def annex(self) -> Plugin:
        """Return the doors by their paths."""
        return Plugin({CERTIFICATES_PATH: self.renew, REVOCATIONS_PATH: self.tell_revocations})

    async def renew(self, visit: RequestContext) -> Route:
        """Answer a question for a new certificate."""
        await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_ALLOWED, visit.send)
            return "service"
        if visit.method != "POST":
            raise ProblemError(method_not_allowed(visit.method, _ALLOWED))
        body = await visit.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE)
        if self._waiting >= _WAITING:
            raise ProblemError(_CROWDED)
        self._waiting += 1
        try:
            async with self._turn:
                answer = await asyncio.to_thread(self._desk.renew, body)
        finally:
            self._waiting -= 1
        await _send(visit, answer)
        return "service"

    async def tell_revocations(self, visit: RequestContext) -> Route:
        """Answer with the signed list."""
        await visit.identify()
        if visit.method not in READ:
            await answer_other_method(visit.method, visit.send)
            return "service"
        await _send(visit, await asyncio.to_thread(self._desk.revocations))
        return "service"


async def _send(visit: RequestContext, answer: RenewalResponse) -> None:
    own = {
        "Content-Type": answer.media_type,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-store",
    }
    await visit.send(
        {"type": "http.response.start", "status": answer.status, "headers": encode_fields(own, OPEN_FIELDS)}
    )
    await visit.send({"type": "http.response.body", "body": b"" if visit.method == "HEAD" else answer.body})


class SceneSecrets:
    """Hands out the keys of one server.

    Args:
        settings: of its agent.
        tokens: returns the tokens; first called when a key is asked for.
        skill_name: returns the name of the skill that is announced under an identifier in a scene; None for none.
    """

    def __init__(
        self, settings: LanSettings, tokens: Callable[[], Tokens], skill_name: Callable[[str, str], str | None]
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._skill_name = skill_name
        self._giver: TokenIssuer | None = None
        self._beginning = threading.Lock()  # keys are asked for in several threads, and one giver makes them all
        self._server: SecretsServer | None = None
        self._log = structlog.get_logger("skillwire.lan")

    async def start(self, trust: LanTrust | None, host: str) -> int:
        """Open the port, at ``host`` or everywhere, and return it; 0 when there is none.

        Args:
            trust: of the agent that announces.
            host: that the server is reached at; empty for every address of this machine.
        """
        if trust is None or not isinstance(trust.identity, EcdsaIdentity):
            return 0
        server = SecretsServer(
            trust.identity,
            trust.authority,
            trust.authorities,
            self._give,
            use_unverified=self._settings.use_unverified,
        )
        try:
            port = await server.start(host)
        except OSError as error:
            self._log.warning("connection secrets are not handed out", reason=error.strerror or str(error))
            return 0
        self._server = server
        return port

    async def stop(self) -> None:
        """Close the port."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    def _give(self, asked: SecretRequest, host: str) -> ConnectionSecret | None:
        with self._beginning:
            if self._giver is None:
                self._giver = TokenIssuer(self._tokens(), lambda one: self._skill_name(one.skill_id, one.scene))
        return self._giver(asked, host)
