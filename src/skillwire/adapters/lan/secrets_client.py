"""The member's end: the key for a scene's provider, fetched over TLS from the provider that we know.

The port is asked for over plain HTTP, where anybody between may answer what they like: the connection counts only when
the certificate behind it is good for the provider that was heard of. Spec: SDP §4.3; docs/decisions/0033.
"""

from __future__ import annotations

import asyncio
import errno
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.agent_certificates import is_own
from skillwire.adapters.lan.asking import ask
from skillwire.adapters.lan.secrets_tls import client_context
from skillwire.errors import FetchError, Place, SkillwireError, TrustError
from skillwire.model.lan import host_and_port
from skillwire.protocols.skill_discovery.connection_secrets import SecretRequest, read_answer, write_request
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.trust.ecdsa import EcdsaIdentity
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.lan import LanSkill
    from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret
    from skillwire.protocols.skill_discovery.identity import Authority, Identity, Key

_OK: Final = 200
_LAST_PORT: Final = 65_535
_WELL_KNOWN_SECONDS: Final = 5.0
#: What says that nobody is there, rather than somebody who speaks otherwise.
_UNREACHED: Final = frozenset({"CONNECT_FAILED", "CONNECTION_LOST", "HOST_NOT_FOUND", "TIMEOUT"})


class SecretsClient:
    """Asks providers for keys, as one agent.

    Args:
        agent_id: that asks.
        identity: of it.
        authority: judges providers.
        use_unverified: whether a provider will do that nobody certified.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        agent_id: str,
        identity: Identity,
        authority: Authority,
        *,
        use_unverified: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agent_id = agent_id
        self._identity = identity
        self._authority = authority
        self._use_unverified = use_unverified
        self._clock = clock

    async def ask_provider(self, skill: LanSkill, scene: str, *, key: Key | None = None) -> ConnectionSecret | None:
        """Return a key for a provider; None when it hands out none, or we have no certificates, with a group key.

        Args:
            skill: of the provider.
            scene: that was joined.
            key: with which the provider has registered, where it is known; no other one may answer.

        Raises:
            TrustError: ``DISC_004`` when the provider is not who it says, or refuses us.
            FetchError: ``DISC_005`` when it cannot be reached, breaks off, or answers what nobody can read.
        """
        if not isinstance(self._identity, EcdsaIdentity):
            return None
        port = await find_port(skill)
        return None if port is None else await self.fetch(skill, port, scene, key=key)

    async def fetch(self, skill: LanSkill, port: int, scene: str, *, key: Key | None = None) -> ConnectionSecret:
        """Return a key that is handed out at a port; see :meth:`ask_provider`."""
        place = Place(host_and_port(skill.host, port))
        try:
            return await self._fetch(skill, port, scene, key)
        except TimeoutError:
            raise _unreached(f"{skill.agent_id} does not answer on port {port}", place) from None
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
            raise _unreached(f"no TLS with {skill.agent_id} on port {port}: {reason}", place) from None
        except TrustError as error:
            error.place = error.place or place
            raise
        except SkillwireError as error:
            message = f"{skill.agent_id} answers what cannot be read: {error.message}"
            raise _unreached(message, place) from None

    async def _fetch(self, skill: LanSkill, port: int, scene: str, key: Key | None) -> ConnectionSecret:
        identity = self._identity
        if not isinstance(identity, EcdsaIdentity):
            raise TrustError("DISC_004", "with a group key there are no certificates, and no keys by them")
        asked = SecretRequest(scene, skill.skill_id, self._agent_id)
        is_certified = not is_own(identity.certificate)
        async with asyncio.timeout(limits.LAN_SECRET_SECONDS):
            line = await self._talk(skill, port, asked, key, shows_certificate=is_certified)
            if is_certified and not line:  # by an authority of which TLS there knows nothing: the proof may do
                line = await self._talk(skill, port, asked, key, shows_certificate=False)
        if not line:
            raise ConnectionAbortedError(errno.ECONNABORTED, "it broke off")
        return read_answer(line)

    async def _talk(
        self, skill: LanSkill, port: int, asked: SecretRequest, key: Key | None, *, shows_certificate: bool
    ) -> bytes:
        """Return the line that is answered to who TLS has shown to be the provider; nothing when it breaks off."""
        identity = self._identity
        assert isinstance(identity, EcdsaIdentity)  # noqa: S101 - for the type checker; without one nobody asks
        context = client_context(identity, shows_certificate=shows_certificate)
        reader, writer = await asyncio.open_connection(skill.host, port, ssl=context, limit=limits.LAN_SECRET_BYTES)
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self._judge(skill, shown, key)
            with suppress(OSError):  # how it looks when TLS 1.3 does not take our certificate, which it says afterwards
                # TLS takes ours only where our authority is known; the proof stands where it is not.
                writer.write(write_request(asked.signed(identity, shown, self._clock())))
                await writer.drain()
                line = await reader.readline()
                return line if line.endswith(b"\n") else b""
            return b""
        finally:
            writer.transport.abort()

    def _judge(self, skill: LanSkill, shown: bytes | None, key: Key | None) -> None:
        """Refuse who is not the provider that we heard of.

        Raises:
            TrustError: ``DISC_004``.
        """
        found = self._authority.judge(skill.agent_id, shown or b"", self._clock())
        if found is None or found.standing_of(skill.agent_id, skill.skill_id) is None:
            raise TrustError("DISC_004", f"who answers at {skill.host} is not {skill.agent_id}")
        # Whom we know as certified is certified here, too, whatever the user lets others do.
        if found.standing is not Standing.CERTIFIED and (skill.is_verified or not self._use_unverified):
            raise TrustError("DISC_004", f"nobody vouches for {skill.agent_id}")
        if key is not None and found.key != key:
            raise TrustError("DISC_004", f"who answers at {skill.host} has another key than {skill.agent_id}")


async def find_port(skill: LanSkill) -> int | None:
    """Return where a provider hands out keys, as it says; None when it says nothing, or something else answers there.

    Raises:
        FetchError: ``DISC_005`` when nobody answers there.
    """
    url = f"http://{host_and_port(skill.host, skill.port)}{PATH}"
    try:
        request = HttpRequest(url, max_bytes=limits.LAN_DETAILS_BYTES, timeout=_WELL_KNOWN_SECONDS)
        response = await ask(request)
        document = load_json(response.body, max_bytes=limits.LAN_DETAILS_BYTES, source=url)
    except SkillwireError as error:
        if error.code not in _UNREACHED:
            return None
        raise _unreached(f"{skill.agent_id} cannot be asked where keys are: {error.message}", Place(url)) from None
    port = document.get("tlsPort") if isinstance(document, dict) and response.status == _OK else None
    return port if type(port) is int and 0 < port <= _LAST_PORT else None


def _unreached(message: str, place: Place) -> FetchError:
    return FetchError("DISC_005", message, place=place)
