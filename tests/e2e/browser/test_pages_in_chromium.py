"""Each page at three widths, light and dark: nothing that axe finds, nothing too wide, nothing that runs."""

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.eventually import eventually

pytestmark = pytest.mark.deep
PAGES = {
    "list": "/",
    "hits": "/?q=report&kind=scripts",
    "no hits": "/?q=zzzzqq",
    "bad cursor": "/?after=none",
    "skill": "/skills/tools",
    "hostile skill": "/skills/notes",
    "action": "/skills/forecast",
    "call": "/skills/forecast/call",
    "files": "/skills/tools/files",
    "versions": "/skills/tools/versions",
    "security": "/skills/tools/security",
    "file": "/skills/tools/files/scripts/run.py",
    "picture": "/skills/tools/files/assets/pixel.png",
    "download": "/skills/tools/files/assets/data.bin",
    "absent": "/skills/none",
}


@pytest.mark.parametrize(
    ("width", "theme", "names"),
    [(360, "light", PAGES), (1280, "dark", PAGES)]
    + [
        (width, theme, ("list", "skill"))
        for width, theme in [(360, "dark"), (768, "light"), (768, "dark"), (1280, "light")]
    ],
)
def test_no_page_has_a_barrier_or_is_wider_than_the_screen(visit, served, width, theme, names):
    page = visit("/", width=width, theme=theme)
    for name in names:
        page.goto(served + PAGES[name])
        assert page.evaluate(TOO_WIDE) <= 0, name
        assert violations(page) == [], name


def test_a_site_without_skills_has_none_either(visit, empty):
    page = visit("/", root=empty, width=360)
    assert page.get_by_role("heading", name="Nothing is published here yet").is_visible()
    assert page.evaluate(TOO_WIDE) <= 0
    assert violations(page) == []


def test_a_theme_is_followed(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    assert visit("/", theme="light").evaluate(background) != visit("/", theme="dark").evaluate(background)


def test_nothing_that_a_skill_says_becomes_an_element(visit, served):
    page = visit("/?q=<img src=x onerror=alert(9)>")
    for target in ("/", "/skills/notes", "/skills/tools", "/skills/tools/files/scripts/run.py"):
        page.goto(served + target)
        assert page.evaluate("document.scripts.length") == 1
        assert page.locator("[onerror], [onclick], [style], iframe, object, embed").count() == 0
        assert page.locator("img").count() == (target == "/skills/tools")


def test_the_pictures_styles_and_script_of_a_page_are_all_loaded(visit):
    page = visit("/skills/tools")
    picture = page.locator(".prose img")
    picture.scroll_into_view_if_needed()
    eventually(lambda: page.evaluate("document.querySelector('.prose img').naturalWidth") == 1)
    assert page.evaluate("getComputedStyle(document.querySelector('.prose pre')).overflowX") == "auto"


def test_a_private_skill_never_appears(visit, served):
    page = visit("/?q=secret-plans")
    assert page.get_by_text("secret-plans", exact=True).count() == 0
    page.goto(f"{served}/skills/secret-plans")
    assert page.get_by_role("heading", name="Nothing is published here").is_visible()


def test_without_a_script_everything_reads_searches_filters_and_pages(visit):
    page = visit("/", script=False)
    page.get_by_label("Search skills").fill("moon")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#count")).to_have_text("38 skills for “moon”")
    page.get_by_role("link", name="With scripts").click()
    expect(page.locator("#count")).to_have_text("19 skills for “moon”")
    page.get_by_role("button", name="Search").click()  # the filter goes along
    assert "kind=scripts" in page.url
    page.get_by_role("link", name="Clear all").click()
    page.get_by_role("link", name="More skills").click()
    expect(page.locator(".hits li")).to_have_count(10)
    page.get_by_role("link", name="tools").click()
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="scripts/run.py").click()
    expect(page.locator(".lines > div")).to_have_count(120)
    assert not page.locator("button[data-copy]").first.is_visible()


def test_the_content_is_one_key_away(visit):
    page = visit("/skills/tools")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_what_is_copied_is_what_is_shown(visit, served):
    page = visit("/skills/tools")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the command with skillwire").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"skillwire add {served}/tools"


def test_the_filters_keep_their_column_whatever_is_found(visit):
    page = visit("/")
    left = "document.querySelector('.results').getBoundingClientRect().left"
    before = page.evaluate(left)
    for typed, told in (("tools", "1 skill for “tools”"), ("zzzzqq", "0 skills for “zzzzqq”")):
        page.get_by_label("Search skills").fill(typed)
        page.locator("#count", has_text=told).wait_for()
        assert page.evaluate(left) == before


def test_a_filter_is_switched_in_one_step(visit):
    page = visit("/?kind=scripts")
    page.get_by_role("link", name="Instructions").click()
    page.locator("#count", has_text="30 skills").wait_for()
    assert page.url.endswith("/?kind=instructions")


def test_a_short_command_is_on_one_line_and_what_is_deep_is_not_too_wide(visit):
    for width in (360, 1280):
        page = visit("/skills/tools", width=width)
        boxes = page.evaluate("[...document.querySelectorAll('.prose .short')].map(c => c.getClientRects().length)")
        assert set(boxes) == {1}
        assert page.evaluate(TOO_WIDE) <= 0


def test_the_form_that_people_are_given_opens_the_page(visit, served):
    assert visit("/tools").url == f"{served}/skills/tools"
    page = visit("/skills")
    assert page.locator(".hits li").count() == 50
    page.get_by_role("link", name="notes").click()
    page.wait_for_url(f"{served}/skills/notes")


def test_a_line_of_a_file_can_be_linked(visit):
    page = visit("/skills/tools/files/scripts/run.py#L100")
    assert page.locator("#L100").is_visible()
    assert page.evaluate("document.querySelector(':target').id") == "L100"
    eventually(lambda: page.evaluate("scrollY") > 0)  # it scrolls smoothly; waiting in the page needs an eval


def test_motion_is_only_for_those_who_want_it(chromium, served):
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(served)
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    context.close()
