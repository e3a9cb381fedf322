"""Whatever is lost and whoever is there, a search ends within its patience, and before it only with what was wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.health import Change, Key, ListedSkill
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.search import Discovered, one_provider
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

FIGURES = DiscoverySettings()
ASKER = "192.168.1.99"


@pytest.mark.spec("SDP-enough")
@given(
    seed=st.integers(0, 10_000),
    loss=st.floats(0.0, 0.6),
    statuses=st.lists(st.sampled_from([one for one in HealthStatus if one != "UNKNOWN"]), max_size=4),
    patience=st.floats(0.05, 3.0),
)
def test_a_search_for_one_ends_in_time_and_not_without_one(seed, loss, statuses, patience):
    """A discovery may end before its patience when somebody fit has answered, as far as it is known then."""
    lan = Lan(seed)
    for number, status in enumerate(statuses):
        host = f"192.168.1.{10 + number}"
        lan.node(host, REGISTRY, OFFERS, ASKS)
        lan.offer(host, f"skill-{number}")
        lan.do(host, lambda node, now, name=f"skill-{number}", how=status: node.route_agent.report(name, how, "", now))
    lan.run(15)
    lan.loss = loss
    lan.node(ASKER, Role.OBSERVER, ASKS)
    began = lan.clock.steady
    enough = one_provider(FIGURES, use_unverified=False)
    lan.do(ASKER, lambda node, now: node.searches.discover(now, patience=patience, enough=enough))
    lan.run(patience + 0.01)

    known: dict[Key, ListedSkill | None] = {}  # as it was when the search ended: who had registered may beat later
    for ended, at, event in lan.told:
        if at == ASKER and isinstance(event, Change):
            known[event.listed.key] = event.after
        elif at == ASKER and isinstance(event, Discovered):
            took = ended - began
            break
    else:
        pytest.fail("the search did not end")
    listed = {key: one for key, one in known.items() if one is not None}
    assert took <= patience + 0.001
    if took < patience - 0.001:
        assert took >= FIGURES.quiet
        told = {found.record.skill_id for found in event.skills}
        well = [one for one in listed.values() if one.health.status is HealthStatus.HEALTHY and one.is_verified]
        assert {one.registration.skill_id for one in well} & told
        assert took >= FIGURES.unheard or told <= {skill for _, skill in listed}
