"""The six flows of the text's figures, each between separate processes.

The MCPAgent and the skill are ``skillwire serve --lan``, one of them without skills; the consumer is a command, or a
program with the SDK. Beside the MCPAgent ``skillwire lan --json`` prints the registered skills; it receives the same
messages and sends none. Every server keeps a registry, so more messages are sent than a figure shows; the numbered ones
are those of the figure.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from stage import ANY, box, sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines import Machine
    from stage import Actor, Stage

CONFIGURATION = """\
[discovery]
agentId = "{agent}"

[discovery.udp]
multicastGroup6 = "" # one group is easier to follow
interfaces = ["{interface}"]
port = {port}
patience = 1000

[discovery.mdns]
enabled = false

[discovery.trust]
{trust}

[discovery.healthCheck]
heartbeatInterval = {beat}
timeout = {timeout}
"""
UNVERIFIED = "useUnverified = true # no agent is certified yet: see 10.3"
CERTIFIED = 'roots = ["{ca}/root.pem"]\nintermediates = ["{ca}/center.pem"]\nrevocations = ["{ca}/revocations.pem"]'
SILENT = 6  # heartbeats after which a skill is forgotten, as in the text: 30 s of 5 s


class Cast:
    """Who plays: an MCPAgent, a skill and a consumer, each on a machine of its own.

    Args:
        stage: that they play on.
        machines: three of them.
        beat: milliseconds between heartbeats.
    """

    def __init__(self, stage: Stage, machines: list[Machine], beat: int) -> None:
        self.stage = stage
        self.beat = beat
        self.trust = UNVERIFIED
        self.machines = dict(zip(("MCPAgent", "Skill", "Consumer"), machines, strict=True))
        for name in self.machines:
            self.configure(name)

    def configure(self, name: str, trust: str = UNVERIFIED, like: str = "") -> None:
        """Write the configuration of an agent; it is on the machine of ``like``."""
        machine = self.machines.setdefault(name, self.machines.get(like or name))
        text = CONFIGURATION.format(
            agent=f"{name.lower()}-1",
            interface=machine.interface,
            port=machine.port,
            trust=trust,
            beat=self.beat,
            timeout=SILENT * self.beat,
        )
        self.stage.home(name, text)

    def keep(self) -> Actor:
        """Start who keeps the registry."""
        (self.stage.folder_of("MCPAgent") / "no-skills").mkdir()
        return self.serve("no-skills", "MCPAgent")

    def watch(self) -> None:
        """Start who keeps the registry, and who shows it; wait for both."""
        keeper = self.keep()
        self.configure("Observer", self.trust, like="MCPAgent")
        observer = self.start("Observer", "lan --json", shows=False)
        self.stage.wait_for(keeper, "on the LAN")
        self.stage.wait_for(observer, "snapshot")

    def serve(self, folder: str, name: str = "Skill", options: str = "") -> Actor:
        """Serve a folder on the network."""
        machine = self.machines[name]
        port = "0" if machine.host.startswith("127.") or name != "Skill" else "8000"
        return self.start(name, f"serve {folder} --lan --host {machine.host} --port {port} {options}", shows=False)

    def start(self, name: str, command: str, *, shows: bool = True) -> Actor:
        """Start a command of an agent."""
        return self.stage.start(
            name, self.machines[name], command.replace("HOST", self.machines[name].host), shows=shows
        )

    def run(self, name: str, command: str, *, expect: int = 0) -> str:
        """Run a command of an agent to its end."""
        return self.stage.run(name, self.machines[name], command, expect=expect)


def registration(cast: Cast) -> None:
    """SDP 2.2."""
    cast.stage.figure(
        sent("1", "SKILL_REGISTER", "Skill"),
        sent("2", "SKILL_REGISTER_ACK", "MCPAgent", "Skill", having=";SUCCESS;"),
        sent("3", "JOIN_SCENE", "Skill"),
        sent("4", "JOIN_SCENE_RESPONSE", "MCPAgent", "Skill"),
        sent("5", "SKILL_HEARTBEAT", "Skill", having=";HEALTHY;"),
    )
    # Without an observer, which acknowledges the registration, too: the skill may join after the first one.
    cast.stage.wait_for(cast.keep(), "on the LAN")
    cast.serve("office")


def discovery(cast: Cast) -> None:
    """SDP 3.3."""
    cast.watch()
    cast.serve("office")
    _wait_until_listed(cast, "staff-directory")
    cast.stage.figure(
        sent("1", "SKILL_DISCOVER", "Consumer", having=";org-data-read;"),
        sent("2", "SKILL_DISCOVER_RESPONSE", ANY, "Consumer", having="staff-directory"),
        sent("3", "JOIN_SCENE", "Consumer", having=";auth;"),
        sent("4", "JOIN_SCENE_RESPONSE", ANY, "Consumer", having="connectionInfo"),
    )
    cast.run("Consumer", "consumer.py")


def scene_request(cast: Cast) -> None:
    """SDP 4.2."""
    cast.configure("Installer", like="Skill")
    cast.watch()
    cast.serve("office")
    _wait_until_listed(cast, "staff-directory")
    cast.stage.say("the scene is there")
    cast.stage.figure(
        sent("1", "REQUEST_SCENE", "Consumer", having=";auth;org-data-read,user-auth;"),
        sent("2a", "SCENE_JOIN_RESPONSE", ANY, "Consumer", having='"groupId":"group-auth-001"'),
    )
    cast.run("Consumer", "scene request auth org-data-read user-auth")
    cast.stage.play()
    cast.stage.say("it is not there, and no source is named in which to look for it")
    cast.stage.figure(
        sent("1", "REQUEST_SCENE", "Consumer", having=";reception;badge-print;"),
        sent("2b", "SCENE_NOT_FOUND", ANY, "Consumer", having=";reception;"),
    )
    cast.run("Consumer", "scene request reception badge-print", expect=3)
    cast.stage.play()
    cast.stage.say("another user finds a skill elsewhere, allows it, and serves it: --yes is the user's choice")
    cast.configure("Origin", like="MCPAgent")
    origin = cast.start("Origin", "serve origin --port 0 --host HOST", shows=False)
    address = cast.stage.wait_for(origin, "serving").split(" at ")[1].split(";")[0]
    cast.stage.figure(
        box("query elsewhere", "Installer", "searching the SkillCenter and the sources for"),
        box("install skill (user choice)", "Installer", "added badge-printing"),
        box("create scene group", "Observer", '"scene"', "group-reception-001"),
        box("SCENE_JOIN_RESPONSE to the user's request", "Installer", "joined reception", "group-reception-001"),
    )
    cast.start("Installer", f"scene request reception badge-print --from {address} --yes --provide")
    cast.stage.play()
    cast.stage.say("the next request to join is accepted")
    cast.stage.figure(sent("3", "SCENE_JOIN_RESPONSE", ANY, "Consumer", having="group-reception-001"))
    cast.run("Consumer", "scene request reception badge-print")


def health(cast: Cast) -> None:
    """SDP 8.3."""
    cast.stage.figure(sent("1", "SKILL_HEARTBEAT", "Skill", having=";HEALTHY;"))
    cast.watch()
    skill = cast.serve("office", options="--poll 0.2s")
    cast.stage.play()
    cast.configure("Spare", like="MCPAgent")
    cast.serve("lobby", "Spare")
    _wait_until_listed(cast, "guest-directory")
    cast.stage.say("a user breaks its SKILL.md: the last version is still served, and is DEGRADED")
    cast.stage.figure(
        box("update health status", "Observer", '"staff-directory"', '"DEGRADED"'),
        sent("1", "SKILL_HEARTBEAT", "Skill", having=";DEGRADED;"),
    )
    (cast.stage.folder_of("Skill") / "office" / "staff-directory" / "SKILL.md").write_text("---\n")
    cast.stage.play()
    member = cast.start("Consumer", "scene join auth --follow")
    _wait_until_following(cast, member)
    cast.stage.figure(
        box("missed 3 heartbeats: mark UNHEALTHY", "Observer", "staff-directory", '"UNHEALTHY"'),
        sent("2", "SCENE_EVENT", "MCPAgent", "Consumer", having="staff-directory;UNHEALTHY"),
    )
    cast.stage.say("it is killed: no goodbye")
    cast.stage.stop(skill, signal.SIGKILL)
    cast.stage.play()
    cast.stage.wait_for(member, "PRIMARY guest-directory of spare-1")


def unregistration(cast: Cast) -> None:
    """SDP 9.2."""
    cast.watch()
    skill = cast.serve("office")
    _wait_until_listed(cast, "staff-directory")
    member = cast.start("Consumer", "scene join auth --follow")
    _wait_until_following(cast, member)
    cast.stage.figure(
        sent("1", "SKILL_UNREGISTER", "Skill", having=";SHUTDOWN;"),
        box("remove from registry", "Observer", '"left"', "staff-directory"),
        sent("*", "SCENE_EVENT", "MCPAgent", "Consumer", having="MEMBER_LEFT")._replace(is_box=True),
        sent("2", "SKILL_UNREGISTER_ACK", "MCPAgent", "Skill", having=";SUCCESS;"),
    )
    cast.stage.stop(skill, signal.SIGTERM)


def authentication(cast: Cast) -> None:
    """SDP 10.3."""
    cast.configure("Authority", like="MCPAgent")
    folder = cast.stage.folder
    cast.run("Authority", f"ca init {folder}/ca --name example")
    cast.run("Authority", f"ca issue {folder}/ca --agent skill-1 -o {folder}/for-skill")
    cast.run("Skill", f"key install {folder}/for-skill")
    cast.trust = CERTIFIED.format(ca=folder / "ca")
    for name in ("MCPAgent", "Consumer"):
        cast.configure(name, cast.trust)
    cast.stage.figure(
        sent("1", "SKILL_REGISTER", "Skill"),
        sent("2", "CHALLENGE", "MCPAgent", "Skill"),
        sent("3", "CHALLENGE_RESPONSE", "Skill", "MCPAgent"),
        box("verify certificate, verify signature", "Observer", "staff-directory", '"trust": "verified"'),
        sent("4", "SKILL_REGISTER_ACK", "MCPAgent", "Skill", having=";SUCCESS;"),
    )
    cast.watch()
    cast.serve("office")
    cast.stage.play()
    cast.stage.say("an agent that trusts the authority uses the skill without asking")
    cast.run("Consumer", "find --lan")
    cast.run("Consumer", "call lan:org-data-read --output staff-directory.tar.gz")


def _wait_until_listed(cast: Cast, skill: str) -> None:
    """Wait for both registries that a flow is about: one may list a skill before the other."""
    cast.stage.until(lambda: cast.stage.has_said("Observer", skill), f"the Observer lists {skill}")
    acknowledgment = "SKILL_REGISTER_ACK:", f";SUCCESS;{skill} "
    cast.stage.until(lambda: cast.stage.has_sent("MCPAgent", *acknowledgment), f"the MCPAgent lists {skill}")


def _wait_until_following(cast: Cast, member: Actor) -> None:
    """Wait for the MCPAgent, too: a member follows a scene after the first answer, which may be another agent's."""
    cast.stage.wait_for(member, "following")
    answer = "JOIN_SCENE_RESPONSE:consumer-1;"
    cast.stage.until(lambda: cast.stage.has_sent("MCPAgent", answer), "the MCPAgent answers the member")


#: Section of the text → title, and what plays it.
FLOWS: dict[str, tuple[str, Callable[[Cast], object]]] = {
    "2.2": ("a skill registers, and joins its scene", registration),
    "3.3": ("a consumer discovers a skill, and joins its scene", discovery),
    "4.2": ("a consumer asks for a scene", scene_request),
    "8.3": ("a skill falls silent", health),
    "9.2": ("a skill says goodbye", unregistration),
    "10.3": ("a skill proves who it is", authentication),
}
