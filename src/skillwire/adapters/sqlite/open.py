"""Opening the state directory: the one place that knows which of its files is for what."""

from __future__ import annotations

import time
from functools import cache
from typing import Final

from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.server_key import read_server_key
from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.sqlite.tokens import SqliteTokens
from skillwire.registry.tokens import Tokens

DATABASE: Final = "skillwire.db"
SERVER_KEY: Final = "server.key"


@cache
def open_tokens() -> Tokens:
    """Return the tokens in the state directory; its database and key are made when they are not there.

    Raises:
        StorageError: ``DATABASE``, ``SERVER_KEY``, ``STORAGE``.
    """
    state = state_directory()
    return Tokens(SqliteTokens(Database(state / DATABASE)), read_server_key(state / SERVER_KEY), time.time)


def has_tokens() -> bool:
    """Whether there is anything to open, so that who only looks makes nothing."""
    return (state_directory() / DATABASE).exists()
