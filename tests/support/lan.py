"""A local network of discovery nodes in virtual time, whose suspects are probed as a driver would."""

from ipaddress import ip_network
from random import Random
from typing import Any

from skillwire.protocols.skill_discovery.codec import decode
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.node import DiscoveryNode, ProbeRequested, Role
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import FakeNetwork

GROUP_KEY = GroupKey(b"a secret that all of us share")
REGISTRY, OFFERS, ASKS = Role.MCP_AGENT, Role.ROUTE_AGENT, Role.END_AGENT


class ReportingRegistry(Registry):
    """A registry whose changes are given to ``take`` at once."""

    def __init__(self, take, settings=None):
        super().__init__(settings or DiscoverySettings())
        self._take = take

    def _report(self, change):
        super()._report(change)
        for one in self.changes():
            self._take(one)


class Lan(FakeNetwork):
    """Nodes by host; ``told`` holds what each has told, with the time."""

    def __init__(self, seed=1, **options):
        self.told: list[tuple[float, str, Any]] = []
        self.nodes: dict[str, DiscoveryNode] = {}
        self._notices: dict[tuple[str, str, bytes], float] = {}
        self.refusing: set[str] = set()  # hosts without a server at the endpoint
        super().__init__(seed, on_event=self._tell, **options)

    def node(self, host, *roles, agent_id=None, skew=0.0, **options):
        """Start an agent at a host; it has a group key unless told otherwise."""
        trust: dict[str, Any] = {"identity": GROUP_KEY, "authority": GROUP_KEY} | options
        name = agent_id or f"agent-{host.replace(':', '-')}"
        random = Random(name)  # noqa: S311 - a simulation has to be repeatable
        node = DiscoveryNode(name, random=random, roles=frozenset(roles or Role), **trust)
        self.nodes[host] = node
        self.add(host, node, is_in_group=not roles or bool({REGISTRY, Role.OBSERVER} & set(roles)), skew=skew)
        return node

    def on_link(self, network="192.168.1.0/24"):
        """Put every agent on a link with this network."""
        for node in self.nodes.values():
            node.use_networks((ip_network(network),))
        return self

    def offer(self, host, skill_id, *, capabilities=("user-auth",), scenes=("auth",), **changes):
        facts: dict[str, Any] = {
            "version": "0.7.0",
            "skill_type": SkillType.TOOL,
            "endpoint": Endpoint(host, 8080),
        } | changes
        offer = Offer(skill_id, **facts, capabilities=capabilities, scenes=scenes)
        self.nodes[host].route_agent.offer(offer, self.moment(host))
        self.tend(host)

    def do(self, host, act):
        """Do something with a node and the time it is there; return what that gives."""
        result = act(self.nodes[host], self.moment(host))
        self.tend(host)
        return result

    def sent_from(self, host):
        """Return a list that gets what a host sends from now on: where it goes, and the datagram."""
        found: list[tuple[Any, bytes]] = []
        send = self._send

        def keep(sender, datagram):
            send(sender, datagram)
            if sender.peer.host == host:
                found.append((datagram.to, datagram.data))

        self._send = keep  # type: ignore[method-assign]  # on this network alone
        return found

    def _send(self, sender, datagram):
        if datagram.to is not None and datagram.data.startswith(b"SCENE_EVENT:"):
            self._notices.setdefault((datagram.to.host, sender.peer.host, datagram.data), self.clock.steady)
        super()._send(sender, datagram)

    def notices(self, member, sender=None):
        """Return the notices to a member, each once, with the time when it was first sent."""
        found = self._notices.items()
        return [(at, decode(data)) for (to, by, data), at in found if to == member and sender in {None, by}]

    def events(self, kind, host=None):
        return [event for _, at, event in self.told if isinstance(event, kind) and host in {None, at}]

    def listed(self, host):
        """Return the skills that an agent lists, with their status."""
        return {listed.key: str(listed.health.status) for listed in self.nodes[host].registry}

    def heard(self, host, key):
        """Return when a skill was heard last at a host, by the steady clock."""
        listed = self.nodes[host].registry.get(key)
        assert listed is not None
        return listed.health.heard

    def _tell(self, host, event):
        self.told.append((self.clock.steady, host, event))
        if isinstance(event, ProbeRequested) or (isinstance(event, Change) and event.kind is ChangeKind.SUSPECTED):
            self.at(0.05, lambda: self._probe(host, event.listed))

    def _probe(self, host, listed):
        there = listed.registration.endpoint.host
        if host in self._hosts and self.reaches(host, there):
            self.do(host, lambda node, now: node.on_probe(listed.key, now, is_there=there not in self.refusing))
