"""The state of an agent over a restart: the registrations that it heard, their keys, and the newest timestamps.

Timestamps refuse replays, and keys refuse an agent that uses another one's name after the restart. A key is stored with
each registration that it signed, so it ends with the last one. The state has a database of its own in the folder
``lan`` of the state directory, because it is written every few seconds, in a thread. A commit is atomic; the last
seconds before a crash may be missing, and are heard again. The content is untrusted: it is decoded like new datagrams,
and listed as UNKNOWN and unverified until a sign of life comes. An unreadable file is replaced, with a warning; a
failing disk is counted and retried. Several agents of one user may share the file. Spec: specs §3.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from skillwire.adapters.files.atomic import make_folder
from skillwire.adapters.lan.link import Link
from skillwire.errors import DecodeError
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.health import Change, Key
from skillwire.protocols.skill_discovery.limits import ReplayGuard, Stream
from skillwire.protocols.skill_discovery.messages import Profile, Register
from skillwire.protocols.skill_discovery.node import DiscoveryNode

FILE: Final = "lan.db"
_PATIENCE: Final = 2.0
#: A file that was made by another version of ours is made anew.
_VERSION: Final = 5
#: Milliseconds that a link may be gone before what was heard there is forgotten: a month.
_GONE_MS: Final = 30 * 86_400_000
_SCHEMA: Final = """
CREATE TABLE registrations (
  link TEXT NOT NULL, agent TEXT NOT NULL, skill TEXT NOT NULL, host TEXT NOT NULL, datagram BLOB NOT NULL,
  key BLOB NOT NULL, issuer BLOB NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (link, agent, skill)) STRICT, WITHOUT ROWID;
CREATE TABLE links (link TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE timestamps (
  kind TEXT NOT NULL, agent TEXT NOT NULL, about TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (kind, agent, about)) STRICT, WITHOUT ROWID;
"""


class StoredRegistration(NamedTuple):
    """A registration that was heard on a link."""

    link: str
    host: str  # that it came from
    message: Register
    key: bytes = b""  # digest of the agent's key; empty with a group key
    issuer: bytes = b""  # name, DER, of the authority that certified it; empty for none
    since: int = 0  # when the skill registered first, s, for its rank; 0 when that is unknown


class SavedState(NamedTuple):
    """The stored state; ``is_broken`` when the file was unreadable, and is replaced."""

    heard: tuple[StoredRegistration, ...] = ()
    timestamps: tuple[tuple[Stream, int], ...] = ()
    is_broken: bool = False


class LanState:
    """The file; one thread at a time uses it, and every method waits for the disk."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        self.path = folder / FILE
        self._profile = profile
        self._was_broken = False

    def load(self) -> SavedState:
        """Return what was kept; nothing when there is no file, or none that can be read."""
        if not self.path.exists():
            return SavedState()
        try:
            with closing(self._connect()) as connection:
                columns = "link, host, datagram, key, issuer, since"
                rows = connection.execute(f"SELECT {columns} FROM registrations").fetchall()  # noqa: S608 - names of ours
                times = connection.execute("SELECT kind, agent, about, at FROM timestamps").fetchall()
        except sqlite3.OperationalError:  # locked, or the disk: it may be good yet
            return SavedState()
        except sqlite3.DatabaseError:  # in the midst of it
            self._discard()
            return SavedState(is_broken=True)
        heard = []
        for link, host, datagram, key, issuer, since in rows:
            with suppress(DecodeError):
                message = decode(datagram, self._profile)
                if isinstance(message, Register):
                    heard.append(StoredRegistration(link, host, message, key, issuer, since))
        timestamps = tuple(((kind, agent, about), at) for kind, agent, about, at in times)
        return SavedState(tuple(heard), timestamps, self._was_broken)

    def write(
        self,
        *,
        heard: Sequence[tuple[str, str, str, str, bytes, bytes, bytes, int]] = (),
        gone: Sequence[tuple[str, Key]] = (),
        timestamps: Collection[tuple[Stream, int]] = (),
        edge: int = 0,
        links: Sequence[str] = (),
        now: int = 0,
    ) -> None:
        """Write and delete registrations, keep timestamps since ``edge``, ms. Raises: OSError, sqlite3.Error."""
        with closing(self._connect()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO registrations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", heard)
            connection.executemany(
                "DELETE FROM registrations WHERE link = ? AND agent = ? AND skill = ?",
                [(link, *key) for link, key in gone],
            )
            connection.executemany(
                "INSERT INTO timestamps VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
                [(*stream, at) for stream, at in timestamps],
            )
            connection.execute("DELETE FROM timestamps WHERE at < ?", (edge,))
            here = {*links, *(row[0] for row in heard)}
            connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?)", [(link, now) for link in sorted(here)])
            connection.execute("DELETE FROM links WHERE seen < ?", (now - _GONE_MS,))
            connection.execute("DELETE FROM registrations WHERE link NOT IN (SELECT link FROM links)")

    def _connect(self) -> sqlite3.Connection:
        make_folder(self.path.parent, mode=0o700)
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk: it may be good yet
                raise
            self._discard()
            return self._open()

    def _discard(self) -> None:
        self._was_broken = True
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(f"{FILE}{end}").unlink()

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it for all to read
        connection = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")  # whole after a crash; the last moments may be missing
            [version] = connection.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                self.path.chmod(0o600)
                connection.execute("PRAGMA journal_mode = WAL")
                drops = "".join(f"DROP TABLE IF EXISTS {name}; " for name in ("registrations", "links", "timestamps"))
                connection.executescript(f"BEGIN IMMEDIATE; {drops}{_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        except BaseException:
            connection.close()
            raise
        return connection


_LOG: Final = logging.getLogger("skillwire.lan")
_PAUSE: Final = 5.0
#: Seconds in which goodbyes are collected, so that those of a server are one write.
_COLLECTED: Final = 0.05


class StateWriter:
    """Writes the state of one agent every few seconds, and at once for a goodbye; of its own skills only the ranks."""

    def __init__(
        self,
        state: LanState,
        agent_id: str,
        profile: Profile,
        window: float,
        *,
        counters: Counter[str],
        clock: Callable[[], Moment],
    ) -> None:
        self._state = state
        self._agent_id = agent_id
        self._profile = profile
        self._window = window
        self._counters = counters
        self._clock = clock
        self._kept = SavedState()
        self._changed: dict[tuple[str, Key], Change] = {}
        #: Newest timestamps that are not written yet: without one, a replay counts after a restart.
        self._timestamps: dict[Stream, int] = {}
        self._running: asyncio.Task[None] | None = None
        self._wakes = asyncio.Event()
        self._ends = False
        self._links: Callable[[], Iterable[Link]] = tuple

    async def load(self) -> None:
        """Read what was kept."""
        self._kept = await asyncio.to_thread(self._state.load)
        if self._kept.is_broken:
            self._counters["state: made anew"] += 1
            _LOG.warning(
                "the kept state of the local network is unreadable and was replaced: earlier skills are unknown"
            )

    def guard(self) -> ReplayGuard:
        """Return a guard that knows the timestamps that were kept."""
        return ReplayGuard(self._window, self._kept.timestamps)

    def restore(self, link: str, node: DiscoveryNode) -> None:
        """List what was heard on a link before, as UNKNOWN, and know whose key was whose."""
        node.mcp_agent.on_goodbye = self._wakes.set
        now = self._clock().steady
        for heard in self._kept.heard:
            agent_id = heard.message.agent_id
            if heard.link != link:
                continue
            if agent_id == self._agent_id:
                node.registry.restore_rank((agent_id, heard.message.skill_id), heard.since)
            elif node.ring.remember(agent_id, heard.key, heard.issuer):
                node.registry.restore(heard.message, now, host=heard.host, since=heard.since)

    def start(self, links: Callable[[], Iterable[Link]]) -> None:
        """Begin to write; also after :meth:`stop`."""
        self._links = links
        self._ends = False
        self._wakes.clear()
        self._running = asyncio.get_running_loop().create_task(self._run())

    def changed(self, link: str, change: Change) -> None:
        """Note a change of a registry, unless only the health changed."""
        if change.listed.is_hint:
            return
        before, after = change.before, change.after
        if before is None or after is None or before._replace(health=after.health) != after:
            self._changed[link, change.listed.key] = change

    async def stop(self) -> None:
        """Write what is not written yet, and end."""
        if self._running is not None:
            self._ends = True
            self._wakes.set()
            await self._running
            self._running = None

    async def _run(self) -> None:
        while not self._ends:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._wakes.wait()
                    await asyncio.sleep(0 if self._ends else _COLLECTED)
            self._wakes.clear()
            await self._write()

    async def _write(self) -> None:
        changed, self._changed = self._changed, {}
        links = tuple(self._links())
        goodbyes = [(link, link.node.mcp_agent.take_goodbyes()) for link in links]
        nodes = {link.name: link.node for link in links}
        now = int(self._clock().wall * 1000)
        edge = now - int(2 * self._window * 1000)
        newest = self._timestamps
        for link in links:
            for stream, at in link.node.ingress.replay.changed():
                newest[stream] = max(at, newest.get(stream, at))
        self._timestamps = {stream: at for stream, at in newest.items() if at >= edge}
        heard = [
            (link, *key, change.after.host, encode(change.after.registration, self._profile), *_key(nodes, link, key))
            for (link, key), change in changed.items()
            if change.after is not None
        ]
        gone = [named for named, change in changed.items() if change.after is None]
        if not (heard or gone or self._timestamps or any(taken for _, taken in goodbyes)):
            return
        times = list(self._timestamps.items())
        here = [link.name for link in links if link.is_open]
        write = partial(self._state.write, heard=heard, gone=gone, timestamps=times, edge=edge, links=here, now=now)
        try:
            await asyncio.to_thread(write)
        except (OSError, sqlite3.Error) as error:
            self._counters[f"state: {type(error).__name__}"] += 1
            self._changed = {**changed, **self._changed}
        else:
            self._timestamps.clear()
            for link, taken in goodbyes:
                if taken:
                    link.node.mcp_agent.acknowledge(taken, self._clock())
                    link.act()


def _key(nodes: Mapping[str, DiscoveryNode], link: str, key: Key) -> tuple[bytes, bytes, int]:
    """Return the digest of the key of a skill's agent on a link, its issuer, and since when the skill is registered."""
    node = nodes.get(link)
    return (*node.ring.digest_of(key[0]), node.registry.since(key)) if node is not None else (b"", b"", 0)
