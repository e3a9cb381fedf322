"""``skillwire dht``: what each operation prints, as lines and as documents, and what its errors say."""

import json
import os
import time
from types import SimpleNamespace

import pytest
from tests.support.documents import check_document
from tests.support.fake_dht import DIGEST, OWN_KEY, FakeDhtAgent, dht_skill
from tests.support.publishing import write_skill

from skillwire import dht
from skillwire.adapters.dht import agent as adapter
from skillwire.adapters.dht import read_status, write_status
from skillwire.adapters.files.atomic import state_directory
from skillwire.cli.main import run
from skillwire.model.digest import Digest
from skillwire.model.ref import SharedFacts, SkillRef

ENTRY = ("--bootstrap", "192.0.2.1:6881")


@pytest.fixture(autouse=True)
def node(monkeypatch, tmp_path):
    """Have the command make this agent; ``settings`` are those that it was given."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    own = dht_skill("notes", 2, key_id=OWN_KEY, capabilities=("user-auth",), trust="unverified", digest=DIGEST)
    made = FakeDhtAgent(dht_skill(), own)

    def make(settings, **_):
        made.settings = settings
        return made

    monkeypatch.setattr(adapter, "DhtAgent", make)
    return made


@pytest.fixture
def told(capsys):
    def call(*arguments, status=0):
        assert run(["dht", *arguments]) == status
        result = capsys.readouterr()
        check_document(result.out)
        return result

    return call


def document(result):
    return json.loads(result.out)


def test_find_looks_up_every_capability_and_says_what_did_not_answer(node, told):
    node.silent, node.lost = ("192.0.2.7:6881",), ("user-auth",)
    result = told("find", "--capability", "org-data-read", "--capability", "user-auth", "--any", *ENTRY)
    first, second = result.out.splitlines()
    assert first.split() == [
        "staff-directory", "1.0.0", "verified", "3", "s", "ago", "agent-1", "http://192.168.1.1:8000", "org-data-read",
    ]  # fmt: skip
    assert second.split()[:3] == ["notes", "1.0.0", "unverified"]
    assert result.err == (
        "3 nodes answered in 200 ms; no node answered for user-auth; no answer came from 192.0.2.7:6881\n"
    )
    assert ("capability", ("org-data-read", "user-auth"), "any") in node.asked
    found = document(told("find", "--capability", "user-auth", "--json", *ENTRY))
    assert (found["asked"], found["unanswered"], found["keys_without_answer"]) == (3, ["192.0.2.7:6881"], ["user-auth"])
    assert [(one["skill_id"], one["digest"], one["key_id"]) for one in found["skills"]] == [("notes", DIGEST, OWN_KEY)]


def test_nothing_found_is_an_error_with_what_was_not_reached(node, told):
    node.silent = ("192.0.2.7:6881",)
    arguments = ("find", "--capability", "org-data-read", "--capability", "user-auth", *ENTRY)
    result = told(*arguments, status=3)
    assert "error[DISC_002]: no skill in the DHT offers org-data-read and user-auth" in result.err
    assert "no answer came from 192.0.2.7:6881" in result.err


def test_get_takes_a_name_with_or_without_a_capability(node, told):
    assert "notes" in told("get", "notes", *ENTRY).out
    assert "staff-directory" in told("get", "staff-directory", "org-data-read", *ENTRY).out
    assert [one for one in node.asked if one[0] in {"name", "get"}] == [
        ("name", "notes"), ("get", "staff-directory", "org-data-read"),
    ]  # fmt: skip
    assert "error[USAGE]: SKILL 'a b' is not a valid name" in told("get", "a b", status=2).err
    assert "error[USAGE]: CAPABILITY 'a b' is not a valid name" in told("get", "notes", "a b", status=2).err
    assert "has the name plan and offers fly: 3 nodes" in told("get", "plan", "fly", *ENTRY, status=3).err


def test_a_time_limit_has_a_unit_as_in_every_command(told):
    told("get", "notes", "--timeout", "2s", *ENTRY)
    assert "'2' is not a duration" in told("get", "notes", "--timeout", "2", *ENTRY, status=2).err


def test_put_announces_what_its_server_publishes(node, told, monkeypatch):
    ref = SkillRef(
        "notes", "https://a.example", "", "1.2.0", Digest(DIGEST), "agent-skills 0.2.0", 0.0, capabilities=("x",)
    )

    class Shown:
        def __init__(self):
            self.ref = ref

    monkeypatch.setattr("skillwire.client.sync.Client.show", lambda *_: Shown())
    assert told("put", "a.example/notes", *ENTRY).out == "put notes 1.2.0  on 3 nodes\n"
    offer = dht.DhtOffer("notes", "1.2.0", "tool-skill", "https://a.example", ("x",), (), DIGEST)
    assert ("put", offer) in node.asked
    told("put", "a.example/notes", "--capability", "y", "--json", *ENTRY)
    assert ("put", offer._replace(capabilities=("y",))) in node.asked
    node.stores = False
    assert "error[DISC_003]: no node of the DHT stored notes" in told("put", "a.example/notes", *ENTRY, status=4).err


def test_a_private_skill_is_never_put_and_a_restricted_one_where_the_settings_say_so(node, told, monkeypatch, tmp_path):
    shared = SharedFacts("acme/notes", "Notes", "knowledge", "private", "acme", "https://a.example/notes.json")
    ref = SkillRef("notes", "https://a.example", "", "1.2.0", Digest(DIGEST), "", 0.0, shared=shared)
    shown = SimpleNamespace(ref=ref)
    monkeypatch.setattr("skillwire.client.sync.Client.show", lambda *_: shown)
    settings = tmp_path / "discovery.toml"
    settings.write_text("[discovery.dht]\nannounceRestricted = true\n")
    configured = ("put", "a.example/notes", *ENTRY, "--discovery", str(settings))
    assert "notes is private, and every node" in told(*configured, status=2).err
    shown.ref = ref._replace(shared=shared._replace(access="restricted"))
    assert "fix: Set announceRestricted" in told("put", "a.example/notes", *ENTRY, status=2).err
    assert not [one for one in node.asked if one[0] == "put"]
    assert told(*configured).out == "put notes 1.2.0  on 3 nodes\n"


def test_a_name_without_room_is_named_with_what_to_do(node, told):
    node.full = ("user-auth",)
    result = told("remove", "notes", *ENTRY)
    assert result.out == "removed notes  on 3 nodes\n"
    assert result.err == "no node has room under user-auth: each keeps 16 publishers of a name\n"
    assert document(told("remove", "notes", "--json", *ENTRY))["full"] == ["user-auth"]
    node.stores = False
    result = told("remove", "notes", *ENTRY, status=4)
    assert "stored notes; no node has room under user-auth" in result.err
    assert "fix: Announce it under another name" in result.err


def test_a_folder_is_no_address(node, told, tmp_path):
    write_skill(tmp_path, "notes")
    result = told("put", "./notes", *ENTRY, status=2)
    assert "notes is not published at an address with a version and a digest" in result.err
    assert node.asked == []


def test_remove_takes_the_capabilities_of_our_record(node, told):
    assert told("remove", "notes", *ENTRY).out == "removed notes  on 3 nodes\n"
    assert ("remove", "notes", ("user-auth",)) in node.asked
    assert document(told("remove", "notes", "--capability", "x", "--json", *ENTRY))["removed"] is True
    assert "signed with this machine's key" in told("remove", "staff-directory", *ENTRY, status=3).err


def test_ping_asks_the_address_itself_where_no_bootstrap_node_is_named(node, told):
    assert told("ping", "192.0.2.2:6881").out == f"agent-2  1.2 ms  unverified  node {'b' * 64}\n"
    assert node.settings.dht.bootstrap == (("192.0.2.2", 6881),)
    assert document(told("ping", "[::1]:6881", "--json"))["address"] == "[::1]:6881"
    node.nodes = 0
    told("ping", "192.0.2.2:6881", status=5)
    told("ping", "192.0.2.2", status=2)


class TestStatus:
    def test_without_a_node_here_the_command_joins_and_says_so(self, told):
        lines = told("status", *ENTRY).out.splitlines()
        assert lines[0] == f"node     {OWN_KEY}  profile open"
        assert lines[1] == "source   a node that joined for this command"
        assert "nodes    3 in 1 bucket" in lines
        assert "records  12 held for others, 9,600 bytes" in lines
        assert "put      notes 1.0.0  1 min ago on 3 nodes" in lines
        assert "entry    bootstrap node 192.0.2.1:6881  answers" in lines

    @pytest.mark.parametrize("agent", ["", "agents/desk-2"])  # desk-2: another server of this user is desk
    def test_a_running_node_is_read_from_its_file(self, node, told, agent):
        folder = state_directory() / "lan" / agent
        folder.mkdir(parents=True)
        write_status(folder, node.status())
        shown = document(told("status", "--json"))
        assert (shown["process"], shown["node_id"], shown["held"]) == (os.getpid(), OWN_KEY, 12)
        assert shown["bootstrap"] == [{"address": "192.0.2.1:6881", "answers": True}]
        assert f"source   process {os.getpid()}, at 192.0.2.9:6881" in told("status").out
        assert node.asked == []

    @pytest.mark.parametrize("content", [b"", b"[]", b'[1, 2, "x"]', b"\xff" * 40])
    def test_an_old_or_damaged_file_is_none(self, node, content):
        path = state_directory() / "lan" / "dht-status.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        assert read_status() is None
        for process, at in ((os.getpid(), time.time() - 11), (2**22 + 1, time.time()), (10**30, time.time())):
            path.write_bytes(json.dumps([process, at, node.status()]).encode())
            assert read_status() is None

    def test_without_a_bootstrap_node_the_error_says_what_to_do(self, told):
        result = told("status", status=2)
        assert "error[DHT_BOOTSTRAP]" in result.err
        assert "--bootstrap HOST:PORT" in result.err

    def test_a_silent_dht_is_an_error_that_names_its_nodes(self, node, told):
        node.nodes = 0
        result = told("status", *ENTRY, status=5)
        assert "error[DHT_UNREACHABLE]" in result.err
        assert "192.0.2.1:6881" in result.err


def test_the_commands_need_no_local_network(node, told, tmp_path):
    settings = tmp_path / "discovery.toml"
    settings.write_text("[discovery]\nudp.enabled = false\nmdns.enabled = false\ndht.enabled = true\n")
    assert document(told("find", "--capability", "user-auth", "--json", "--discovery", str(settings), *ENTRY))["skills"]
    assert (node.settings.multicast, node.settings.mdns) == (False, False)
