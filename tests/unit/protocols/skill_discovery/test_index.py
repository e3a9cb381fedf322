"""How skills are found: as if each were looked at, and at a cost that does not grow with how many there are."""

import sys
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.certificates import NOW
from tests.support.datagrams import registration
from tests.support.lan import REGISTRY, Lan

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import encode, encode_signed
from skillwire.protocols.skill_discovery.health import Health, ListedSkill
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.index import Index
from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, HealthStatus, SkillType
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

AT = int(EPOCH * 1000)
R, EVIL = "192.168.1.1", "192.168.1.66"
NAMES = "a", "b", "c"
some = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)
types = st.sampled_from([SkillType.TOOL, SkillType.ENTERPRISE])
listings = st.builds(
    lambda number, skill_type, capabilities, scenes, status, is_verified: ListedSkill(
        registration(f"agent-{number}", skill_type=skill_type, capabilities=capabilities, scenes=scenes),
        Health(status, 0.0),
        is_verified,
        R,
    ),
    st.integers(0, 24),
    types,
    some,
    some,
    st.sampled_from(list(HealthStatus)),
    st.booleans(),
)
questions = st.builds(Discover, st.just("x"), some, some, st.lists(types, max_size=2).map(tuple), st.just(AT))


def rank(listed):
    return not listed.is_verified, listed.health.status is HealthStatus.UNKNOWN, listed.key


@pytest.mark.spec("SDP-discover-filters")
@given(st.lists(listings | st.integers(0, 24), max_size=80), questions, st.integers(1, 30))
def test_what_is_found_is_what_passes_the_filters(changes, wanted, most):
    index = Index()
    listed: dict[tuple[str, str], ListedSkill] = {}
    for change in changes:
        if isinstance(change, int):
            key = f"agent-{change}", "skill-org-feishu"
            index.remove(key)
            listed.pop(key, None)
        else:
            index.put(change)
            listed[change.key] = change
    passing = [
        one
        for one in listed.values()
        if set(wanted.capabilities) <= set(one.registration.capabilities)
        and (not wanted.scenes or set(wanted.scenes) & set(one.registration.scenes))
        and (not wanted.skill_types or one.registration.skill_type in wanted.skill_types)
    ]
    found = [listed[key] for key in index.find(wanted, most)]
    assert set(found) <= set(passing)
    assert len(found) == len(set(found)) == min(most, len(passing))
    stands = [(not one.health.is_usable, one.health.is_usable and not one.is_verified) for one in passing]
    assert [(not one.health.is_usable, one.health.is_usable and not one.is_verified) for one in found] == sorted(
        stands
    )[:most]
    for scene in NAMES:
        members = [one for one in listed.values() if scene in one.registration.scenes]
        usable = sorted((one for one in members if one.health.is_usable), key=rank)
        able = [one for one in usable if set(wanted.capabilities) <= set(one.registration.capabilities)]
        assert sorted(index.in_scene(scene)) == sorted(one.key for one in members)
        assert index.providers(scene, most) == [one.key for one in usable][:most]
        assert index.provider(scene, wanted.capabilities) == (able[0].key if able else None)
    assert index.scenes() == sorted({name for one in listed.values() for name in one.registration.scenes})


def test_what_is_forgotten_leaves_nothing():
    index = Index()
    many = [
        ListedSkill(registration(f"agent-{n}"), Health(HealthStatus.HEALTHY, 0.0), n % 2 == 0, R) for n in range(20)
    ]
    for one in many + many:
        index.put(one)
    for one in many + many:
        index.remove(one.key)
    assert (index._orders, index._entries, index._capabilities._sets, index._all, index._usable) == ({}, {}, {}, 0, 0)
    index.put(many[0])
    assert len(index._keys) == 20, "numbers are used again"


@pytest.fixture(scope="module")
def crowded():
    """Give a registry with one host's 5,000 skills in one scene, whatever they say of themselves."""
    lan = Lan()
    lan.node(R, REGISTRY, agent_id="registry", authority=ChainAuthority(Chain()))
    registry = lan.nodes[R].registry
    for number in range(5000):
        both = ("odd",) if number % 2 else ("even", "last") if number > 4990 else ("even",)
        facts = {"skill_type": SkillType.TOOL, "capabilities": both, "scenes": ("scene",)}
        message = registration(f"agent-{number // 900}", f"skill-{number:04}", **facts, endpoint=Endpoint(EVIL, 80))
        registry.register(message, 0.0, is_verified=False, host=EVIL)
    assert len(registry) == 5000
    return lan


def cost(lan, datagrams, hosts):
    """Return how many functions are called for each of some datagrams that come at once."""
    node, now = lan.nodes[R], lan.moment(R)
    calls = count()
    sys.setprofile(lambda _frame, event, _argument: next(calls) if event in {"call", "c_call"} else None)
    try:
        for data, host in zip(datagrams, hosts, strict=True):
            node.receive(data, Peer(host, 9), now)
    finally:
        sys.setprofile(None)
    return next(calls) / len(datagrams)


@pytest.mark.spec("SDP-question-cost")
@pytest.mark.parametrize(
    "filters",
    [
        ((), ("scene",), (SkillType.ENTERPRISE,)),
        (("odd", "even"), (), ()),
        ((), ("scene", *(f"s{n}" for n in range(29))), ()),
        ((), (), ()),
    ],
)
def test_what_a_discovery_costs_does_not_grow_with_what_is_registered(crowded, filters):
    question = encode(Discover("a.1", filters[0], filters[1], filters[2], AT))
    assert cost(crowded, [question] * 256, [f"10.0.{n}.1" for n in range(256)]) < 2500, "less than one for two skills"


@pytest.mark.spec("SDP-question-cost")
@pytest.mark.parametrize("wanted", [(), ("last",), ("odd", "even")])
@pytest.mark.parametrize("scene", ["scene", "nowhere"])
@pytest.mark.parametrize("is_proven", [True, False])
def test_what_it_costs_to_join_a_scene_does_not_grow_with_who_provides_it(crowded, wanted, scene, is_proven):
    node, identity = crowded.nodes[R], self_signed("joiner", new_key(), NOW)
    judgement = node.ring.authority.judge("joiner", identity.certificate, crowded.moment(R).wall)
    hosts = [f"10.1.{number}.1" for number in range(256)]
    node.ring.learn("joiner", judgement, Peer("10.2.0.1", 9), 0.0)
    for host in hosts if is_proven else ():
        node.ring.learn("joiner", judgement, Peer(host, 9), 0.0)
    offset = 1000 * (1 + len(wanted) + 4 * (scene == "nowhere") + 8 * is_proven)
    data = [
        encode_signed(m.JoinScene("joiner", scene, wanted, AT + offset + number), identity.sign)
        for number in range(256)
    ]
    assert cost(crowded, data, hosts) < 1000
