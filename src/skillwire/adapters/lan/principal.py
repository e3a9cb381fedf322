"""Principal: who an agent is: its name, what it signs with, and what it holds others against."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan.own_name import own_name
from skillwire.protocols.skill_discovery.node import Role

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.adapters.lan.own_name import OwnName
    from skillwire.protocols.skill_discovery.configuration import LanSettings
    from skillwire.protocols.skill_discovery.identity import Authority, Identity

#: Roles in which a name is spoken for.
_OFFERING = frozenset({Role.MCP_AGENT, Role.ROUTE_AGENT})


class Principal(NamedTuple):
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
    name: OwnName | None = None

    @property
    def is_kept(self) -> bool:
        """Whether all of it is from files of ours, which are to be looked after."""
        trust = self.trust
        return trust is not None and (self.identity, self.authority) == (trust.identity, trust.authority)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is told of the name."""
        return (self.name.note,) if self.name is not None and self.name.note else ()


def principal_of(
    settings: LanSettings, roles: frozenset[Role], identity: Identity | None, authority: Authority | None
) -> Principal:
    """Return who an agent is that takes part in these roles; what is not given is the kept one's.

    Raises:
        ConflictError: ``LAN_NAME``, another process offers under the configured name.
        StorageError: ``LAN_KEYS``, ``STORAGE``. ValidationError, TrustError: as
            :func:`~skillwire.adapters.files.lan_trust.load_trust` says.
    """
    folder = state_directory() / "lan"
    if identity is not None and authority is not None and settings.agent_id:
        return Principal(settings.agent_id, identity, authority, folder)
    name = own_name(settings) if identity is None and roles & _OFFERING else None
    folder = folder if name is None else name.folder
    try:
        trust = load_trust(settings, folder=folder)
    except BaseException:
        if name is not None:
            name.let_go()
        raise
    return Principal(trust.agent_id, identity or trust.identity, authority or trust.authority, folder, trust, name)
