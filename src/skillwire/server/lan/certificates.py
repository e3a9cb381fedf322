"""Connection secrets for the skills that this server announces: a TLS port beside HTTP.

The port opens with the first announced skill that takes part in a scene, and is published at
``/.well-known/skill-discovery``. A key is a token of this server's store, for one skill and one hour. Agents that share
a group key have no certificates, so there is no such port. Spec: SDP §4.3.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from skillwire.adapters.lan.connection_secrets import SecretsServer, TokenIssuer
from skillwire.trust.ecdsa import EcdsaIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret, SecretRequest
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.registry.tokens import Tokens


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
        self._issuer: TokenIssuer | None = None
        self._starting = asyncio.Lock()  # one issuer makes all keys
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

    async def _give(self, asked: SecretRequest, host: str) -> ConnectionSecret | None:
        async with self._starting:
            if self._issuer is None:
                tokens = await asyncio.to_thread(self._tokens)
                self._issuer = TokenIssuer(tokens, lambda one: self._skill_name(one.skill_id, one.scene))
        return await self._issuer(asked, host)
