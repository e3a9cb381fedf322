"""A DHT in virtual time: nodes by host, and identities that cost nothing where signatures are not the point."""

import hashlib
import hmac
from random import Random
from typing import Any

from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.node import DhtNode, Finished
from skillwire.protocols.skill_discovery.dht.records import DhtOffer, sign_record, skill_key
from skillwire.protocols.skill_discovery.identity import Authority, GroupKey, Judgement, Standing
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.settings import DhtSettings
from skillwire.testing.fake_network import EPOCH, FakeNetwork
from skillwire.wire.node import Peer

PORT = 40_000


class NamedKey:
    """A signer in tests: its key and id follow from its agent's name, and a signature is a HMAC with it."""

    certificate = b""
    digest = b""

    def __init__(self, agent_id):
        self._signs = GroupKey(hashlib.sha256(agent_id.encode()).digest())

    def sign(self, data):
        return self._signs.sign(data)

    def verifies(self, data, signature):
        return hmac.compare_digest(self.sign(data), signature)


class NamedKeys(Authority):
    """Judges :class:`NamedKey`; agents whose names begin with ``certified`` are certified, unless ``all`` are."""

    def __init__(self, prefix="certified"):
        self._prefix = prefix
        self.revoked = set()
        self.judged = 0

    def is_key_revoked(self, *_):
        return False

    def is_withheld(self, _):
        return False

    def why_refused(self, *_):
        return ""

    def judge(self, agent_id, *_):
        self.judged += 1
        if agent_id in self.revoked:
            return None
        standing = Standing.CERTIFIED if agent_id.startswith(self._prefix) else Standing.UNVERIFIED
        agents = frozenset({agent_id})
        return Judgement(NamedKey(agent_id), standing, agents, is_revoked=lambda: agent_id in self.revoked)


def offer_of(number=0, *capabilities, **fields):
    """Return an offer: ``skill-NUMBER`` with the capability ``do``, unless others are given."""
    given = {"version": "1.0.0", "skill_type": "tool-skill", "endpoint": f"http://10.9.0.1:{8000 + number}/"} | fields
    return DhtOffer(f"skill-{number}", capabilities=capabilities or ("do",), **given)


def signed(agent_id, offer=None, *, at=0.0, identity=None, **options):
    """Return a record that an agent signed ``at`` seconds of virtual time."""
    return sign_record(
        offer or offer_of(), agent_id, identity or NamedKey(agent_id), int((EPOCH + at) * 1000), **options
    )


class Dht(FakeNetwork):
    """Nodes by host; ``finished`` has the events of all, by host and number."""

    def __init__(self, seed=1, *, profile=Profile.OPEN, authority=None, settings=None, **options):
        self.nodes: dict[str, DhtNode] = {}
        self.finished: dict[tuple[str, int], Finished] = {}
        self.profile = profile
        self.authority = authority or NamedKeys()
        self.settings = settings or DhtSettings()
        super().__init__(seed, on_event=self._take, **options)

    def _take(self, host, event):
        self.finished[host, event.number] = event

    def node(self, host, *, agent_id=None, bootstrap="10.0.0.1", skew=0.0, identity=None, **options):
        """Start a node at a host and let it know another."""
        agent_id = agent_id or f"certified-{host.replace(':', '-')}"
        given: dict[str, Any] = {
            "profile": self.profile,
            "settings": self.settings,
            "authority": self.authority,
        } | options
        random = Random(f"{host} {agent_id}")  # noqa: S311 - a simulation has to be repeatable
        node = DhtNode(agent_id, identity=identity or NamedKey(agent_id), random=random, **given)
        self.nodes[host] = node
        self.add(host, node, skew=skew)
        if bootstrap:
            peers = [Peer(bootstrap, PORT)] if bootstrap != host else []
            self.do(host, lambda one, now: one.bootstrap(peers, now))
        return node

    def start(self, count, *, seconds=10.0, **options):
        """Start nodes at 10.0.0.1 and on, which all know the first; let time pass."""
        for number in range(count):
            self.node(f"10.0.0.{number + 1}", **options)
            self.run(0.05)
        self.run(seconds)
        return self

    def do(self, host, action):
        """Call an action with the node at a host and the time there."""
        result = action(self.nodes[host], self.moment(host))
        self.tend(host)
        return result

    def wait(self, host, number, seconds=6.0):
        """Let time pass until an operation is finished; return its event."""
        end = self.clock.steady + seconds
        while (host, number) not in self.finished and self.clock.steady < end:
            self.run(0.005)
        return self.finished[host, number]

    def put(self, host, offer, seconds=5.0):
        return self.wait(host, self.do(host, lambda node, now: node.put(offer, now, seconds)))

    def find(self, host, *keys, seconds=5.0):
        return self.wait(host, self.do(host, lambda node, now: node.find(keys, now, seconds)))

    def get(self, host, number=0, capability="do", **options):
        return self.find(host, skill_key(f"skill-{number}", capability), **options)

    def now(self):
        return Moment(EPOCH + self.clock.steady, self.clock.steady)
