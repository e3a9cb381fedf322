"""What a search returns beside the listed skills: each other skill of the answers once, as its responders know it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.adapters.lan.queries import Queries
from skillwire.adapters.lan.view import View
from skillwire.model.lan import FoundVia
from skillwire.protocols.skill_discovery.messages import Endpoint, Register, SkillRecord, SkillType
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.search import Discovered, Found
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.testing.fake_network import VirtualClock
from skillwire.wire.node import Peer

FOUR, SIX = "192.0.2.1", "fd00::1"


def record(name, host, version="1.0.0"):
    return SkillRecord(name, version, Endpoint(host, 80), (), ())


def discover(answers, hints=(), registered=(), agent=""):
    """Return what a search finds on the links of one interface: answers of an agent by link, beside what is listed."""
    clock = VirtualClock()
    view = View(lambda _: None, clock.moment)
    questions = Queries(LanSettings(discovery=DiscoverySettings()), view, clock.moment)
    links: Any = []
    for name in answers:
        registry = Registry(DiscoverySettings())
        view.add(name, registry)
        for skill, host in (*hints, *registered):
            message = Register("agent-a", skill, "1.0.0", SkillType.TOOL, Endpoint(host, 80), (), (), 0)
            if (":" in host) == name.endswith("6") and (skill, host) in hints:
                registry.hint(message, 0.0, host=host)
            elif (":" in host) == name.endswith("6"):
                registry.register(message, 0.0, is_verified=False, host=host)
        node = SimpleNamespace(searches=SimpleNamespace(discover=lambda *_, **__: "request"))
        links.append(SimpleNamespace(name=name, node=node, reached=lambda host: host, act=lambda: None))
    links = SimpleNamespace(open_links=lambda found=links: found)
    questions.links = links

    async def ask():
        asking = asyncio.ensure_future(questions.discover((), (), (), None))
        await asyncio.sleep(0)
        for link in links.open_links():
            found = tuple(Found(one, Peer(one.endpoint.host, 1), agent) for one in answers[link.name])
            questions.take(link, Discovered("request", found))
        return [(one.skill_id, one.version, one.host, one.found_via, one.status, one.is_stale) for one in await asking]

    return asyncio.run(ask())


def test_a_server_of_two_addresses_is_one_with_its_ipv4_address_also_where_mdns_alone_gives_that():
    answers = {"eth0/4": [record("a", FOUR)], "eth0/6": [record("a", SIX), record("b", SIX), record("c", SIX)]}
    assert discover(answers, hints=[("b", FOUR)]) == [
        ("a", "1.0.0", FOUR, FoundVia.MULTICAST, "UNKNOWN", False),
        ("b", "1.0.0", FOUR, FoundVia.MDNS, "UNKNOWN", False),
        ("c", "1.0.0", SIX, FoundVia.MULTICAST, "UNKNOWN", False),
    ]


def test_stale_skills_of_answers_come_last_as_unhealthy_and_marked():
    assert discover({"eth0/4": [record("a", FOUR, "1.0.0+stale"), record("b", FOUR)]}) == [
        ("b", "1.0.0", FOUR, FoundVia.MULTICAST, "UNKNOWN", False),
        ("a", "1.0.0", FOUR, FoundVia.MULTICAST, "UNHEALTHY", True),
    ]


@pytest.mark.parametrize(("registered", "shown"), [([SIX], SIX), ([FOUR], FOUR), ([SIX, FOUR], FOUR)])
def test_an_agent_that_registered_by_one_address_and_answers_by_both_has_one_row(registered, shown):
    answers = {"eth0/4": [record("a", FOUR)], "eth0/6": [record("a", SIX)]}
    listed = [("a", host) for host in registered]
    [(name, _, host, _, status, _)] = discover(answers, registered=listed, agent="agent-a")
    assert (name, host, status) == ("a", shown, "HEALTHY")


def test_a_replica_of_a_listed_skill_has_a_row_of_its_own():
    answers = {"eth0/4": [record("a", "192.0.2.2")]}
    found = discover(answers, registered=[("a", FOUR)], agent="agent-b")
    assert [host for _, _, host, *_ in found] == [FOUR, "192.0.2.2"]
