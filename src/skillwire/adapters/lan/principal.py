"""The identity of an agent: its name, its key and certificate, and the authority that judges others.

Two processes that offer skills under one name and key would unregister each other's. So an agent that offers skills
holds a lock on its name, which the system releases with the process. A name from the state directory may change: the
next process is ``NAME-2``, with a key, a certificate and a state of its own in the folder ``agents/NAME-2``. A
configured name that is in use is refused. An agent that only searches registers nothing, and shares the first one's
name and certificate. **[ours]**
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.adapters.files.atomic import release_lock, state_directory, take_lock
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.errors import ConflictError, SourceLocation, ValidationError
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.setting_keys import agent

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.protocols.skill_discovery.settings import LanSettings


#: Processes of one state directory that take part at once; who starts more has lost count.
_MOST: Final = 64


class AgentNameLock:
    """A name of this machine, locked from :meth:`hold` to :meth:`let_go`, or until it is garbage.

    ``first`` is the usual name of this machine, when another process has it.
    """

    def __init__(self, agent_id: str, folder: Path, lock: Path, *, first: str = "") -> None:
        self.agent_id = agent_id
        self.folder = folder
        self.first = first
        self._lock = lock
        self._held: weakref.finalize[..., AgentNameLock] | None = None

    @property
    def note(self) -> str:
        """A warning for the user; empty for the usual name."""
        if not self.first:
            return ""
        return f"another process takes part as {self.first}: this one is {self.agent_id}, with a key of its own"

    def hold(self) -> None:
        """Lock the name. Raises: ConflictError: ``LAN_NAME`` when another process holds it; StorageError."""
        if self._held is not None and self._held.alive:
            return
        try:
            handle = take_lock(self._lock, wait=False)
        except ConflictError as error:
            message = f"another process of this machine takes part as {self.agent_id}"
            raise ConflictError("LAN_NAME", message, place=SourceLocation(str(self._lock))) from error
        self._held = weakref.finalize(self, release_lock, handle, self._lock)

    def let_go(self) -> None:
        """Let another one have it."""
        if self._held is not None:
            self._held()


def default_agent_name(settings: LanSettings) -> AgentNameLock:
    """Hold a name, and return it. Raises: ConflictError: ``LAN_NAME``, the configured one is in use; StorageError."""
    folder = state_directory() / "lan"
    first = settings.agent_id or LanKeys(folder).agent_id()
    name = AgentNameLock(first, folder, _lock(folder, first))
    for number in range(2, _MOST + 2):
        try:
            name.hold()
        except ConflictError:
            if settings.agent_id or number > _MOST:
                raise
        else:
            break
        numbered = f"{first}-{number}"
        name = AgentNameLock(numbered, folder / "agents" / numbered, _lock(folder, numbered), first=first)
    if name.first and LanKeys(name.folder).known_id() != name.agent_id:
        LanKeys(name.folder).keep_id(name.agent_id)
    return name


def _lock(folder: Path, agent_id: str) -> Path:
    return folder / "names" / f"{agent_id}.lock"


#: Roles in which a name is spoken for.
_OFFERING = frozenset({Role.MCP_AGENT, Role.ROUTE_AGENT})


class AgentIdentity(NamedTuple):
    """Who an agent is.

    Args:
        agent_id: its name.
        identity: what it signs with.
        authority: judges others.
        folder: of what it remembers.
        trust: where all of that is from; None when it was given.
        name: that it holds; None for one who offers nothing, or whose identity was given.
    """

    agent_id: str
    identity: Identity
    authority: Authority
    folder: Path
    trust: LanTrust | None = None
    name: AgentNameLock | None = None

    @property
    def is_kept(self) -> bool:
        """Whether all of it is from files of ours, which are to be looked after."""
        trust = self.trust
        return trust is not None and (self.identity, self.authority) == (trust.identity, trust.authority)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the user about the name."""
        return (self.name.note,) if self.name is not None and self.name.note else ()


def load_agent_identity(
    settings: LanSettings, roles: frozenset[Role], identity: Identity | None, authority: Authority | None
) -> AgentIdentity:
    """Return the agent that takes part in these roles; what is not given comes from its folder.

    Raises: ConflictError: ``LAN_NAME``; StorageError; ValidationError, TrustError: as ``load_trust``.
    """
    folder = state_directory() / "lan"
    if identity is not None and authority is not None and settings.agent_id:
        _check_name(settings.agent_id, folder)
        return AgentIdentity(settings.agent_id, identity, authority, folder)
    name = default_agent_name(settings) if identity is None and roles & _OFFERING else None
    folder = folder if name is None else name.folder
    try:
        trust = load_trust(settings, folder=folder)
        _check_name(trust.agent_id, folder)
    except BaseException:
        if name is not None:
            name.let_go()
        raise
    return AgentIdentity(trust.agent_id, identity or trust.identity, authority or trust.authority, folder, trust, name)


def _check_name(agent_id: str, folder: Path) -> None:
    """Refuse a name that could not be configured: a certificate or a kept file may have a longer one."""
    try:
        agent(agent_id, False)
    except ValueError as error:
        message = f"the name of this agent {error}; it is {ascii(agent_id)[:60]}, of {len(agent_id)}"
        fix = "Set agentId to such a name; where a certificate names the agent, have one issued for it."
        raise ValidationError("LAN_TRUST", message, place=SourceLocation(str(folder)), fix=fix) from None
