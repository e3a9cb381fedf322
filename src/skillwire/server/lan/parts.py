"""What the service on the local network is made of, as it sees them: its agent, and what hands out keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skillwire.protocols.skill_discovery.messages import Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.model.lan import LanChange, LanSnapshot
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.route_agent import Offer


class Agent(Protocol):
    """What a service needs of :class:`skillwire.adapters.lan.agent.LanAgent`."""

    agent_id: str
    trust: LanTrust | None

    @property
    def counters(self) -> Mapping[str, int]:
        """What was dropped or went wrong, by its reason."""

    @property
    def received(self) -> int:
        """How many datagrams came."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as it should be, for people."""

    async def start(self) -> None:
        """Begin.

        Raises:
            FetchError: ``LAN_UNAVAILABLE`` when no interface can be used.
            ConflictError: ``LAN_NAME`` when another process has our name by now.
        """

    async def stop(self, reason: Reason = Reason.SHUTDOWN) -> None:
        """Say goodbye and end."""

    def announce(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these from now on."""

    def report(self, skill_id: str, status: HealthStatus, detail: str = "") -> None:
        """Say that a skill is otherwise than before."""

    def snapshot(self) -> LanSnapshot:
        """Return what is known."""

    def listen(self) -> AsyncIterator[LanChange]:
        """Yield what happens from now on."""


class KeyServer(Protocol):
    """What a service needs of :class:`skillwire.server.lan.secrets.SceneSecrets`."""

    async def start(self, trust: LanTrust | None, host: str) -> int:
        """Begin, and return the port; 0 where there is none."""

    async def stop(self) -> None:
        """End."""
