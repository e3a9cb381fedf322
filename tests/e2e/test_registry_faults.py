"""A registry whose server is killed, again and again, loses no acknowledged version and has no half one.

The long form is ``bench/registry_crash.py``.
"""

import asyncio
import random
import subprocess
import sys
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.publishing import ServeProcess
from tests.support.registry_site import API, skill_archive

from skillwire.adapters import stores as opening
from skillwire.model.package import Account, Change

PROJECT = Path(__file__).parents[2]
KILLS = 20


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_publishers_that_are_killed_leave_no_half_version():
    command = [sys.executable, str(PROJECT / "bench" / "registry_crash.py"), "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert "0 half versions, 0 lost, intact" in done.stdout, done.stdout + done.stderr


async def make_token(name):
    store = opening.open_stores().packages
    await store.add_account(Account(name, 1.0), Change(1.0, name, "account.create", name))
    return (await opening.open_stores().tokens().issue("test", scopes=("publish",), account=name)).secret


class Publisher(threading.Thread):
    """Publishes one version after the other until it fails; ``acknowledged`` are the answers."""

    def __init__(self, server, token, start):
        super().__init__()
        self.server = server
        self.token = token
        self.numbers = iter(range(start, 10**6))
        self.acknowledged: dict[str, str] = {}

    def count(self):
        return len(self.acknowledged)

    def run(self):
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        try:
            for number in self.numbers:
                archive = skill_archive(version=f"1.{number}.0", text=f"Do {number}.\n")
                fields = {"Authorization": f"Bearer {self.token}"}
                connection.request("POST", f"{API}/namespaces/ann/packages", archive, fields)
                answer = connection.getresponse()
                told = answer.read()
                assert answer.status in {200, 201, 429}, told
                if answer.status != 429:
                    self.acknowledged[f"1.{number}.0"] = told.decode()
        except (OSError, HTTPException):
            pass  # it was killed
        finally:
            connection.close()


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_while_it_publishes_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    token = asyncio.run(make_token("ann"))
    opening.close_stores()
    configuration = tmp_path / "server.toml"
    configuration.write_text("[rate_limit]\nprincipal_per_minute = 1000000\nprincipal_burst = 100000\n")
    acknowledged: dict[str, str] = {}
    for kill in range(KILLS):
        with ServeProcess("--registry", "--config", configuration, home=tmp_path / "home") as server:
            publisher = Publisher(server, token, 1_000 * kill)
            publisher.start()
            eventually(publisher.count, random.randint(1, 30).__le__)  # noqa: S311  # nothing secret
            server.process.kill()
            publisher.join()
            acknowledged |= publisher.acknowledged
    with ServeProcess("--registry", "--config", configuration, home=tmp_path / "home") as server:
        package = server.get(f"{API}/packages/ann/notes").json()
        found = {one["version"]: one for one in package["versions"]}
        assert found.keys() >= acknowledged.keys()
        assert len(found) <= len(acknowledged) + KILLS  # of each kill, one whose answer was not read
        for version, one in found.items():
            assert version not in acknowledged or one["digest"] in acknowledged[version]
            answer = server.get(f"{API}/packages/ann/notes/{version}/download")
            assert (answer.status, len(answer.body)) == (200, one["size"])
