"""The pages of accounts as a browser asks for them: tokens, logins of programs, the first operator."""

import re
import time
from html import unescape

import pytest
from tests.support.console_browser import HTML, Browser
from tests.support.registry_site import ALL, RegistrySite

from skillwire.adapters import stores as opening
from skillwire.registry.audit import verify_entries
from skillwire.server.console_request import following_path
from skillwire.web.environment import Frame, login_page

SECRET = re.compile(r"sw_[a-z2-7]{16}_[A-Za-z0-9_-]{43}")


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    site.look()
    await site.account("ann")
    await site.account("root", is_operator=True)
    return site


@pytest.fixture
def enter(site):
    async def enter(name="ann", *scopes, following=""):
        browser = Browser(site.application)
        key = await site.token(name, *scopes) if scopes else site.tokens[name]
        assert (await browser.sign_in(key, following)).status == 303
        return browser

    return enter


async def actions(site):
    return [(one.change.account, one.change.action) for one in await site.store.audit(0, 99)]


def text_of(answer):
    return unescape(re.sub(r"<[^>]+>", "", answer.body.decode()))


class TestTokens:
    async def test_page_needs_a_session_and_comes_back_after_it(self, site):
        browser = Browser(site.application)
        answer = await browser.get("/account")
        assert (answer.status, answer.fields["location"]) == (303, "/login?next=%2Faccount")
        answer = await browser.sign_in(site.tokens["ann"])
        assert answer.fields["location"] == "/account"
        assert "HttpOnly" in answer.fields["set-cookie"]
        assert "SameSite=Strict" in answer.fields["set-cookie"]
        assert ">Account</a>" in (await browser.get("/account")).body.decode()

    async def test_a_token_is_made_shown_once_listed_and_revoked(self, site, enter):
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        ann = await enter()
        form = {"name": "robot", "scope": "publish", "namespace": "acme", "lifetime": "30"}
        answer = await ann.act("/account/tokens", **form)
        [secret] = SECRET.findall(answer.body.decode())
        assert answer.fields["cache-control"] == "no-store"
        page = await ann.get("/account")
        assert secret not in page.body.decode()
        for shown in ("robot", "namespace:acme", "never used", "29 d left", "owner"):
            assert shown in text_of(page)
        told = (await site.call("GET", "/whoami", by=secret)).json()
        assert (told["account"], told["scopes"]) == ("ann", ["namespace:acme", "publish"])
        number = secret.split("_")[1]
        assert (await ann.act(f"/account/tokens/{number}/revoke")).fields["location"] == "/account?notice=revoked"
        assert (await site.call("GET", "/whoami", by=secret)).status == 401
        page = await ann.get("/account?notice=revoked")
        assert "The token was revoked." in text_of(page)
        assert number not in page.body.decode()
        assert (await actions(site))[-2:] == [("ann", "token.create"), ("ann", "token.revoke")]
        assert verify_entries(await site.store.audit(0, 99))

    async def test_changes_are_logged_with_address_and_request(self, site, enter):
        ann = await enter()
        await ann.post(
            "/account/tokens", {"token": await ann.token(), "name": "x", "scope": "read"}, {"x-request-id": "r-5"}
        )
        change = (await site.store.audit(0, 99))[-1].change
        assert (change.address, change.request_id) == ("192.0.2.7", "r-5")

    @pytest.mark.parametrize("scopes", [("read",), ("publish",), ("admin", "namespace:acme")])
    async def test_a_session_may_no_more_than_its_token(self, site, enter, scopes):
        ann = await enter("ann", *scopes)
        answer = await ann.act("/account/tokens", name="more", scope="admin", lifetime="none")
        assert answer.status == 422
        assert "does not allow" in text_of(answer)
        assert not SECRET.search(answer.body.decode())
        number = site.tokens["ann"].split("_")[1]
        assert (await ann.act(f"/account/tokens/{number}/revoke")).status == 422
        assert (await site.call("GET", "/whoami", by="ann")).status == 200

    async def test_forms_offer_only_lifetimes_that_a_token_can_give_and_refuse_longer_ones_alike(self, site):
        tokens, browser = opening.open_stores().tokens(), Browser(site.application)
        own = await tokens.issue("own", scopes=ALL, account="ann", expires_in=60 * 86_400.0)
        await browser.sign_in(own.secret)
        codes = await site.parts.device_logins.begin("skillwire", ["read"], "203.0.113.9")
        ends = time.strftime("%Y-%m-%d", time.gmtime(own.token.expires))
        forms = [await browser.get("/account"), await browser.act("/account/device", code=codes.user_code)]
        for form in forms:
            lifetimes = form.body.decode().partition('name="lifetime"')[2].partition("</select>")[0]
            assert re.findall("<option.*?</option>", lifetimes) == [
                '<option value="1">After 1 day</option>',
                '<option value="30">After 30 days</option>',
                f'<option value="none" selected>With your token, on {ends}</option>',
            ]
        asked = {"name": "x", "scope": "read", "code": codes.user_code, "decision": "approve"}
        for path in ("/account/tokens", "/account/device"):
            refused = await browser.act(path, **asked, lifetime="90")
            assert (refused.status, f"Your own token ends on {ends}" in text_of(refused)) == (422, True)
            assert "at most 59d" in text_of(refused)
            assert (await browser.act(path, **asked, lifetime="none")).status == 200
        issued = await site.parts.device_logins.poll("skillwire", codes.device_code, "203.0.113.9", "")
        assert issued.token.expires == pytest.approx(own.token.expires, abs=1)

    async def test_nobody_reaches_the_tokens_of_another(self, site, enter):
        ann, root = await enter(), await enter("root")
        number = site.tokens["root"].split("_")[1]
        assert (await ann.act(f"/account/tokens/{number}/revoke")).status == 422
        assert number not in (await ann.get("/account")).body.decode()
        assert site.tokens["ann"].split("_")[1] not in (await root.get("/account")).body.decode()

    @pytest.mark.parametrize("form", [{"name": ""}, {"name": "x" * 129}, {"scope": ""}, {"namespace": "A b"}])
    async def test_malformed_forms_make_nothing(self, site, enter, form):
        before = len(await actions(site))
        answer = await (await enter()).act("/account/tokens", **{"name": "x", "scope": "read", "lifetime": "1", **form})
        assert answer.status == 422
        assert len(await actions(site)) == before

    async def test_a_key_without_an_account_has_none(self, enter):
        stranger = await enter("", "operator")
        assert "belongs to no account" in text_of(await stranger.get("/account"))
        assert (await stranger.act("/account/tokens", name="x", scope="read")).status == 422

    async def test_names_are_escaped(self, enter):
        ann = await enter()
        await ann.act("/account/tokens", name="<script>alert(1)</script>\u202eme", scope="read")
        page = (await ann.get("/account")).body.decode()
        assert "<script>alert" not in page
        assert "\u202e" not in page

    async def test_a_session_ends_with_its_token(self, site, enter):
        ann = await enter()
        number = site.tokens["ann"].split("_")[1]
        assert (await ann.act(f"/account/tokens/{number}/revoke")).status == 303
        assert (await ann.get("/account")).status == 303

    async def test_the_login_page_names_how_a_member_gets_a_token(self, site):
        page = text_of(await Browser(site.application).get("/login"))
        assert "Ask an operator of the registry" in page
        assert "skillwire registry token create NAME --account ACCOUNT" in page

    def test_a_browser_on_the_server_is_told_to_ask_under_a_heading_that_fits(self):
        page = login_page(Frame("http://localhost", "./", is_registry=True), is_local=True)
        assert "No token?" in page
        assert "You run this server?" not in page
        assert "You run this server?" in login_page(Frame("http://localhost", "./"), is_local=True)

    async def test_public_pages_lead_to_the_account(self, site):
        page = (await Browser(site.application).get("/")).body.decode()
        assert 'href="./account"' in page


FORMS = ("/account/tokens", "/account/device", "/account/tokens/abc/revoke")


class TestForeignForms:
    @pytest.mark.parametrize("path", FORMS)
    async def test_without_the_token_of_the_session_do_nothing(self, site, enter, path):
        ann, root = await enter(), await enter("root")
        before = await actions(site)
        for token in ("", await root.token(), f"{await ann.token()}x"):
            answer = await ann.post(path, {"token": token, "name": "x", "scope": "read", "code": "x"})
            assert answer.status == 403
        assert await actions(site) == before

    @pytest.mark.parametrize("path", [*FORMS, "/account/setup", "/account/new"])
    @pytest.mark.parametrize("fields", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
    async def test_of_another_site_do_nothing(self, enter, path, fields):
        ann = await enter()
        answer = await ann.post(path, {"token": await ann.token(), "code": "x", "account": "x"}, fields)
        assert answer.status == (303 if path == "/account/new" else 403)
        assert "set-cookie" not in answer.fields

    async def test_without_a_session_lead_to_the_login(self, site):
        for path in FORMS:
            assert (await Browser(site.application).post(path, {"name": "x"})).status == 303

    async def test_cookie_opens_no_api(self, site, enter):
        ann = await enter()
        cookie = "; ".join(f"{name}={value}" for name, value in ann.cookies.items())
        for method, path in (("GET", "/whoami"), ("POST", "/namespaces")):
            assert (await site.call(method, path, {"name": "n"}, fields={"Cookie": cookie})).status == 401


class TestDevice:
    async def begin(self, site, *scopes):
        return await site.parts.device_logins.begin("skillwire", scopes, "203.0.113.9")

    async def test_a_person_sees_what_is_asked_for_narrows_and_approves_it(self, site, enter):
        codes, ann = await self.begin(site, "read", "publish"), await enter()
        page = await ann.get(f"/account/device?user_code={codes.user_code}")
        assert f'value="{codes.user_code}"' in page.body.decode()
        assert "203.0.113.9" not in text_of(page)
        shown = await ann.act("/account/device", code=codes.user_code.lower())
        for part in ("skillwire", "203.0.113.9", "ann", "read", "publish"):
            assert part in text_of(shown)
        assert 'value="admin"' not in shown.body.decode()
        done = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="read", lifetime="1")
        assert "The program is logged in" in text_of(done)
        issued = await site.parts.device_logins.poll("skillwire", codes.device_code, "203.0.113.9", "")
        assert (issued.token.account, issued.token.scopes) == ("ann", {"read"})
        assert round(issued.token.expires - issued.token.created) == 86_400
        assert (await actions(site))[-2:] == [("ann", "token.approve"), ("ann", "token.create")]
        again = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="read")
        assert (again.status, "No login is waiting for this code. Compare it" in text_of(again)) == (422, True)

    async def test_a_person_refuses(self, site, enter):
        codes, ann = await self.begin(site), await enter()
        assert "was refused" in text_of(await ann.act("/account/device", code=codes.user_code, decision="refuse"))
        assert await site.parts.device_logins.poll("skillwire", codes.device_code, "", "") == "access_denied"

    async def test_a_request_for_one_namespace_stays_in_it(self, site, enter):
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        codes, ann = await self.begin(site, "publish", "namespace:other"), await enter()
        page = await ann.act("/account/device", code=codes.user_code)
        assert "Limited to other" in text_of(page)
        assert '<select id="namespace"' not in page.body.decode()
        await ann.act("/account/device", code=codes.user_code, decision="approve", scope="publish")
        issued = await site.parts.device_logins.poll("skillwire", codes.device_code, "", "")
        assert issued.token.scopes == {"publish", "namespace:other"}

    @pytest.mark.parametrize("more", [{"scope": "admin"}, {"scope": ""}, {}])
    async def test_a_grant_beyond_the_request_is_refused(self, site, enter, more):
        codes, ann = await self.begin(site, "read"), await enter()
        answer = await ann.act("/account/device", code=codes.user_code, decision="approve", **more)
        assert answer.status == 422
        assert await site.parts.device_logins.poll("skillwire", codes.device_code, "", "") == "authorization_pending"

    async def test_looking_decides_nothing(self, site, enter):
        codes, ann = await self.begin(site), await enter()
        await ann.get(f"/account/device?user_code={codes.user_code}&code={codes.user_code}&decision=approve&scope=read")
        assert (await site.parts.device_logins.find(codes.user_code)).decision == ""

    async def test_a_session_gives_what_its_own_token_allows(self, site, enter):
        codes, ann = await self.begin(site, "read", "publish", "admin"), await enter("ann", "publish")
        shown = await ann.act("/account/device", code=codes.user_code)
        assert re.findall(r'name="scope" value="(\w+)" checked', shown.body.decode()) == ["read", "publish"]
        assert "does not allow admin: to give it, sign in with a token that does" in text_of(shown)
        refused = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="admin")
        assert (refused.status, "Your token does not allow admin. " in text_of(refused)) == (422, True)
        done = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="publish")
        assert "The program is logged in" in text_of(done)
        issued = await site.parts.device_logins.poll("skillwire", codes.device_code, "", "")
        assert issued.token.scopes == {"publish"}

    async def test_a_session_that_can_give_nothing_only_refuses(self, site, enter):
        codes, ann = await self.begin(site, "publish"), await enter("ann", "read")
        shown = (await ann.act("/account/device", code=codes.user_code)).body.decode()
        assert ('value="approve"' in shown, 'value="refuse"' in shown) == (False, True)
        assert "--account ann --scope publish" in shown
        answer = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="publish")
        assert answer.status == 422

    async def test_a_session_of_one_namespace_offers_it_alone(self, site, enter):
        codes, ann = await self.begin(site, "publish"), await enter("ann", "publish", "namespace:acme")
        shown = (await ann.act("/account/device", code=codes.user_code)).body.decode()
        assert re.findall(r"<option[^>]*>(acme|All namespaces)<", shown) == ["acme"]
        everywhere = await ann.act("/account/device", code=codes.user_code, decision="approve", scope="publish")
        assert everywhere.status == 422
        within = {"scope": "publish", "namespace": "acme"}
        await ann.act("/account/device", code=codes.user_code, decision="approve", **within)
        issued = await site.parts.device_logins.poll("skillwire", codes.device_code, "", "")
        assert issued.token.scopes == {"publish", "namespace:acme"}

    async def test_a_session_with_rights_in_the_console_offers_each_namespace_of_its_account(self, site, enter):
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        codes, ann = await self.begin(site, "publish"), await enter("ann", "publish", "tasks")
        shown = (await ann.act("/account/device", code=codes.user_code)).body.decode()
        assert re.findall(r"<option[^>]*>([^<]*)<", shown)[:2] == ["All namespaces", "acme"]

    async def test_guesses_are_counted_for_all_sessions_of_an_account_also_right_ones(self, site, enter):
        site.application.services.clock = lambda: 1000.0
        codes = await self.begin(site)
        browsers = [await enter() for _ in range(2)]
        for number in range(20):
            browser = browsers[number % 2]
            assert (await browser.act("/account/device", code="BBBB-BBBB")).status == 422
        answer = await browsers[0].act("/account/device", code=codes.user_code)
        assert answer.status == 429
        assert "203.0.113.9" not in text_of(answer)
        root = await enter("root")  # another account at the same address
        assert (await root.act("/account/device", code=codes.user_code)).status == 429


class TestSetUp:
    @pytest.fixture
    async def site(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
        site = RegistrySite(tmp_path)
        site.look()
        return site

    async def test_the_code_makes_the_first_operator_and_signs_in(self, site):
        code, browser = await site.parts.accounts.prepare_first_operator(), Browser(site.application)
        assert 'name="code"' in (await browser.get("/account/setup")).body.decode()
        wrong = await browser.post("/account/setup", {"code": "x", "account": "ann"})
        assert (wrong.status, "set-cookie" in wrong.fields) == (422, False)
        malformed = await browser.post("/account/setup", {"code": code, "account": "A N"})
        assert (malformed.status, code in malformed.body.decode()) == (422, False)
        answer = await browser.post("/account/setup", {"code": f" {code} ", "account": "ann"}, {"x-request-id": "r-1"})
        assert (answer.status, answer.fields["location"]) == (303, "/account")
        assert "operator" in text_of(await browser.get("/account"))
        change, issued = [one.change for one in await site.store.audit(0, 9)]
        assert (issued.action, issued.account, issued.request_id) == ("token.create", "ann", "r-1")
        assert change[1:4] == ("ann", "account.create", "ann")
        assert (change.details, change.address, change.request_id) == ({"operator": True}, "192.0.2.7", "r-1")
        late = await Browser(site.application).get("/account/setup")
        assert ("has an operator" in text_of(late), 'name="code"' in late.body.decode()) == (True, False)
        again = await Browser(site.application).post("/account/setup", {"code": code, "account": "eve"})
        assert again.status == 422

    async def test_wrong_codes_count_against_the_address(self, site):
        authentication = site.application.services.authentication
        authentication._clock = lambda: 1000.0
        await site.parts.accounts.prepare_first_operator()
        browser = Browser(site.application)
        statuses = [(await browser.post("/account/setup", {"code": "x", "account": "a"})).status for _ in range(31)]
        assert statuses == [422] * 30 + [429]


@pytest.mark.parametrize(
    ("path", "is_ours"),
    [
        ("/account", True),
        ("/account/device?user_code=BCDF-GHJK", True),
        ("/account/../x", False),
        ("/account//evil.example", False),
        ("//evil.example/account", False),
        ("/account/tokens/a/revoke", False),
    ],
)
def test_signing_in_leads_to_pages_of_accounts_only(path, is_ours):
    assert following_path(path) == (path if is_ours else "")


async def test_pages_may_do_little(enter):
    ann = await enter()
    for path in ("/account", "/account/device", "/account/setup"):
        answer = await ann.get(path)
        assert answer.fields["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.fields["content-security-policy"]
        assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", answer.body.decode())
    for path, method in (("/account", "POST"), ("/account/tokens", "GET"), ("/account/setup", "DELETE")):
        assert (await ann.request(path, HTML, method=method)).status == 405
