"""A node on a network that is all hostile: whatever comes, it goes on, and keeps little."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import signed_messages, unsigned_messages
from tests.support.lan import GROUP_KEY, Lan

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery.codec import encode, encode_signed
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.testing.fake_network import EPOCH
from skillwire.wire.node import Peer

HOST = "192.168.1.1"
PEERS = st.builds(Peer, st.sampled_from(["192.168.1.2", "192.168.1.3", "fd00::1"]), st.integers(1, 65535))
TIMES = st.integers(-40_000, 40_000).map(lambda offset: int(EPOCH * 1000) + offset)


def written(message, timestamp, profile):
    """Return a message of the network's own time, signed with its key."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__} | {"timestamp": timestamp}
    try:
        return encode_signed(type(message)(**fields), GROUP_KEY.sign, profile)
    except ValidationError:
        return encode(message, profile)


@pytest.mark.spec("SDP-hostile")
@given(st.lists(st.tuples(signed_messages | unsigned_messages | st.binary(max_size=80), PEERS, TIMES), max_size=12))
@pytest.mark.parametrize("profile", Profile)
def test_whatever_comes_a_node_goes_on(profile, arrivals):
    lan = Lan()
    node = lan.node(HOST, profile=profile)
    lan.offer(HOST, "skill-org-feishu")
    lan.do(HOST, lambda node, now: node.searches.discover(now))
    lan.do(HOST, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    for message, peer, timestamp in arrivals:
        try:
            data = message if isinstance(message, bytes) else written(message, timestamp, profile)
        except ValidationError:  # it has no signature, and the profile wants one
            continue
        lan.inject(data, peer, HOST)
        lan.run(0.3)
    lan.run(70)
    assert (f"agent-{HOST}", "skill-org-feishu") in {listed.key for listed in node.registry}


@pytest.mark.spec("SDP-hostile")
def test_a_flood_of_everything_leaves_little_behind():
    lan, random = Lan(), Random(1)  # noqa: S311 - a simulation has to be repeatable
    node = lan.node(HOST)
    kinds = [b"SKILL_REGISTER:a%d;s;1.0.0;tool-skill;10.0.%d.%d:80;c;s;%d;SIG", b"SKILL_DISCOVER:a%d.%d.%d;;;;%d"]
    for number in range(20_000):
        source = Peer(f"10.0.{random.randrange(100)}.{random.randrange(100)}", random.randrange(1, 65536))
        stamp = int(lan.moment(HOST).wall * 1000)
        data = random.choice(kinds) % (number, *map(int, source.host.split(".")[2:]), stamp)
        node.receive(data if number % 3 else random.randbytes(40), source, lan.moment(HOST))
        lan.clock.move_to(lan.clock.steady + 1 / 20_000)
    ingress = node.ingress
    assert len(node.registry) == 0
    assert len(ingress._rates._buckets) <= limits.LAN_SOURCES
    assert len(node._challenges._pending) <= limits.LAN_CHALLENGES
    assert ingress.replay.changed() == []
    assert set(ingress.stopped) <= {"malformed", "rate", "held", "forged", "another profile", "another group key"}
