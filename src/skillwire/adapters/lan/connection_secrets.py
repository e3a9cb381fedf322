"""Connection secrets: short-lived keys for the skills of a scene, over TLS between agents.

TLS 1.3 proves that the provider has the key of its certificate, and a signature in the request that the client has the
key of its own: it covers the provider's certificate, so it is worth nothing elsewhere. What a certificate is worth is
judged by our own authority, because a TLS library asks for host names and accepts other curves.

The client learns the port over plain HTTP, where anyone in between may answer: a connection counts only when its
certificate is good for the provider that registered. The server gives a key to a certified agent, and to another one
only when the operator allows it. Size, time and connections are bounded, in all and for each host, TLS included. Keys,
requests and certificates are never logged. A key is a token of the publisher's store, for one skill and one hour. Spec:
SDP §4.3, §10.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog

from skillwire import limits
from skillwire.adapters.files.lan_trust import LanTrust
from skillwire.adapters.lan.probes import send_to_known_address
from skillwire.errors import FetchError, SkillwireError, SourceLocation, TrustError
from skillwire.model.lan import LanSkill, host_and_port
from skillwire.protocols.skill_discovery import credentials as messages
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.protocols.skill_discovery.identity import Authority, Identity, Key, Standing
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.registry.tokens import Tokens
from skillwire.trust.certificates import certificate_pem, private_pem
from skillwire.trust.ecdsa import EcdsaIdentity
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest


def client_context() -> ssl.SSLContext:
    """Return the TLS context of a client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the caller judges it, by rules that are stricter
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def load_identity(context: ssl.SSLContext, identity: EcdsaIdentity) -> None:
    """Use this certificate and key for new connections."""
    with tempfile.TemporaryDirectory(prefix="skillwire-") as folder:  # ssl reads only files; only we can read this one
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_bytes(private_pem(identity.key) + certificate_pem(identity.certificate))
        context.load_cert_chain(path)


_OK: Final = 200
_LAST_PORT: Final = 65_535
_WELL_KNOWN_SECONDS: Final = 5.0
#: The errors that mean that no server is there.
_UNREACHED: Final = frozenset({"CONNECT_FAILED", "CONNECTION_LOST", "HOST_NOT_FOUND", "TIMEOUT"})


class SecretsClient:
    """Asks providers for keys, as one agent."""

    def __init__(
        self, agent_id: str, identity: Identity, authority: Authority, *, use_unverified: bool = False
    ) -> None:
        self._agent_id = agent_id
        self._identity = identity
        self._authority = authority
        self._use_unverified = use_unverified

    async def ask_provider(
        self, skill: LanSkill, scene: str, *, key: Key | None = None
    ) -> messages.ConnectionSecret | None:
        """Return a key for a provider; None when it hands out none, or we use a group key.

        Only the key with which the provider registered may answer. Raises: TrustError: ``DISC_004``, another agent, or
        refused; FetchError: ``DISC_005``, unreachable or unreadable.
        """
        if not isinstance(self._identity, EcdsaIdentity):
            return None
        port = await find_port(skill)
        return None if port is None else await self.fetch(skill, port, scene, key=key)

    async def fetch(
        self, skill: LanSkill, port: int, scene: str, *, key: Key | None = None
    ) -> messages.ConnectionSecret:
        """Return a key that is handed out at a port; see :meth:`ask_provider`."""
        place = SourceLocation(host_and_port(skill.host, port))
        identity = self._identity
        if not isinstance(identity, EcdsaIdentity):
            raise TrustError("DISC_004", "with a group key there are no certificates, and no keys by them", place=place)
        request = messages.SecretRequest(scene, skill.skill_id, self._agent_id)
        try:
            async with asyncio.timeout(limits.LAN_SECRET_SECONDS):
                line = await self._talk(identity, skill, port, request, key)
            if not line.endswith(b"\n"):
                raise ConnectionAbortedError(errno.ECONNABORTED, "it broke off")
            return messages.read_answer(line)
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

    async def _talk(
        self,
        identity: EcdsaIdentity,
        skill: LanSkill,
        port: int,
        request: messages.SecretRequest,
        key: Key | None,
    ) -> bytes:
        """Return the provider's answer over TLS, one line."""
        reader, writer = await asyncio.open_connection(
            skill.host, port, ssl=client_context(), limit=limits.LAN_SECRET_BYTES
        )
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            found = self._authority.judge(skill.agent_id, shown or b"", time.time())
            if found is None or found.standing_of(skill.agent_id, skill.skill_id) is None:
                raise TrustError("DISC_004", f"the responder at {skill.host} is not {skill.agent_id}")
            # Whom we know as certified is certified here, too, whatever the user lets others do.
            if found.standing is not Standing.CERTIFIED and (skill.is_verified or not self._use_unverified):
                raise TrustError("DISC_004", f"no authority that is trusted here certified {skill.agent_id}")
            if key is not None and found.key != key:
                raise TrustError("DISC_004", f"the responder at {skill.host} has another key than {skill.agent_id}")
            writer.write(messages.write_request(request.signed(identity, shown, time.time())))
            await writer.drain()
            return await reader.readline()
        finally:
            writer.transport.abort()


async def find_port(skill: LanSkill) -> int | None:
    """Return the port on which a provider hands out keys, if any. Raises: FetchError: ``DISC_005``, no answer."""
    url = f"http://{host_and_port(skill.host, skill.port)}{PATH}"
    try:
        request = HttpRequest(url, max_bytes=limits.LAN_DETAILS_BYTES, timeout=_WELL_KNOWN_SECONDS)
        response = await send_to_known_address(request)
        document = load_json(response.body, max_bytes=limits.LAN_DETAILS_BYTES, source=url)
    except SkillwireError as error:
        if error.code not in _UNREACHED:
            return None
        raise _unreached(
            f"{skill.agent_id} cannot be asked where keys are: {error.message}", SourceLocation(url)
        ) from None
    port = document.get("tlsPort") if isinstance(document, dict) and response.status == _OK else None
    return port if type(port) is int and 0 < port <= _LAST_PORT else None


def _unreached(message: str, place: SourceLocation) -> FetchError:
    return FetchError("DISC_005", message, place=place)


_LOG: Final = logging.getLogger("skillwire.lan")
_BACKLOG: Final = 64
_REFUSED: Final = "DISC_004"


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be off for all interfaces; a port in use fails below too
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


class SecretsServer:
    """Hands out keys on a port of its own.

    ``give`` returns the key for a proven request from a host, None for an unknown one; it raises TrustError to refuse.
    """

    def __init__(
        self,
        identity: EcdsaIdentity,
        authority: Authority,
        give: Callable[[messages.SecretRequest, str], Awaitable[messages.ConnectionSecret | None]],
        *,
        use_unverified: bool = False,
    ) -> None:
        self.port = 0
        self.counters: Counter[str] = Counter()
        self._identity = identity
        self._authority = authority
        self._give = give
        self._use_unverified = use_unverified
        self._context: ssl.SSLContext | None = None
        self._shown = b""
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._per_host: Counter[str] = Counter()

    async def start(self, host: str = "", port: int = 0) -> int:
        """Listen on a host or on all addresses; return the port. Raises: OSError: it is in use, or not ours."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0  # a renewed certificate counts from the next connection on
        load_identity(self._context, self._identity)
        self._shown = self._identity.certificate
        listener = _listen(host, port)
        listener.setblocking(False)
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        self._accepting = self._spawn(self._accept(listener))
        return self.port

    async def stop(self) -> None:
        """End, with the connections that there are."""
        if self._accepting is not None:
            self._accepting.cancel()
        for _ in range(2):  # asyncio leaves a connection open that is cancelled before TLS begins
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # out of handles, or the connection is gone again
                self.counters["not accepted"] += 1
                await asyncio.sleep(0.1)
                continue
            host = str(address[0])
            is_full = self._per_host.total() >= limits.LAN_SECRET_CONNECTIONS
            if is_full or self._per_host[host] >= limits.LAN_SECRET_PER_HOST:
                self.counters["too many connections"] += 1
                connection.close()
                continue
            self._per_host[host] += 1
            self._spawn(self._serve(connection, host))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, connection: socket.socket, host: str) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(limits.LAN_SECRET_SECONDS):
                loop = asyncio.get_running_loop()
                assert self._context is not None  # noqa: S101 - for the type checker; nothing is accepted before
                if self._shown != self._identity.certificate:
                    self._shown = self._identity.certificate
                    load_identity(self._context, self._identity)
                reader = asyncio.StreamReader(limit=limits.LAN_SECRET_BYTES)
                protocol = asyncio.StreamReaderProtocol(reader)
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=limits.LAN_SECRET_SECONDS
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    raise EOFError  # noqa: TRY301 - counted with all that breaks off
                writer.write(await self._answer(line, writer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            self.counters["timeout"] += 1
        except (OSError, ValueError, EOFError):  # TLS that fails, a line without end, a peer that is gone
            self.counters["broken off"] += 1
        except Exception:  # noqa: BLE001 - one connection is not to end the others
            self.counters["failed"] += 1
            _LOG.exception("a connection secret could not be handed out")
        finally:
            connection.close() if writer is None else writer.transport.abort()
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> bytes:
        try:
            asked = messages.read_request(line)
        except SkillwireError as error:
            self.counters["malformed"] += 1
            return messages.write_refusal(error.code, error.message)
        if refused := self._refusal(asked):
            self.counters["refused"] += 1
            _LOG.info("no connection secret for %s: %s", asked.agent_id, refused)
            return messages.write_refusal(_REFUSED, refused)
        host = str(writer.get_extra_info("peername")[0])
        try:
            secret = await self._give(asked, host)
        except TrustError as error:
            self.counters["refused"] += 1
            _LOG.info("no connection secret for %s at %s: %s", asked.agent_id, host, error.message)
            return messages.write_refusal(error.code, error.message)
        if secret is None:
            self.counters["unknown skill"] += 1
            return messages.write_refusal("DISC_006", "no such skill is offered here, in this scene")
        self.counters["handed out"] += 1
        _LOG.info("connection secret for %s to %s", asked.skill_id, asked.agent_id)
        return messages.write_answer(secret)

    def _refusal(self, asked: messages.SecretRequest) -> str:
        """Return why an agent gets no key; empty when it gets one."""
        now = time.time()
        found = self._authority.judge(asked.agent_id, asked.certificate, now)
        if found is None:
            return "your certificate is not good here"
        if found.standing is Standing.CERTIFIED:
            if asked.agent_id not in found.agents:
                return "your certificate is for another agent"
        elif not self._use_unverified:
            return "no authority that is trusted here issued your certificate"
        if not (asked.is_of_now(now) and found.key.verifies(asked.proof_text(self._shown), asked.signature)):
            return "you have not proven to have the key of your certificate"
        return ""


#: Seconds that a key is good for; one that is asked for again in its first half is the same.
KEY_SECONDS: Final = 3600.0
_KEPT: Final = 1024
#: What the names of these keys begin with, and seconds that they stay in the list of tokens after their end.
_NAMED: Final = "LAN agent "
_LISTED: Final = 86_400.0


class TokenIssuer:
    """Makes the keys: tokens for one skill and one hour, limited in all and for each host.

    ``tokens`` is called, in a thread, for the first key. ``skill_name`` returns the announced skill of a skill ID and a
    scene.
    """

    def __init__(
        self,
        tokens: Callable[[], Tokens],
        skill_name: Callable[[str, str], str | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_tokens = tokens
        self._tokens: Tokens | None = None
        self._skill_name = skill_name
        self._clock = clock
        self._given: dict[tuple[str, str], messages.ConnectionSecret] = {}
        self._lock = asyncio.Lock()
        self._new: Counter[str] = Counter()
        self._counted_since = float("-inf")

    async def __call__(self, asked: messages.SecretRequest, host: str) -> messages.ConnectionSecret | None:
        """Return a key, the former one for half of its life. Raises: TrustError: ``DISC_004``, too many in an hour."""
        async with self._lock:
            if self._tokens is None:
                self._tokens = await asyncio.to_thread(self._open_tokens)
            name = self._skill_name(asked.skill_id, asked.scene)
            return None if name is None else await self._give(self._tokens, name, asked, host)

    async def _give(
        self, tokens: Tokens, name: str, asked: messages.SecretRequest, host: str
    ) -> messages.ConnectionSecret:
        now, whose = self._clock(), (asked.agent_id, name)
        known = self._given.pop(whose, None)
        if known is not None and known.expires - now > KEY_SECONDS / 2 and await tokens.recognise(known.api_key):
            self._given[whose] = known
            return known
        if not 0 <= now - self._counted_since < KEY_SECONDS:
            self._counted_since = now
            self._new.clear()
            await tokens.forget_ended(_NAMED, kept=_LISTED)
        if self._new[host] >= limits.LAN_SECRET_KEYS_PER_HOST or self._new.total() >= limits.LAN_SECRET_KEYS:
            raise TrustError(_REFUSED, "enough keys were made for now; ask in an hour")
        self._new[host] += 1
        issued = await tokens.issue(f"{_NAMED}{asked.agent_id}"[:128], skills=[name], expires_in=KEY_SECONDS)
        secret = messages.ConnectionSecret(issued.secret, now + KEY_SECONDS)
        self._given[whose] = secret
        if len(self._given) > _KEPT:
            del self._given[next(iter(self._given))]
        return secret


class SceneSecrets:
    """The TLS port of a server where it hands out keys for the skills that it announces in scenes.

    Agents that share a group key have no certificates, so they get no port. See :class:`TokenIssuer`.
    """

    def __init__(
        self, settings: LanSettings, tokens: Callable[[], Tokens], skill_name: Callable[[str, str], str | None]
    ) -> None:
        self._settings = settings
        self._issuer = TokenIssuer(tokens, skill_name)
        self._server: SecretsServer | None = None

    async def start(self, trust: LanTrust | None, host: str) -> int:
        """Open the port, at ``host`` or, when that is empty, everywhere, and return it; 0 when there is none."""
        if trust is None or not isinstance(trust.identity, EcdsaIdentity):
            return 0
        unverified = self._settings.use_unverified
        server = SecretsServer(trust.identity, trust.authority, self._issuer, use_unverified=unverified)
        try:
            port = await server.start(host, self._settings.tls_port)
        except OSError as error:
            log = structlog.get_logger("skillwire.lan")
            reason = error.strerror or str(error)
            log.warning("connection secrets are not handed out", reason=reason, port=self._settings.tls_port)
            return 0
        self._server = server
        return port

    async def stop(self) -> None:
        """Close the port."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
