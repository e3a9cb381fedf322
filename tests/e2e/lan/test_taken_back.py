"""What is taken back on a real network, by agents in processes of their own and the commands that people type."""

import json
import shutil

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually
from tests.support.lan_agents import FAST, on_loopback
from tests.support.loopback_lan import own_lan


@pytest.fixture
def place(tmp_path):
    """Give a network of our own on loopback, an authority whose root is put away, and what runs there."""
    place = Place(tmp_path)
    place.run("ca", "init", "authority", "--name", "test")
    (tmp_path / "authority" / "root.key").rename(tmp_path / "root.key")
    shutil.copy(tmp_path / "authority" / "center.pem", tmp_path / "center.pem")  # as others have it, since then
    yield place
    for agent in place.agents:
        with agent.process as process:  # its pipes are closed
            process.kill()


class Place:
    """Agents and commands, each with the home of its name."""

    def __init__(self, folder):
        self.folder = folder
        self.agents = []
        lan = own_lan()
        self.lan = {"group": lan.group, "port": lan.port, "group6": ""}

    def run(self, *arguments, home="authority"):
        """Run ``skillwire ...``; return what it prints."""
        environment = {"HOME": str(self.folder), "SKILLWIRE_HOME": str(self.folder / home)}
        done = run_command(*arguments, cwd=self.folder, env=environment)
        assert done.code == 0, done.err
        return done.out

    def start(self, name, *skills, home=None, figures=None, keeps_state=False, **settings):
        agent = on_loopback(
            name,
            skills,
            home=self.folder / (home or name),
            settings=self.lan | settings,
            figures=FAST | (figures or {}),
            keeps_state=keeps_state,
        )
        self.agents.append(agent)
        return agent.started()

    def registry(self, **options):
        """Start one that trusts the authority as it was made, and looks at its list."""
        authority = self.folder / "authority"
        return self.start(
            "registry",
            roots=[str(authority / "root.pem")],
            intermediates=[str(self.folder / "center.pem")],
            revocations=[str(authority / "revocations.pem")],
            **options,
        )

    def certify(self, name):
        """Have an agent's key certified, as the how-to says it."""
        (self.folder / "request.pem").write_text(self.run("key", "new", "--agent", name, home=name))
        self.run("ca", "issue", "authority", "--request", "request.pem", "-o", f"issued-{name}")
        self.run("key", "install", f"issued-{name}", "--replace", home=name)

    def states(self):
        rows = json.loads(self.run("ca", "list", "authority", "--json"))["certificates"]
        return [(row["authority"] or row["agents"][0], row["state"]) for row in rows]

    def authorities(self):
        """Return the serial numbers of the SkillCenter CAs, the oldest first."""
        rows = json.loads(self.run("ca", "list", "authority", "--json"))["certificates"]
        return [row["serial"] for row in rows if row["authority"]]


def verified(agent):
    return {one["skill_id"]: one["is_verified"] for one in agent.ask("snapshot")["skills"]}


def until(condition, what):
    eventually(condition, what=what, every=0.1)


@pytest.mark.spec("SDP-authority-revocation")
@pytest.mark.spec("SDP-authority-renewal")
def test_a_skill_center_ca_is_taken_back_while_agents_run_and_they_are_certified_anew(place):
    place.certify("agent-001")
    registry = place.registry()
    first = place.start("agent-001", "skill-a")
    place.start("agent-002", "skill-b", renew_from=str(place.folder / "authority"))
    until(lambda: verified(registry) == {"skill-a": True, "skill-b": True}, "not all are verified")

    place.run("ca", "renew", "authority", "--root-key", "root.key")
    (old, _) = place.authorities()
    place.run("ca", "revoke", "authority", old, "--root-key", "root.key")

    until(lambda: "skill-a" not in verified(registry), "what it has issued is still listed")
    until(lambda: verified(registry) == {"skill-b": True}, "who renews by itself has not come back")
    assert place.states() == [
        ("test SkillCenter CA", "revoked"),
        ("agent-001", "revoked"),
        ("agent-002", "revoked"),
        ("test SkillCenter CA", "good"),
        ("agent-002", "good"),
    ]
    listed = place.run("ca", "list", "authority")
    assert listed.count("revoked with its SkillCenter CA") == 2

    place.certify("agent-001")  # the same key
    first.process.kill()
    first.process.wait(PATIENCE)  # which holds its name until it has ended
    place.start("agent-001", "skill-a")
    until(lambda: verified(registry) == {"skill-a": True, "skill-b": True}, "who was certified anew is not verified")
    anew = place.start("late", roots=[str(place.folder / "authority" / "root.pem")],
                       intermediates=[str(place.folder / "authority" / "center.pem")])  # fmt: skip
    until(lambda: verified(anew) == {"skill-a": True, "skill-b": True}, "who starts later sees it otherwise")
