"""``skillwire serve --lan`` on loopback: servers that hear each other, and what they never say."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from tests.support.eavesdropper import Eavesdropper
from tests.support.eventually import PATIENCE, eventually
from tests.support.publishing import write_skill

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def skills(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "leads-sync", {"skill.toml": 'scenes = ["auth"]\ncapabilities = ["org-data-read"]\n'})
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_skill(folder, "omega-plan", {"skill.toml": 'access = "private"\n'})
    return folder


@pytest.fixture
def others(tmp_path):
    """Return the folder of another server."""
    write_skill(tmp_path / "others", "csv-profile", {"skill.toml": 'skill_type = "enterprise-skill"\n'})
    return tmp_path / "others"


def known(server, fields):
    document = json.loads(server.get("/lan.json", fields))
    return {skill["skillId"]: skill["status"] for skill in document["skills"]}


def wait_for(server, fields, accept):
    """Ask a server until what it lists is accepted; return that."""
    return eventually(lambda: known(server, fields), accept, server.log)


def test_servers_see_each_other_and_a_change_of_each(place, skills, others):
    first, second = place.serve(skills).started(), place.serve(others, "second").started()
    assert first.agent != second.agent
    operator = first.operator()
    wait_for(first, operator, lambda found: found == {"leads-sync": "HEALTHY", "csv-profile": "HEALTHY"})
    document = json.loads(first.get("/lan.json", operator))
    (other,) = [skill for skill in document["skills"] if skill["agentId"] == second.agent]
    assert (other["skillType"], other["endpoint"]) == ("enterprise-skill", f"127.0.0.1:{second.port}")
    assert [scene["sceneId"] for scene in document["scenes"]] == ["auth"]

    write_skill(others, "report-writer")
    wait_for(first, operator, lambda found: "report-writer" in found)
    (others / "csv-profile" / "skill.toml").write_text('access = "private"\n')
    wait_for(first, operator, lambda found: "csv-profile" not in found)
    (others / "report-writer" / "SKILL.md").write_text("no skill\n")
    wait_for(first, operator, lambda found: found.get("report-writer") == "DEGRADED")


def test_the_well_known_document_names_the_agent_and_the_port_of_its_secrets(place, skills, others):
    first, second = place.serve(skills).started(), place.serve(others, "second").started()
    told = json.loads(first.get("/.well-known/skill-discovery"))
    assert told["agentId"] == first.agent
    with socket.create_connection(("127.0.0.1", told["tlsPort"]), timeout=PATIENCE):
        pass
    assert json.loads(second.get("/.well-known/skill-discovery")) == {"agentId": second.agent}  # it has no scene


def test_no_datagram_names_a_skill_that_is_not_everybodys(place, skills):
    with Eavesdropper(place.lan) as heard:
        server = place.serve(skills).started()
        observer = place.agent()
        observer.wait_for(lambda found: "leads-sync" in found, "the public skill was not found")
        (skills / "leads-sync" / "skill.toml").write_text('scenes = ["auth", "reports"]\n')
        observer.wait_for_change("updated", "leads-sync")
        heard.wait_for(b"SKILL_HEARTBEAT:")
        assert server.end() == 0
        observer.wait_for_change("left", "leads-sync")
    said = b"\n".join(heard.datagrams)
    for kind in (b"SKILL_REGISTER:", b"SKILL_HEARTBEAT:", b"SKILL_UNREGISTER:"):
        assert kind in said
    assert b";leads-sync;" in said
    for secret in (b"omega-plan", b"staff-guide"):
        assert secret not in said


def test_a_server_that_is_killed_is_missed_and_one_that_ends_says_goodbye(place, skills, others):
    first, second = place.serve(skills).started(), place.serve(others, "second").started()
    observer = place.agent()
    both = {"leads-sync": "HEALTHY", "csv-profile": "HEALTHY"}
    observer.wait_for(lambda found: found == both, "not both were found")

    first.kill()
    assert second.end() == 0
    assert observer.wait_for_change("left", "csv-profile")["reason"] == "shutdown"
    assert observer.wait_for_change("status", "leads-sync")["skill"]["status"] == "UNHEALTHY"
    observer.wait_for_change("evicted", "leads-sync")
    assert observer.skills() == {}
    observer.was_heard_first(("left", "csv-profile"), ("evicted", "leads-sync"))
    missed = [one["skill"]["skill_id"] for one in observer.changes if one["kind"] in {"status", "evicted"}]
    assert "csv-profile" not in missed


def test_a_server_that_begins_again_is_the_same_agent_and_knows_what_it_knew(place, skills, others):
    first, second = place.serve(skills).started(), place.serve(others, "second").started()
    operator = first.operator()
    wait_for(first, operator, lambda found: found.get("csv-profile") == "HEALTHY")

    second.process.send_signal(signal.SIGSTOP)  # it is there, and says nothing
    assert first.end() == 0
    again = place.serve(skills).started()
    assert again.agent == first.agent
    document = json.loads(again.get("/lan.json", operator))
    remembered = {skill["skillId"]: skill["status"] for skill in document["skills"] if skill["agentId"] == second.agent}
    assert remembered == {"csv-profile": "UNKNOWN"}
    second.process.send_signal(signal.SIGCONT)
    wait_for(again, operator, lambda found: found.get("csv-profile") == "HEALTHY")


def test_a_network_that_is_not_there_is_said_and_skills_are_served(place, skills):
    server = place.serve(skills, arguments=("--interface", "nosuch0"))
    server.port = int(server.event("listening")["address"].rpartition(":")[2])
    told = server.event("lan")
    assert (told["agent"], "nosuch0" in told["reason"]) == (None, True)
    assert b"leads-sync" in server.get("/.well-known/agent-skills/index.json")
    assert json.loads(server.get("/lan.json", server.operator()))["trouble"] == told["reason"]


SERVICE = """
import json
import pathlib
import skillwire
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

publisher = skillwire.Publisher("acme")

@publisher.skill(health=lambda: pathlib.Path("health").read_text(), capabilities=["sum"])
def add(a: int, b: int = 1) -> int:
    '''Add two numbers. Use when a sum is asked for.'''
    return a + b

place = json.loads(pathlib.Path("lan.json").read_text())
settings = LanSettings(**place, figures=DiscoverySettings(heartbeat_interval=0.5))
publisher.serve(port=0, lan=settings)
"""


def test_a_function_says_how_its_skill_is(place, tmp_path):
    observer = place.agent()
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "lan.json").write_text(json.dumps(place.lan._asdict()))
    (tmp_path / "health").write_text("HEALTHY")
    environment = {**os.environ, "SKILLWIRE_HOME": str(tmp_path / "program")}
    process = subprocess.Popen(
        [sys.executable, "service.py"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        observer.wait_for(lambda found: found == {"add": "HEALTHY"}, "the function was not found")
        (tmp_path / "health").write_text("MAINTENANCE")
        observer.wait_for(lambda found: found == {"add": "MAINTENANCE"}, "its maintenance was not told")
        (tmp_path / "health").unlink()
        observer.wait_for(lambda found: found == {"add": "UNHEALTHY"}, "that its check fails was not told")
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    observer.wait_for_change("left", "add")


def test_a_member_of_a_scene_is_given_a_key_for_the_skill(place, skills):
    (skills / "staff-guide" / "skill.toml").write_text("")
    server = place.serve(skills, trust={"useUnverified": True}).started()
    observer = place.agent()
    observer.wait_for(lambda found: "leads-sync" in found, "the provider was not found")
    result = observer.ask("scene", scene="auth", capabilities=["org-data-read"])
    info = result["connection_info"]
    assert info["endpoint"] == f"127.0.0.1:{server.port}"
    answer = server.get("/skills/leads-sync.json", {"X-API-Key": info["apiKey"]})
    assert json.loads(answer)


def test_two_servers_of_one_state_folder_list_all_skills_of_both(place, skills, others):
    first = place.serve(skills, "shared").started()
    second = place.serve(others, "shared").started()
    assert second.agent == f"{first.agent}-2"
    for server in (first, second):
        wait_for(server, server.operator(), lambda found: found == {"leads-sync": "HEALTHY", "csv-profile": "HEALTHY"})
    assert f"another process takes part as {first.agent}" in first.log()

    first.kill()
    third = place.serve(skills, "shared").started()
    assert third.agent == first.agent
    wait_for(third, third.operator(), lambda found: found == {"leads-sync": "HEALTHY", "csv-profile": "HEALTHY"})
