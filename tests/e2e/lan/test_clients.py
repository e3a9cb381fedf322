"""Clients against servers on loopback: asked for by capability and scene, lost, refused, and made where nobody was."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.forked import ForkedPython
from tests.support.loopback_lan import own_lan
from tests.support.processes import follow
from tests.support.terminal import Terminal

from skillwire import AsyncClient, Client

PATIENCE = 45.0


class Place:
    """One network on loopback: a port of its own, and processes with a home each."""

    def __init__(self, folder):
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        lan = self.own = own_lan()
        (folder / "discovery.toml").write_text(
            f"[udp]\ninterfaces = ['lo']\nmulticastGroup = '{lan.group}'\nport = {lan.port}\n[mdns]\nenabled = false\n"
        )

    def environment(self, home):
        named = {"SKILLWIRE_HOME": str(self.folder / home), "SKILLWIRE_DISCOVERY": str(self.folder / "discovery.toml")}
        return {**os.environ, **named}

    def start(self, home, *words):
        """Start a command that goes on; give its process, and what returns a match in what it has said by then."""
        process = ForkedPython(
            [sys.executable, "-m", "skillwire", *map(str, words)],
            env=self.environment(home),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        lines: list[str] = []
        follow(process, lines.append)

        def said(pattern):
            def look():
                found = re.search(pattern, "".join(lines))
                assert found or process.poll() is None, "".join(lines)
                return found

            return eventually(look, what=lambda: f"{pattern} in {lines}")

        return process, said

    def serve(self, name, *skills):
        """Serve skills, each a folder; give the process and the address, when others can hear of it."""
        folder = self.folder / f"skills-{name}"
        for skill in skills:
            shutil.copytree(skill, folder / skill.name)
        process, said = self.start(name, "serve", folder, "--lan", "--port", 0)
        said("on the LAN")
        return process, said(r"at http://([\d.]+:\d+)")[1]

    def run(self, *words, home="client", code=0):
        done = run_command(*words, env=self.environment(home), cwd=self.folder)
        assert done.code == code, done.out + done.err
        return done

    def ask(self, *words, **options):
        return self.run(*words, "--json", **options).document()

    def wait_for(self, *skills):
        eventually(
            lambda: {hit["name"] for hit in self.ask("find", "--lan")["hits"]}, lambda found: found == set(skills)
        )


def write_skill(folder, name, *, capabilities=("org-data-read",), scenes=("auth",)):
    """Write a skill of instructions; return its folder."""
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Says who works here. Use when somebody asks for one.\n---\nLook it up.\n"
    )
    (skill / "skill.toml").write_text(
        f'version = "1.0.0"\ncapabilities = {json.dumps(capabilities)}\nscenes = {json.dumps(scenes)}\n'
    )
    return skill


@pytest.fixture
def lan(tmp_path):
    place = Place(tmp_path)
    yield place
    for process in place.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)


@pytest.fixture
def two(lan, tmp_path):
    """Give a network with two providers of one capability; their processes and addresses stand in ``lan``."""
    lan.first = lan.serve(
        "one", write_skill(tmp_path / "made", "directory-a", capabilities=("org-data-read", "user-auth"))
    )
    lan.second = lan.serve("two", write_skill(tmp_path / "made", "directory-b"))
    lan.wait_for("directory-a", "directory-b")
    return lan


def test_a_call_goes_to_the_next_when_the_first_is_killed(two):
    called = two.ask("call", "lan:org-data-read", "--unverified", "-o", "got")
    assert (called["lan"]["skill"]["skill_id"], called["lan"]["passed_over"]) == ("directory-a", [])
    assert called["reference"] == f"{two.first[1]}/directory-a"

    two.first[0].kill()
    two.first[0].wait(PATIENCE)
    called = two.ask("call", "lan:org-data-read", "--unverified", "-o", "got")
    assert called["status"] == "completed"
    assert called["lan"]["skill"]["skill_id"] == "directory-b"
    # Only the second provider tells of the first one, whose health is UNKNOWN: a healthy provider is asked before it.
    assert called["lan"]["passed_over"] == []
    done = two.run("call", "lan:org-data-read", "--unverified", "-o", "got")
    assert "answered by directory-b" in done.err


def test_a_scene_is_requested_by_both_clients(two, monkeypatch):
    for name, value in two.environment("client").items():
        monkeypatch.setenv(name, value)
    with Client(two.folder) as client:
        result = client.lan.request_scene("auth", ["org-data-read", "user-auth"], use_unverified=True)
        assert result.is_joined
        assert result.connection_info["endpoint"] == two.first[1]
        assert sorted(member.role for member in result.members) == ["BACKUP", "PRIMARY"]

    async def main():
        async with AsyncClient(two.folder) as client:
            joined = await client.lan.request_scene("auth", ["user-auth"], use_unverified=True)
            missing = await client.lan.request_scene("paper")
            return joined, missing, await client.call("lan:user-auth", {}, use_unverified=True)

    import asyncio  # noqa: PLC0415 - for this test alone

    joined, missing, execution = asyncio.run(main())
    assert joined.connection_info["endpoint"] == two.first[1]
    assert not missing.is_joined
    assert execution.reference == f"{two.first[1]}/directory-a"


def test_who_stays_in_a_scene_is_told_when_its_first_provider_leaves(two):
    process, said = two.start("client", "scene", "join", "auth", "--follow", "--unverified")
    primary = said(r"PRIMARY +(\S+)")[1]
    said("following changes")
    leaving, other = (two.first, "directory-b") if primary == "directory-a" else (two.second, "directory-a")
    said(f"PRIMARY +{primary}")
    leaving[0].send_signal(signal.SIGTERM)
    said(f"PRIMARY {other} of ")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


def test_a_skill_that_was_found_is_shown_and_added_by_its_address(two):
    hits = {hit["name"]: hit for hit in two.ask("find", "directory-a", "--lan")["hits"]}
    reference = hits["directory-a"]["reference"]
    assert reference == f"{two.first[1]}/directory-a"
    assert "Says who works here" in two.run("show", reference).out
    two.run("add", reference, "--yes")
    assert (two.folder / ".agents/skills/directory-a/SKILL.md").is_file()


def test_a_scene_that_nobody_provides_is_found_elsewhere_installed_and_provided(lan, tmp_path):
    lan.serve("other", write_skill(tmp_path / "made", "directory-a"))
    lan.wait_for("directory-a")
    skills = tmp_path / "source"
    write_skill(skills, "page-printer", capabilities=("print-page",), scenes=())
    write_skill(skills, "office-desk", capabilities=("lend-pens",), scenes=("printer",))
    _, said = lan.start("source", "serve", skills, "--port", 0)
    source = said(r"at http://([\d.]+:\d+)")[1]

    done = lan.run("scene", "request", "printer", "--from", source, home="maker", code=2)
    assert "--skill with one of office-desk, page-printer" in done.err  # one says that it does it, one has the word
    chosen = lan.run("scene", "request", "printer", "print-page", "--from", source, "--yes", "--json", home="desk")
    assert json.loads(chosen.out)["found_by"] == "scene"
    assert "takes part in printer, without print-page" in chosen.err or not chosen.err
    words = ("scene", "request", "printer", "print-page", "--from", source, "--skill", "page-printer", "--yes")
    process, said = lan.start("maker", *words, "--provide")
    for step in (
        "not available: ",
        "searching the SkillCenter and the sources for printer print-page",
        "installing .*/page-printer: matches the words, but does not declare the scene",
        "on the LAN",
        "joined printer  group-printer-001",
        "PRIMARY +page-printer",
        "following changes",
    ):
        said(step)
    assert (lan.folder / ".agents/skills/page-printer/SKILL.md").is_file()
    joined = lan.ask("scene", "request", "printer", "print-page", "--unverified")
    assert (joined["skill_id"], joined["members"][0]["role"]) == ("page-printer", "PRIMARY")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert "error[DISC_007]" in lan.run("scene", "join", "printer", code=3).err


def test_on_a_terminal_the_user_chooses_agrees_and_provides(lan, tmp_path):
    skills = tmp_path / "source"
    for name in ("page-printer", "page-reader"):
        write_skill(skills, name, capabilities=("print-page",), scenes=())
    _, said = lan.start("source", "serve", skills, "--port", 0)
    source = said(r"at http://([\d.]+:\d+)")[1]
    command = [sys.executable, "-m", "skillwire", "scene", "request", "page", "--from", source]
    with Terminal(command, cwd=tmp_path, environment=lan.environment("maker")) as terminal:
        screen = terminal.until("Number of the skill to install")
        wanted = 1 + [f"{source}/page-reader" in line for line in screen.splitlines() if f" {source}/" in line].index(
            True
        )
        terminal.type(f"{wanted}\r").until("Trust it?")
        terminal.type("y\r").until("Provide page to the local network")
        assert (tmp_path / ".agents/skills/page-reader/SKILL.md").is_file()
        terminal.type("y\r").until("joined page  group-page-001")
        terminal.until("following changes")
        assert lan.ask("scene", "request", "page", "--unverified")["skill_id"] == "page-reader"
        terminal.type("\x03")
        assert terminal.wait() == 0
    with Terminal(command, cwd=tmp_path, environment=lan.environment("other")) as terminal:
        terminal.until("Number of the skill to install")
        terminal.type("\r")
        assert terminal.wait() == 2


def test_a_certified_client_uses_certified_skills_without_a_word_and_is_given_a_key(lan, tmp_path):
    authority = tmp_path / "authority"
    lan.run("ca", "init", str(authority), "--name", "example")
    for home, agent in (("one", "agent-001"), ("client", "agent-002")):
        lan.run("ca", "issue", str(authority), "--agent", agent, "--skill", "directory-a", "-o", str(tmp_path / agent))
        lan.run("key", "install", str(tmp_path / agent), home=home)
    trust = f"[trust]\nroots = ['{authority}/root.pem']\nintermediates = ['{authority}/center.pem']\n"
    with (tmp_path / "discovery.toml").open("a") as file:
        file.write(trust)
    _, address = lan.serve("one", write_skill(tmp_path / "made", "directory-a"))
    lan.serve("two", write_skill(tmp_path / "made", "directory-b"))
    lan.wait_for("directory-a", "directory-b")

    called = lan.ask("call", "lan:org-data-read", "-o", "got")
    assert called["lan"]["skill"]["trust"] == "verified"
    joined = lan.ask("scene", "request", "auth")
    assert joined["connection_info"]["endpoint"] == address
    key = joined["connection_info"]["apiKey"]
    shown = lan.run("scene", "join", "auth")
    assert key not in shown.out
    assert "apiKey" in shown.out
    assert re.search(r"apiKey +\S{20}", lan.run("scene", "join", "auth", "--show-secrets").out)
