"""Opening the state directory, the one place that knows which of its files is for what; grants and tokens in SQLite."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from functools import cache
from pathlib import Path
from typing import Final

from skillwire.adapters.files.atomic import read_bounded, state_directory, storage_errors, write_atomically
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.run_blobs import SqlRunBlobs
from skillwire.adapters.sql.tokens import SqlDeviceLogins, SqlGrants, SqlTokens
from skillwire.adapters.sqlite.async_database import AsyncDatabase
from skillwire.adapters.sqlite.database import DATABASE, Database
from skillwire.errors import SourceLocation, StorageError
from skillwire.executions.grants import Grants
from skillwire.model.execution import RunSettings
from skillwire.registry.tokens import Tokens

SERVER_KEY: Final = "server.key"
_SERVER_KEY_BYTES: Final = 32  # random
OUTPUTS: Final = "outputs"
RUN_BLOBS: Final = "run-blobs"
ARTIFACTS: Final = "artifacts"


def open_database() -> AsyncDatabase:
    """Return the database in the state directory: one object for all of this process; made with its first use."""
    return _database(state_directory() / DATABASE)


@cache
def _database(path: Path) -> AsyncDatabase:
    return AsyncDatabase(Database(path))


def open_tokens() -> Tokens:
    """Return the tokens in the state directory; created if missing. Raises StorageError."""
    return _tokens(state_directory())


@cache
def _tokens(state: Path) -> Tokens:
    return Tokens(SqlTokens(_database(state / DATABASE)), read_server_key(state / SERVER_KEY), time.time)


def close_databases() -> None:
    """Let go of each database that this process has opened; what is opened next is opened anew."""
    _tokens.cache_clear()
    _database.cache_clear()


def open_packages() -> SqlPackages:
    """Return the packages of the registry, large artifacts beside the database; made with its first use."""
    return SqlPackages(open_database(), open_artifacts())


def open_artifacts() -> FileBlobs:
    """Return the artifacts that are too large for a row of the database."""
    return FileBlobs(state_directory() / ARTIFACTS, durable=True)


def open_device_logins() -> SqlDeviceLogins:
    """Return the logins that programs asked for; the database is made with their first use."""
    return SqlDeviceLogins(open_database())


def open_server_key() -> bytes:
    """Return this server's key, from which others are derived; created if missing. Raises StorageError."""
    return read_server_key(state_directory() / SERVER_KEY)


def open_grants() -> Grants:
    """Return what was granted on this machine; the database is made with its first use."""
    return Grants(SqlGrants(open_database()), time.time)


def open_ledger() -> SqlLedger:
    """Return the executions in the state directory, large outputs beside the database; made with its first use."""
    return SqlLedger(open_database(), FileBlobs(state_directory() / OUTPUTS, durable=True))


def open_run_blobs(settings: RunSettings) -> SqlRunBlobs:
    """Return the blobs of runs in the state directory; made with their first use."""
    return SqlRunBlobs(open_database(), state_directory() / RUN_BLOBS, settings)


def has_database() -> bool:
    """Whether there is a database; a command that only reads creates none."""
    return (state_directory() / DATABASE).exists()


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
