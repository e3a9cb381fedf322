"""``scene``, ``find --lan`` and what ``lan:`` is to other commands, with an agent that is not there."""

import asyncio
import json
import os
import re
import signal
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.fake_lan import FakeLanAgent, lan_skill

from skillwire.cli.main import run
from skillwire.cli.output import Output
from skillwire.cli.scene import Substitute
from skillwire.client.session import ClientSession
from skillwire.errors import FetchError, SourceLocation, UsageError
from skillwire.model.lan import FoundVia, LanChange, LanMember, LanScene, SceneResult
from skillwire.model.skill import Finding
from skillwire.resolver import ladder

SKILL = lan_skill()
RESULT = SceneResult(
    "auth",
    "group-auth-001",
    {"protocol": "http", "host": SKILL.host, "port": 8000, "endpoint": SKILL.endpoint, "apiKey": "sk-of-an-hour"},
    SKILL.skill_id,
    SKILL.version,
    SKILL.capabilities,
    (LanMember(SKILL.agent_id, SKILL.skill_id, "PRIMARY"),),
)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Give the agent of every client; it knows one skill, which provides one scene."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    made = FakeLanAgent(SKILL, scenes=[RESULT])
    monkeypatch.setattr(ClientSession, "make_lan_agent", lambda *_: made)
    monkeypatch.setattr(ladder, "_RETRY_SECONDS", 0.0)
    return made


def test_what_is_found_is_told_with_health_trust_and_where_from(agent, capsys):
    agent.skills.append(lan_skill("printer", "192.168.1.9", is_verified=False, status="UNHEALTHY", scenes=()))
    assert run(["find", "--lan"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:6] == ["staff-directory", "1.0.0", "HEALTHY", "verified", "multicast", "192.168.1.5:8000"]
    assert rows[1][:6] == ["printer", "1.0.0", "UNHEALTHY", "unverified", "multicast", "192.168.1.9:8000"]


def test_words_are_looked_for_in_names_capabilities_and_scenes(agent, capsys):
    agent.skills = [SKILL, lan_skill("printer", capabilities=("print-page",), scenes=("paper",))]
    for words in ("printer", "print-page", "paper"):
        assert run(["find", words, "--lan", "--json"]) == 0
        (hit,) = json.loads(capsys.readouterr().out)["hits"]
        assert (hit["lan"]["skill_id"], hit["reference"]) == ("printer", "192.168.1.5:8000/printer")


def test_each_word_that_is_looked_for_narrows(agent, capsys):
    names = ("directory-days", "working-days", "thing-299", "thing-1")
    agent.skills = [lan_skill(name) for name in names]
    for words, one in (("directory days", "directory-days"), ("thing-299", "thing-299")):
        assert run(["find", words, "--lan", "--json"]) == 0
        hits = json.loads(capsys.readouterr().out)["hits"]
        assert [hit["lan"]["skill_id"] for hit in hits] == [one]


@pytest.mark.parametrize("words", ["user", "user-auth", "auth user"])
def test_every_word_counts_and_the_capability_that_was_asked_for_is_hinted_at(agent, capsys, words):
    guests = lan_skill("guest-directory", "192.168.1.9", capabilities=("org-data-read",))
    agent.skills = [guests, SKILL._replace(capabilities=("org-data-read", "user-auth"))]
    assert run(["find", words, "--lan"]) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == ["staff-directory"]
    assert "call one:     skillwire call lan:user-auth\n" in told.err


def test_trust_that_nobody_has_looked_at_is_not_said_to_be_none(agent, capsys):
    agent.skills = [SKILL._replace(agent_id="", is_verified=False)]
    assert run(["find", "--lan"]) == 0
    told = capsys.readouterr()
    assert "not known" in told.out
    assert "unverified" not in told.out


@pytest.mark.usefixtures("agent")
def test_without_sources_the_local_network_is_named(capsys):
    assert run(["find", "notes"]) == 2
    assert "On the local network: skillwire find --lan." in capsys.readouterr().err.replace("\n", " ")
    assert run(["show", "notes"]) == 2
    assert 'To search the local network, add "lan:" to sources in your user settings' in " ".join(
        capsys.readouterr().err.split()
    )


def test_nothing_found_is_no_error(agent, capsys):
    agent.skills = []
    assert run(["find", "--lan"]) == 0
    said = capsys.readouterr().err
    assert "no agent on the local network offers skills" in said
    assert "let UDP port 54321 through their firewalls and yours, and run: skillwire doctor" in said


@pytest.mark.parametrize(("skills", "words"), [([SKILL], ["nosuch"]), ([lan_skill("printer", "no host")], [])])
def test_a_firewall_is_not_blamed_where_an_agent_answers(agent, capsys, skills, words):
    agent.skills = skills
    assert run(["find", "--lan", *words]) == 0
    said = capsys.readouterr().err
    assert "list all agents: skillwire lan\n" in said
    assert "UDP port" not in said
    assert "no agent" not in said


def test_one_that_may_be_called_only_by_saying_so_is_hinted_at_so(agent, capsys):
    agent.skills = [SKILL._replace(is_verified=False)]
    assert run(["find", "--lan"]) == 0
    assert "skillwire call lan:org-data-read --unverified" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--from", "example.com"], ["--type", "api"], ["--token", "x"]])
def test_the_local_network_is_searched_alone(agent, capsys, option):
    assert run(["find", "--lan", *option]) == 2
    assert "error[USAGE]" in capsys.readouterr().err
    assert agent.asked == []


@pytest.mark.usefixtures("agent")
def test_scenes_are_listed(capsys):
    assert run(["scene", "list"]) == 0
    assert capsys.readouterr().out.split() == ["auth", "PRIMARY", "staff-directory", "agent-5"]
    assert run(["scene", "list", "--json"]) == 0
    (scene,) = json.loads(capsys.readouterr().out)["scenes"]
    assert scene["members"] == [
        {"agent_id": "agent-5", "skill_id": "staff-directory", "role": "PRIMARY", "freshness": "live"}
    ]


@pytest.mark.parametrize(
    ("facts", "flag"),
    [
        ([{}], ""),
        ([{"is_verified": False}], " --unverified"),
        ([{"is_verified": False}, {}], ""),
        ([{"is_verified": False}, {"status": "OFFLINE"}], " --unverified"),
        ([{"is_verified": False}, {"scenes": ("print",)}], " --unverified"),
    ],
)
def test_a_scene_is_hinted_at_that_can_be_joined_so(agent, capsys, facts, flag):
    agent.skills = [lan_skill("staff-directory", f"192.168.1.{number}", **one) for number, one in enumerate(facts, 5)]
    assert run(["scene", "list"]) == 0
    assert capsys.readouterr().err == f"join one: skillwire scene join auth{flag}\n"


def test_a_scene_that_nobody_provides_now_is_not_hinted_at(agent, capsys):
    agent.skills = [lan_skill("a", "192.168.1.6", status="OFFLINE"), lan_skill("b", "192.168.1.7", scenes=("print",))]
    assert run(["scene", "list"]) == 0
    assert capsys.readouterr().err == "join one: skillwire scene join print\n"
    agent.skills.pop()
    assert run(["scene", "list"]) == 0
    assert capsys.readouterr().err == "list all agents: skillwire lan\n"


def test_what_was_only_read_of_is_in_no_group_as_everywhere(agent, capsys):
    agent.skills = [SKILL._replace(found_via=FoundVia.MDNS, status="UNKNOWN", is_verified=False)]
    assert run(["scene", "list"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "no agent on the local network provides a scene\n")


@pytest.mark.parametrize("act", [["join", "auth"], ["request", "auth"], ["list"]])
def test_scenes_need_multicast_and_say_so(agent, capsys, tmp_path, monkeypatch, act):
    configuration = tmp_path / "lan.yaml"
    configuration.write_text("udp:\n  enabled: false\n")
    monkeypatch.setenv("SKILLWIRE_DISCOVERY", str(configuration))
    agent.skills = []
    assert run(["scene", *act]) == (0 if act == ["list"] else 5)
    told = capsys.readouterr().err
    assert "scenes require multicast" in told
    assert "[discovery.udp]" in told
    assert "firewall" not in told


def test_one_whose_address_nobody_can_type_does_not_hide_the_others(agent, capsys):
    agent.skills.append(lan_skill("odd", "fe80::1%eth 0"))
    assert run(["find", "--lan"]) == 0
    told = capsys.readouterr()
    assert "staff-directory" in told.out
    assert "odd" not in told.out
    assert "left out odd of" in told.err


def test_of_what_is_merely_told_a_call_is_hinted_at_that_can_work(agent, capsys):
    agent.skills = [SKILL._replace(found_via=FoundVia.MDNS, status="UNKNOWN", is_verified=False)]
    assert run(["find", "--lan"]) == 0
    assert "skillwire call lan:org-data-read --unverified" in capsys.readouterr().err


def test_a_key_is_shown_when_that_is_asked_for(agent, capsys):
    assert run(["scene", "join", "auth", "org-data-read"]) == 0
    told = capsys.readouterr()
    assert "group-auth-001" in told.out
    assert "sk-of-an-hour" not in told.out
    assert "skillwire scene join auth org-data-read --show-secrets" in told.err
    assert agent.asked[1] == ("join", "auth", ("org-data-read",))
    assert run(["scene", "join", "auth", "--show-secrets"]) == 0
    assert "sk-of-an-hour" in capsys.readouterr().out
    assert run(["scene", "join", "auth", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["connection_info"]["apiKey"] == "sk-of-an-hour"
    assert run(["scene", "request", "auth", "--unverified"]) == 0
    assert "skillwire scene join auth --unverified --show-secrets" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "is_always"), [("DISC_004", False), ("DISC_005", True)])
def test_why_there_is_no_key_is_told_as_the_help_says(agent, capsys, code, is_always):
    connection = {key: value for key, value in RESULT.connection_info.items() if key != "apiKey"}
    no_key = Finding(code, "note", "no key for the scene auth", SourceLocation("x"), "Ask again.")
    agent.scenes = {"auth": RESULT._replace(connection_info=connection, no_key=no_key)}
    for words, is_told in (([], is_always), (["--show-secrets"], True)):
        assert run(["scene", "join", "auth", *words]) == 0
        assert (code in capsys.readouterr().err) is is_told
    assert run(["scene", "join", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "without --show-secrets, which also prints why there is none" in told
    assert "a note is always printed (DISC_005)" in told


@pytest.mark.parametrize(("is_missing", "code", "exit_code"), [(True, "DISC_007", 3), (False, "DISC_001", 5)])
def test_a_scene_that_is_not_there_is_told_from_nobody_being_there(agent, capsys, is_missing, code, exit_code):
    agent.scenes = {"auth": SceneResult("auth", is_missing=is_missing)}
    assert run(["scene", "join", "auth"]) == exit_code
    told = capsys.readouterr().err
    assert f"error[{code}]" in told
    assert is_missing or "--> 224.0.0.1:54321, [ff12::d431]:54321\n" in told
    assert is_missing or "skillwire serve FOLDER --lan --scene auth" in told.replace("\n", " ")


def test_a_scene_that_is_not_there_is_told_with_what_its_provider_has_to_do(agent, capsys):
    agent.scenes = {}
    assert run(["scene", "join", "auth", "fly"]) == 3
    assert "the scene auth with the capability fly" in capsys.readouterr().err
    assert run(["scene", "join", "auth", "fly", "swim"]) == 3
    assert "the scene auth with the capabilities fly and swim" in capsys.readouterr().err


@pytest.mark.parametrize("act", ["join", "request"])
@pytest.mark.parametrize(("words", "name"), [(["a b"], "SCENE 'a b'"), (["auth", "é"], "CAPABILITY '\\xe9'")])
def test_what_can_be_no_name_is_refused_before_anybody_is_asked(agent, capsys, act, words, name):
    assert run(["scene", act, *words]) == 2
    told = capsys.readouterr().err
    assert "error[USAGE]" in told
    assert f"{name} is not a valid name" in told
    assert agent.asked == []


def test_a_signal_leaves_the_scene_and_says_so(agent, capsys):
    listeners = []

    class Ended(FakeLanAgent):
        async def listen(self):
            listeners.append(self)
            if len(listeners) > 1:  # the first is the client, for its cache
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            yield None

    agent.listen = Ended.listen.__get__(agent)
    assert run(["scene", "join", "auth", "--follow"]) == 128 + signal.SIGTERM
    assert "left auth\nstopped by a signal" in capsys.readouterr().err
    assert agent.asked[-1] == "stop"


REFUSED = Finding(
    "DISC_004", "note", "no key for the scene auth: it refuses", SourceLocation("192.168.1.5:9000"), "Ask for one."
)
FAILED = REFUSED._replace(code="DISC_005", message="no key for the scene auth: no TLS", fix="Ask again.")


@pytest.mark.parametrize(("no_key", "is_told_unasked"), [(REFUSED, False), (FAILED, True)])
def test_why_there_is_no_key_is_told(agent, capsys, no_key, is_told_unasked):
    without = RESULT._replace(connection_info={"host": SKILL.host, "endpoint": SKILL.endpoint})
    agent.scenes = {"auth": without._replace(no_key=no_key)}
    told = f"note[{no_key.code}]: {no_key.message}\n  --> 192.168.1.5:9000\n  fix: {no_key.fix}\n"
    assert run(["scene", "join", "auth", "--show-secrets"]) == 0
    assert told in capsys.readouterr().err
    assert run(["scene", "join", "auth"]) == 0
    assert (told in capsys.readouterr().err) is is_told_unasked
    assert run(["scene", "join", "auth", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["no_key"]
    assert (found["code"], found["message"], found["fix"]) == (no_key.code, no_key.message, no_key.fix)
    assert found["place"]["source"] == "192.168.1.5:9000"


def test_that_a_provider_hands_out_no_keys_is_told_to_who_wants_one(agent, capsys):
    agent.scenes = {"auth": RESULT._replace(connection_info={"host": SKILL.host, "endpoint": SKILL.endpoint})}
    assert run(["scene", "join", "auth", "--show-secrets"]) == 0
    assert "no key: the provider issues none" in capsys.readouterr().err
    assert run(["scene", "join", "auth"]) == 0
    assert "no key" not in capsys.readouterr().err
    assert run(["scene", "join", "auth", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["no_key"] is None


@pytest.mark.parametrize("act", ["join", "request"])
def test_how_a_key_is_used_is_told_with_it(agent, capsys, act):
    info = {**RESULT.connection_info, "basePath": "/v2", "authType": "api-key", "authHeader": "X-API-Key"}
    agent.scenes = {"auth": RESULT._replace(connection_info=info)}
    assert run(["scene", act, "auth"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    assert (rows["basePath"], rows["authType"], rows["authHeader"]) == ("/v2", "api-key", "X-API-Key")
    assert rows["apiKey"] == "..."
    assert run(["scene", act, "auth", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["connection_info"] == info


def test_what_shows_a_result_shows_no_key():
    assert "sk-of-an-hour" not in f"{RESULT!r} {RESULT} {[RESULT]}"
    assert "'apiKey': '...'" in repr(RESULT)
    assert RESULT.group_id in repr(RESULT)


def test_an_unverified_provider_is_refused_without_the_option(agent, capsys):
    agent.skills = [SKILL._replace(is_verified=False)]
    assert run(["scene", "join", "auth"]) == 4
    assert "error[DISC_004]" in capsys.readouterr().err
    assert run(["scene", "join", "auth", "--unverified"]) == 0


def test_what_changes_in_the_scene_is_followed_and_nothing_else(agent, capsys):
    other = lan_skill("printer", scenes=("paper",))
    changed = LanScene("auth", "group-auth-001", (LanMember("agent-6", "staff-directory", "PRIMARY"),))
    told = [
        LanChange("registered", 1.0, other),
        LanChange("status", 2.0, SKILL._replace(status="UNHEALTHY")),
        LanChange("scene", 3.0, scene=changed),
        LanChange("missed", 4.0),
        LanChange("left", 5.0, SKILL, reason="maintenance"),
        LanChange("evicted", 6.0, SKILL, reason="silent"),
    ]

    class Listened(FakeLanAgent):
        async def listen(self):
            for change in told:
                yield change

    agent.listen = Listened.listen.__get__(agent)
    assert run(["scene", "join", "auth", "--follow"]) == 0
    shown = capsys.readouterr().out
    assert "printer" not in shown
    assert re.search(r"^\d\d:\d\d:\d\d  status staff-directory UNHEALTHY", shown, re.MULTILINE)
    assert "PRIMARY staff-directory of agent-6; 0 BACKUP" in shown
    assert "some changes were missed" in shown
    assert re.search("left staff-directory .* maintenance\n", shown)
    assert run(["scene", "join", "auth", "--follow", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told_of = ["joined", "status", "scene", "missed", "left", "evicted"]
    assert [line["event"] for line in lines] == told_of
    assert [line["reason"] for line in lines[1:6]] == ["", "", "", "maintenance", "silent"]


def test_a_request_that_is_answered_joins(agent, capsys):
    assert run(["scene", "request", "auth"]) == 0
    assert "joined auth" in capsys.readouterr().out
    assert agent.asked[1] == ("request", "auth", ())


@pytest.mark.usefixtures("agent")
def test_the_request_on_the_network_is_the_first_of_the_sources_that_were_tried(capsys):
    assert run(["scene", "request", "auth", "--json"]) == 0
    assert tried(json.loads(capsys.readouterr().out)["rungs"]) == [("lan", "found")]
    assert run(["scene", "request", "paper", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    tried_rungs = [("lan", "nothing"), ("dht", "off"), ("skillCenter", "off"), ("cache", "nothing")]
    assert (tried(error["details"]["rungs"]), "set registry" in error["fix"]) == (tried_rungs, True)
    assert run(["scene", "list", "--json"]) == 0
    assert tried(json.loads(capsys.readouterr().out)["rungs"])[0] == ("lan", "found")


def tried(rungs):
    return [(rung["name"], rung["outcome"]) for rung in rungs]


@pytest.mark.parametrize(
    ("names", "message", "fix"),
    [
        (["a"], "one skill can provide auth: a", "Pass --yes to install it."),
        (["a", "b"], "several skills can provide auth", "Pass --skill with one of a, b, or --yes for the first."),
    ],
)
def test_without_a_terminal_the_options_are_named_that_choose_a_skill(names, message, fix):
    found: Any = [SimpleNamespace(name=name) for name in names]
    client: Any = SimpleNamespace(rungs=())
    substitute = Substitute(Output(), client, "auth", ())
    with pytest.raises(UsageError, match=message) as caught:
        substitute.choose(found, None, agreed=False)
    assert caught.value.fix == fix


@pytest.mark.usefixtures("agent")
def test_a_request_that_is_not_answered_needs_a_place_to_look(capsys):
    assert run(["scene", "request", "paper"]) == 3
    told = capsys.readouterr().err
    assert "error[DISC_007]" in told
    assert "--from ORIGIN" in told


def test_a_network_that_is_not_there_is_told(agent, capsys):
    agent.error = FetchError("LAN_UNAVAILABLE", "no interface is up")
    for words in (["scene", "list"], ["find", "--lan"], ["call", "lan:org-data-read"]):
        assert run(words) == 5
        assert "error[LAN_UNAVAILABLE]" in capsys.readouterr().err


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["call", "lan:nothing"], "DISC_002", 3),
        (["call", "lan:no such"], "REFERENCE", 2),
        (["call", "lan:org-data-read", "--token", "x"], "USAGE", 2),
        (["show", "lan:org-data-read"], "REFERENCE", 2),
        (["add", "lan:org-data-read"], "REFERENCE", 2),
    ],
)
def test_references_by_capability_are_for_calls(capsys, words, code, exit_code):
    assert run(words) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err
