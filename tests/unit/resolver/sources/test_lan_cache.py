"""The cache of what was found on a network: how long it is good for, what ends it, and how it lies on disk."""

import itertools
import json
import re
from pathlib import Path

import pytest

from skillwire import limits
from skillwire.model.lan import FoundVia, LanChange, LanScene, LanSkill
from skillwire.protocols.skill_discovery.settings import CacheSettings
from skillwire.resolver.sources.lan_cache import LanCache

NOW = 1_707_868_800.0
FEISHU = LanSkill(
    "", "skill-org-feishu", "0.7.0", "", "192.168.1.100", 8080, ("org-data-read", "user-auth"), ("auth",), "HEALTHY"
)
CERTIFIED = FEISHU._replace(agent_id="agent-001", skill_type="enterprise-skill", is_verified=True)
#: The structure of SDP 11.3, as the text shows it.
TEXT = b"""{
  "skills": {
    "skill-org-feishu": {
      "endpoint": "192.168.1.100:8080",
      "version": "0.7.0",
      "capabilities": ["org-data-read", "user-auth"],
      "scenes": ["auth"],
      "status": "HEALTHY",
      "lastUpdated": 1707868800000,
      "expiresAt": 1707869100000
    }
  }
}
"""


def cached(*skills, **settings):
    cache = LanCache(CacheSettings(**settings))
    cache.put(skills, NOW)
    return cache


def ids(skills):
    return [skill.skill_id for skill in skills]


@pytest.mark.spec("SDP-cache-form")
def test_the_structure_of_the_text_is_read_and_written_byte_for_byte():
    cache = LanCache.read(TEXT, None, NOW + 10)
    assert cache.fault is None
    (skill,) = cache.skills(NOW + 10)
    assert skill == FEISHU._replace(found_via=FoundVia.CACHE, heard=NOW)
    assert cache.write() == TEXT
    assert cached(FEISHU).write() == TEXT


@pytest.mark.spec("SDP-cache-form")
def test_the_specification_shows_the_structure_that_is_tested_here():
    path = Path(__file__).parents[4] / "shared/specs/001_cf3e5e586131a6c7.txt"
    if not path.is_file():
        pytest.skip("the texts of the protocols are not beside the repository")
    shown = re.search(r'```json\n(\{\n  "skills".*?\n\}\n)```', path.read_text().split("### 11.3")[1], re.DOTALL)
    assert shown
    assert shown[1].encode() == TEXT


@pytest.mark.spec("SDP-cache-form")
def test_agent_type_and_trust_stand_beside_what_the_text_writes():
    other = CERTIFIED._replace(agent_id="agent-002", host="fd00::2", status="UNHEALTHY")
    data = cached(other, CERTIFIED).write()
    document = json.loads(data)
    assert set(document["skills"]["skill-org-feishu"]) == {
        "endpoint",
        "version",
        "capabilities",
        "scenes",
        "status",
        "lastUpdated",
        "expiresAt",
    }
    assert document["skills"]["skill-org-feishu"]["endpoint"] == "192.168.1.100:8080", "the one that is called first"
    again = LanCache.read(data, None, NOW)
    assert [(one.agent_id, one.is_verified, one.endpoint) for one in again.skills(NOW)] == [
        ("agent-001", True, "192.168.1.100:8080"),
        ("agent-002", True, "[fd00::2]:8080"),
    ]
    assert again.write() == data


@pytest.mark.spec("SDP-cache-form")
def test_what_somebody_else_wrote_into_the_form_of_the_text_is_taken_and_not_believed():
    document = json.loads(cached(CERTIFIED).write())
    document["skills"]["skill-org-feishu"]["endpoint"] = "192.168.1.66:80"
    told = LanCache.read(json.dumps(document).encode(), None, NOW).skills(NOW)
    assert {(one.endpoint, one.agent_id, one.is_verified) for one in told} == {
        ("192.168.1.100:8080", "agent-001", True),
        ("192.168.1.66:80", "", False),
    }


@pytest.mark.spec("SDP-cache-invalidation")
def test_an_entry_ends_with_its_lifetime():
    cache = cached(FEISHU)
    assert ids(cache.skills(NOW + 299.9)) == ["skill-org-feishu"]
    assert cache.skills(NOW + 300) == []
    assert len(cache) == 0
    assert LanCache.read(TEXT, None, NOW + 301).skills(NOW + 301) == []
    assert LanCache.read(TEXT, CacheSettings(ttl=60), NOW + 61).skills(NOW + 61) == [], "a shorter lifetime counts"


@pytest.mark.spec("SDP-cache-invalidation")
@pytest.mark.parametrize("kind", ["left", "evicted", "status", "stale", "suspected"])
def test_a_goodbye_and_a_change_of_health_end_an_entry(kind):
    other = CERTIFIED._replace(agent_id="agent-002")
    cache = cached(CERTIFIED, other)
    cache.hear(LanChange(kind, NOW + 1, CERTIFIED._replace(status="UNHEALTHY")))
    assert [one.agent_id for one in cache.skills(NOW + 1)] == ["agent-002"]
    assert cache.is_changed


@pytest.mark.spec("SDP-cache-invalidation")
def test_what_has_registered_is_kept_as_it_is_now():
    cache = cached(CERTIFIED, FEISHU)
    cache.hear(LanChange("updated", NOW + 100, CERTIFIED._replace(version="0.8.0")))
    assert [one.version for one in cache.skills(NOW + 350)] == ["0.8.0"], "nor is the entry kept that named no agent"
    cache.hear(LanChange("scene", NOW + 101, scene=LanScene("auth", "group-auth-001", ())))
    cache.hear(LanChange("missed", NOW + 101))
    assert len(cache) == 1


@pytest.mark.spec("SDP-cache-invalidation")
@pytest.mark.parametrize(
    "told", [FEISHU, CERTIFIED._replace(is_verified=False, found_via=FoundVia.MDNS)], ids=["another agent", "mDNS"]
)
def test_what_is_merely_told_of_a_skill_takes_its_trust_from_nobody(told):
    cache = cached(CERTIFIED)
    cache.put([told._replace(status="UNKNOWN", capabilities=("evil",))], NOW + 100)
    (skill,) = cache.skills(NOW + 100)
    assert skill == CERTIFIED._replace(found_via=FoundVia.CACHE, heard=NOW)
    cache.put([told._replace(status="UNHEALTHY")], NOW + 100)
    (skill,) = LanCache.read(cache.write(), None, NOW + 101).skills(NOW + 101)
    assert (skill.status, skill.is_verified, skill.agent_id) == ("UNHEALTHY", True, "agent-001")
    assert not cache.skills(NOW + 301)  # as long as what was seen is good for


class Unscanned(dict):
    """Entries that are looked up, and not gone through: there may be thousands, and as many are told at once."""

    def items(self):
        raise AssertionError("all were looked at")

    __iter__ = values = items


@pytest.mark.parametrize("does", ["told", "heard"])
def test_what_is_said_of_one_skill_looks_at_no_other(does):
    cache = cached(*(CERTIFIED._replace(skill_id=f"skill-{number}") for number in range(50)))
    cache._entries = Unscanned(cache._entries)
    told = FEISHU._replace(skill_id="skill-49", status="UNHEALTHY")
    if does == "told":
        cache.put([told], NOW + 1)
    else:
        cache.hear(LanChange("left", NOW + 1, CERTIFIED._replace(skill_id="skill-49")))
    cache._entries = cache._entries.copy()
    statuses = {one.skill_id: one.status for one in cache.skills(NOW + 1)}
    assert statuses.pop("skill-49", None) == ("UNHEALTHY" if does == "told" else None)
    assert set(statuses.values()) == {"HEALTHY"}
    assert len(statuses) == 49


def test_what_is_told_counts_for_a_skill_that_was_seen_at_that_endpoint_and_for_no_other():
    other = CERTIFIED._replace(agent_id="agent-002", port=9090)
    cache = cached(CERTIFIED, other)
    for told in (FEISHU, CERTIFIED._replace(is_verified=False, found_via=FoundVia.MDNS)):
        cache.put([told._replace(status="UNHEALTHY")], NOW + 1)
        assert {one.port: one.status for one in cache.skills(NOW + 1)} == {8080: "UNHEALTHY", 9090: "HEALTHY"}
    cache.put([CERTIFIED._replace(port=7070)], NOW + 2)
    cache.put([FEISHU._replace(status="UNHEALTHY")], NOW + 3)
    seen = {(one.agent_id, one.port): one.status for one in cache.skills(NOW + 3)}
    assert seen[("agent-001", 7070)] == "HEALTHY", "it is not there any more"
    assert seen[("", 8080)] == "UNHEALTHY"
    cache.forget()
    cache.put([FEISHU], NOW + 4)
    assert len(cache) == 1


def test_it_is_forgotten_by_hand():
    cache = cached(CERTIFIED, FEISHU._replace(skill_id="skill-mail"))
    cache.forget("skill-mail")
    assert ids(cache.skills(NOW)) == ["skill-org-feishu"]
    cache.forget()
    assert cache.write() == b'{\n  "skills": {}\n}\n'


@pytest.mark.spec("SDP-cache-refresh")
def test_what_ends_soon_wants_to_be_asked_for_again():
    cache = cached(FEISHU)
    cache.put([CERTIFIED._replace(skill_id="skill-mail")], NOW + 100)
    assert cache.to_refresh(NOW + 239) == []
    assert ids(cache.to_refresh(NOW + 240)) == ["skill-org-feishu"]
    assert ids(cache.to_refresh(NOW + 300)) == [], "what has ended is no more refreshed than what has not begun to"
    cache.put([FEISHU], NOW + 250)
    assert cache.to_refresh(NOW + 250) == []


@pytest.mark.spec("SDP-cache-bound")
def test_when_there_are_too_many_those_go_that_were_updated_longest_ago():
    cache = LanCache(CacheSettings(max_size=3))
    for number in range(5):
        cache.put([FEISHU._replace(skill_id=f"skill-{number}")], NOW + number)
    cache.put([FEISHU._replace(skill_id="skill-2")], NOW + 9)
    cache.put([FEISHU._replace(skill_id="skill-9")], NOW + 10)
    assert ids(cache.skills(NOW + 10)) == ["skill-2", "skill-4", "skill-9"]
    assert len(LanCache.read(cache.write(), CacheSettings(max_size=2), NOW + 10)) == 2


@pytest.mark.spec("SDP-cache-bound")
def test_of_those_that_were_updated_at_once_those_go_first_that_would_be_called_last():
    """By health, of these who nobody vouches for, of these the last by name."""
    found = [
        FEISHU._replace(skill_id="skill-f", status="OFFLINE", is_verified=False),
        FEISHU._replace(skill_id="skill-a", status="MAINTENANCE", is_verified=True),
        FEISHU._replace(skill_id="skill-e", status="DEGRADED", is_verified=True),
        FEISHU._replace(skill_id="skill-b", status="HEALTHY", is_verified=False),
        FEISHU._replace(skill_id="skill-d", status="HEALTHY", is_verified=True),
        FEISHU._replace(skill_id="skill-c", status="HEALTHY", is_verified=True),
    ]
    order = []
    for size in range(len(found), 0, -1):
        cache = cached(*found, max_size=size)
        again = LanCache.read(cached(*found).write(), CacheSettings(max_size=size), NOW)
        assert ids(cache.skills(NOW)) == ids(again.skills(NOW)), "a smaller cache reads what it would have kept"
        order.append(set(ids(cache.skills(NOW))))
    assert [(before - after).pop()[-1] for before, after in itertools.pairwise(order)] == ["f", "a", "e", "b", "d"]


@pytest.mark.spec("SDP-cache-bound")
def test_what_was_updated_before_goes_first_however_well_it_is():
    cache = cached(CERTIFIED, max_size=2)
    cache.put([FEISHU._replace(skill_id=f"skill-{name}", status="OFFLINE") for name in "abc"], NOW + 1)
    assert ids(cache.skills(NOW + 1)) == ["skill-a", "skill-b"]


def test_a_cache_that_is_off_keeps_nothing():
    cache = cached(FEISHU, enabled=False)
    cache.hear(LanChange("registered", NOW, FEISHU))
    assert cache.skills(NOW) == []
    assert LanCache.read(TEXT, CacheSettings(enabled=False), NOW).skills(NOW) == []


def test_what_is_of_the_future_is_not_taken():
    assert LanCache.read(TEXT, None, NOW - 30).skills(NOW) != [], "clocks are set"
    assert LanCache.read(TEXT, None, NOW - 3600).skills(NOW - 3600) == []


def test_an_address_of_one_link_keeps_its_interface():
    local = FEISHU._replace(host="fe80::1%eth0")
    cache = LanCache.read(cached(local).write(), None, NOW)
    assert [one.endpoint for one in cache.skills(NOW)] == ["[fe80::1%eth0]:8080"]


def test_what_cannot_be_written_is_not_kept():
    for broken in (
        FEISHU._replace(skill_id="no identifier"),
        FEISHU._replace(host="not a host", port=1),
        FEISHU._replace(status="\ud800"),  # type: ignore[arg-type]  # what a peer sent
        FEISHU._replace(capabilities=("a;b",)),
        FEISHU._replace(host="[::1"),
    ):
        assert len(cached(broken)) == 0


@pytest.mark.spec("SDP-cache-broken")
@pytest.mark.parametrize(
    ("find", "replace"),
    [
        (b"}\n}\n", b""),
        (b"8080", b"808080"),
        (b"192.168.1.100", b"169.254.169.254"),
        (b'"0.7.0"', b"7"),
        (b'"HEALTHY"', b'"SPLENDID"'),
        (b"1707868800000", b"-1"),
        (b"1707869100000", b'"soon"'),
        (b'["auth"]', b'"auth"'),
        (b'"user-auth"', b"[]"),
        (b'"capabilities"', b'"agentId": [], "capabilities"'),
        (b'"capabilities"', b'"agentId": null, "capabilities"'),
        (b"skill-org-feishu", b"skill org"),
        (b'"skills": {', b'"skills": [], "x": {'),
        (b'"skills": {', b'"providers": {"skill-org-feishu": 1}, "skills": {'),
        (b'"skills": {', b'"providers": 1, "skills": {'),
        (b"0.7.0", b"\xff"),
        (b"{", b"[" * 100_000),
    ],
)
def test_a_broken_cache_is_an_empty_one_and_says_so(find, replace):
    cache = LanCache.read(TEXT.replace(find, replace, 1), None, NOW, "lan.json")
    assert len(cache) == 0
    assert cache.fault is not None
    assert cache.fault.place is not None
    assert cache.fault.place.source == "lan.json"
    assert cache.is_changed, "so that it is written anew"


@pytest.mark.spec("SDP-cache-broken")
def test_a_cache_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(limits, "LAN_CACHE_BYTES", len(TEXT) - 1)
    cache = LanCache.read(TEXT, None, NOW)
    assert cache.fault is not None
    assert cache.fault.code == "LIMIT_SIZE"


def test_who_was_certified_is_asked_for_anew_when_others_are_trusted_than_before():
    stranger = CERTIFIED._replace(skill_id="skill-b", is_verified=False)
    cache = LanCache()
    cache.trust("aa")
    cache.put([CERTIFIED, stranger], NOW)
    again = LanCache.read(cache.write(), None, NOW)
    again.trust("aa")
    assert {one.trust for one in again.skills(NOW)} == {"verified", "unverified"}
    again.trust("bb")
    assert [(one.skill_id, one.trust) for one in again.skills(NOW)] == [("skill-b", "unverified")]
    assert again.is_changed


@pytest.mark.parametrize("trust", ['"x"', "7", '"' + "a" * 65 + '"'])
def test_a_trust_that_is_none_makes_it_no_cache(trust):
    data = cached(CERTIFIED).write().replace(b"{", b'{ "trust": ' + trust.encode() + b",", 1)
    assert LanCache.read(data, None, NOW).fault is not None
