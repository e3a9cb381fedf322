"""The file of the local network's cache. The agent's thread changes it, other threads read it."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from skillwire import limits
from skillwire.adapters.files.atomic import (
    cache_directory,
    read_bounded,
    read_trust_file,
    state_directory,
    write_atomically,
)
from skillwire.adapters.files.settings_file import local_authority_folder
from skillwire.errors import SkillwireError
from skillwire.model.lan import LanChange, LanSkill
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.resolver.sources.lan_cache import LanCache


class LanCacheFile:
    """One cache and its file; each method raises ``StorageError`` for a file that cannot be read or written.

    ``settings`` are those of discovery, ``clock`` gives seconds since the epoch.
    """

    def __init__(self, settings: LanSettings, clock: Callable[[], float]) -> None:
        self._settings = settings.cache
        self._clock = clock
        self._trust = partial(trust_digest, settings)
        self._path = cache_directory() / "lan.json"
        self._lock = threading.Lock()
        self._cache: LanCache | None = None

    def skills(self) -> list[LanSkill]:
        """Return the valid skills."""
        with self._lock:
            cache = self._open()
            cache.trust(self._trust())
            return cache.skills(self._clock())

    def put(self, skills: Iterable[LanSkill]) -> None:
        """Keep skills, and write the file."""
        with self._lock:
            cache = self._open()
            cache.trust(self._trust())
            cache.put(skills, self._clock())
            self._write()

    def forget(self, skills: Iterable[LanSkill]) -> None:
        """Drop skills that no agent announces, and write the file."""
        with self._lock:
            for skill in skills:
                self._open().forget(skill.skill_id)
            self._write()

    def forget_all(self) -> None:
        """Drop everything, so that only the network answers."""
        with self._lock:
            self._open().forget()

    def hear(self, change: LanChange) -> None:
        """Apply a change on the network."""
        with self._lock:
            self._open().hear(change)

    def is_refresh_due(self) -> bool:
        """Whether a skill expires soon."""
        with self._lock:
            return bool(self._open().to_refresh(self._clock()))

    def write(self) -> None:
        """Write the file."""
        with self._lock:
            self._write()

    def _open(self) -> LanCache:
        if self._cache is None:
            data = read_bounded(self._path, limits.LAN_CACHE_BYTES + 1)
            if data is None:
                self._cache = LanCache(self._settings)
            else:  # a malformed file is an empty cache: all of it can be asked for again
                self._cache = LanCache.read(data, self._settings, self._clock(), str(self._path))
        return self._cache

    def _write(self) -> None:
        if self._cache is not None and self._cache.is_changed and self._settings.enabled:
            write_atomically(self._path, self._cache.write(), mode=0o600)


def trust_digest(settings: LanSettings, *, folder: Path | None = None) -> str:
    """Return a hexadecimal digest of everything that these settings trust; an unreadable file counts as empty."""
    digest = hashlib.sha256()
    names = [*settings.roots, *settings.intermediates, *settings.revocations]
    if authority := local_authority_folder(settings):
        names += [str(authority / name) for name in ("root.pem", "center.pem", "revocations.pem")]
    names += [str((folder or state_directory() / "lan") / name) for name in ("revocations.pem", "trusted-keys.json")]
    for name in names:
        content = b""
        if "://" not in name:
            with contextlib.suppress(SkillwireError):
                content = read_trust_file(Path(name), limits.LAN_REVOCATIONS_BYTES)
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    digest.update(settings.group_key_file.encode())
    if settings.group_key_file:
        with contextlib.suppress(OSError):  # not its content: the digest must reveal nothing of a secret
            found = Path(settings.group_key_file).stat()
            digest.update(f"\0{found.st_mtime_ns}\0{found.st_size}".encode())
    return digest.hexdigest()
