"""Where a server, a worker or a command keeps what is durable: in the state directory, or in a shared database.

Only :func:`open_stores` reads ``SKILLWIRE_STORE`` and ``SKILLWIRE_STORE_FILE``. Without a URL everything is in the
state directory, in one SQLite file with large contents beside it. With ``postgresql://`` any number of machines share
one database, and only their server key is in a file, which has to be the same one everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

from skillwire.adapters.clock import moment
from skillwire.adapters.files.atomic import read_bounded, state_directory, storage_errors, write_atomically
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.uploads import FileUploads, Spool
from skillwire.adapters.sql.blobs import FileOutputs, Pieces, RowOutputs, SqlRunBlobs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.servers import SqlLeases, SqlServers
from skillwire.adapters.sql.tokens import SqlDeviceLogins, SqlGrants, SqlTokens
from skillwire.adapters.sql.uploads import SqlAnnouncedFiles, SqlUploads
from skillwire.adapters.sqlite.database import ARTIFACTS, DATABASE, OUTPUTS, RUN_BLOBS, AsyncDatabase, Database
from skillwire.errors import SourceLocation, StorageError, UsageError
from skillwire.executions.grants import Grants, needs_grant
from skillwire.registry.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from skillwire.adapters.postgres.database import PostgresDatabase
    from skillwire.adapters.sql import Database as AnyDatabase
    from skillwire.adapters.sql.artifacts import LargeArtifacts
    from skillwire.model.execution import RunSettings
    from skillwire.model.skill import Skill
    from skillwire.ports import Clock, UploadStore

T = TypeVar("T")
SERVER_KEY: Final = "server.key"
_UPLOADS: Final = "uploads"
_SERVER_KEY_BYTES: Final = 32  # random
#: Seconds for which a server leads, and until it asks again: another one takes over soon after it was killed.
_LEADS_SECONDS: Final = 5.0
_ASKS_SECONDS: Final = 1.0
#: Seconds for which a server counts as one of several after it was last heard of.
_PRESENT_SECONDS: Final = 15.0
_SHARED: Final = ("postgresql://", "postgres://")


def open_stores(url: str = "") -> Stores:
    """Return the stores at ``url``, by default those of ``SKILLWIRE_STORE`` or of the state directory.

    ``SKILLWIRE_STORE_FILE`` names a file with the URL, for containers. There is one object for each URL in this
    process. Raises UsageError for a URL of another kind, StorageError for a file that cannot be read.
    """
    url = url or os.environ.get("SKILLWIRE_STORE", "")
    if not url and (file := os.environ.get("SKILLWIRE_STORE_FILE")):
        try:
            url = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            message, fix = f"SKILLWIRE_STORE_FILE names it: {error}", "Correct SKILLWIRE_STORE_FILE, or the file."
            raise StorageError("STORAGE", message, place=SourceLocation(file), fix=fix) from error
    place = state_directory(), url
    if place not in _opened:
        _opened[place] = Stores(*place)
    return _opened[place]


_opened: Final[dict[tuple[Path, str], Stores]] = {}


def close_stores() -> None:
    """Forget what this process has opened; what is opened next is opened anew."""
    _opened.clear()


def run_with_stores(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run in an event loop that then closes its connections to shared databases."""

    async def run() -> T:
        try:
            return await coroutine
        finally:
            for stores in _opened.values():
                if stores.is_shared:
                    await stores.database.close()

    return asyncio.run(run())


class Stores:
    """The stores of a state directory or a shared database; what they keep is made with its first use."""

    def __init__(self, state: Path, url: str = "") -> None:
        if url and not url.startswith(_SHARED):
            fix = "Write postgresql://USER@HOST/DATABASE, or leave it out for the state directory."
            raise UsageError("USAGE", f"{url.partition(':')[0][:20]!a} is no kind of store", fix=fix)
        self._state = state
        named = os.environ.get("SKILLWIRE_SERVER_KEY_FILE")
        self._key_path, self._is_key_named = Path(named or state / SERVER_KEY), bool(named)
        self.url = url
        self._name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._refresh: asyncio.Task[None] | None = None
        self._asked: dict[str, tuple[bool, float]] = {}  # work → whether it is led here, and when to ask again
        self.present = 1  # servers of the database, as they were last counted

    @property
    def is_shared(self) -> bool:
        """Whether other machines may use the same database."""
        return bool(self.url)

    @property
    def exists(self) -> bool:
        """Whether there is a database; a command that only reads creates none."""
        return self.is_shared or (self._state / DATABASE).exists()

    @cached_property
    def sqlite(self) -> AsyncDatabase:
        """The database in the state directory."""
        return AsyncDatabase(Database(self._state / DATABASE))

    @cached_property
    def database(self) -> AnyDatabase:
        """The database."""
        return self.postgres if self.is_shared else self.sqlite

    @cached_property
    def postgres(self) -> PostgresDatabase:
        """The shared database."""
        from skillwire.adapters.postgres.database import PostgresDatabase  # noqa: PLC0415  # an extra

        return PostgresDatabase(self.url)

    @cached_property
    def clock(self) -> Clock:
        """The time of all who use the database; that of a shared one is known after :meth:`prepare`."""
        return self.postgres.clock if self.is_shared else moment

    @cached_property
    def servers(self) -> SqlServers:
        """What the servers of a shared database agree on."""
        return SqlServers(self.database)

    @cached_property
    def leases(self) -> SqlLeases:
        """Which server leads."""
        return SqlLeases(self.database)

    async def leads(self, work: str) -> bool:
        """Whether this process does some work, such as expiring executions, for all servers of the database."""
        now = time.monotonic()
        if self.is_shared and now >= self._asked.get(work, (False, 0.0))[1]:
            number = await self.leases.lead(work, self._name, self.clock().wall, _LEADS_SECONDS)
            self._asked[work] = number is not None, now + _ASKS_SECONDS
        return not self.is_shared or self._asked[work][0]

    async def count_servers(self) -> None:
        """Count the servers of a shared database, this process among them. Raises StorageError."""
        self.present = await self.servers.count(self._name, self.clock().wall, _PRESENT_SECONDS)

    async def resign(self) -> None:
        """Let the other servers do what this one did for all, and share what it had."""
        with contextlib.suppress(StorageError):  # all of it ends soon
            for work, (is_leading, _) in self._asked.items():
                if is_leading:
                    await self.leases.resign(work, self._name)
            if self.is_shared:
                await self.servers.leave(self._name)

    async def prepare(self) -> None:
        """Check that all who use a shared database have one key, and measure its time from now on in this event loop.

        Raises StorageError (``SERVER_KEY``, ``DATABASE``).
        """
        if self.is_shared:
            try:
                await self.servers.check_key(self.server_key(), str(self._key_path))
            except StorageError:
                await self.database.close()
                raise
            if self._refresh is None:
                await self.postgres.clock.measure()
                self._refresh = asyncio.create_task(self.postgres.clock.keep())

    @cached_property
    def uploads(self) -> UploadStore:
        """The archives on their way."""
        return SqlUploads(self.database) if self.is_shared else FileUploads(self._state / _UPLOADS)

    def spool(self) -> BinaryIO:
        """Return an unnamed file for the body of a request; it is in memory while it is small."""
        return cast("BinaryIO", Spool(self._state / _UPLOADS))

    @cached_property
    def announced_files(self) -> SqlAnnouncedFiles:
        """The files that are sent one by one."""
        return SqlAnnouncedFiles(self.database)

    def tokens(self) -> Tokens:
        """Return the tokens. Raises StorageError for a key that cannot be used."""
        return self._tokens

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(SqlTokens(self.database), self.server_key(), time.time)

    def server_key(self) -> bytes:
        """Return the server's key, from which others are derived; created if missing, unless the environment names it.

        Raises StorageError.
        """
        if self._is_key_named and not self._key_path.exists():  # a new one would make each token invalid
            message = "there is no such file, and SKILLWIRE_SERVER_KEY_FILE names it"
            fix = (
                f"Copy server.key there, or for a first server: (umask 077; head -c 32 /dev/urandom >{self._key_path})"
            )
            raise StorageError("SERVER_KEY", message, place=SourceLocation(str(self._key_path)), fix=fix)
        return read_server_key(self._key_path)

    @cached_property
    def packages(self) -> SqlPackages:
        """The packages of the registry."""
        return SqlPackages(self.database, self.artifacts)

    @cached_property
    def artifacts(self) -> LargeArtifacts | None:
        """The artifacts that are too large for a row; None where a row takes any."""
        if not self.is_shared:
            return FileBlobs(self._state / ARTIFACTS, durable=True)
        if not (bucket := os.environ.get("SKILLWIRE_ARTIFACTS")):
            return None
        from skillwire.adapters.s3 import S3Artifacts  # noqa: PLC0415  # an extra

        return S3Artifacts(bucket)

    @cached_property
    def device_logins(self) -> SqlDeviceLogins:
        """The logins that programs asked for."""
        return SqlDeviceLogins(self.database)

    def grants(self) -> Grants:
        """Return what was granted."""
        return Grants(SqlGrants(self.database), time.time)

    async def ungranted(self, skills: Iterable[Skill]) -> list[str]:
        """Return the names of the skills that need a grant and have none."""
        asking = [skill for skill in skills if needs_grant(skill)]
        if not asking or not self.exists:  # asking must not create a database
            return [skill.name for skill in asking]
        grants = self.grants()
        return [skill.name for skill in asking if not await grants.allows(skill)]

    @cached_property
    def ledger(self) -> SqlLedger:
        """The executions."""
        files = FileOutputs(FileBlobs(self._state / OUTPUTS, durable=True))
        return SqlLedger(self.database, RowOutputs(self.database) if self.is_shared else files)

    def run_blobs(self, settings: RunSettings) -> SqlRunBlobs:
        """Return the blobs of runs."""
        pieces = Pieces("run_blob_pieces") if self.is_shared else None
        return SqlRunBlobs(self.database, self._state / RUN_BLOBS, settings, pieces=pieces)


def read_server_key(path: Path) -> bytes:
    """Return the key in ``path``, made if absent. Raises StorageError (``SERVER_KEY``, ``STORAGE``)."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            # Written beside its place and linked there: no process reads half of a key, and the first of several wins.
            new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
            try:
                write_atomically(new, secrets.token_bytes(_SERVER_KEY_BYTES), mode=0o600, durable=True)
                with contextlib.suppress(FileExistsError):
                    os.link(new, path)
            finally:
                new.unlink(missing_ok=True)
    key = read_bounded(path, _SERVER_KEY_BYTES + 1, owner_only_code="SERVER_KEY") or b""
    if len(key) != _SERVER_KEY_BYTES:
        raise StorageError("SERVER_KEY", f"{len(key)} bytes are no key", place=SourceLocation(str(path)))
    return key
