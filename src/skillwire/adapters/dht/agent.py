"""DhtAgent: one node of the DHT on sockets, with the name, key and trust of this machine's agent on the local network.

A server's node holds the agent's name (:class:`~skillwire.adapters.lan.agent.AgentNameLock`). The file ``dht.json``,
beside the agent's key, keeps its port and its known nodes across restarts. A damaged file is reported and ignored,
since the bootstrap nodes suffice. A client uses any port, stores nothing, and no node puts it into a table.

A thread resolves the names of bootstrap nodes, again every minute while one does not answer. Every two seconds the
agent compares the addresses of this machine; after a change the node puts its skills again. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Annotated, Final, Literal, Self

import msgspec

from skillwire.adapters.clock import moment
from skillwire.adapters.dht import write_status
from skillwire.adapters.files.atomic import read_bounded, write_atomically
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan.agent import AgentIdentity, load_agent_identity
from skillwire.adapters.lan.certificates import CertificateTasks
from skillwire.adapters.lan.link import Driver
from skillwire.adapters.lan.sockets import RECEIVE_BYTES, SystemNetwork, UdpSockets, widen
from skillwire.errors import (
    ConflictError,
    FetchError,
    SkillwireError,
    SourceLocation,
    UsageError,
    ValidationError,
    in_seconds,
)
from skillwire.limits import STATE_FILE_BYTES
from skillwire.model.lan import DhtAnswer, DhtBootstrap, DhtPong, DhtPut, DhtSkill, DhtStatus, Trust, host_and_port
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.dht.node import DhtNode, Finished
from skillwire.protocols.skill_discovery.dht.peers import Contact
from skillwire.protocols.skill_discovery.dht.records import (
    DhtOffer,
    SignedRecord,
    capability_key,
    check_offer,
    figure_key,
    name_key,
    own_id,
    skill_key,
)
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.wire.node import Peer

#: Seconds between two checks of this machine's addresses; between two lookups of names, and writes of the file.
_ADDRESS_SECONDS: Final = 2.0
_LOOKUP_SECONDS: Final = 60.0
#: Seconds between two writes of the status; the check of addresses that writes it may be late.
_STATUS_SECONDS: Final = 3.5
#: Seconds without an answer of any bootstrap node before this is reported.
_SILENCE_SECONDS: Final = 10.0
#: Seconds for tombstones at the end.
_GOODBYE_SECONDS: Final = 2.5
#: Maximum number of bootstrap nodes from mDNS, in addition to those of the settings.
_MAX_FOUND: Final = 16
#: Maximum number of ports that are tried for one that is free in both address families.
_MAX_TRIES: Final = 16
# Constants of Linux that Python does not name.
_IPV6_ADDR_PREFERENCES: Final = 72
_PREFER_PUBLIC: Final = 2
_IP_PKTINFO: Final = 8
_PACKET_INFORMATION: Final = struct.Struct("=i4s4s")  # interface, local address, destination of the packet
#: Maximum number of peers whose last contacted local address is remembered.
_MAX_CONTACTED: Final = 4_096
_LOG: Final = logging.getLogger("skillwire.lan")


class DhtSockets(UdpSockets):
    """One socket for each of ``hosts``, by default all IPv4 and all IPv6 addresses, on the same port.

    Raises: ConflictError: ``PORT_IN_USE``; UsageError: ``HOST_UNUSABLE``.
    """

    def __init__(self, port: int, hosts: Sequence[str], counters: Counter[str]) -> None:
        super().__init__(counters, lambda: None)
        self._contacted: dict[Peer, bytes] = {}
        for tries in reversed(range(1 if port else _MAX_TRIES)):
            self.port = port
            try:
                self._open(hosts)
            except OSError as error:
                self.close()
                if error.errno == errno.EADDRINUSE and tries:
                    continue
                place = SourceLocation(f"UDP port {port}" if port else ", ".join(hosts))
                if error.errno == errno.EADDRINUSE:
                    fix = "Stop that program, or set port in [discovery.dht]; 0 takes a free one and keeps it."
                    raise ConflictError("PORT_IN_USE", f"UDP port {port} is in use", place=place, fix=fix) from error
                message = f"the DHT cannot listen: {error.strerror or error}"
                raise UsageError("HOST_UNUSABLE", message, place=place) from error
            return

    def _open(self, hosts: Sequence[str]) -> None:
        for host in hosts or ("0.0.0.0", "::"):  # noqa: S104 - other machines connect to a node
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                sock = self._new(family)
            except OSError:
                if host == "::":  # this machine has no IPv6
                    continue
                raise
            widen(sock)
            if family == socket.AF_INET6 and sys.platform == "linux":
                # Answers come from the requested address, not from a temporary one.
                sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_ADDR_PREFERENCES, _PREFER_PUBLIC)
            elif sys.platform == "linux":
                sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            sock.bind((host, self.port))
            self.port = sock.getsockname()[1]

    def _receive(self, sock: socket.socket) -> tuple[bytes, Peer]:
        """Return the next datagram and its peer; remember the local address that the peer contacted."""
        if sock.family != socket.AF_INET or sys.platform != "linux":
            return super()._receive(sock)
        data, ancillary, _, source = sock.recvmsg(RECEIVE_BYTES, socket.CMSG_SPACE(_PACKET_INFORMATION.size))
        peer = Peer(*source)
        for _, kind, content in ancillary:
            if kind == _IP_PKTINFO:
                self._contacted.pop(peer, None)
                self._contacted[peer] = _PACKET_INFORMATION.unpack(content)[1]
        if len(self._contacted) > _MAX_CONTACTED:
            del self._contacted[next(iter(self._contacted))]
        return data, peer

    def send(self, data: bytes, to: Peer | None) -> None:
        """Send a datagram to a peer, from the local address that it contacted, if its family has a socket."""
        if to is None:
            return
        family = socket.AF_INET6 if ":" in to.host else socket.AF_INET
        sock = next((one for one in self.sockets if one.family == family), None)
        if sock is None:
            self._counters["send: no such family"] += 1
            return
        if (asked := self._contacted.get(to)) is not None:
            chosen = (socket.IPPROTO_IP, _IP_PKTINFO, _PACKET_INFORMATION.pack(0, asked, bytes(4)))
            with suppress(OSError):  # this machine may have lost that address
                sock.sendmsg((data,), (chosen,), 0, (to.host, to.port))
                return
            del self._contacted[to]
        host, _, zone = to.host.partition("%")
        scoped = (host, to.port, 0, int(zone) if zone.isdigit() else 0)
        self._send(sock, data, scoped if family == socket.AF_INET6 else scoped[:2])


def present_hosts(network: SystemNetwork) -> tuple[str, ...]:
    """Return the addresses at which other machines may reach this one, IPv4 first; loopback if it has no others."""
    try:
        found = [one for one in network.addresses() if one.is_up and not ip_address(one.host).is_link_local]
    except (OSError, UsageError):  # without the extra ``lan``, changes are not detected
        return ()
    chosen = [one.host for one in found if not one.is_loopback] or [one.host for one in found]
    return tuple(sorted(chosen, key=lambda host: (":" in host, host)))


async def resolve(host: str, port: int) -> tuple[Peer, ...]:
    """Return the addresses of a host, resolved in a thread; none for an unknown name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(Peer(without_zone(str(address[0])), port) for *_, address in found))


class SavedNode(msgspec.Struct, array_like=True):
    """A node of the saved table: hexadecimal ID, address and port."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class SavedState(msgspec.Struct):
    """The content of ``dht.json``: the own port, and the nodes of the table."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    nodes: list[SavedNode] = []


def load_state(path: Path) -> tuple[SavedState, str]:
    """Return the saved state, and a warning if the file is damaged or unreadable."""
    try:
        content = read_bounded(path, STATE_FILE_BYTES + 1)
        state = SavedState() if content is None else msgspec.json.decode(content, type=SavedState)
        for node in state.nodes:
            ip_address(node.host)
    except (SkillwireError, ValueError) as error:
        return SavedState(), f"{path} is damaged: the node starts without the nodes that it knew ({error})"
    return state, ""


class DhtAgent:
    """One node of the DHT; name, key and trust come from the agent's folder by default.

    ``own`` replaces them, such as with those of another part of this process, which holds the name and renews the
    certificate. ``on_trouble`` gets warnings for the user while the node runs.

    Raises: ConflictError: ``LAN_NAME``; StorageError; ValidationError: ``LAN_TRUST``; at the start ConflictError:
    ``PORT_IN_USE`` and UsageError: ``HOST_UNUSABLE``.
    """

    def __init__(
        self,
        settings: LanSettings,
        *,
        own: AgentIdentity | None = None,
        is_client: bool = False,
        on_trouble: Callable[[str], object] = _LOG.warning,
        network: SystemNetwork | None = None,
    ) -> None:
        roles = frozenset[Role]() if is_client else frozenset(Role)
        self._own = own or load_agent_identity(settings, roles)
        self._name = None if own is not None else self._own.name
        self.settings = settings.dht
        self.agent_id = self._own.agent_id
        self.port = 0
        self.hosts: tuple[str, ...] = ()
        #: The warning that no bootstrap node answers; empty while one does.
        self.silence = ""
        self._profile = settings.profile
        self._is_client = is_client
        self._on_trouble = on_trouble
        self._network = network or SystemNetwork()
        self._file = None if is_client or self._own.name is None else self._own.folder / "dht.json"
        trust = None if own is not None or is_client else self._own.trust
        self._certificates = CertificateTasks(trust, settings, lambda: None) if trust is not None else None
        self._counters: Counter[str] = Counter()
        self._saved = SavedState()
        self._node: DhtNode | None = None
        self._driver: Driver[Finished] | None = None
        self._waiting: dict[int, asyncio.Future[Finished]] = {}
        self._peers: dict[tuple[str, int], tuple[Peer, ...]] = {}  # of each bootstrap node
        self._found: tuple[Peer, ...] = ()
        self._has_looked_up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def node(self) -> DhtNode:
        """The node, while the agent runs."""
        if self._node is None:
            raise RuntimeError("the agent does not run")
        return self._node

    @property
    def key_id(self) -> str:
        """The hexadecimal ID of the key that signs records; the node ID of a client differs."""
        return own_id(self._own.identity, self.agent_id).hex()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses on which the node listens, ``host:port``."""
        return tuple(host_and_port(host, self.port) for host in self.hosts)

    async def start(self) -> None:
        """Start, without waiting for other nodes."""
        if self._name is not None:
            self._name.hold()
        try:
            if self._file is not None:
                self._saved, note = await asyncio.to_thread(load_state, self._file)
                if note:
                    self._on_trouble(note)
            sockets = self._open()
            self.port = sockets.port
            self.hosts = self.settings.bind or present_hosts(self._network)
            self._node = DhtNode(
                self.agent_id,
                identity=self._own.identity,
                authority=self._own.authority,
                random=SystemRandom(),
                profile=self._profile,
                settings=self.settings,
                is_client=self._is_client,
                contacts=[Contact(bytes.fromhex(one.id), Peer(one.host, one.port)) for one in self._saved.nodes],
            )
        except BaseException:
            if self._name is not None:
                self._name.let_go()
            raise
        if not self.settings.bootstrap:
            self._node.bootstrap((), moment())
        self._driver = Driver(self._node, self._on_finished, moment)
        self._driver.open(sockets)
        if self._certificates is not None:
            self._certificates.start()
        self._task = asyncio.get_running_loop().create_task(self._watch())
        self._task.add_done_callback(_report_failure)

    def _open(self) -> DhtSockets:
        """Open the sockets on the port of the settings, else on the saved one, else on any."""
        bind, kept = self.settings.bind, self._saved.port
        if self._is_client:
            return DhtSockets(0, bind, self._counters)
        if not self.settings.port and kept:
            with suppress(ConflictError):
                return DhtSockets(kept, bind, self._counters)
        return DhtSockets(self.settings.port, bind, self._counters)

    async def stop(self) -> None:
        """Put a tombstone for each announced skill, within a bounded time, and stop."""
        if self._driver is None or self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._certificates is not None:
            await self._certificates.stop()
        if self.node.status().own:
            await self._end(self.node.offer((), moment(), _GOODBYE_SECONDS))
        if self._file is not None:
            await self._save()
        self._driver.end()
        self._driver = None
        for future in self._waiting.values():
            future.cancel()
        if self._name is not None:
            self._name.let_go()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def is_local(self) -> bool:
        """Whether the node, or every bootstrap node, is on loopback, so that all known nodes are on this machine."""
        bootstrap = [peer.host for peers in self._peers.values() for peer in peers]
        return any(hosts and all(ip_address(one).is_loopback for one in hosts) for hosts in (self.hosts, bootstrap))

    # --- operations

    async def wait_for_names(self, seconds: float) -> None:
        """Wait at most ``seconds`` until the bootstrap nodes were resolved once; before, no node is known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_looked_up.wait()

    async def get(self, skill_id: str, capability: str, *, seconds: float = 5.0) -> DhtAnswer:
        """Return the providers of a skill with a capability, from both forms of its key. Spec: SDP §6.2."""
        answer = await self._find({skill_key(skill_id, capability): skill_id}, seconds)
        if answer.skills:
            return answer
        more = await self._find({figure_key(skill_id, capability): skill_id}, max(0.0, seconds - answer.seconds))
        return more._replace(
            asked=max(answer.asked, more.asked),
            unanswered=tuple(dict.fromkeys((*answer.unanswered, *more.unanswered))),
            seconds=answer.seconds + more.seconds,
        )

    async def find_by_capability(
        self, capabilities: Sequence[str], *, match: Literal["all", "any"] = "all", seconds: float = 5.0
    ) -> DhtAnswer:
        """Return the skills with all, or any, of the capabilities, each found by its key."""
        answer = await self._find({capability_key(name): name for name in capabilities}, seconds)
        if match == "any":
            return answer
        wanted = frozenset(capabilities)
        return answer._replace(skills=tuple(one for one in answer.skills if wanted <= frozenset(one.capabilities)))

    async def find_by_name(self, skill_id: str, *, seconds: float = 5.0) -> DhtAnswer:
        """Return the providers of a skill, with any capabilities."""
        return await self._find({name_key(skill_id): skill_id}, seconds)

    async def put(self, offer: DhtOffer, *, seconds: float = 5.0) -> DhtPut:
        """Put a skill once; :meth:`offer` repeats it. Raises: StorageError; ValidationError: ``DHT_RECORD``."""
        await self._can_sign(seconds)
        finished = await self._end(self.node.put(offer, moment(), seconds))
        return _put(finished, offer.skill_id, offer.capabilities)

    async def remove(self, skill_id: str, capabilities: Sequence[str], *, seconds: float = 5.0) -> DhtPut:
        """Put the tombstone of a skill. Raises: StorageError; ValidationError: ``DHT_RECORD``."""
        await self._can_sign(seconds)
        finished = await self._end(self.node.remove(skill_id, capabilities, moment(), seconds))
        return _put(finished, skill_id, capabilities)

    async def _can_sign(self, seconds: float) -> None:
        """Wait for the names. Raises the error of a key that is not stored: no later run could replace its records."""
        if self._own.unkept is not None:
            raise self._own.unkept
        await self.wait_for_names(seconds)

    async def ping(self, host: str, port: int, *, seconds: float = 3.0) -> DhtPong:
        """Return the answer of the node at an address. Raises: FetchError: ``DHT_UNREACHABLE`` without one."""
        finished = None
        for peer in await resolve(host, port):
            finished = await self._end(self.node.ping(peer, moment(), seconds))
            if finished.pong is not None:
                pong = finished.pong
                return DhtPong(pong.id.hex(), pong.agent_id, _trust(pong.standing), finished.seconds)
        why = "its name is not known" if finished is None else f"it did not answer within {in_seconds(seconds)}"
        raise FetchError("DHT_UNREACHABLE", why, place=SourceLocation(host_and_port(host, port)))

    def flaw(self, offer: DhtOffer) -> str | None:
        """Return why a skill does not fit into a record, or None; for any thread."""
        try:
            check_offer(offer, self.agent_id, self._own.identity.certificate)
        except ValidationError as error:
            return error.message
        return None

    def offer(self, offers: Sequence[DhtOffer]) -> None:
        """Announce exactly these skills. Raises: ValidationError: ``DHT_RECORD``; then nothing changes."""
        self.node.offer(offers, moment())
        self._tend()

    def use_found(self, peers: Iterable[Peer]) -> None:
        """Use the nodes that mDNS found on the local network as further bootstrap nodes."""
        found = tuple(peers)[:_MAX_FOUND]
        if found != self._found:
            self._found = found
            self._bootstrap()

    def status(self) -> DhtStatus:
        """Return the state of the node."""
        status = self.node.status()
        named = tuple(DhtBootstrap(host_and_port(*named), answers) for named, answers in self._reached().items())
        counters = dict(self._counters + Counter(status.counters))
        return status._replace(addresses=self.addresses, bootstrap=named, counters=counters)

    async def _find(self, keys: Mapping[bytes, str], seconds: float) -> DhtAnswer:
        await self.wait_for_names(seconds)
        finished = await self._end(self.node.find(tuple(keys), moment(), seconds))
        skills = sorted(map(_skill, finished.records), key=lambda one: (one.agent_id, one.skill_id, one.key_id))
        silent = tuple(keys[key] for key in finished.keys_without_answer)
        unanswered = tuple(host_and_port(*peer) for peer in finished.unanswered)
        return DhtAnswer(tuple(skills), finished.asked, unanswered, silent, finished.seconds)

    async def _end(self, number: int) -> Finished:
        """Return the result of an operation; cancelling the caller cancels the operation."""
        future: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._tend()
            return await future
        except BaseException:
            self.node.cancel(number)
            raise
        finally:
            del self._waiting[number]

    def _on_finished(self, events: Sequence[Finished]) -> None:
        for event in events:
            future = self._waiting.get(event.number)
            if future is not None and not future.done():
                future.set_result(event)

    def _tend(self) -> None:
        if self._driver is None:
            raise RuntimeError("the agent does not run")
        self._driver.tend()

    # --- background

    async def _watch(self) -> None:
        """Resolve the bootstrap nodes, follow the addresses of this machine, and save the table, repeatedly."""
        due, written, heard = 0.0, 0.0, moment().steady
        while True:
            now = moment().steady
            if now >= due:
                due = now + _LOOKUP_SECONDS
                await self._look_up()
                await self._save()
            if not (reached := self._reached()) or any(reached.values()):
                if self.silence and not self._is_client:
                    self._on_trouble("a bootstrap node of the DHT answers again")
                heard, self.silence = now, ""
            elif not self.silence and now >= heard + _SILENCE_SECONDS:
                nodes = ", ".join(host_and_port(*named) for named in reached)
                self.silence = f"no bootstrap node of the DHT answers: {nodes}"
                if not self._is_client:
                    self._on_trouble(self.silence)
            if self._file is not None and now >= written + _STATUS_SECONDS:
                written = now
                with suppress(SkillwireError):  # the command dht status then ignores the old file and joins by itself
                    await asyncio.to_thread(write_status, self._own.folder, self.status())
            await asyncio.sleep(_ADDRESS_SECONDS)
            hosts = self.settings.bind or present_hosts(self._network)
            if hosts != self.hosts:
                self.hosts, due = hosts, 0.0
                self.node.network_changed(moment())
                self._tend()

    async def _look_up(self) -> None:
        """Resolve the names of the bootstrap nodes that do not answer."""
        reached = self._reached()
        silent = [named for named in self.settings.bootstrap if not reached.get(named)]
        for named, peers in zip(silent, await asyncio.gather(*(resolve(*one) for one in silent)), strict=True):
            if peers:  # otherwise keep the earlier addresses
                self._peers[named] = peers
        if silent:
            self._bootstrap()
        self._has_looked_up.set()

    def _bootstrap(self) -> None:
        peers = dict.fromkeys(peer for found in self._peers.values() for peer in found)
        self.node.bootstrap(dict.fromkeys((*peers, *self._found)), moment())
        self._tend()

    def _reached(self) -> dict[tuple[str, int], bool]:
        """Return for each bootstrap node of the settings whether one of its addresses answers."""
        answering = {peer for peer, is_reached in self.node.reached().items() if is_reached}
        return {named: not answering.isdisjoint(self._peers.get(named, ())) for named in self.settings.bootstrap}

    async def _save(self) -> None:
        """Write the port and the table if they changed."""
        if self._file is None:
            return
        nodes = [SavedNode(one.id.hex(), *one.peer) for one in self.node.contacts()]
        state = SavedState(self.port, nodes)
        if state == self._saved:
            return
        try:
            await asyncio.to_thread(write_atomically, self._file, msgspec.json.encode(state), mode=0o600)
        except SkillwireError as error:
            self._counters[f"state: {error.code}"] += 1
            self._on_trouble(f"the nodes of the DHT are not kept: {error.message}")
        else:
            self._saved = state


def _report_failure(task: asyncio.Task[None]) -> None:
    """Log the error that ended a background task; the node continues without the task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("the DHT's background task failed", exc_info=error)


async def find_answering(settings: LanSettings, seconds: float) -> list[str]:
    """Return the bootstrap nodes that answer, ``host:port``; nothing is stored."""
    trust = load_trust(settings, keeps=False)
    own = AgentIdentity(trust.agent_id, trust.identity, trust.authority, Path())
    async with DhtAgent(settings, own=own, is_client=True) as agent:
        pings = (agent.ping(*named, seconds=seconds) for named in settings.dht.bootstrap)
        answers = await asyncio.gather(*pings, return_exceptions=True)
    pairs = zip(settings.dht.bootstrap, answers, strict=True)
    return [host_and_port(*named) for named, answer in pairs if isinstance(answer, DhtPong)]


def _put(finished: Finished, skill_id: str, capabilities: Sequence[str]) -> DhtPut:
    named = {name_key(skill_id): skill_id}
    for name in capabilities:
        named |= {skill_key(skill_id, name): name, capability_key(name): name}
    full = dict.fromkeys(named[key] for key in finished.full)
    unanswered = tuple(host_and_port(*peer) for peer in finished.unanswered)
    return DhtPut(finished.stored, unanswered, finished.seconds, tuple(full))


def _trust(standing: Standing) -> Trust:
    return "verified" if standing is Standing.CERTIFIED else "unverified"


def _skill(record: SignedRecord) -> DhtSkill:
    return DhtSkill(
        record.agent_id,
        record.skill_id,
        record.version,
        record.skill_type,
        record.endpoint,
        record.capabilities,
        record.scenes,
        record.digest,
        _trust(record.standing),
        record.timestamp / 1000,
        record.expires / 1000,
        record.kid.hex(),
    )
