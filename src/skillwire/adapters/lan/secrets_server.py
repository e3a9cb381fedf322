"""The provider's end: short-lived keys for members of a scene, over TLS.

Whoever asks is judged by its certificate, as on the network: an agent that an authority certifies gets a key, another
one only when the provider says so. Size, time and connections are bounded, in all and for each host, TLS included. No
key, no question and no certificate is ever logged. Spec: SDP §4.3; docs/decisions/0033.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.adapters.lan.secrets_tls import load_authorities, load_identity, server_context
from skillwire.errors import SkillwireError, TrustError
from skillwire.protocols.skill_discovery.connection_secrets import read_request, write_answer, write_refusal
from skillwire.protocols.skill_discovery.identity import Standing

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret, SecretRequest
    from skillwire.protocols.skill_discovery.identity import Authority
    from skillwire.trust.ecdsa import EcdsaIdentity

_LOG: Final = logging.getLogger("skillwire.lan")
_BACKLOG: Final = 64
_REFUSED: Final = "DISC_004"


class SecretsServer:
    """Hands out keys on a port of its own.

    Args:
        identity: of the provider; a certificate that is renewed is shown from then on.
        authority: judges who asks.
        authorities: certificates that a client's leads to, roots and those below them, DER; more may be added.
        give: returns the key for a request whose sender is proven and that comes from a host, None for a skill that is
            not here; it is called in several threads, and raises TrustError to refuse.
        use_unverified: whether agents are given keys that nobody certified.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        identity: EcdsaIdentity,
        authority: Authority,
        authorities: Sequence[bytes],
        give: Callable[[SecretRequest, str], ConnectionSecret | None],
        *,
        use_unverified: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.port = 0
        self.counters: Counter[str] = Counter()
        self._identity = identity
        self._authority = authority
        self._authorities = authorities
        self._give = give
        self._use_unverified = use_unverified
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._shown = b""
        self._asked_for = 0  # how many of the authorities clients are told of
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._per_host: Counter[str] = Counter()

    async def start(self, host: str = "", port: int = 0) -> int:
        """Listen, and return the port; on all addresses unless one is given.

        Raises:
            OSError: the port is taken, or the address is none of ours.
        """
        self._context = server_context(self._identity, self._authorities)
        self._asked_for = len(self._authorities)
        self._shown = self._identity.certificate
        family = socket.AF_INET if "." in host else socket.AF_INET6
        try:
            listener = _listen(family, host, port)
        except OSError:
            if host:
                raise
            listener = _listen(socket.AF_INET, "", port)  # a machine without IPv6
        self._listeners.append(listener)
        self.port = int(listener.getsockname()[1])
        self._accepting = self._spawn(self._accept(listener))
        return self.port

    async def stop(self) -> None:
        """End, with the connections that there are."""
        if self._accepting is not None:
            self._accepting.cancel()
        for _ in range(2):  # asyncio leaves open what is cancelled before it has begun with TLS: accepted, then told of
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

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
                reader, writer = await self._shake_hands(connection)
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

    async def _shake_hands(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        assert self._context is not None  # noqa: S101 - for the type checker; nothing is accepted before
        if self._shown != self._identity.certificate:
            self._shown = self._identity.certificate
            load_identity(self._context, self._identity)
        if self._asked_for != len(self._authorities):
            load_authorities(self._context, self._authorities[self._asked_for :])
            self._asked_for = len(self._authorities)
        reader = asyncio.StreamReader(limit=limits.LAN_SECRET_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=limits.LAN_SECRET_SECONDS
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> bytes:
        try:
            asked = read_request(line)
        except SkillwireError as error:
            self.counters["malformed"] += 1
            return write_refusal(error.code, error.message)
        refused = self._refusal(asked, writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        if refused:
            self.counters["refused"] += 1
            _LOG.info("no connection secret for %s: %s", asked.agent_id, refused)
            return write_refusal(_REFUSED, refused)
        host = str(writer.get_extra_info("peername")[0])
        try:
            secret = await asyncio.to_thread(self._give, asked, host)
        except TrustError as error:
            self.counters["refused"] += 1
            _LOG.info("no connection secret for %s at %s: %s", asked.agent_id, host, error.message)
            return write_refusal(error.code, error.message)
        if secret is None:
            self.counters["unknown skill"] += 1
            return write_refusal("DISC_006", "no such skill is offered here, in this scene")
        self.counters["handed out"] += 1
        _LOG.info("connection secret for %s to %s", asked.skill_id, asked.agent_id)
        return write_answer(secret)

    def _refusal(self, asked: SecretRequest, shown: bytes | None) -> str:
        """Return why somebody is given nothing; empty when it is."""
        now = self._clock()
        found = self._authority.judge(asked.agent_id, shown or asked.certificate, now)
        if found is None:
            return "your certificate is not good here"
        if found.standing is Standing.CERTIFIED:
            if asked.agent_id not in found.agents:
                return "your certificate is for another agent"
        elif not self._use_unverified:
            return "your certificate is by nobody whom we trust"
        if not shown:
            proof = asked.proof_text(self._shown)
            if not (asked.is_of_now(now) and found.key.verifies(proof, asked.signature)):
                return "you have not proven to have the key of your certificate"
        return ""


def _listen(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
