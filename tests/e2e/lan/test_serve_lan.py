"""``skillwire serve --lan`` on loopback: servers that hear each other, and what they never say."""

import json
import signal

import pytest
from tests.support.eavesdropper import Eavesdropper
from tests.support.eventually import eventually
from tests.support.publishing import write_skill


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
    # A server bounds the requests of one host.
    return eventually(lambda: known(server, fields), accept, server.log, every=0.2)


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
