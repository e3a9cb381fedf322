"""Attacks on lookups and tables: masked ids, relayed proofs, endless pages, stolen names, revoked nodes."""

import pytest
from msgspec.structs import astuple
from tests.support.dht import PORT, Dht, NamedKey, offer_of, signed
from tests.unit.protocols.skill_discovery.dht.test_hostile import Liar, host, skills

from skillwire import limits
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.records import skill_key
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain, own_certificate
from skillwire.trust.ecdsa import EcdsaIdentity, new_key
from skillwire.wire.node import Datagram, Peer

A, B = "10.0.0.1", "10.0.0.2"
CLIENT = "10.0.2.1"
KEY = skill_key("skill-0", "do")
NUMBER = int.from_bytes(KEY, "big")


def joined(dht, *bootstraps):
    """Return the event of a lookup by a client that knows these nodes alone."""
    client = dht.node(CLIENT, bootstrap=None, is_client=True)
    del client
    peers = [Peer(one, PORT) for one in bootstraps]
    dht.do(CLIENT, lambda node, now: node.bootstrap(peers, now))
    return dht.get(CLIENT)


def nearest(dht, count=8):
    """Return the hosts of the nodes closest to the key."""
    return sorted(dht.nodes, key=lambda one: int.from_bytes(dht.nodes[one].id, "big") ^ NUMBER)[:count]


@pytest.mark.spec("SDP-dht-paths")
@pytest.mark.parametrize("seed", range(4))
def test_a_liar_that_names_the_closest_ids_at_other_addresses_masks_none_of_them(seed):
    dht = Dht(seed=seed).start(40)
    dht.put(A, offer_of())
    liar = Liar("certified-liar")
    ids = [dht.nodes[one].id for one in nearest(dht, 20)]
    liar.found = [(one, bytes((10, 9, 9, number)), 4000) for number, one in enumerate(ids)], 0, 0, b""
    dht.add("10.0.1.1", liar)
    far = nearest(dht, 40)[-1]
    assert skills(joined(dht, "10.0.1.1", far)) == ["skill-0"]


class Relay(Liar):
    """Answers HELLO with the proof of another node, and everything else with lies."""

    def __init__(self, real, node_id):
        super().__init__("certified-relay", node_id)
        self._real = Peer(real, PORT)
        self._asked = {}

    def receive(self, data, source, now):
        message = m.decode(data)
        if isinstance(message, m.Hello):
            self._asked[message.transaction] = source
            self._outbox.append(Datagram(data, self._real))
        elif isinstance(message, m.Welcome) and message.transaction in self._asked:
            self._outbox.append(Datagram(data, self._asked.pop(message.transaction)))
        else:
            super().receive(data, source, now)


@pytest.mark.spec("SDP-dht-paths")
def test_uncertified_nodes_that_relay_the_proofs_of_the_closest_ones_hide_no_record():
    dht = Dht(profile=Profile.SIGNED).start(40)
    dht.put(A, offer_of())
    for number, one in enumerate(nearest(dht, 20)):
        relay = Relay(one, dht.nodes[one].id)
        relay.found = [], 0, 0, b""
        dht.add(f"10.0.1.{number}", relay)
    dht.run(1)
    far = nearest(dht, 40)[-1]
    assert skills(joined(dht, *(f"10.0.1.{number}" for number in range(20)), far)) == ["skill-0"]


def beside(prefix):
    """Return an agent whose node is close to the key."""
    names = (f"{prefix}-{number}" for number in range(2000))
    return min(names, key=lambda one: int.from_bytes(Liar(one).id, "big") ^ NUMBER)


class Slow(Liar):
    """Gives one valid record after another, each after a while."""

    def __init__(self, dht):
        super().__init__(beside("certified-slow"))
        self._dht = dht
        self._late = []

    def receive(self, data, source, now):
        message = m.decode(data)
        if isinstance(message, m.Find):
            record = signed(f"stranger-{message.page}", at=self._dht.clock.steady)
            self.found = [], 65_535, message.page, record
        super().receive(data, source, now)
        if isinstance(message, m.Find) and message.page:
            self._late += [(now.steady + 0.3, one) for one in self._outbox]
            self._outbox = []

    def timer(self):
        return 0.0 if self._outbox else min((due for due, _ in self._late), default=None)

    def on_timer(self, now):
        self._outbox += [one for due, one in self._late if due <= now.steady]
        self._late = [pair for pair in self._late if pair[0] > now.steady]


@pytest.mark.spec("SDP-dht-pages")
def test_a_node_with_endless_slow_pages_holds_up_no_lookup():
    dht = Dht().start(12)
    dht.put(A, offer_of())
    dht.add("10.0.1.1", Slow(dht))
    for one in dht.nodes:
        dht.do(one, lambda node, now: node.ping(Peer("10.0.1.1", PORT), now, 1.0))
    dht.run(3)
    found = dht.get(B)
    assert "skill-0" in skills(found)
    assert found.seconds <= 1.0


@pytest.mark.spec("SDP-dht-hostile")
def test_liars_that_name_many_dead_nodes_cost_a_lookup_few_requests():
    dht = Dht()
    dht.node(A)
    for number in range(6):
        liar = Liar(f"certified-liar-{number}")
        fakes = [((number * 30 + one).to_bytes(32, "big"), bytes((10, 9, number, one)), 4000) for one in range(25)]
        liar.found = fakes, 0, 0, b""
        dht.add(f"10.0.1.{number}", liar)
        liar.say_hello(Peer(A, PORT))
        dht.tend(f"10.0.1.{number}")
    dht.run(3)
    before = dht.sent
    found = dht.find(A, KEY, seconds=5.0)
    assert found.asked == 6
    assert len(found.unanswered) <= 6 * 8
    assert dht.sent - before <= 2 * limits.DHT_WALK_NODES


@pytest.mark.spec("SDP-dht-newest")
def test_another_key_with_the_same_name_neither_replaces_nor_removes_a_record():
    dht = Dht(authority=ChainAuthority(Chain()))
    identities = []
    for _ in range(2):
        key = new_key()
        identities.append(EcdsaIdentity(key, own_certificate("agent", key, EPOCH)))
    for number in range(4):
        key = new_key()
        agent_id = f"agent-{number}"
        dht.node(host(number), agent_id=agent_id, identity=EcdsaIdentity(key, own_certificate(agent_id, key, EPOCH)))
    dht.node("10.0.3.1", agent_id="agent", identity=identities[0])
    dht.node("10.0.3.2", agent_id="agent", identity=identities[1], is_client=True)
    dht.run(5)
    assert dht.put("10.0.3.1", offer_of()).stored >= 3
    dht.run(1)
    number = dht.do("10.0.3.2", lambda node, now: node.remove("skill-0", ("do",), now, 5.0))
    assert dht.wait("10.0.3.2", number).stored >= 3
    (record,) = dht.get(B).records
    assert record.kid == dht.nodes["10.0.3.1"].id
    dht.put("10.0.3.2", offer_of(endpoint="http://10.9.9.9/"))
    assert {one.endpoint for one in dht.get(B).records} == {offer_of().endpoint, "http://10.9.9.9/"}


@pytest.mark.spec("SDP-dht-signed")
def test_a_revoked_node_leaves_every_table_within_seconds():
    dht = Dht(profile=Profile.SIGNED).start(8)
    gone = dht.nodes[B].id
    assert all(gone in {one.id for one in node.contacts()} for name, node in dht.nodes.items() if name != B)
    dht.run(60)
    dht.authority.revoked.add(f"certified-{B}")
    dht.run(11)
    assert not any(gone in {one.id for one in node.contacts()} for node in dht.nodes.values())
    assert dht.put(A, offer_of()).stored >= 3


@pytest.mark.spec("SDP-dht-restart")
def test_a_node_whose_first_contacts_all_lie_finds_records_by_its_bootstrap_node():
    dht = Dht().start(20)
    dht.put(A, offer_of())
    liars = []
    for number in range(30):
        liar = Liar(f"stranger-{number}")
        dht.add(f"10.0.1.{number}", liar)
        liars.append(dht.nodes[A].contacts()[0]._replace(id=liar.id, peer=Peer(f"10.0.1.{number}", PORT)))
    victim = "10.0.4.1"
    dht.node(victim, contacts=liars)
    dht.run(2)
    assert sum(one.peer.host.startswith("10.0.1.") for one in dht.nodes[victim].contacts()) >= 20
    assert skills(dht.get(victim)) == ["skill-0"]


@pytest.mark.spec("SDP-dht-record")
def test_a_certificate_of_another_agent_signs_nothing():
    dht = Dht().start(3)
    forged = signed("certified-x", identity=NamedKey("certified-y"), at=dht.clock.steady)
    for one in dht.nodes:
        dht.inject(m.encode(m.Store(bytes(8), bytes(32), m.CLIENT, KEY, forged)), Peer("10.0.9.9", 1), one)
    assert dht.get(A).records == ()


@pytest.mark.spec("SDP-dht-hostile")
def test_a_record_with_many_capabilities_is_kept_without_its_keys():
    record, key = signed("a", offer_of(0, *(f"a{number}" for number in range(64)))), skill_key("skill-0", "a63")
    dht = Dht().start(2)
    dht.inject(m.encode(m.Store(bytes(8), bytes(32), m.CLIENT, key, record)), Peer("10.0.9.9", 1), A)
    (kept,) = dht.nodes[A]._storage.get(key, dht.now().wall)
    assert not any(isinstance(value, frozenset) for value in astuple(kept)), "192 keys take 20 KiB"
