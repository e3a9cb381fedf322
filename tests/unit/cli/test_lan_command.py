"""``skillwire lan``: one picture, a live one, and a stream of documents, of a network that a test makes."""

import asyncio
import json
import os
import signal
import threading
import time

import pytest
from tests.support.lan_site import OWN, change, home, scene, skill, town

from skillwire.adapters.files.keys import LanKeys
from skillwire.cli import lan as lan_command
from skillwire.cli.lan import change_document
from skillwire.cli.lan_view import Screen, change_text, heard, live_picture, picture
from skillwire.cli.output import Styled, print_event
from skillwire.errors import FetchError, TrustError, UsageError
from skillwire.model.lan import FoundVia, LanSnapshot
from skillwire.trust.certificates import read_key
from skillwire.trust.ecdsa import digest_of
from skillwire.trust.words import words_of

GROUP = ("lan",)

NOW = 1_750_000_000.0


class FakeAgent:
    """An agent that knows what a test says, and tells of it; made as the command makes its own."""

    notes: tuple[str, ...] = ()

    def __init__(self, skills=(), scenes=(), changes=(), *, error=None):
        self.known = LanSnapshot(OWN, time.time(), tuple(skills), tuple(scenes))
        self.changes = list(changes)
        self.error = error
        self.settings = None
        self.patience = None
        self.has_left = False

    async def __aenter__(self):
        if self.error is not None:
            raise self.error
        return self

    async def __aexit__(self, *_):
        self.has_left = True

    async def discover(self, *, patience=None):
        self.patience = patience
        return self.known.skills

    async def adopt_group_orders(self):
        pass

    def snapshot(self):
        return self.known

    def key_digest_of(self, agent_id):
        return bytes(32) if agent_id == "kitchen-pi" else None

    def is_revoked(self, agent_id):
        return agent_id == "pantry-pi"

    async def listen(self):
        for one in self.changes:
            yield one
        await asyncio.Event().wait()


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Put the command on a network; return the agent that it is given."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def put(*network, **options):
        agent = FakeAgent(*network, **options)

        def make(settings):
            agent.settings = settings
            return agent

        monkeypatch.setattr(lan_command, "make_agent", make)
        return agent

    return put


def lines_of(lines):
    return ["".join(part.text if isinstance(part, Styled) else part for part in line) for line in lines]


def seen(network, columns, port=54321, **options):
    skills, scenes = network
    return lines_of(picture(LanSnapshot(OWN, NOW, tuple(skills), tuple(scenes)), columns, port=port, **options))


def test_in_a_pipe_each_skill_is_a_line_with_all_that_is_known(on, told):
    agent = on(*home())
    result = told()
    row = next(line for line in result.out.splitlines() if line.startswith("user-auth-001"))
    assert row.split() == [
        *("user-auth-001", "1.2.0", "HEALTHY", "verified", "3", "s", "kitchen-pi", "192.0.2.4:8080"),
        *("user-auth,org-data-read", "auth"),
    ]
    assert "  auth     user-auth-001 of kitchen-pi, then user-auth-002 of office-nas" in result.out
    assert result.err == "11 skills of 4 agents, 3 scenes\n"
    assert agent.has_left
    assert agent.patience == pytest.approx(2.0)


class Failing:
    """Changes of a network that is down."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise FetchError("DISC_005", "the network is down")


@pytest.mark.parametrize("part", ["discover", "listen"])
def test_what_goes_wrong_behind_a_live_picture_ends_it_and_is_told(on, told, monkeypatch, part):
    monkeypatch.setattr(Screen, "is_possible", lambda: True)
    agent = on(*home())

    async def discover(**_):
        await anext(Failing())

    setattr(agent, part, discover if part == "discover" else Failing)
    assert "error[DISC_005]: the network is down" in told("--for", "60s", status=FetchError.exit_code).err
    assert agent.has_left


def test_an_empty_network_says_what_to_do(on, told):
    on()
    result = told()
    assert result.out == ""
    assert "no agent on the local network offers a skill" in result.err
    assert "skillwire serve FOLDER --lan" in result.err
    assert "let UDP port 54321 through their firewalls and yours, and run: skillwire doctor" in result.err


def test_options_decide_where_and_how_long_is_listened(on, told, tmp_path):
    agent = on(*home())
    (tmp_path / "lan.yaml").write_text("discovery:\n  udp:\n    port: 50123\n")
    told("--interface", "lo", "--for", "0.5s", "--discovery", str(tmp_path / "lan.yaml"))
    assert (agent.settings.interfaces, agent.settings.port) == (("lo",), 50123)
    assert agent.patience == pytest.approx(0.5)


def test_what_the_agent_has_noticed_is_said_and_nothing_twice(on, told, monkeypatch):
    on(*home())
    monkeypatch.setattr(FakeAgent, "notes", ("192.0.2.9 takes part as agent-x, too",), raising=False)
    assert "note: 192.0.2.9 takes part as agent-x, too" in told().err


def test_a_network_that_cannot_be_used_is_an_error_with_its_code(on, told):
    on(error=FetchError("LAN_UNAVAILABLE", "no interface is up that takes multicast"))
    assert "error[LAN_UNAVAILABLE]" in told(status=FetchError.exit_code).err
    assert json.loads(told("--json", status=FetchError.exit_code).out)["error"]["code"] == "LAN_UNAVAILABLE"


def test_one_document_tells_all_that_is_known(on, told):
    on(*home())
    (document,) = map(json.loads, told("--json", "--once").out.splitlines())
    assert (document["schema"], document["event"]) == ("skillwire/lan/1", "snapshot")
    assert [one["skill_id"] for one in document["skills"]] == [one.skill_id for one in home()[0]]
    assert document["skills"][-1]["found_via"] == "mdns"
    assert document["scenes"][0]["members"][0] == {
        "agent_id": "kitchen-pi",
        "skill_id": "user-auth-001",
        "role": "PRIMARY",
        "freshness": "live",
    }


def test_changes_follow_the_snapshot_a_line_each_and_what_was_missed_is_told_anew(on, told):
    one = skill("attic", "telescope")
    kinds = ("registered", "updated", "status", "suspected", "stale", "left", "evicted")
    changes = [change(kind, NOW, one) for kind in kinds]
    on(*home(), [*changes, change("scene", NOW, scene=scene("auth", ("a", "x"))), change("missed", NOW)])
    documents = [json.loads(line) for line in told("--json", "--for", "1s").out.splitlines()]
    assert [one["event"] for one in documents] == ["snapshot", *kinds, "scene", "missed", "snapshot"]
    assert documents[1]["skill"]["skill_id"] == "telescope"
    assert documents[-3]["scene"]["members"][0]["agent_id"] == "a"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_orderly_and_ctrl_c_is_no_failure(on, told, monkeypatch, number, status):
    agent = on(*home())
    printed = threading.Event()

    def print_it(document):
        print_event(document)
        printed.set()

    monkeypatch.setattr(lan_command, "print_event", print_it)

    def interrupt():
        assert printed.wait(20)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = told("--json", status=status)
    thread.join()
    assert len(result.out.splitlines()) == 1
    assert agent.has_left


def test_a_wide_terminal_shows_what_each_can_do_and_what_is_odd_about_it():
    lines = seen(home(), 80)
    assert lines[0] == "local network  11 skills of 4 agents, 3 scenes"
    assert lines[1] == "1 DEGRADED, 1 MAINTENANCE, 1 OFFLINE, 1 UNHEALTHY, 2 UNKNOWN"
    assert f"{OWN}  192.0.2.20:8080  this machine" in lines
    assert "workshop-box  [2001:db8::21]:8080" in lines
    (light,) = [line for line in lines if line.startswith("  light-switch")]
    assert light.split() == ["light-switch", "HEALTHY", "unverified", *light.split()[3:5], "light-set"]
    (cut,) = [line for line in lines if line.startswith("  laser-cut")]
    assert "UNKNOWN?" in cut
    assert "stale" in cut


def test_a_narrow_terminal_says_below_a_skill_what_is_odd_about_it():
    lines = seen(home(), 40)
    at = next(number for number, line in enumerate(lines) if line.startswith("  light-switch"))
    assert lines[at].split()[:2] == ["light-switch", "HEALTHY"]
    assert lines[at + 1] == "    unverified"
    assert lines[:2] == ["local network", "11 skills of 4 agents, 3 scenes"]
    assert lines[2:4] == ["1 DEGRADED, 1 MAINTENANCE, 1 OFFLINE,", "1 UNHEALTHY, 2 UNKNOWN"]
    assert "  auth     user-auth-001 + 1" in lines
    assert lines[next(n for n, line in enumerate(lines) if line.startswith("  laser-cut")) + 1] == "    stale"


@pytest.mark.parametrize("columns", [20, 40, 72, 80, 200])
@pytest.mark.parametrize("network", [home(), town(), ((), ())])
def test_no_line_is_wider_than_the_terminal(network, columns):
    assert max(map(len, seen(network, columns))) <= columns


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (80, 9), (120, 60)])
def test_a_live_picture_fits_the_terminal_and_counts_what_does_not(size):
    skills, scenes = town()
    known = LanSnapshot(OWN, NOW, skills, scenes)
    lines = lines_of(live_picture(known, size, [change("left", NOW, skills[0])], port=54321))
    assert len(lines) <= size[1]
    assert max(map(len, lines)) <= size[0]
    assert lines[-1].endswith("said goodbye") or size[0] == 40
    shown = sum(line.startswith("  skill-") for line in lines)
    assert f"and {len(skills) - shown:,} more" in "\n".join(lines)
    assert any(line.startswith("agent-001") for line in lines)  # of the even ones, none is in trouble


def test_a_terminal_of_a_few_lines_shows_at_least_how_much_there_is():
    skills, scenes = town()
    lines = lines_of(live_picture(LanSnapshot(OWN, NOW, skills, scenes), (80, 5), port=54321))
    assert lines[0] == "local network  1,500 skills of 60 agents, 12 scenes"
    assert len(lines) <= 5


def test_before_answers_have_come_nothing_is_said_to_be_empty():
    assert seen(((), ()), 80, is_complete=False)[0] == "local network  listening ..."
    lines = seen(((), ()), 40, port=50123)
    assert "no skills found" in lines[0]
    assert lines[-2:] == ["behind a firewall: allow UDP port 50123", "look for other causes: skillwire doctor"]


def test_a_suspected_network_is_said_to_be():
    skills, scenes = home()
    known = LanSnapshot(OWN, NOW, skills, scenes, is_suspected=True)
    lines = lines_of(picture(known, 40, port=54321))
    assert lines[lines.index("network problem suspected: ") + 1] == "  many agents fell silent at once"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"heard": NOW - 3.9}, "3 s"),
        ({"heard": NOW + 5}, "0 s"),
        ({"heard": NOW - 75}, "1 min"),
        ({"heard": NOW - 7300}, "2 h"),
        ({"heard": NOW - 200_000}, "2 d"),
        ({"heard": 0.0, "found_via": FoundVia.MDNS}, "mDNS"),
        ({"heard": NOW - 1, "found_via": FoundVia.MDNS}, "mDNS"),
        ({"heard": 0.0}, "never"),
    ],
)
def test_how_long_ago_a_skill_was_heard_takes_few_letters(values, text):
    assert heard(skill("a", "x")._replace(**values), NOW) == text


def test_what_has_happened_is_said_in_a_line():
    one = skill("attic", "telescope", status="DEGRADED")
    said = [
        "".join(lines_of([change_text(change(kind, NOW, one), 80)]))[8:]
        for kind in ("registered", "left", "evicted", "status")
    ]
    assert said == [
        " + telescope of attic is there",
        " - telescope of attic said goodbye",
        " - telescope of attic was silent for too long",
        "   telescope of attic DEGRADED",
    ]
    taken_back = change("evicted", NOW, one)._replace(reason="revoked")
    assert "".join(lines_of([change_text(taken_back, 80)]))[8:].endswith("was removed: its certificate was revoked")
    assert change_document(taken_back).get("reason") == "revoked"
    assert "reason" not in change_document(change("left", NOW, one))
    for word in ("crowded", "maintenance", "upgrade", "error"):
        told = change_text(change("left", NOW, one)._replace(reason=word), 100)
        assert word[:4] in "".join(str(getattr(part, "text", part)) for part in told) or word == "crowded"
    about = change("scene", NOW, scene=scene("auth", ("a", "x")))
    assert "".join(lines_of([change_text(about, 80)]))[8:] == "   scene auth: x of a provides it"
    assert "no provider" in "".join(lines_of([change_text(change("scene", NOW, scene=scene("auth")), 80)]))
    more = change("scene", NOW, scene=scene("auth", ("a", "x"), ("b", "y"), ("b", "z")))
    assert "x of a provides it, and 2 more could" in "".join(lines_of([change_text(more, 80)]))


def test_whose_skill_it_is_is_said_wherever_there_is_room():
    one = skill("attic", "telescope", status="DEGRADED")
    (line,) = lines_of([change_text(change("left", NOW, one), 45)])
    assert line.endswith(" - telescope of attic said goodbye")
    (line,) = lines_of([change_text(change("evicted", NOW, one), 45)])
    assert line.endswith(" - telescope was silent for too long")


def test_trust_that_nobody_has_looked_at_is_not_known():
    hint = skill("attic", "telescope", is_verified=False, found_via=FoundVia.MDNS)
    assert "trust not known" in "".join(seen(([hint], ()), 40))
    assert " not known " in "".join(seen(([hint], ()), 100))
    other = hint._replace(found_via=FoundVia.MULTICAST)
    assert "unverified" in "".join(seen(([other], ()), 40))


def test_what_strangers_say_commands_no_terminal(on, told):
    on([skill("a", "x\x1b[2Jy", capabilities=("\u202eevil\n",))])
    result = told()
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out
    assert len(result.out.splitlines()) == 1


def test_of_very_many_skills_it_waits_for_those_that_still_come(on, told, monkeypatch):
    many = [skill("bulk", f"thing-{number}") for number in range(300)]
    agent = on(many)
    looks: list[int] = []

    def snapshot():
        looks.append(min(100 * (len(looks) + 1), 300))
        return agent.known._replace(skills=tuple(many[: looks[-1]]))

    monkeypatch.setattr(agent, "snapshot", snapshot)
    monkeypatch.setattr(lan_command, "_MANY_PAUSE", 0.01)
    assert len(json.loads(told("--once", "--json").out.splitlines()[0])["skills"]) == 300
    assert looks == [100, 200, 300, 300, 300]


ZEROS = " ".join(["abandon"] * 6)


def test_a_key_is_trusted_after_its_six_words_were_compared(on, told):
    on(*home())
    assert "error[DISC_004]" in told("trust", "kitchen-pi", status=TrustError.exit_code).err, "nobody can be asked"
    assert "error[DISC_004]" in told("trust", "kitchen-pi", "--words", "a b c", status=TrustError.exit_code).err
    assert LanKeys().trusted() == {}
    assert ZEROS in told("trust", "kitchen-pi", "--words", f" {ZEROS.upper()} ").out
    assert LanKeys().trusted() == {"kitchen-pi": bytes(32)}
    assert "kitchen-pi" in told("trust").out
    shown = json.loads(told("trust", "kitchen-pi", "--forget", "--json").out)
    assert (shown["words"], shown["trusted"]) == (ZEROS, False)
    assert LanKeys().trusted() == {}
    told("trust", "kitchen-pi", "--words", ZEROS)
    assert told("trust", "kitchen-pi", "--forget").out.endswith("no longer trusted kitchen-pi\n")
    told("trust", "kitchen-pi", "--forget", status=UsageError.exit_code)
    assert "error[DISC_001]" in told("trust", "nobody", status=FetchError.exit_code).err
    revoked = told("trust", "pantry-pi", status=TrustError.exit_code).err
    assert "error[DISC_004]: pantry-pi cannot be trusted: its key was revoked" in revoked


def test_commands_that_run_at_once_keep_each_other_s_keys(on, told, monkeypatch):
    async def digest_of(*_):
        LanKeys().keep_trusted("pantry-pi", bytes(32))
        return bytes(32)

    on(*home())
    monkeypatch.setattr(lan_command, "_digest_of", digest_of)
    told("trust", "kitchen-pi", "--words", ZEROS)
    assert LanKeys().trusted() == {"kitchen-pi": bytes(32), "pantry-pi": bytes(32)}


def test_the_words_of_our_own_key_are_those_that_others_see(on, told):
    on(*home())
    own = json.loads(told("trust", "--json").out)
    certificate = LanKeys().certificate()
    assert certificate is not None
    key = read_key(certificate)
    assert key is not None
    assert (own["agent_id"], own["words"]) == (LanKeys().agent_id(), " ".join(words_of(key.digest)))
    assert LanKeys().trusted() == {}


def test_the_words_of_every_agent_of_this_machine_are_shown(on, told):
    on(*home())
    first = json.loads(told("trust", "--json").out)
    second = LanKeys(LanKeys().folder / "agents" / "kitchen-pi-2")  # as a second server of this machine makes it
    second.keep_id("kitchen-pi-2")
    words = " ".join(words_of(digest_of(second.key().public_key())))
    assert first["others"] == []
    assert json.loads(told("trust", "--json").out)["others"] == [{"agent_id": "kitchen-pi-2", "words": words}]
    shown = [line.split() for line in told("trust").out.splitlines()]
    assert shown == [[first["agent_id"], *first["words"].split()], ["kitchen-pi-2", *words.split()]]


def test_with_a_group_key_no_single_key_is_trusted(on, told, tmp_path):
    on(*home())
    configuration = tmp_path / "lan.toml"
    configuration.write_text('[trust]\ngroupKeyFile = "group.key"\n')
    assert "share one group key" in told("trust", "--discovery", str(configuration), status=UsageError.exit_code).err
