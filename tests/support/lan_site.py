"""A local network as a test has it, shown by a server for browsers."""

import time

from tests.support.console_site import ConsoleServer
from tests.support.eventually import eventually
from tests.support.fake_lan_agent import FakeLanAgent

from skillwire.model.lan import FoundVia, LanChange, LanMember, LanScene, LanSkill, LanSnapshot
from skillwire.protocols.skill_discovery.settings import LanSettings

OWN = "agent-001"


def skill(agent_id, skill_id, host="192.0.2.4", *, ago=3.0, **values):
    """Return a skill that is well and verified, unless ``values`` say otherwise."""
    heard = time.time() - ago if ago is not None else 0.0
    known = LanSkill(agent_id, skill_id, "1.2.0", "tool-skill", host, 8080, heard=heard)
    return known._replace(**{"status": "HEALTHY", "is_verified": True, **values})


def home():
    """Return the skills and scenes of a small network, with one of everything."""
    skills = (
        skill("kitchen-pi", "light-switch", capabilities=("light-set",), scenes=("home",), is_verified=False),
        skill("kitchen-pi", "user-auth-001", capabilities=("user-auth", "org-data-read"), scenes=("auth",)),
        skill("kitchen-pi", "weather-forecast", capabilities=("weather-get",), scenes=("home",)),
        skill("office-nas", "backup-nightly", "192.0.2.9", capabilities=("backup-run",), status="MAINTENANCE"),
        skill("office-nas", "csv-profile", "192.0.2.9", capabilities=("table-profile",), scenes=("reports",)),
        skill("office-nas", "user-auth-002", "192.0.2.9", scenes=("auth",), status="DEGRADED", ago=6),
        skill(OWN, "report-writer", "192.0.2.20", capabilities=("report-write",), scenes=("reports",)),
        skill(OWN, "translate-text", "192.0.2.20", status="UNHEALTHY", ago=21),
        skill("workshop-box", "laser-cut", "2001:db8::21", scenes=("home",), status="UNKNOWN", ago=75, is_stale=True),
        skill("workshop-box", "mill", "2001:db8::21", status="OFFLINE", ago=4000),
        skill(
            "workshop-box", "printer-3d", "2001:db8::21", status="UNKNOWN", ago=None, is_verified=False,
            found_via=FoundVia.MDNS,
        ),
    )  # fmt: skip
    scenes = (
        scene("auth", ("kitchen-pi", "user-auth-001"), ("office-nas", "user-auth-002")),
        scene("home", ("kitchen-pi", "weather-forecast"), ("kitchen-pi", "light-switch")),
        scene("reports", (OWN, "report-writer"), ("office-nas", "csv-profile")),
    )
    return skills, scenes


def town(agents=60, each=25):
    """Return the skills and scenes of a network that is too large to be drawn."""
    statuses = ["HEALTHY"] * 12 + ["DEGRADED", "UNHEALTHY", "OFFLINE", "UNKNOWN"]
    skills = tuple(
        skill(
            f"agent-{agent:03}",
            f"skill-{agent:03}-{number:02}",
            f"198.51.100.{agent}",
            status=statuses[(agent * each + number) * 7 % 16] if agent % 2 else "HEALTHY",
            scenes=(f"scene-{number % 12:02}",) if number % 3 == 0 else (),
        )
        for agent in range(agents)
        for number in range(each)
    )
    return skills, tuple(scene(f"scene-{number:02}", ("agent-001", f"skill-001-{number:02}")) for number in range(12))


def scene(name, *providers):
    """Return a scene with its providers, of whom the first is the PRIMARY."""
    roles = ["PRIMARY", *["BACKUP"] * len(providers)]
    members = tuple(
        LanMember(agent_id, skill_id, role) for (agent_id, skill_id), role in zip(providers, roles, strict=False)
    )
    return LanScene(name, f"{name}-group", members)


class ShownAgent(FakeLanAgent):
    """An agent that knows what a test says."""

    is_suspected = False

    def __init__(self, settings, *, health=None, **_):
        super().__init__(settings, health)
        self.tls_port = 0

    def snapshot(self):
        return LanSnapshot(self.agent_id, time.time(), tuple(self.skills), tuple(self.scenes), self.is_suspected)


class LanSite(ConsoleServer):
    """A server on a network that a test makes: nothing is sent anywhere.

    To be made where ``skillwire.adapters.lan.agent.LanAgent`` is :class:`ShownAgent`.
    """

    def __init__(self, folders, blobs):
        super().__init__(folders, blobs, lan=LanSettings())
        assert self.application.lan is not None
        self.lan = self.application.lan
        self.lan.reached_at(self._socket.getsockname()[:2])

    def __enter__(self):
        super().__enter__()
        eventually(lambda: self.agent is not None and self.agent.listeners)
        return self

    @property
    def agent(self):
        return self.lan._agent

    def show(self, skills, scenes=(), *, is_suspected=False):
        """Have the network be like this from now on."""
        self.agent.skills, self.agent.scenes, self.agent.is_suspected = list(skills), list(scenes), is_suspected
        self._loop.call_soon_threadsafe(self.agent.tell)

    def change(self, skill_id, **values):
        """Have a skill be otherwise, as one that says so itself."""
        self.show(
            [one._replace(**values) if one.skill_id == skill_id else one for one in self.agent.skills],
            self.agent.scenes,
        )

    def leave(self, skill_id):
        self.show([one for one in self.agent.skills if one.skill_id != skill_id], self.agent.scenes)


def change(kind, at=0.0, skill=None, scene=None):
    return LanChange(kind, at, skill, scene)
