"""What was found on the local network before, in ``lan.json`` of the cache folder. Spec: SDP §11.

The file is read when it is first needed, and written whenever something was found, and at the end. Of two processes
that write it the later one wins: what is lost by that is asked for again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_error, write_atomically
from skillwire.adapters.files.directories import cache_directory
from skillwire.limits import LAN_CACHE_BYTES
from skillwire.resolver.lan_cache import LanCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.model.lan import LanChange, LanSkill
    from skillwire.protocols.skill_discovery.configuration import CacheSettings

_NAME: Final = "lan.json"


class LanMemory:
    """One cache and its file. Changes come from the thread of the agent, questions from others.

    Args:
        settings: how much is kept, and how long.
        clock: seconds since the epoch.
        trust: returns a digest of whom we trust now.
    """

    def __init__(self, settings: CacheSettings, clock: Callable[[], float], trust: Callable[[], str]) -> None:
        self._settings = settings
        self._clock = clock
        self._trust = trust
        self._path = cache_directory() / _NAME
        self._lock = threading.Lock()
        self._cache: LanCache | None = None

    def skills(self) -> list[LanSkill]:
        """Return what is good now.

        Raises:
            StorageError: the file cannot be read.
        """
        with self._lock:
            cache = self._opened()
            cache.trust(self._trust())
            return cache.skills(self._clock())

    def put(self, skills: Iterable[LanSkill]) -> None:
        """Keep what was found, and write it down.

        Raises:
            StorageError: the file cannot be read or written.
        """
        with self._lock:
            cache = self._opened()
            cache.trust(self._trust())
            cache.put(skills, self._clock())
            self._write()

    def forget(self, skills: Iterable[LanSkill]) -> None:
        """Forget skills of which nobody knows any more."""
        with self._lock:
            for skill in skills:
                self._opened().forget(skill.skill_id)
            self._write()

    def forget_all(self) -> None:
        """Forget everything: somebody wants to see what is there now."""
        with self._lock:
            self._opened().forget()

    def hear(self, change: LanChange) -> None:
        """Take what has happened on the network."""
        with self._lock:
            self._opened().hear(change)

    def wants_refresh(self) -> bool:
        """Whether something ends soon, and is to be asked for again."""
        with self._lock:
            return bool(self._opened().to_refresh(self._clock()))

    def write(self) -> None:
        """Write down what has changed."""
        with self._lock:
            self._write()

    def _opened(self) -> LanCache:
        if self._cache is None:
            self._cache = self._read()
        return self._cache

    def _read(self) -> LanCache:
        try:
            with self._path.open("rb") as file:
                data = file.read(LAN_CACHE_BYTES + 1)
        except FileNotFoundError:
            return LanCache(self._settings)
        except OSError as error:
            raise storage_error(error, self._path) from error
        # What is no cache is an empty one, and is written anew: nothing is lost that cannot be asked for.
        return LanCache.read(data, self._settings, self._clock(), str(self._path))

    def _write(self) -> None:
        if self._cache is not None and self._cache.is_changed and self._settings.enabled:
            write_atomically(self._path, self._cache.write(), mode=0o600)
