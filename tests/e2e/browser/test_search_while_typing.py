"""The list changes while somebody types: in order, in step with the address and the history, without losing focus."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.deep
TYPE_AT_ONCE = """(input, text) => {
  for (let end = 1; end <= text.length; end++) {
    input.value = text.slice(0, end);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""


def box(page):
    return page.get_by_label("Search skills")


def shown(page):
    return page.locator(".hits li > a")


def test_the_list_follows_the_keys_and_the_address_follows_the_list(visit, served):
    page = visit("/")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/hits" in request.url else None)
    box(page).focus()
    box(page).evaluate(TYPE_AT_ONCE, "tools")
    expect(page.locator("#count")).to_have_text("1 skill for “tools”")
    assert page.url == f"{served}/?q=tools"
    assert len(asked) == 1, "one request for what was typed in one go"
    assert asked[0].startswith(f"{served}/hits?q=tools")
    expect(box(page)).to_be_focused()
    expect(page.locator("#told")).to_have_text("1 skill for “tools”")


def test_an_answer_that_comes_late_is_dropped(visit):
    page = visit("/")
    held = []
    page.route(re.compile(r"/hits\?q=report$"), lambda route: held.append(route))  # noqa: PLW0108  # it wants a function
    with page.expect_request(re.compile(r"/hits\?q=report$")):
        box(page).fill("report")
    box(page).fill("tools")
    expect(page.locator("#count")).to_have_text("1 skill for “tools”")
    for route in held:
        route.fulfill(body="<p id='stale'>stale</p>", content_type="text/html")
    page.evaluate("fetch('hits?q=notes').then(answer => answer.text())")
    assert page.locator("#stale").count() == 0
    expect(page.locator("#count")).to_have_text("1 skill for “tools”")
    assert page.url.endswith("/?q=tools")


def test_going_back_shows_what_was_there(visit, served):
    page = visit("/")
    box(page).fill("tools")
    expect(shown(page)).to_have_count(1)
    page.get_by_role("link", name="Clear search").click()
    expect(shown(page)).to_have_count(50)
    assert page.url == f"{served}/"
    page.go_back()
    expect(shown(page)).to_have_count(1)
    expect(box(page)).to_have_value("tools")
    page.go_back()
    expect(shown(page)).to_have_count(50)
    expect(box(page)).to_have_value("")


def test_a_facet_is_chosen_in_place_and_keeps_the_focus(visit):
    page = visit("/?q=report")
    link = page.get_by_role("link", name=re.compile("With scripts"))
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text("28 skills for “report”")
    expect(link).to_be_focused()
    expect(link).to_have_attribute("aria-current", "true")
    assert "kind=scripts" in page.url
    page.evaluate("window.still = true")
    box(page).fill("report sea")
    expect(page.locator("#count")).to_have_text(re.compile("^9 skills"))
    assert "kind=scripts" in page.url
    assert page.evaluate("window.still") is True
    link.focus()
    page.keyboard.press("Enter")
    expect(link).not_to_have_attribute("aria-current", "true")


def test_the_keyboard_is_enough(visit, served):
    page = visit("/")
    page.keyboard.press("/")
    expect(box(page)).to_be_focused()
    page.keyboard.type("report-0")
    expect(page.locator("#count")).to_have_text(re.compile("for “report-0”"))
    page.keyboard.press("ArrowDown")
    expect(shown(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(shown(page).nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(box(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(box(page)).to_have_value("")
    expect(shown(page)).to_have_count(50)
    page.keyboard.type("tools")
    expect(shown(page)).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{served}/skills/tools")


def test_more_skills_are_added_below_and_the_focus_goes_to_the_first_of_them(visit):
    page = visit("/")
    page.get_by_role("link", name="More skills").click()
    expect(shown(page)).to_have_count(60)
    expect(shown(page).nth(50)).to_be_focused()
    assert page.get_by_role("link", name="More skills").count() == 0
    names = shown(page).all_text_contents()
    assert names == sorted(set(names))


def test_when_the_server_fails_the_page_itself_is_asked_for(visit, served):
    page = visit("/")
    page.route(re.compile("/hits"), lambda route: route.abort())
    with page.expect_navigation(url=f"{served}/?q=tools"):
        box(page).fill("tools")
    expect(shown(page)).to_have_count(1)
    expect(box(page)).to_have_value("tools")


def test_no_hit_says_what_to_do_and_undoes_it(visit):
    page = visit("/")
    box(page).fill("zzzzqq")
    expect(page.get_by_text("No skill matches.")).to_be_visible()
    page.get_by_role("link", name="Show all 60 skills").click()
    expect(shown(page)).to_have_count(50)
    expect(box(page)).to_have_value("")
