"""What hostile nodes try, and what becomes of it."""

import base64
import hashlib
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.dht import PORT, Dht, NamedKey, offer_of, signed
from tests.support.examples import examples

from skillwire import limits
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.records import capability_key, name_key, skill_key
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.wire.node import Datagram, Peer

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
EVIL = Peer("10.0.0.99", 6666)
KEY = skill_key("skill-0", "do")


def host(number):
    return f"10.0.0.{number + 1}"


def skills(finished):
    return sorted(record.skill_id for record in finished.records)


def store(key, record, number=0):
    return m.encode(m.Store(number.to_bytes(8, "big"), b"e" * 32, m.CLIENT, key, record))


class Wire(Dht):
    """A network that keeps what is sent to addresses without a node."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.lost: list[tuple[str, Datagram]] = []

    def _send(self, sender, datagram):
        if datagram.to.host not in self.nodes:
            self.lost.append((sender.peer.host, datagram))
        super()._send(sender, datagram)

    def ask(self, to, message_or_data, source=EVIL):
        """Send a request from an address; return what is sent there within a moment."""
        data = message_or_data if isinstance(message_or_data, bytes) else m.encode(message_or_data)
        before = len(self.lost)
        self.inject(data, source, to)
        self.run(0.01)
        return [datagram.data for _, datagram in self.lost[before:] if datagram.to == source]


class Liar:
    """A node that proves its key, and answers every question with lies: no records, and nodes that are not there."""

    def __init__(self, agent_id, node_id=None):
        self._key = NamedKey(agent_id)
        self._agent_id = agent_id
        self.id = node_id or hashlib.sha256(f"agent:{agent_id}".encode()).digest()
        self.found: tuple[Any, ...] = ()  # the fields of its FOUND, in place of lies
        self._random = Random(agent_id)  # noqa: S311 - a simulation has to be repeatable
        self._outbox = []

    def receive(self, data, source, _now):
        message = m.decode(data)
        head = message.transaction, self.id, 0
        target = getattr(message, "target", getattr(message, "key", bytes(32)))
        fakes = [(target[:3] + self._random.randbytes(29), bytes((10, 9, 9, number)), 4000) for number in range(8)]
        if isinstance(message, m.Hello):
            signature = self._key.sign(m.hello_text(message.nonce, self.id, message.sender))
            answer: m.Answer = m.Welcome(*head, self._agent_id, b"", base64.b64decode(signature))
        elif isinstance(message, m.Find):
            answer = m.Found(*head, *(self.found or (fakes, 0, message.page, b"")))
        elif isinstance(message, m.Store):
            answer = m.Stored(*head, "stored", fakes)
        else:
            return
        self._outbox.append(Datagram(m.encode(answer), source))

    def say_hello(self, peer):
        hello = m.Hello(self._random.randbytes(8), self.id, 0, bytes(16))
        self._outbox.append(Datagram(m.encode(hello), peer))

    def datagrams_to_send(self, _now):
        found, self._outbox = self._outbox, []
        return found

    def events(self, _now):
        return ()

    def timer(self):
        return 0.0 if self._outbox else None

    def on_timer(self, _now):
        pass


@pytest.mark.spec("SDP-dht-record")
def test_3000_forged_records_are_refused_and_an_honest_one_is_found():
    dht = Wire().start(12)
    dht.put(A, offer_of())
    good = signed("certified-x", at=dht.clock.steady)
    forged = good[:-1] + bytes((good[-1] ^ 1,))
    for number in range(3000):
        data = forged[:100] + number.to_bytes(2, "big") + forged[102:] if number % 2 else forged
        dht.inject(store(KEY, data, number), EVIL, host(number % 12))
        if number % 100 == 0:
            dht.run(0.1)
    dht.run(1)
    assert sum(node.status().counters.get("refused", 0) for node in dht.nodes.values()) > 500
    assert all(len(dht.nodes[one]._storage.get(KEY, dht.now().wall)) <= 1 for one in dht.nodes)
    assert skills(dht.get(B)) == ["skill-0"]


@pytest.mark.spec("SDP-dht-storage")
def test_300_strangers_at_one_key_leave_16_and_the_certified_one():
    dht = Dht().start(10)
    for number in range(300):
        dht.inject(
            store(KEY, signed(f"stranger-{number}", at=dht.clock.steady), number),
            Peer(f"10.0.9.{number % 250}", 1),
            host(number % 10),
        )
        dht.run(0.02)
    assert dht.put(A, offer_of()).stored >= 3
    for node in dht.nodes.values():
        assert len(node._storage.get(KEY, dht.now().wall)) <= 16
    for one in (B, C):
        assert f"certified-{A}" in {record.agent_id for record in dht.get(one).records}


@pytest.mark.spec("SDP-dht-key")
def test_a_record_is_kept_under_its_own_keys_alone():
    dht = Wire().start(3)
    record = signed("certified-x", at=dht.clock.steady)
    for key, word in (
        (KEY, "stored"),
        (name_key("skill-0"), "stored"),
        (skill_key("skill-1", "do"), "refused"),
        (bytes(32), "refused"),
    ):
        (answer,) = dht.ask(A, store(key, record))
        message = m.decode(answer)
        assert isinstance(message, m.Stored)
        assert message.status == word


@pytest.mark.spec("SDP-dht-newest")
def test_replays_and_old_timestamps_bring_nothing_back():
    dht = Wire().start(8)
    old = signed(f"certified-{A}", offer_of(endpoint="http://10.9.9.9/"), at=dht.clock.steady)
    dht.run(5)
    dht.put(A, offer_of())
    for number in range(8):
        dht.inject(store(KEY, old, number), EVIL, host(number))
    (record,) = dht.get(B).records
    assert record.endpoint == offer_of().endpoint


@pytest.mark.spec("SDP-dht-signed")
def test_8_uncertified_liars_beside_a_key_mislead_no_lookup_in_the_profile_signed():
    dht = Dht(profile=Profile.SIGNED).start(40)
    for number in range(40):
        assert dht.put(host(number), offer_of(number, f"do-{number}")).stored >= 3
    for number in range(8):
        key = skill_key(f"skill-{number}", f"do-{number}")
        liar = Liar(f"stranger-{number}", key[:31] + bytes((number,)))
        dht.add(f"10.0.1.{number}", liar)
        for one in range(40):
            liar.say_hello(Peer(host(one), PORT))
        dht.tend(f"10.0.1.{number}")
    dht.run(5)
    for number in range(40):
        found = dht.get(host((number + 11) % 40), number, f"do-{number}")
        assert skills(found) == [f"skill-{number}"]
        assert found.seconds <= 1


@pytest.mark.spec("SDP-dht-paths")
def test_8_certified_liars_among_40_hide_few_records():
    dht = Dht(profile=Profile.SIGNED)
    for number in range(40):
        name = host(number)
        if number % 5 == 4:
            liar = Liar(f"certified-liar-{number}")
            dht.add(name, liar)
            for one in range(number):
                liar.say_hello(Peer(host(one), PORT))
            dht.tend(name)
        else:
            dht.node(name)
        dht.run(0.05)
    dht.run(20)
    honest = list(dht.nodes)
    known = {contact.peer.host for node in dht.nodes.values() for contact in node.contacts()}
    assert len(known - set(honest)) == 8
    for number in range(100):
        dht.put(honest[number % 32], offer_of(number, f"do-{number}"))
    found = [dht.get(honest[(number * 7 + 3) % 32], number, f"do-{number}") for number in range(100)]
    assert sum(skills(one) == [f"skill-{number}"] for number, one in enumerate(found)) >= 95


@pytest.mark.spec("SDP-dht-amplification")
def test_an_answer_has_at_most_three_times_the_bytes_of_its_request():
    dht = Wire().start(30)
    dht.put(A, offer_of(0, *(f"capability-{number}" for number in range(20))))
    record = signed("certified-x", at=dht.clock.steady)
    requests: list[m.Request] = [
        m.Hello(b"1" * 8, b"e" * 32, 0, bytes(16)),
        m.Hello(b"2" * 8, b"e" * 32, 0, bytes(16), b""),
        m.Find(b"3" * 8, b"e" * 32, 0, name_key("skill-0"), True, 0),
        m.Find(b"4" * 8, b"e" * 32, m.CLIENT, name_key("skill-0"), True, 0),
        m.Find(b"5" * 8, b"e" * 32, 0, name_key("skill-0"), True, 9),
        m.Find(b"6" * 8, b"e" * 32, 0, bytes(32), False, 0, b""),
        m.Store(b"7" * 8, b"e" * 32, 0, KEY, record),
        m.Store(b"8" * 8, b"e" * 32, 0, KEY, b""),
        m.Store(b"9" * 8, b"e" * 32, 0, KEY, b"x" * 30),
    ]
    answered = 0
    for number, request in enumerate(requests):
        for one in dht.nodes:
            source = Peer(f"10.0.8.{number}", 7000)
            answers = dht.ask(one, request, source)
            answered += bool(answers)
            assert sum(map(len, answers)) <= 3 * len(m.encode(request))
    assert answered >= 6 * 30


@pytest.mark.spec("SDP-dht-proof")
def test_no_node_is_named_to_others_before_its_proof():
    dht = Wire().start(4)
    fake = Peer("10.0.0.200", 4000)
    for number in range(50):
        request = m.Find(number.to_bytes(8, "big"), number.to_bytes(32, "big"), 0, bytes(32), False, 0)
        dht.inject(m.encode(request), fake, A)
    dht.run(5)
    (answer,) = dht.ask(A, m.Find(b"1" * 8, b"e" * 32, m.CLIENT, bytes(32), False, 0))
    message = m.decode(answer)
    assert isinstance(message, m.Found)
    assert len(message.contacts) == 3
    assert m.write_host(fake.host) not in {address for _, address, _ in message.contacts}


@pytest.mark.spec("SDP-dht-proof")
def test_an_id_belongs_to_its_key():
    dht = Dht().start(4)
    thief = Liar("certified-thief", dht.nodes[B].id)
    dht.add("10.0.0.66", thief)
    thief.say_hello(Peer(A, PORT))
    dht.tend("10.0.0.66")
    dht.run(3)
    number = dht.do(A, lambda node, now: node.ping(Peer("10.0.0.66", PORT), now, 2.0))
    assert dht.wait(A, number).pong is None
    assert "10.0.0.66" not in {contact.peer.host for contact in dht.nodes[A].contacts()}


@pytest.mark.spec("SDP-dht-proof")
def test_another_node_at_a_known_address_takes_the_place_of_the_former():
    dht = Dht().start(5)
    dht.crash(C)
    dht.node(C, agent_id="certified-other")
    dht.run(30)
    dht.put(A, offer_of())
    dht.run(10)
    ids = {contact.id for contact in dht.nodes[A].contacts() if contact.peer.host == C}
    assert ids == {dht.nodes[C].id}


@pytest.mark.spec("SDP-dht-hostile")
def test_answers_that_were_not_asked_for_and_other_addresses_are_dropped():
    dht = Wire().start(2)
    number = dht.do(A, lambda node, now: node.ping(Peer("10.0.0.77", 4000), now, 3.0))
    dht.run(0.001)
    asked = m.decode(next(datagram.data for _, datagram in dht.lost if datagram.to == Peer("10.0.0.77", 4000)))
    key = Liar("certified-evil")
    key.receive(m.encode(asked), Peer(A, PORT), None)
    (answer,) = key.datagrams_to_send(None)
    dht.inject(answer.data, EVIL, A)
    dht.inject(m.encode(m.Found(b"x" * 8, b"e" * 32, 0, [], 0, 0, b"")), EVIL, A)
    assert dht.nodes[A].status().counters["not asked for"] == 2
    assert (A, number) not in dht.finished
    dht.inject(answer.data, Peer("10.0.0.77", 4000), A)
    assert dht.finished[A, number].pong is not None


@pytest.mark.spec("SDP-dht-rate")
def test_a_source_is_read_at_a_bounded_rate_and_others_are_answered_meanwhile():
    dht = Wire().start(3)
    dht.put(A, offer_of())
    for number in range(20_000):
        dht.nodes[A].receive(store(KEY, number.to_bytes(2, "big") * 50, number), EVIL, dht.now())
    status = dht.nodes[A].status().counters
    assert status["rate"] >= 20_000 - limits.DHT_BURST
    dht.nodes[A].datagrams_to_send(dht.now())
    assert dht.ask(A, m.Find(b"1" * 8, b"e" * 32, m.CLIENT, KEY, True, 0), Peer("10.0.0.98", 1))
    assert skills(dht.get(B)) == ["skill-0"]
    dht.run(5)
    assert dht.ask(A, m.Find(b"1" * 8, b"e" * 32, m.CLIENT, KEY, True, 0))


@pytest.mark.spec("SDP-dht-hostile")
def test_state_about_strangers_is_bounded():
    dht = Dht().start(2)
    node, random = dht.nodes[A], Random(1)  # noqa: S311 - same
    for number in range(12_000):
        source = Peer(f"10.{number % 200}.{number // 200 % 250}.{number % 7}", 1000 + number)
        message = random.choice(
            (
                m.Hello(random.randbytes(8), random.randbytes(32), 0, bytes(16)),
                m.Find(random.randbytes(8), random.randbytes(32), 0, random.randbytes(32), True, 0),
            )
        )
        node.receive(m.encode(message), source, dht.now())
        node.datagrams_to_send(dht.now())
    peers = node._peers
    assert len(peers._hellos) <= limits.DHT_HELLOS
    assert len(node._rates._left) <= limits.LAN_SOURCES
    assert len(peers.requests._pending) <= limits.DHT_HELLOS + 8
    dht.tend(A)
    dht.run(10)
    assert len(peers._declined) <= limits.DHT_PROVEN
    assert len(peers._suspects) + len(peers._lost) <= 2 * limits.DHT_LOST
    assert dht.put(B, offer_of()).stored == 1


@pytest.fixture(scope="module")
def pair():
    dht = Wire().start(2)
    dht.put(A, offer_of())
    return dht


VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.binary(max_size=40), st.text(max_size=5), st.booleans(), st.none(),
    st.lists(st.binary(max_size=3) | st.integers(0, 9), max_size=3),
)  # fmt: skip


@pytest.mark.spec("SDP-dht-hostile")
@settings(max_examples=examples(300))
@given(
    st.binary(max_size=1300),
    st.integers(0, 8),
    st.lists(VALUES, max_size=8),
    st.sampled_from(["10.0.0.99", "fe80::1%eth0", "93.184.216.34", "127.0.0.1"]),
)
def test_no_datagram_raises(pair, data, kind, fields, source):
    for one in (data, m.VERSION + data, m.VERSION + msgspec.msgpack.encode([kind, b"t" * 8, b"s" * 32, 0, *fields])):
        pair.nodes[A].receive(one, Peer(source, 5), pair.now())
        pair.nodes[A].datagrams_to_send(pair.now())


CONTACTS = st.tuples(st.binary(min_size=32, max_size=32), st.binary(min_size=4, max_size=16), st.integers(1, 65535))


@pytest.mark.spec("SDP-dht-hostile")
@given(st.lists(CONTACTS, max_size=12), st.integers(0, 65535), st.binary(max_size=300))
def test_no_answer_of_a_proven_node_raises(contacts, total, record):
    dht = Dht()
    dht.node(A)
    liar = Liar("certified-liar")
    dht.add(B, liar)
    liar.say_hello(Peer(A, PORT))
    dht.tend(B)
    dht.run(1)
    liar.found = contacts, total, 0, record
    found = dht.find(A, capability_key("do"), seconds=3.0)
    assert found.records == ()
