"""Signing in at an identity provider of another site in Chromium: cookies of ours come back only where they may."""

import re

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.console_site import ConsoleServer
from tests.support.oidc_provider import CONSOLE, JWT_RESOURCE, running_oidc_provider

from skillwire.server.configuration import OAuth2Settings, ServerConfiguration

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve a registry at ``localhost``, which is another site than the provider's ``127.0.0.1``; give its address."""
    root = tmp_path_factory.mktemp("sign-in")
    (root / "skills").mkdir()
    with running_oidc_provider() as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLWIRE_HOME", str(root / "home"))
        patch.setenv("CONSOLE_SECRET", str(CONSOLE.secret))
        settings = OAuth2Settings(
            provider.issuer,
            JWT_RESOURCE,
            client_id=CONSOLE.client_id,
            client_secret_env="CONSOLE_SECRET",  # noqa: S106  # a name
            sign_in="anyone",
        )
        configuration = ServerConfiguration(oauth2=settings)
        with ConsoleServer([root / "skills"], root / "blobs", registry=True, configuration=configuration) as server:
            patch.setattr(server, "address", server.address.replace("127.0.0.1", "localhost"))
            yield server.address


@pytest.mark.parametrize("script", [True, False])
def test_a_person_comes_back_signed_in_to_where_they_wanted(visit, site, script):
    page = visit("/account/device", root=site, script=script)
    assert page.url.startswith(f"{site}/login?next=")
    assert page.evaluate(TOO_WIDE) <= 0
    if script:
        assert violations(page) == []
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    page.wait_for_url(re.compile("/account/(new|device)$"))
    if page.url.endswith("/new"):  # the first visit; the other one has an account
        expect(page.get_by_label("Name")).to_have_value("alice")
        assert page.evaluate(TOO_WIDE) <= 0
        page.get_by_label("Name").focus()
        page.keyboard.press("Enter")
    page.wait_for_url("**/account/device")
    expect(page.get_by_role("heading", name="Log in a program")).to_be_visible()
    cookies = {one["name"]: one for one in page.context.cookies(site)}
    [session] = [one for name, one in cookies.items() if not name.endswith(("-state", "-person"))]
    assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")
    assert not [name for name in cookies if name.endswith("-state")]
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_text("this session")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")


def test_a_page_of_another_site_cannot_finish_a_sign_in(visit, site):
    page = visit("/account/sign-in/answer?state=x&code=y", root=site)
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    assert page.context.cookies() == []
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])
