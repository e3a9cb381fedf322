"""The page of the local network: what it is asked for, what is drawn where, and what is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lan_site import OWN, home, scene, skill, town

from skillwire import limits
from skillwire.model.lan import USABLE_STATUSES, DhtBootstrap, DhtBucket, DhtOwn, DhtStatus, FoundVia, LanSnapshot
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.web.environment import Frame, SignedInPerson
from skillwire.web.lan_page import (
    SIGNS,
    STATUSES,
    DhtView,
    LanFilters,
    choose,
    draw,
    lan_page,
    look_of,
    mark_of,
    read_lan_filters,
    status_text,
)

NOW = 1_750_000_000.0
FRAME = Frame("http://localhost", "./", SignedInPerson("ann", "token", sees_all=True, sees_lan=True))


def page_of(skills, scenes=(), filters=None, **options):
    snapshot = LanSnapshot(OWN, NOW, tuple(skills), tuple(scenes))
    return lan_page(snapshot, NOW, filters or LanFilters(), FRAME, port=50123, **options)


def drawings(skills, scenes=()):
    ordered = sorted(skills, key=lambda one: (one.agent_id, one.skill_id))
    chosen = choose(ordered, scenes, OWN)
    return chosen, [draw(chosen, is_wide=True), draw(chosen, is_wide=False)]


def test_every_health_has_a_word_and_a_sign_of_its_own():
    assert set(STATUSES) == set(SIGNS) == {str(status) for status in HealthStatus} | {"OFFLINE"} | USABLE_STATUSES
    assert len(set(SIGNS.values())) == len(SIGNS)


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        (b"", LanFilters()),
        (b"status=unhealthy&q=+auth+&page=3", LanFilters("UNHEALTHY", "auth", 3)),
        (b"status=nonsense&page=0&q=" + b"x" * 200, LanFilters()),
        (b"page=%C2%B2", LanFilters()),
        (b"page=9999999", LanFilters()),
        (b"&".join([b"q=1"] * 40), LanFilters()),
    ],
)
def test_an_address_is_read_and_what_is_not_known_is_passed_over(query, filters):
    assert read_lan_filters(query) == filters


@given(st.sampled_from(["", *STATUSES]), st.text(min_size=1, max_size=60).map(str.strip), st.integers(1, 999_999))
def test_an_address_that_we_write_is_read_as_it_was(status, words, page):
    filters = LanFilters(status, words.encode("utf-8", "replace").decode(), page)
    assert read_lan_filters(filters.url(page=page)[1:].encode()) == filters


def test_an_address_is_short_where_nothing_is_asked_for():
    assert LanFilters().url() == "?"
    assert LanFilters("HEALTHY", "x", 4).url(words="") == "?status=healthy"


def test_words_are_looked_for_in_all_that_a_skill_says():
    skills, _ = home()
    found = {
        words: len(LanFilters(words=words).matching(skills))
        for words in ("auth", "KITCHEN auth", "192.0.2.9:8080", "set")
    }
    assert found == {"auth": 2, "KITCHEN auth": 1, "192.0.2.9:8080": 3, "set": 1}


def test_skills_stand_by_agent_and_name_whatever_the_order_in_which_they_are_known():
    skills, _ = home()
    names = [(one.agent_id, one.skill_id) for one in LanFilters().matching(reversed(skills))]
    assert names == sorted(names)


def test_a_small_network_is_drawn_whole():
    skills, scenes = home()
    chosen, forms = drawings(skills, scenes)
    assert (chosen.drawn, chosen.skills_in_all, chosen.agents_in_all) == (11, 11, 4)
    for drawing in forms:
        assert {card.skill for card in drawing.cards} == set(skills)
        assert [hub.agent_id for hub in drawing.hubs] == sorted({one.agent_id for one in skills})
        assert sum(len(hub.spokes) for hub in drawing.hubs) == 11
        assert [stop.full for stop in drawing.stops] == ["auth", "home", "reports"]
        assert sorted(link.role for link in drawing.links) == ["backup"] * 3 + ["part"] + ["primary"] * 3


@pytest.mark.parametrize("network", [home(), town(), town(3, 40), town(40, 1), town(1, 2), (home()[0], ())])
def test_nothing_of_a_drawing_covers_another_or_leaves_it(network):
    for drawing in drawings(*network)[1]:
        boxes = [(card.x, card.y, card.width, 38.0) for card in drawing.cards]
        boxes += [(stop.x, stop.y, stop.width, stop.height) for stop in drawing.stops]
        boxes += [(hub.x - hub.radius, hub.y - hub.radius, 2 * hub.radius, 2 * hub.radius) for hub in drawing.hubs]
        for number, (x, y, width, height) in enumerate(boxes):
            assert x >= 0
            assert y >= 0
            assert x + width <= drawing.width
            assert y + height <= drawing.height
            for other in boxes[number + 1 :]:
                is_beside = x + width <= other[0] or other[0] + other[2] <= x
                assert is_beside or y + height <= other[1] or other[1] + other[3] <= y


def test_a_large_network_is_drawn_in_part_and_those_in_trouble_before_others():
    skills, scenes = town()
    chosen, (drawing, _) = drawings(skills, scenes)
    assert len(chosen.agents) == limits.CONSOLE_LAN_AGENTS
    assert chosen.drawn == len(drawing.cards) == limits.CONSOLE_LAN_SKILLS
    assert all(any(one.status != "HEALTHY" for one in of_one) for of_one in chosen.agents)
    assert {hub.more[2] for hub in drawing.hubs} == {25 - 4}
    assert len(drawing.stops) == limits.CONSOLE_LAN_SCENES


def test_an_agent_with_many_skills_shows_those_in_trouble():
    skills = [skill("a", f"skill-{number:02}") for number in range(30)] + [skill("a", "zz", status="UNHEALTHY")]
    _, (drawing, _) = drawings(skills)
    assert [card.skill.skill_id for card in drawing.cards] == [f"skill-{number:02}" for number in range(7)] + ["zz"]
    assert drawing.hubs[0].more[2] == 23


def test_a_scene_that_nobody_drawn_takes_part_in_is_not_drawn():
    chosen, _ = drawings([skill("a", "x", scenes=("here",))], [scene("here"), scene("elsewhere", ("b", "y"))])
    assert [one.name for one in chosen.scenes] == ["here"]


def test_what_a_skill_says_holds_what_is_to_be_known():
    one = skill("a", "x", status="DEGRADED", is_verified=False, is_stale=True)
    assert (status_text(one), look_of(one)) == ("Degraded · unverified · stale", "degraded unverified stale")
    assert (status_text(skill("a", "x")), look_of(skill("a", "x"))) == ("Healthy", "healthy")
    told = skill("a", "x", status="UNKNOWN", is_verified=False, found_via=FoundVia.MDNS)
    assert (status_text(told), look_of(told)) == ("Unknown · trust not known", "unknown unknown-trust")


@pytest.mark.parametrize(
    "values",
    [{"status": "DEGRADED"}, {"version": "2.0.0"}, {"host": "192.0.2.99"}, {"is_verified": False}, {"is_stale": True}],
)
def test_a_row_is_marked_as_changed_when_something_is_that_is_shown(values):
    one = skill("a", "x")
    assert mark_of(one._replace(**values)) != mark_of(one)
    assert mark_of(one._replace(heard=1.0)) == mark_of(one)


def test_a_page_of_the_table_that_is_not_there_is_the_last_one():
    html = page_of(town()[0], filters=LanFilters(page=999))
    assert "1,451 to 1,500 of 1,500" in html
    assert 'rel="prev"' in html
    assert 'rel="next"' not in html


def test_the_size_of_a_page_is_bounded_however_large_the_network_is():
    small, large = (len(page_of(*town(agents, 25), part=True)) for agents in (20, 80))
    assert large < small * 1.1 < 200_000


def test_the_list_of_scenes_is_bounded_and_says_how_many_more_there_are():
    scenes = [scene(f"scene-{number:03}", ("a", "x")) for number in range(limits.CONSOLE_LAN_LISTED_SCENES + 7)]
    html = page_of([skill("a", "x")], scenes)
    assert html.count("<dt>") == limits.CONSOLE_LAN_LISTED_SCENES
    assert "And 7 more scenes." in html


def test_a_scene_without_a_provider_says_so():
    assert "No provider." in page_of([skill("a", "x", scenes=("empty",))], [scene("empty")])


def test_without_a_network_the_page_says_why():
    html = page_of((), trouble="no interface is up")
    assert "This server is not on the local network." in html
    assert "No interface is up." in html


def node(**changes):
    """Return the state of a node of the DHT that knows five others."""
    buckets = (DhtBucket(0, ("198.51.100.1:6881", "[2001:db8::1]:6881")), DhtBucket(1, ("198.51.100.2:6881",) * 3))
    own = (DhtOwn("report-writer", "1.2.0", NOW - 40, 8), DhtOwn("translate-text", "1.0.0", 0.0, 0))
    bootstrap = (DhtBootstrap("dht1.example.org:6881", True), DhtBootstrap("dht2.example.org:6881", False))
    status = DhtStatus("ab" * 32, ("192.0.2.20:6881",), "open", buckets, 345, 301_234, own, bootstrap, {})
    return status._replace(**changes)


def test_the_nodes_of_the_dht_are_drawn_by_their_distance_beside_the_network():
    page = page_of(*home(), dht=DhtView(node()))
    assert "Map of 11 skills" in page
    assert "5 nodes, 345 records held (301,234 bytes)" in page
    assert page.count('<circle class="node"') == 5
    assert "<title>[2001:db8::1]:6881</title>" in page
    assert "0 bits in common" in page
    assert "1 bit in common" in page
    assert "<code>dht1.example.org:6881</code> answers" in page
    assert "<code>dht2.example.org:6881</code> does not answer" in page
    assert "on 8 nodes, " in page
    assert "40 s ago" in page
    assert "not put yet" in page


def test_an_empty_network_names_the_port_of_its_settings():
    assert "UDP port 50123 through" in page_of(())


def test_in_the_dht_alone_there_is_no_search_of_a_network():
    silent = DhtView(node(buckets=()), "no bootstrap node answers <x>")
    page = lan_page(None, NOW, LanFilters(), FRAME, port=0, dht=silent)
    assert "No bootstrap node answers &lt;x&gt;." in page
    assert "No other node is known yet." in page
    assert "lan-search" not in page
    assert "announced a skill yet" not in page
    assert "<h1>DHT</h1>" in page
    starting = lan_page(
        None, NOW, LanFilters(), FRAME, port=0, part=True, dht=DhtView(None, "not in the DHT: a port is in use")
    )
    assert "Not in the DHT: a port is in use." in starting
    assert "node" not in starting.partition("data-now")[2].replace("DHT", "")
    assert "DHT" not in page_of(*home())


def test_what_has_no_room_in_the_drawing_or_the_list_is_counted():
    many = tuple(DhtBucket(bits, ("198.51.100.1:6881",) * 40) for bits in range(60))
    own = tuple(DhtOwn(f"skill-{number}", "1.0.0", 0.0, 0) for number in range(256))
    page = page_of(*home(), dht=DhtView(node(buckets=many, own=own)))
    assert page.count('<circle class="node"') == 24 * 18
    assert page.count(">+22</text>") == 24
    assert page.count("not put yet") == limits.CONSOLE_LAN_ROWS
    assert "And 206 more." in page
