"""Three servers in three networks without multicast between them: the DHT alone leads from one to the other."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.namespaces import network
from tests.support.publishing import write_skill

pytestmark = pytest.mark.deep
HOSTS = (1, 2, 3)
HTTP, DHT = 8080, 6881
ANY = "0.0.0.0"  # noqa: S104  # the host has a network of its own
CLIENT = Path(__file__).parents[2] / "support" / "dht_client_process.py"
CALLABLE = """version = "1.0.0"
kind = "action"
capabilities = ["echo-HOST"]
[runtime]
language = "python"
entrypoint = "main.py"
[inputs.text]
type = "string"
description = "What to give back."
"""
MAIN = "def main(args):\n    return args\n"
SETTINGS = """[discovery.udp]
{udp}
[discovery.mdns]
enabled = false
[discovery.trust]
useUnverified = true
[discovery.dht]
enabled = true
bootstrapNodes = [{nodes}]
"""


class Host:
    """A host with a home, a server, and commands that are run there."""

    def __init__(self, lan, number, folder):
        self.lan, self.number, self.folder = lan, number, folder
        self.address = lan.address(number)
        self.skills, self.home, self.project = folder / "skills", folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        self.log = folder / "log"
        self.offer(f"skill-{number}")

    def offer(self, name):
        files = {"skill.toml": CALLABLE.replace("HOST", name), "main.py": MAIN}
        write_skill(self.skills, name, files, description="Gives back what it gets. Use in tests.")

    def configure(self, *, multicast=False):
        """Write the settings of server and commands; ``multicast`` on the interface ``eth1``."""
        file = self.folder / "discovery.toml"
        udp = 'interfaces = ["eth1"]' if multicast else "enabled = false"
        nodes = ", ".join(
            f'{{ host = "{self.lan.address(one)}", port = {DHT} }}' for one in HOSTS if one != self.number
        )
        file.write_text(SETTINGS.format(udp=udp, nodes=nodes))
        self.environment = {**os.environ, "SKILLWIRE_HOME": str(self.home), "SKILLWIRE_DISCOVERY": str(file)}
        return self

    def serve(self, *arguments):
        origin = f"http://{self.address}:{HTTP}"
        command = ["serve", self.skills, "--dht", "--host", ANY, "--port", HTTP, "--base-url", origin]
        command += ["--grant-all", "--poll", "0.5s", "--discovery", self.folder / "discovery.toml", *arguments]
        with self.log.open("a") as log:
            self.process = self.lan.start(
                self.number, sys.executable, "-m", "skillwire", *command,
                env=self.environment, cwd=self.project, stdin=None, stdout=log, stderr=log,
            )  # fmt: skip
        return self

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)

    def run(self, *arguments):
        """Run a command on this host; return its exit code and document."""
        command = self.lan.command(self.number, sys.executable, "-m", "skillwire", *arguments, "--json")
        done = subprocess.run(
            command, env=self.environment, cwd=self.project, capture_output=True, text=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout), done.stderr

    def client(self):
        """Start a client of the DHT here, which knows this host's own node and the others."""
        nodes = [f"{self.lan.address(other)}:{DHT}" for other in HOSTS]
        process = self.lan.start(self.number, sys.executable, CLIENT, *nodes, env=self.environment)
        process.stdout.readline()

        def find(capability):
            process.stdin.write(f"{capability}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return find


@pytest.fixture
def hosts(tmp_path):
    """Give three hosts, whose servers the test starts."""
    with network(3, is_routed=True) as lan:
        yield [Host(lan, number, tmp_path / f"host-{number}").configure() for number in HOSTS]


def found_by(host, capability, name):
    """Wait until a host finds the skill ``name``; return the document of the search."""

    def search():
        code, document, _ = host.run("dht", "find", "--capability", capability, "--timeout", "2s")
        return document if code == 0 and [one["skill_id"] for one in document["skills"]] == [name] else None

    return eventually(search, what=host.log.read_text)


def rungs(document):
    return {rung["name"]: rung["outcome"] for rung in document["rungs"]}


def test_three_servers_find_call_and_add_each_others_skills_through_the_dht_alone(hosts):
    for host in hosts:
        host.serve()
    for host, other in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
        name = f"skill-{other.number}"
        (record,) = found_by(host, f"echo-{name}", name)["skills"]
        assert (record["endpoint"].rstrip("/"), record["trust"]) == (f"http://{other.address}:{HTTP}", "unverified")

        code, found, _ = host.run("find", f"echo-{name}")
        (hit,) = found["hits"]
        assert (code, hit["found_via"], hit["digest"], rungs(found)["dht"]) == (0, "dht", record["digest"], "found")

        code, called, error = host.run("call", f"lan:echo-{name}", "text=hello", "--yes")
        assert (code, called["output"]) == (0, {"text": "hello"}), error
        assert called["lan"]["origin"].rstrip("/") == record["endpoint"].rstrip("/")

        code, which, _ = host.run("which", name)
        assert (code, rungs(which)["dht"]) == (0, "found")
        code, _, error = host.run("add", name, "--yes")
        assert code == 0, error
        code, listed, _ = host.run("list")
        assert [(one["name"], one["digest"]) for one in listed["skills"]] == [(name, record["digest"])]
    answering = {f"{other.address}:{DHT}": True for other in hosts[1:]}

    def is_shown():  # which a node writes every few seconds
        _, status, _ = hosts[0].run("dht", "status")
        answers = {node["address"]: node["answers"] for node in status["bootstrap"]}
        return (status["process"] is not None, len(status["own"]), answers) == (True, 1, answering)

    eventually(is_shown, what=hosts[0].log.read_text)


def test_when_multicast_is_cut_the_ladder_falls_to_the_dht(hosts):
    first, second, third = hosts
    for host in (first, second):
        host.configure(multicast=True).serve("--lan", "--interface", "eth1")
    third.serve()
    found_by(third, "echo-skill-1", "skill-1")

    def search(outcome):
        code, found, _ = second.run("find", "echo-skill-1", "--lan")
        hits = [(hit["name"], hit["found_via"].split()[0]) for hit in found["hits"]] if code == 0 else []
        return found if hits == [("skill-1", outcome)] else None

    assert rungs(eventually(lambda: search("lan")))["lan"] == "found"
    first.lan.part(1)
    ended = rungs(eventually(lambda: search("dht")))
    assert (ended["lan"] != "found", ended["dht"]) == (True, "found")
    code, called, error = second.run("call", "lan:echo-skill-1", "text=hello", "--yes")
    assert (code, called["output"]) == (0, {"text": "hello"}), error


def test_after_a_cut_heals_every_record_is_back(hosts, capsys):
    for host in hosts:
        host.serve()
    clients = [host.client() for host in hosts]
    capabilities = [f"echo-skill-{number}" for number in HOSTS]

    def all_found(*names):
        return all(find(name) == [name.removeprefix("echo-")] for find in clients for name in names)

    eventually(lambda: all_found(*capabilities))
    first = hosts[0]
    first.lan.cut(1)
    # Until the others count it as lost, and it the others.
    eventually(lambda: not any(node["answers"] for node in first.run("dht", "status")[1]["bootstrap"]))
    for host in hosts:
        host.offer(f"late-{host.number}")
    late = [f"echo-late-{number}" for number in HOSTS]
    eventually(lambda: clients[0](late[0]) == ["late-1"] and clients[1](late[2]) == ["late-3"])
    assert clients[1](late[0]) != ["late-1"]
    assert clients[0](late[1]) != ["late-2"]
    first.lan.heal(1)
    healed = time.monotonic()
    eventually(lambda: all_found(*capabilities, *late))
    with capsys.disabled():
        print(f"\n6 records of 3 servers found by 3 clients {time.monotonic() - healed:.1f} s after the heal")  # noqa: T201  # the figure is reported
