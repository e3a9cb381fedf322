"""Who may store how much under a key, and what makes room for what."""

import pytest
from tests.support.dht import NamedKeys, offer_of, signed

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.records import (
    FULL,
    OLDER,
    STORED,
    Storage,
    capability_key,
    keys_to_write,
    read_record,
)
from skillwire.testing.fake_network import EPOCH

NOW = Moment(EPOCH, 0.0)
KEY = capability_key("do")
KEYS = NamedKeys()


@pytest.fixture
def storage():
    return Storage(bytes(32))


def record(agent_id, offer=None, *, at=0.0, **options):
    return read_record(signed(agent_id, offer, at=at, **options), KEYS, NOW)


def agents(storage, key=KEY, wall=EPOCH):
    return [one.agent_id for one in storage.get(key, wall)]


@pytest.mark.spec("SDP-dht-storage")
def test_16_of_300_strangers_are_kept_and_certified_signers_displace_them(storage):
    assert storage.put(KEY, record("certified-first"), NOW) == STORED
    words = [storage.put(KEY, record(f"stranger-{number}"), NOW) for number in range(300)]
    assert words.count(STORED) == 15
    assert len(agents(storage)) == 16
    assert "certified-first" in agents(storage)
    for number in range(15):
        assert storage.put(KEY, record(f"certified-{number}"), NOW) == STORED
    assert all(agent.startswith("certified") for agent in agents(storage))
    assert storage.put(KEY, record("certified-late"), NOW) == FULL
    assert (storage.count, len(agents(storage))) == (16, 16)


@pytest.mark.spec("SDP-dht-storage")
def test_a_signer_has_64_records_under_a_key(storage):
    words = [storage.put(KEY, record("a", offer_of(number)), NOW) for number in range(70)]
    assert words == [STORED] * 64 + [FULL] * 6
    assert storage.put(KEY, record("a", offer_of(3), at=1.0), NOW) == STORED
    assert storage.put(KEY, record("b"), NOW) == STORED


@pytest.mark.spec("SDP-dht-newest")
def test_the_newest_timestamp_wins_tombstones_included_in_any_order(storage):
    first, gone = record("a"), record("a", at=1.0, is_removed=True, lifetime=1200.0)
    again = record("a", at=2.0)
    for order in ((first, gone, again), (again, gone, first), (gone, again, first), (gone, first, again)):
        held = Storage(bytes(32))
        for one in order:
            held.put(KEY, one, NOW)
        assert held.get(KEY, EPOCH) == [again]
    assert storage.put(KEY, gone, NOW) == STORED
    assert storage.put(KEY, first, NOW) == OLDER
    assert storage.put(KEY, gone, NOW) == STORED
    other = record("a", offer_of(endpoint="http://10.0.0.9/"), at=1.0)
    assert storage.put(KEY, other, NOW) == OLDER, "two records of one time: the first stays"
    assert storage.get(KEY, EPOCH) == [gone]
    assert storage.count == 1


def test_a_record_that_is_put_again_keeps_its_page(storage):
    for agent in ("a", "b", "c"):
        storage.put(KEY, record(agent), NOW)
    storage.put(KEY, record("a", at=1.0), NOW)
    assert agents(storage) == ["a", "b", "c"]


@pytest.mark.spec("SDP-dht-lifetime")
def test_what_has_ended_is_forgotten(storage):
    storage.put(KEY, record("a"), NOW)
    storage.put(KEY, record("b", at=10.0), NOW)
    assert agents(storage, wall=EPOCH + 605) == ["b"]
    assert storage.timer() == 600.0
    storage.on_timer(Moment(EPOCH + 605, 605.0))
    assert (storage.count, agents(storage)) == (1, ["b"])
    storage.on_timer(Moment(EPOCH + 615, 615.0))
    assert (storage.count, storage.size, storage.timer()) == (0, 0, None)


def test_a_revoked_signer_is_not_given_out(storage):
    storage.put(KEY, record("certified-gone"), NOW)
    KEYS.revoked.add("certified-gone")
    assert agents(storage) == []
    KEYS.revoked.clear()


@pytest.mark.spec("SDP-dht-storage")
def test_memory_is_bounded_and_certified_records_and_near_keys_stay(storage, monkeypatch):
    monkeypatch.setattr(limits, "DHT_STORED_BYTES", 100_000)
    certified = record("certified-a", offer_of(1, "kept"))
    for key in keys_to_write("skill-1", ("kept",)):
        assert storage.put(key, certified, NOW) == STORED
    words, held = [], []
    for number in range(600):
        key, one = capability_key(f"do-{number}"), record(f"stranger-{number}", offer_of(1, f"do-{number}"))
        words.append(storage.put(key, one, NOW))
        held.append(key)
        assert storage.size <= 100_000
    assert words.count(FULL) > 200
    kept = [key for key in held if storage.get(key, EPOCH)]
    assert len(kept) + 3 == storage.count
    lost = [key for key in held if not storage.get(key, EPOCH)]
    assert max(kept)[0] <= 2 * max(1, min(lost)[0]), "the id is zero: small keys are near"
    assert all(storage.get(key, EPOCH) for key in keys_to_write("skill-1", ("kept",)))
