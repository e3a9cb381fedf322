"""An agent of the local network that keeps what it is told, and tells what a test has it know."""

import asyncio

from skillwire.errors import FetchError
from skillwire.model.lan import LanChange, LanSkill, LanSnapshot
from skillwire.protocols.skill_discovery.messages import Reason


class FakeLanAgent:
    """Stands in for :class:`skillwire.adapters.lan.agent.LanAgent`.

    Args:
        settings: as it was given.
        health: says how a skill is.
        failures: what the next starts raise, in order.
    """

    agent_id = "agent-001"
    trust = None

    def __init__(self, settings, health, failures=()):
        self.settings = settings
        self.health = health
        self.failures = list(failures)
        self.offers = {}
        self.announced = 0
        self.reports = []
        self.skills = []
        self.scenes = []
        self.counters = {"forged": 2}
        self.received = 7
        self.notes: tuple[str, ...] = ()
        self.left = None
        self.is_started = asyncio.Event()
        self.was_told = asyncio.Event()
        self.listeners = []

    async def start(self):
        if self.failures:
            raise self.failures.pop(0)
        self.is_started.set()

    async def stop(self, reason=Reason.SHUTDOWN):
        self.left = reason
        for queue in self.listeners:
            queue.put_nowait(None)

    def announce(self, offers):
        self.offers = {offer.skill_id: offer for offer in offers}
        self.announced += 1
        self.was_told.set()

    def report(self, skill_id, status, detail=""):
        self.reports.append((skill_id, str(status), detail))
        self.was_told.set()

    def snapshot(self):
        return LanSnapshot(self.agent_id, 100.0, tuple(self.skills), tuple(self.scenes))

    def listen(self):
        queue: asyncio.Queue[LanChange | None] = asyncio.Queue()
        self.listeners.append(queue)

        async def changes():
            while (change := await queue.get()) is not None:
                yield change

        return changes()

    def tell(self, kind="status", skill=None):
        for queue in self.listeners:
            queue.put_nowait(LanChange(kind, 101.0, skill=skill))


def lan_skill(skill_id="leads-sync", agent_id="agent-002", **values):
    return LanSkill(agent_id, skill_id, "1.0.0", "tool-skill", "192.0.2.7", 8000, **values)


def no_network():
    """Return what an agent raises where there is no interface."""
    return FetchError("LAN_UNAVAILABLE", "no interface is up that takes multicast")
