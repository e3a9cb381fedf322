"""One order in which skills of the network are called, and one filter, wherever they are sorted and chosen."""

import json

import pytest
from tests.support.fake_lan import lan_skill

from skillwire.resolver.ladder import Query
from skillwire.resolver.sources.lan import answers
from skillwire.resolver.sources.lan_cache import LanCache

NOW = 1_707_868_800.0
#: As they are called.
SKILLS = [
    lan_skill(host="192.168.1.8"),
    lan_skill(host="192.168.1.7", is_verified=False),
    lan_skill(host="192.168.1.6", status="DEGRADED"),
    lan_skill(host="192.168.1.5", status="UNKNOWN"),
    lan_skill(host="192.168.1.4", status="UNKNOWN", is_verified=False),
    lan_skill(host="192.168.1.3", status="UNHEALTHY"),
]


def test_whoever_sorts_them_calls_the_same_first():
    hosts = [skill.host for skill in SKILLS]
    cache = LanCache()
    cache.put(reversed(SKILLS), NOW)
    assert [skill.host for skill in cache.skills(NOW)] == hosts
    document = json.loads(cache.write())
    assert document["skills"]["staff-directory"]["endpoint"] == SKILLS[0].endpoint
    assert answers([*reversed(SKILLS)], Query(capabilities=("org-data-read",))) == SKILLS


@pytest.mark.spec("SDP-discover-filters")
@pytest.mark.parametrize(
    ("capabilities", "scenes", "types", "fits"),
    [
        ((), (), (), True),
        (("read", "write"), (), (), True),
        (("read", "print"), (), (), False),
        ((), ("auth", "elsewhere"), (), True),
        ((), ("elsewhere",), (), False),
        ((), (), ("tool-skill", "scene-skill"), True),
        ((), (), ("scene-skill",), False),
        (("read",), ("auth",), ("scene-skill",), False),
    ],
)
def test_a_skill_has_all_capabilities_one_scene_and_one_type_that_are_asked_for(capabilities, scenes, types, fits):
    skill = lan_skill(capabilities=("read", "write", "list"), scenes=("auth",), skill_type="tool-skill")
    assert skill.fits(capabilities, scenes, types) is fits
