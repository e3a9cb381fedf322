"""The cache of a network, whatever is put into it and whatever its file holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import endpoints, identifiers, names, told, versions

from skillwire.model.lan import LanChange, LanSkill
from skillwire.protocols.skill_discovery.messages import SkillType
from skillwire.protocols.skill_discovery.settings import CacheSettings
from skillwire.resolver.sources.lan_cache import LanCache

NOW = 1_707_868_800.0
skills = st.builds(
    lambda agent, skill, version, kind, place, *rest: LanSkill(
        agent, skill, version, kind, place.host, place.port, *rest
    ),
    st.sampled_from(["", "agent-001", "agent-002"]) | identifiers,
    st.sampled_from(["skill-a", "skill-b"]) | identifiers,
    versions,
    st.sampled_from(["", *map(str, SkillType)]),
    endpoints,
    names,
    names,
    told.map(str),
    st.booleans(),
)
acts = st.tuples(
    st.sampled_from(["put", "left", "status", "updated", "forget"]), st.lists(skills, max_size=3), st.floats(0, 200)
)


@pytest.mark.spec("SDP-cache-form")
@given(st.lists(acts, max_size=12), st.integers(1, 6))
def test_what_is_written_is_read_again_and_bounds_hold(done, most):
    cache, now, settings = LanCache(CacheSettings(max_size=most)), NOW, CacheSettings(max_size=most)
    for act, some, pause in done:
        now += pause
        if act == "put":
            cache.put(some, now)
        elif act == "forget":
            cache.forget(some[0].skill_id if some else "")
        else:
            for skill in some:
                cache.hear(LanChange(act, now, skill))
        good = cache.skills(now)
        assert len(good) == len(cache) <= most
        assert all(now - skill.heard < 300.002 for skill in good)
        assert {skill.endpoint for skill in cache.to_refresh(now)} <= {skill.endpoint for skill in good}
        data = cache.write()
        again = LanCache.read(data, settings, now)
        assert again.fault is None
        assert again.skills(now) == good
        assert again.write() == data
        assert set(json.loads(data)["skills"]) == {skill.skill_id for skill in good}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "endpoint": values | st.just("10.0.0.1:80"),
        "version": values | st.just("1.0.0"),
        "capabilities": values | st.just([]),
        "scenes": values | st.just([]),
        "status": values | st.just("HEALTHY"),
        "lastUpdated": values | st.just(int(NOW * 1000)),
        "expiresAt": values | st.just(int(NOW * 1000) + 9),
        "agentId": values,
        "isVerified": values,
        "skillType": values,
    },
)
documents = st.fixed_dictionaries(
    {"skills": values | st.dictionaries(st.just("skill-a"), fields)},
    optional={"providers": values | st.dictionaries(st.just("skill-a"), st.lists(fields, max_size=2))},
)


@pytest.mark.spec("SDP-cache-broken")
@given(st.binary(max_size=200) | documents.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_file_holds_it_is_read_or_is_an_empty_cache(data):
    cache = LanCache.read(data, None, NOW)
    good = cache.skills(NOW)
    assert cache.fault is None or not good
    assert LanCache.read(cache.write(), None, NOW).skills(NOW) == good
