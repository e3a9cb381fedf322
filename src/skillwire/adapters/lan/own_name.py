"""The name under which a process takes part, which no other process of the same state directory has meanwhile.

Two that offer skills under one name and key would each take back what the other has registered. So who offers holds a
lock on its name as long as it is there; the system lets it go with the process, however that ends. A name that is kept
in the state directory is free to choose: the next process is ``NAME-2``, with a key, a certificate and a memory of its
own in the folder ``agents/NAME-2`` beside the first one's. One that somebody has configured is not, and is refused.

Who only asks registers nothing, so it shares the first one's name and certificate: whoever certified this user lets it
have keys. **[ours]**
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.lan_keys import LanKeys
from skillwire.adapters.files.locks import release_lock, take_lock
from skillwire.errors import ConflictError, Place

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.protocols.skill_discovery.configuration import LanSettings

#: Processes of one state directory that take part at once; who starts more has lost count.
_MOST: Final = 64


class OwnName:
    """A name of this machine, held from :meth:`hold` to :meth:`let_go`, or until nobody refers to it.

    Args:
        agent_id: the name.
        folder: of its key and its memory.
        lock: the file that is locked.
        first: who has the name that is kept for this machine, when that is another; empty otherwise.
    """

    def __init__(self, agent_id: str, folder: Path, lock: Path, *, first: str = "") -> None:
        self.agent_id = agent_id
        self.folder = folder
        self.first = first
        self._lock = lock
        self._held: weakref.finalize[..., OwnName] | None = None

    @property
    def note(self) -> str:
        """What a user is told; empty for a name that is nothing special."""
        if not self.first:
            return ""
        return f"another process takes part as {self.first}: this one is {self.agent_id}, with a key of its own"

    def hold(self) -> None:
        """Keep others from having it, unless that is so already.

        Raises:
            ConflictError: ``LAN_NAME`` when another process holds it. StorageError: ``STORAGE``.
        """
        if self._held is not None and self._held.alive:
            return
        try:
            handle = take_lock(self._lock, wait=False)
        except ConflictError as error:
            message = f"another process of this machine takes part as {self.agent_id}"
            raise ConflictError("LAN_NAME", message, place=Place(str(self._lock))) from error
        self._held = weakref.finalize(self, release_lock, handle, self._lock)

    def let_go(self) -> None:
        """Let another one have it."""
        if self._held is not None:
            self._held()


def own_name(settings: LanSettings) -> OwnName:
    """Hold a name, and return it.

    Raises:
        ConflictError: ``LAN_NAME`` when the one of the settings is taken by another process.
        StorageError: ``STORAGE``.
    """
    folder = state_directory() / "lan"
    first = settings.agent_id or LanKeys(folder).agent_id()
    name = OwnName(first, folder, _lock(folder, first))
    for number in range(2, _MOST + 2):
        try:
            name.hold()
        except ConflictError:
            if settings.agent_id or number > _MOST:
                raise
        else:
            break
        numbered = f"{first}-{number}"
        name = OwnName(numbered, folder / "agents" / numbered, _lock(folder, numbered), first=first)
    if name.first and LanKeys(name.folder).known_id() != name.agent_id:
        LanKeys(name.folder).keep_id(name.agent_id)
    return name


def _lock(folder: Path, agent_id: str) -> Path:
    return folder / "names" / f"{agent_id}.lock"
