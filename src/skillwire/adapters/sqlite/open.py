"""Opening the state directory: the one place that knows which of its files is for what."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.keys import read_server_key
from skillwire.adapters.sqlite.async_database import AsyncDatabase
from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.sqlite.ledger import SqliteLedger
from skillwire.adapters.sqlite.run_blobs import SqliteRunBlobs
from skillwire.adapters.sqlite.stores import SqliteGrants, SqliteTokens
from skillwire.executions.grants import Grants
from skillwire.registry.tokens import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.model.execution import RunSettings

DATABASE: Final = "skillwire.db"
SERVER_KEY: Final = "server.key"
OUTPUTS: Final = "outputs"
RUN_BLOBS: Final = "run-blobs"


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
    return Tokens(SqliteTokens(_database(state / DATABASE)), read_server_key(state / SERVER_KEY), time.time)


def close_databases() -> None:
    """Let go of each database that this process has opened; what is opened next is opened anew."""
    _tokens.cache_clear()
    _database.cache_clear()


def open_server_key() -> bytes:
    """Return this server's key, from which others are derived; created if missing. Raises StorageError."""
    return read_server_key(state_directory() / SERVER_KEY)


def open_grants() -> Grants:
    """Return what was granted on this machine; the database is made with its first use."""
    return Grants(SqliteGrants(open_database()), time.time)


def open_ledger() -> SqliteLedger:
    """Return the executions in the state directory, large outputs beside the database; made with its first use."""
    return SqliteLedger(open_database(), FileBlobs(state_directory() / OUTPUTS, durable=True))


def open_run_blobs(settings: RunSettings) -> SqliteRunBlobs:
    """Return the blobs of runs in the state directory; made with their first use."""
    return SqliteRunBlobs(open_database(), state_directory() / RUN_BLOBS, settings)


def has_database() -> bool:
    """Whether there is a database; a command that only reads creates none."""
    return (state_directory() / DATABASE).exists()
