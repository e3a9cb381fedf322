"""The pages of accounts in Chromium: tokens, a login of a program, the first operator; by keyboard, without scripts."""

import asyncio
import re

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.console_site import ConsoleServer
from tests.support.opened import Blocking, open_tokens

from skillwire.model.package import Account, Change, Namespace

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("home_of_the_site")]
HOSTILE = "<img src=x onerror=alert(1)> robot"


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve a registry with the operator ``ann``, who owns a namespace."""
    root = tmp_path_factory.mktemp("account")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLWIRE_HOME", str(root / "home"))
        (root / "skills").mkdir()
        with ConsoleServer([root / "skills"], root / "blobs", registry=True) as server:
            server.parts = server.application.services.packages
            store = Blocking(server.parts.registry.store)
            change = Change(1.0, "ann", "account.create", "ann")
            store.add_account(Account("ann", 1.0, True), change)
            store.add_namespace(Namespace("acme-tools", 1.0), "ann", change)
            server.home, server.first_page = str(root / "home"), "/account"
            yield server


@pytest.fixture(scope="module")
def keys(site):  # noqa: ARG001  # the keys are kept in its state folder
    scopes = ("read", "publish", "admin")
    return {
        "ann": open_tokens().issue("laptop", scopes=scopes, account="ann").secret,
        "eve": open_tokens().issue("eve").secret,
    }


def begin(site, *scopes):
    logins = site.parts.device_logins
    return asyncio.run_coroutine_threadsafe(logins.begin("skillwire", scopes, "192.0.2.7"), site._loop).result()


@pytest.mark.parametrize("script", [True, False])
def test_a_token_is_made_shown_once_and_revoked(enter, script):
    page = enter(script=script)
    expect(page.get_by_role("link", name="Account")).to_have_attribute("aria-current", "page")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_label("Publish and yank").check()
    page.get_by_label("Limited to").select_option("acme-tools")
    page.get_by_label("Expires").select_option("After 1 day")
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_role("region", name="New token", exact=True)).to_contain_text(re.compile("^sw_"))
    row = page.locator(".tokens li").first
    expect(row).to_contain_text("namespace:acme-tools")
    expect(row).to_contain_text("never used")
    page.goto(page.url.partition("/account")[0] + "/account")
    expect(page.get_by_role("region", name="New token", exact=True)).to_have_count(0)
    before = page.locator(".tokens li").count()
    page.locator(".tokens li").first.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_have_text("The token was revoked.")
    expect(page.locator(".tokens li")).to_have_count(before - 1)


def test_the_keyboard_is_enough_to_approve_a_login(enter, site):
    codes = begin(site, "read", "publish")
    page = enter("/account/device?user_code=" + codes.user_code)
    expect(page.get_by_label("Code")).to_have_value(codes.user_code)
    page.get_by_label("Code").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Allow this program to log in?")).to_be_visible()
    expect(page.locator("main")).to_contain_text("skillwire")
    expect(page.locator("main")).to_contain_text("192.0.2.7")
    page.get_by_label("Read what is not public").focus()
    page.keyboard.press("Space")
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The program is logged in")).to_be_visible()
    login = Blocking(site.parts.device_logins._store).find(site.parts.device_logins._user_hash(codes.user_code))
    assert (login.decision, login.scopes, login.account) == ("approved", ("publish",), "ann")


def test_a_login_is_refused_without_scripts(enter, site):
    codes = begin(site)
    page = enter("/account/device", script=False)
    page.get_by_label("Code").fill("BBBB-BBBB")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("No login is waiting for this code. Compare it")
    page.get_by_label("Code").fill(codes.user_code.lower())
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("heading", name="The login was refused")).to_be_visible()


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_readable_on_every_screen(enter, visit, site, width, theme):
    page = enter(width=width, theme=theme)
    found = {}

    def look(name):
        page.wait_for_load_state()  # a click waits until a page begins to load
        found[name] = (page.evaluate(TOO_WIDE), violations(page))

    look("account")
    page.get_by_label("Name", exact=True).fill("x" * 100)
    page.get_by_role("button", name="Make the token").click()
    look("made")
    codes = begin(site, "read", "publish", "admin")
    page.goto(f"{site.address}/account/device?user_code={codes.user_code}")
    look("enter")
    page.get_by_role("button", name="Continue").click()
    look("confirm")
    for target in ("/account/setup", "/login", "/"):
        page.goto(f"{site.address}{target}")
        look(target)
    assert not {name: one for name, one in found.items() if one != (0, [])}
    other = enter(as_="eve", width=width, theme=theme)
    assert (other.evaluate(TOO_WIDE), violations(other)) == (0, [])
    out = visit("/account/setup", root=site.address, width=width, theme=theme)
    assert (out.evaluate(TOO_WIDE), violations(out)) == (0, [])
