"""The local network in Chromium: a map and a table that follow what happens, for everybody who may look."""

import re

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.console_site import make_key
from tests.support.lan_site import LanSite, ShownAgent, home, skill, town
from tests.support.publishing import write_skill

from skillwire.adapters.lan import agent
from skillwire.model.lan import FoundVia
from skillwire.web.lan_page import STATUSES

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("home_of_the_site")]


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    root = tmp_path_factory.mktemp("lan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLWIRE_HOME", str(root / "home"))
        patch.setattr(agent, "LanAgent", ShownAgent)
        make_key("first")
        write_skill(root / "skills", "report")
        with LanSite([root / "skills"], root / "blobs") as server:
            server.home, server.first_page = str(root / "home"), "/lan"
            yield server


@pytest.fixture(scope="module")
def keys(site):  # noqa: ARG001  # the keys are kept in its state folder
    return {name: make_key(name, *scopes) for name, scopes in {"ann": ["operator"], "tom": ["tasks"]}.items()}


@pytest.fixture(autouse=True)
def at_home(site):
    site.show(*home())


def live(page):
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    page.evaluate("window.still = true")
    return page


def watch_fresh(page):
    """Write down the rows that are shown to have changed: the next picture of the page has them no more."""
    page.evaluate("""() => {
      window.fresh = [];
      const note = (changes) => {
        for (const { target } of changes) if (target.classList.contains('fresh')) window.fresh.push(target.dataset.key);
      };
      new MutationObserver(note).observe(document.body, {subtree: true, attributes: true, attributeFilter: ['class']});
    }""")


def row(page, skill_id):
    return page.locator(".lan-table tbody tr", has=page.get_by_text(skill_id, exact=True))


def card(page, skill_id, form="wide"):
    return page.locator(f".map.{form} .card", has=page.get_by_text(skill_id, exact=True))


def test_the_page_shows_who_is_there_as_a_map_and_as_a_table(enter):
    page = enter()
    expect(page.get_by_role("link", name="LAN")).to_have_attribute("aria-current", "page")
    expect(page.locator(".lan-sum")).to_have_text("11 skills of 4 agents, 3 scenes")
    expect(page.locator(".lan-table tbody tr")).to_have_count(11)
    expect(row(page, "user-auth-002").get_by_role("cell")).to_contain_text(
        ["Degraded", "192.0.2.9:8080", "office-nas", "", "auth", "Verified", "multicast"]
    )
    expect(row(page, "light-switch")).to_contain_text("Unverified")
    expect(row(page, "laser-cut")).to_contain_text("stale")
    expect(row(page, "printer-3d")).to_contain_text(re.compile(r"Not known\s*never\s*mDNS"))
    drawn = page.get_by_role("img", name=re.compile("^Map of 11 skills of 4 agents and 3 scenes"))
    expect(drawn).to_have_count(1)
    expect(drawn.locator(".card")).to_have_count(11)
    expect(drawn.locator(".hub .agent")).to_have_text(["agent-001", "kitchen-pi", "office-nas", "workshop-box"])
    expect(drawn.locator(".stop .agent")).to_have_text(["auth", "home", "reports"])
    expect(drawn.locator(".hub", has_text="agent-001")).to_contain_text("this server")
    expect(drawn.locator(".link.primary")).to_have_count(3)
    expect(card(page, "light-switch")).to_contain_text("Healthy · unverified")
    expect(card(page, "printer-3d")).to_contain_text("Unknown · trust not known")
    expect(page.locator(".lan-scenes dd").first).to_contain_text("user-auth-001 of kitchen-pi, primary")


def test_health_is_told_by_shape_and_trust_by_a_dashed_line(enter):
    page = enter()
    signs = {
        skill_id: card(page, skill_id).locator("path.sign").get_attribute("d")
        for skill_id in ("weather-forecast", "user-auth-002", "translate-text", "backup-nightly", "mill", "printer-3d")
    }
    assert len(set(signs.values())) == 6
    expect(card(page, "light-switch").locator("rect")).not_to_have_css("stroke-dasharray", "none")
    expect(card(page, "weather-forecast").locator("rect")).to_have_css("stroke-dasharray", "none")
    lines = [card(page, name).locator("rect") for name in ("light-switch", "printer-3d")]
    dashes = {line.evaluate("one => getComputedStyle(one).strokeDasharray") for line in lines}
    assert len(dashes - {"none"}) == 2


@pytest.mark.parametrize("width", [360, 1280])
def test_what_a_skill_says_stays_on_its_card(enter, site, width):
    told = {"is_verified": False, "is_stale": True}
    hints = [skill("far", f"hint-{status.lower()}", status=status, scenes=("home",), **told) for status in STATUSES]
    hints += [one._replace(skill_id=f"{one.skill_id}-2", found_via=FoundVia.MDNS) for one in hints]
    site.show(hints, home()[1])
    page = enter(width=width)
    expect(page.locator(".lan-table tbody tr")).to_have_count(12)
    beyond = page.evaluate("""() => [...document.querySelectorAll('.map')]
      .filter(one => getComputedStyle(one).display !== 'none')
      .flatMap(one => [...one.querySelectorAll('.card')])
      .map(card => [card.querySelector('rect').getBoundingClientRect(), card.querySelector('.says')])
      .filter(([box, says]) => says.getBoundingClientRect().right > box.right - 2)
      .map(([, says]) => says.textContent)""")
    assert beyond == []


def test_no_word_of_the_map_is_cut_off_or_crossed_by_another(enter):
    page = enter()
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        overlaps = page.evaluate("""() => {
          const map = [...document.querySelectorAll('.map')].find(one => getComputedStyle(one).display !== 'none');
          const edge = map.getBoundingClientRect();
          const boxes = [...map.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
          const cut = boxes.filter(([, b]) => b.left < edge.left - 1 || b.right > edge.right + 1 ||
                                              b.top < edge.top - 1 || b.bottom > edge.bottom + 1).map(([text]) => text);
          const over = [];
          boxes.forEach(([text, a], number) => boxes.slice(number + 1).forEach(([other, b]) => {
            const beside = a.right <= b.left + 1 || b.right <= a.left + 1;
            const below = a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
            if (!beside && !below) over.push([text, other]);
          }));
          return [cut, over];
        }""")
        assert overlaps == [[], []], width


def test_a_change_of_health_arrives_without_a_reload(enter, site):
    page = live(enter())
    watch_fresh(page)
    site.change("weather-forecast", status="UNHEALTHY")
    expect(row(page, "weather-forecast")).to_contain_text("Unhealthy")
    expect(card(page, "weather-forecast")).to_contain_text("Unhealthy")
    one = "kitchen-pi/weather-forecast"
    assert set(page.evaluate("window.fresh")) == {one, f"wide:{one}", f"narrow:{one}"}
    expect(page.get_by_role("link", name=re.compile("^Unhealthy 2"))).to_be_visible()
    assert page.evaluate("window.still") is True


def test_a_goodbye_takes_a_skill_away_and_a_registration_brings_one(enter, site):
    page = live(enter())
    site.leave("csv-profile")
    expect(row(page, "csv-profile")).to_have_count(0)
    expect(card(page, "csv-profile")).to_have_count(0)
    skills, scenes = home()
    site.show([*skills, skills[0]._replace(agent_id="attic", skill_id="telescope")], scenes)
    expect(card(page, "telescope")).to_be_visible()
    expect(page.locator(".lan-sum")).to_have_text("12 skills of 5 agents, 3 scenes")
    assert page.evaluate("window.still") is True


def test_a_network_that_fell_silent_is_said_to_be_suspected(enter, site):
    page = live(enter())
    skills, scenes = home()
    site.show([one._replace(is_stale=True) for one in skills], scenes, is_suspected=True)
    expect(page.get_by_text("The network itself is suspected.")).to_be_visible()
    expect(page.locator(".lan-table .c-health .tag")).to_have_count(11)


def test_filters_narrow_the_map_and_the_table_and_stay_live(enter, site):
    page = live(enter())
    page.get_by_role("link", name=re.compile("^Degraded")).click()
    page.wait_for_url("**/lan?status=degraded")
    expect(page.locator(".lan-table tbody tr")).to_have_count(1)
    expect(page.locator(".map.wide .card")).to_have_count(1)
    live(page)
    site.change("csv-profile", status="DEGRADED")
    expect(page.locator(".lan-table tbody tr")).to_have_count(2)
    page.get_by_label("Skill, agent, capability, scene or address").fill("auth")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/lan?status=degraded&q=auth")
    expect(page.locator(".lan-table tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Clear").click()
    page.wait_for_url("**/lan?status=degraded")


def test_without_a_script_everything_is_there_but_the_movement(enter, site):
    page = enter(script=False)
    expect(page.locator(".lan-table tbody tr")).to_have_count(11)
    expect(page.locator(".map.wide .card")).to_have_count(11)
    site.leave("mill")
    page.get_by_role("link", name="Refresh").click()
    expect(page.locator(".lan-table tbody tr")).to_have_count(10)


def test_a_large_network_is_drawn_in_part_and_paged(enter, site):
    site.show(*town())
    page = enter()
    expect(page.locator(".lan-sum")).to_have_text("1,500 skills of 60 agents, 12 scenes")
    expect(page.locator(".map.wide .hub")).to_have_count(12)
    expect(page.locator("#not-drawn")).to_contain_text(
        "Drawn: 48 of 1,500 skills, of 12 of 60 agents, those in trouble first"
    )
    expect(page.locator(".map.wide .hub .agent").first).to_have_text("agent-001")  # the even ones are all healthy
    expect(page.locator(".map.wide .stop")).to_have_count(8)
    expect(page.locator(".lan-table tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**/lan?page=2")
    expect(page.get_by_role("heading", name=re.compile("^Skills"))).to_contain_text("51 to 100 of 1,500")
    live(page)
    expect(page.get_by_role("heading", name=re.compile("^Skills"))).to_contain_text("51 to 100 of 1,500")


def test_an_empty_network_says_what_to_do(enter, site):
    site.show([])
    page = live(enter())
    expect(page.get_by_text("Nobody has announced a skill yet.")).to_be_visible()
    expect(page.get_by_text("skillwire serve FOLDER --lan")).to_be_visible()
    site.show(*home())
    expect(page.locator(".lan-table tbody tr")).to_have_count(11)


def test_only_operators_see_the_network(enter, visit, site):
    page = enter("/lan", as_="tom")
    expect(page.get_by_role("heading", name="Your key does not show the local network")).to_be_visible()
    assert page.get_by_role("link", name="LAN").count() == 0
    stranger = visit("/lan", root=site.address)
    assert stranger.url == f"{site.address}/login?next=%2Flan"


def test_what_strangers_announce_is_text(enter, site):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    skills, scenes = home()
    site.show([skills[0]._replace(skill_id=hostile, capabilities=(hostile,), agent_id=hostile), *skills[1:]], scenes)
    page = enter()
    expect(row(page, hostile)).to_be_visible()
    assert page.evaluate("document.scripts.length") == 2
    assert page.locator("[onerror], [style], #main img").count() == 0


@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")])
def test_the_page_has_no_barrier_and_is_not_wider_than_the_screen(enter, site, width, theme):
    page = enter(width=width, theme=theme)
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])
    for skills, scenes in (town(), ((), ())):
        site.show(skills, scenes)
        page.goto(f"{site.address}/lan")
        assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])
    page.goto(f"{site.address}/lan?q=nothing")
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])
