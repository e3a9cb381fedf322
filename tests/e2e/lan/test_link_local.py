"""A network on which hosts have ``fe80::…`` alone, as two machines with one cable between them: all works there."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from tests.support.eventually import PATIENCE
from tests.support.lan_server import LanServer
from tests.support.namespaces import network
from tests.support.publishing import write_skill

ASYNC = """
import asyncio, sys, skillwire
async def main():
    async with skillwire.AsyncClient() as client:
        print((await client.show(sys.argv[1])).name)
asyncio.run(main())
"""
FACTS = 'version = "1.0.0"\ncapabilities = ["org-data-read"]\nscenes = ["auth"]\n'
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Give a provider on the first of two hosts, and what runs a command on the second one."""
    path = tmp_path_factory.mktemp("link-local")
    with network(2, is_link_local=True) as lan:
        write_skill(path / "skills", "staff-directory", {"skill.toml": FACTS})

        def start(command, **options):
            return lan.start(1, *command, stdin=None, **options)

        server = LanServer(path / "skills", path / "home-1", start=start).started()
        try:
            host = f"{lan.link_local(1)}%eth0"
            yield partial(run, lan, path), f"[{host}]:{server.port}", path
        finally:
            server.end()


def run(lan, path, *arguments, program=("-m", "skillwire")):
    """Run a command on the second host; return what it wrote."""
    environment = {**os.environ, "SKILLWIRE_HOME": str(path / "home-2")}
    command = lan.command(2, sys.executable, *program, *arguments)
    return subprocess.run(
        command, env=environment, cwd=path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def good(done):
    """Return the document of a command that went well."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_found_and_shown_by_the_reference_that_the_list_has(place):
    do, endpoint, _ = place
    (hit,) = good(do("find", "--lan", "--json"))["hits"]
    assert hit["lan"]["endpoint"] == endpoint
    assert hit["reference"] == f"{endpoint}/staff-directory"
    shown = do("show", hit["reference"], "--json")
    assert shown.returncode == 0, shown.stderr
    assert "staff-directory" in shown.stdout
    assert do("show", hit["reference"].replace("%eth0", "%25eth0"), "--json").returncode == 0


def test_it_is_found_by_the_asynchronous_client_too(place):
    do, endpoint, _ = place
    done = do(f"{endpoint}/staff-directory", program=("-c", ASYNC))
    assert (done.stdout, done.stderr) == ("staff-directory\n", "")


def test_it_is_called_by_what_it_can_do(place):
    do, endpoint, path = place
    done = do("call", "lan:org-data-read", "--unverified", "--output", "staff.tar.gz")
    assert done.returncode == 0, done.stderr
    assert endpoint in done.stderr
    assert (path / "staff.tar.gz").stat().st_size


def test_it_is_added_and_its_scene_is_joined(place):
    do, endpoint, path = place
    added = do("add", f"{endpoint}/staff-directory", "--yes")
    assert added.returncode == 0, added.stderr
    assert list(path.rglob("staff-directory/SKILL.md"))[1:], added.stdout
    result = good(do("scene", "request", "auth", "org-data-read", "--unverified", "--json"))
    assert result["connection_info"]["endpoint"] == endpoint


def test_an_interface_that_is_not_there_is_named(place):
    do, endpoint, _ = place
    done = do("show", f"{endpoint.replace('eth0', 'eth7')}/staff-directory")
    assert done.returncode
    assert "no interface eth7" in done.stderr
