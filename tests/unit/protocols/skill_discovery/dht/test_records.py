"""Records: what is signed is read, and nothing else."""

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.authorities import World
from tests.support.dht import NamedKey, NamedKeys, offer_of, signed

from skillwire import limits
from skillwire.errors import DecodeError, TrustError, ValidationError
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.records import (
    FULL,
    OLDER,
    STORED,
    DhtOffer,
    RecordReader,
    Storage,
    capability_key,
    check_offer,
    figure_key,
    keys_to_write,
    name_key,
    read_record,
    sign_record,
    skill_key,
)  # fmt: skip
from skillwire.protocols.skill_discovery.identity import ChainAuthority, Standing
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed

NOW = Moment(EPOCH, 0.0)
KEYS = NamedKeys()
WHOLE = DhtOffer(
    "skill-scan",
    "1.2.0",
    "tool-skill",
    "https://printer.example.com/skills/",
    ("scan", "print"),
    ("office",),
    f"sha256:{'a' * 64}",
)


@pytest.mark.spec("SDP-dht-record")
def test_an_offer_is_checked_for_the_longest_signature_without_signing():
    identity = self_signed("agent-a", new_key(), datetime.fromtimestamp(EPOCH, UTC))
    fits = 0
    for length in range(300, 900):
        offer = WHOLE._replace(endpoint=f"https://example.com/{'x' * length}")
        try:
            check_offer(offer, "agent-a", identity.certificate)
        except ValidationError:
            with pytest.raises(ValidationError):
                sign_record(offer, "agent-a", identity, int(EPOCH * 1000))
            break
        fits = len(sign_record(offer, "agent-a", identity, int(EPOCH * 1000)))
    assert limits.DHT_RECORD_BYTES - 8 <= fits <= limits.DHT_RECORD_BYTES, "a signature has up to 72 bytes"


def parts(data):
    body, certificate, signature = msgspec.msgpack.decode(data)
    return msgspec.msgpack.decode(body), certificate, signature


def forged(data, **fields):
    """Return a record with other fields and the same signature."""
    body, certificate, signature = parts(data)
    names = "agent_id skill_id version type capabilities scenes endpoint digest timestamp expires removed"
    body = [fields.get(name, value) for name, value in zip(names.split(), body, strict=True)]
    return msgspec.msgpack.encode([msgspec.msgpack.encode(body), certificate, signature])


@pytest.mark.spec("SDP-dht-record")
def test_a_record_with_a_real_key_is_read_as_it_was_signed():
    identity = self_signed("agent-a", new_key(), datetime.fromtimestamp(EPOCH, UTC))
    data = sign_record(WHOLE, "agent-a", identity, int(EPOCH * 1000))
    assert len(data) <= limits.DHT_RECORD_BYTES
    record = read_record(data, ChainAuthority(Chain()), NOW)
    assert DhtOffer(*(getattr(record, name) for name in DhtOffer._fields)) == WHOLE
    assert (record.agent_id, record.standing, record.removed) == ("agent-a", Standing.UNVERIFIED, False)
    assert (record.timestamp, record.expires) == (EPOCH * 1000, (EPOCH + 600) * 1000)
    assert record.kid == digest_of(identity)
    keys = (
        name_key("skill-scan"),
        skill_key("skill-scan", "scan"),
        figure_key("skill-scan", "print"),
        capability_key("print"),
    )
    assert all(map(record.belongs_under, keys))
    assert not record.belongs_under(capability_key("fax"))


def digest_of(identity):
    judgement = ChainAuthority(Chain()).judge("agent-a", identity.certificate, EPOCH)
    assert judgement is not None
    return judgement.key.digest


@pytest.mark.spec("SDP-dht-record")
def test_a_certificate_is_for_the_agent_that_a_record_names():
    world = World(EPOCH)
    identity = world.identity("agent-a", skills=("skill-one",))
    reads = RecordReader(world.authority())
    good = sign_record(offer_of(1), "agent-a", identity, int(EPOCH * 1000))
    assert reads.read(good, NOW).standing is Standing.CERTIFIED
    with pytest.raises(TrustError, match="no certificate of agent-b"):
        reads.read(sign_record(offer_of(1), "agent-b", identity, int(EPOCH * 1000)), NOW)
    own = self_signed("agent-b", new_key(), datetime.fromtimestamp(EPOCH, UTC))
    with pytest.raises(TrustError, match="no certificate of agent-a"):
        reads.read(sign_record(offer_of(1), "agent-a", own, int(EPOCH * 1000)), NOW)
    world.revocations.take(world.revoke(identity, now=EPOCH), EPOCH)
    with pytest.raises(TrustError):
        reads.read(good, NOW)


@pytest.mark.spec("SDP-dht-record")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"endpoint": "http://10.6.6.6/"}, TrustError),
        ({"agent_id": "b"}, TrustError),
        ({"removed": True}, TrustError),
        ({"version": "2.0.0"}, TrustError),
        ({"version": "two"}, DecodeError),
        ({"skill_id": "a b"}, DecodeError),
        ({"skill_id": "skill\n"}, DecodeError),
        ({"endpoint": "ftp://10.6.6.6/"}, DecodeError),
        ({"endpoint": ""}, DecodeError),
        ({"digest": "md5:0"}, DecodeError),
        ({"capabilities": ["a"] * 65}, DecodeError),
        ({"capabilities": "scan"}, DecodeError),
        ({"timestamp": -1}, DecodeError),
        ({"timestamp": 10**15}, DecodeError),
        ({"expires": int(EPOCH * 1000)}, DecodeError),
        ({"expires": int((EPOCH + 601) * 1000)}, DecodeError),
    ],
)  # fmt: skip
def test_what_was_changed_or_breaks_a_rule_is_refused(fields, error):
    with pytest.raises(error):
        read_record(forged(signed("a", WHOLE), **fields), KEYS, NOW)


@pytest.mark.spec("SDP-dht-record")
@pytest.mark.parametrize("at", range(0, 300, 7))
def test_no_byte_of_a_record_can_be_changed(at):
    data = bytearray(signed("a", WHOLE))
    data[at % len(data)] ^= 1
    with pytest.raises((DecodeError, TrustError)):
        read_record(bytes(data), KEYS, NOW)


@pytest.mark.spec("SDP-dht-record")
def test_fields_that_a_later_version_appends_are_covered_by_the_signature_and_ignored():
    key = NamedKey("a")
    body, certificate, _ = parts(signed("a"))
    later = msgspec.msgpack.encode([*body, "more"])
    signature = base64.b64decode(key.sign(b"skillwire dht 1 record\0" + later))
    assert read_record(msgspec.msgpack.encode([later, certificate, signature, 1]), KEYS, NOW).agent_id == "a"
    other = msgspec.msgpack.encode([*body, "else"])
    with pytest.raises(TrustError):
        read_record(msgspec.msgpack.encode([other, certificate, signature]), KEYS, NOW)


@pytest.mark.spec("SDP-dht-clock")
@pytest.mark.parametrize(("at", "is_read"), [(29.9, True), (30.1, False), (-599.0, True), (-601.0, False)])
def test_a_record_is_neither_from_the_future_nor_past_its_end(at, is_read):
    data = signed("a", at=at)
    if is_read:
        assert read_record(data, KEYS, NOW).agent_id == "a"
    else:
        with pytest.raises(TrustError):
            read_record(data, KEYS, NOW)


@pytest.mark.spec("SDP-dht-lifetime")
def test_a_tombstone_lasts_twice_as_long_and_needs_no_endpoint():
    gone = DhtOffer("skill-1", "0.0.0", "removed", "")
    record = read_record(signed("a", gone, lifetime=1200.0, is_removed=True), KEYS, NOW)
    assert record.removed
    assert record.ends == EPOCH + 1200
    with pytest.raises(ValidationError, match="lasts longer"):
        signed("a", gone, lifetime=1201.0, is_removed=True)


def test_a_record_that_would_be_too_large_or_invalid_is_not_signed():
    with pytest.raises(ValidationError, match="the record of skill-1 has 1,"):
        signed("a", offer_of(1, *(f"{number}-{'x' * 40}" for number in range(30))))
    with pytest.raises(ValidationError, match="not the body of a record"):
        signed("a", offer_of(1, "two words"))


def test_a_certificate_that_ends_ends_its_records():
    world = World(EPOCH)
    identity = world.identity("agent-a", days=0.003)  # some minutes
    record = read_record(sign_record(offer_of(1), "agent-a", identity, int(EPOCH * 1000)), world.authority(), NOW)
    assert record.ends < EPOCH + 600
    assert not record.is_valid(EPOCH + timedelta(minutes=9).seconds)


@pytest.mark.spec("SDP-dht-cost")
def test_each_certificate_is_judged_once_and_each_record_verified_once():
    keys = NamedKeys()
    reader = RecordReader(keys)
    first, second = signed("a"), signed("a", offer_of(2))
    assert reader.read(first, NOW) is reader.read(first, NOW)
    reader.read(second, NOW)
    assert keys.judged == 1
    keys.revoked.add("a")
    assert reader.known(first, NOW) is None
    with pytest.raises(TrustError):
        reader.read(first, NOW)


@pytest.mark.spec("SDP-dht-hostile")
@given(st.binary(max_size=1200))
def test_random_bytes_are_no_record(data):
    with pytest.raises((DecodeError, TrustError)):
        read_record(data, KEYS, NOW)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.spec("SDP-dht-hostile")
@given(st.lists(VALUES, max_size=13), VALUES, VALUES)
def test_other_values_are_no_record(body, certificate, signature):
    for first in (body, msgspec.msgpack.encode(body)):
        with pytest.raises((DecodeError, TrustError)):
            read_record(msgspec.msgpack.encode([first, certificate, signature]), KEYS, NOW)


@pytest.mark.spec("SDP-dht-hostile")
def test_deep_nesting_is_no_record():
    for data in (b"\x91" * 1100, b"\x93\xc4\xf0" + b"\x91" * 240 + b"\xc0" * 2):
        with pytest.raises(DecodeError):
            read_record(data, KEYS, NOW)


KEY = capability_key("do")


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
