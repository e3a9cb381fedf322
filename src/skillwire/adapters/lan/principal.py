"""Principal: who an agent is: its name, what it signs with, and what it holds others against."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan.own_name import own_name
from skillwire.errors import Place, ValidationError
from skillwire.protocols.skill_discovery.configured_values import agent
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
            :func:`~skillwire.adapters.files.lan_trust.load_trust` says; ``LAN_TRUST`` also for a name that no message
            has room for, wherever it is from.
    """
    folder = state_directory() / "lan"
    if identity is not None and authority is not None and settings.agent_id:
        _check_name(settings.agent_id, folder)
        return Principal(settings.agent_id, identity, authority, folder)
    name = own_name(settings) if identity is None and roles & _OFFERING else None
    folder = folder if name is None else name.folder
    try:
        trust = load_trust(settings, folder=folder)
        _check_name(trust.agent_id, folder)
    except BaseException:
        if name is not None:
            name.let_go()
        raise
    return Principal(trust.agent_id, identity or trust.identity, authority or trust.authority, folder, trust, name)


def _check_name(agent_id: str, folder: Path) -> None:
    """Refuse a name that could not be configured: a certificate or a kept file may have a longer one."""
    try:
        agent(agent_id, False)
    except ValueError as error:
        message = f"the name of this agent {error}; it is {ascii(agent_id)[:60]}, of {len(agent_id)}"
        fix = "Set agentId to such a name; where a certificate names the agent, have one issued for it."
        raise ValidationError("LAN_TRUST", message, place=Place(str(folder)), fix=fix) from None
