"""Why skills say goodbye, as it is heard on the network: of servers that are told to end, fail, and go on."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from tests.support.eavesdropper import Eavesdropper
from tests.support.eventually import PATIENCE
from tests.support.publishing import write_skill

pytestmark = [pytest.mark.timeout(120), pytest.mark.spec("SDP-unregister-reason")]


@pytest.fixture
def skills(tmp_path):
    for name in ("leads-sync", "csv-profile"):
        write_skill(tmp_path / "skills", name)
    return tmp_path / "skills"


def test_a_server_that_is_told_to_end_shuts_down_and_so_does_a_skill_that_is_taken_away(place, skills):
    with Eavesdropper(place.lan) as heard:
        server = place.serve(skills).started()
        observer = place.agent()
        observer.wait_for(lambda found: found.keys() == {"leads-sync", "csv-profile"}, "not both were found")
        write_skill(skills, "leads-sync", version="2.0.0")
        observer.wait_for_change("updated", "leads-sync")
        shutil.rmtree(skills / "csv-profile")
        observer.wait_for_change("left", "csv-profile")
        heard.wait_for_goodbyes({"csv-profile": "SHUTDOWN"})  # a newer version says none
        assert server.end() == 0
        observer.wait_for_change("left", "leads-sync")
        heard.wait_for_goodbyes({"csv-profile": "SHUTDOWN", "leads-sync": "SHUTDOWN"})


def test_the_operator_says_why_also_while_the_server_runs(place, skills):
    with Eavesdropper(place.lan) as heard:
        server = place.serve(skills).started()
        observer = place.agent()
        observer.wait_for(lambda found: "leads-sync" in found, "the skill was not found")
        configuration = server.home / "lan.yaml"
        configuration.write_text(f"{configuration.read_text()}  goodbye: UPGRADE\n")
        assert server.end() == 0
        observer.wait_for_change("left", "leads-sync")
        heard.wait_for_goodbyes({"csv-profile": "UPGRADE", "leads-sync": "UPGRADE"})


FAILING = """
import json
import pathlib
import skillwire
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server import run

publisher = skillwire.Publisher("acme")

@publisher.skill
def add(a: int, b: int = 1) -> int:
    '''Add two numbers. Use when a sum is asked for.'''
    return a + b

usual = run._Server.on_tick

async def on_tick(server, counter):
    if pathlib.Path("fail").exists():
        raise OSError("the machine is on fire")
    return await usual(server, counter)

run._Server.on_tick = on_tick
publisher.serve(port=0, lan=LanSettings(**json.loads(pathlib.Path("lan.json").read_text())))
"""


def test_a_server_that_fails_says_so(place, tmp_path):
    (tmp_path / "service.py").write_text(FAILING)
    (tmp_path / "lan.json").write_text(json.dumps(place.lan._asdict() | {"goodbye_reason": "MAINTENANCE"}))
    with Eavesdropper(place.lan) as heard:
        observer = place.agent()
        environment = {**os.environ, "SKILLWIRE_HOME": str(tmp_path / "program")}
        process = subprocess.Popen(
            [sys.executable, "service.py"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        )
        try:
            observer.wait_for(lambda found: "add" in found, "the function was not found")
            (tmp_path / "fail").touch()
            observer.wait_for_change("left", "add")
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait(PATIENCE)
        assert (process.returncode, "on fire" in errors) == (1, True)
        heard.wait_for_goodbyes({"add": "ERROR"})
