"""Signing in and out over ASGI: what is believed, where it leads, and what never happens."""

import re

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.console_browser import HTML, Browser
from tests.support.console_site import ConsoleSite, make_key
from tests.support.fake_desk import new_execution
from tests.support.publishing import write_skill

from skillwire.server.console_request import following_path, is_from_here

ADDRESS = "http://skills.example.com"


@pytest.mark.parametrize(
    "target", ["/executions", "/executions?status=failed", "/inbox", f"/executions/exec-{'0' * 32}"]
)
async def test_pages_lead_those_who_are_not_signed_in_to_the_login(browser, target):
    answer = await browser.get(target)
    assert answer.status == 303
    path, _, query = answer.fields["location"].partition("?")
    assert path == "/login"
    answer = await browser.get(f"/login?{query}")
    assert f'name="next" value="{target}"' in answer.body.decode().replace("&amp;", "&")
    assert answer.fields["cache-control"] == "no-store"


async def test_a_key_opens_the_console_and_leads_where_somebody_was_going(browser, tokens):
    key = make_key("ann", "operator")
    answer = await browser.sign_in(key, "/executions?status=failed")
    assert (answer.status, answer.fields["location"]) == (303, "/executions?status=failed")
    cookie = answer.fields["set-cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert part in cookie.split("; ")
    assert "Secure" not in cookie
    assert key[20:] not in cookie
    assert (await browser.get("/executions")).status == 200
    assert "You are signed in" in (await browser.get("/login")).body.decode()
    tokens.revoke(key.split("_")[1])
    assert (await browser.get("/executions")).status == 303


@pytest.mark.parametrize(
    ("scopes", "begin"), [(["operator"], "/executions"), (["tasks"], "/inbox"), ([], "/executions")]
)
async def test_each_begins_where_they_most_likely_want_to(browser, scopes, begin):
    assert (await browser.sign_in(make_key("ann", *scopes))).fields["location"] == begin


async def test_over_https_the_cookie_never_leaves_without_it(tmp_path, tokens):  # noqa: ARG001  # the state folder
    write_skill(tmp_path / "skills", "notes")
    site = ConsoleSite([tmp_path / "skills"], tmp_path / "blobs", base_url="https://skills.example.com")
    browser = Browser(site)
    cookie = (await browser.sign_in(make_key("ann"))).fields["set-cookie"]
    assert cookie.startswith("__Host-skillwire-")
    assert "Secure" in cookie.split("; ")
    assert (await browser.get("/executions")).status == 200
    await site.application.shutdown()


async def test_below_another_application_cookie_and_links_stay_below(site):
    browser = Browser(Starlette(routes=[Mount("/team", site)]))
    answer = await browser.post("/team/login", {"key": make_key("ann", "operator")})
    assert answer.fields["location"] == "/team/executions"
    assert "Path=/team;" in answer.fields["set-cookie"]
    page = (await browser.get("/team/executions")).body.decode()
    assert 'action="./logout"' in page
    assert (await browser.get("/team/inbox/none")).status == 404


async def test_behind_a_proxy_that_takes_a_path_away_cookie_and_links_stay_below(tmp_path):
    (tmp_path / "skills").mkdir(exist_ok=True)
    site = ConsoleSite([tmp_path / "skills"], tmp_path / "blobs", base_url="https://skills.example.com/team")
    browser = Browser(site)
    assert (await browser.get("/executions")).fields["location"] == "/team/login?next=%2Fexecutions"
    answer = await browser.sign_in(make_key("ann"))
    assert answer.fields["location"] == "/team/executions"
    assert answer.fields["set-cookie"].startswith("__Secure-skillwire-")
    assert "Path=/team;" in answer.fields["set-cookie"]
    assert (await browser.get("/executions")).status == 200
    await site.application.shutdown()


@pytest.mark.parametrize("key", ["", "sw_", "open sesame", "sw_" + "a" * 16 + "_" + "b" * 43, "\U0001f511"])
async def test_what_is_no_key_opens_nothing(browser, key):
    answer = await browser.sign_in(key)
    assert answer.status == 403
    assert "set-cookie" not in answer.fields
    assert "The key is not valid on this server" in answer.body.decode()
    assert f'value="{key}"' not in answer.body.decode().replace('name="next" value=""', "")


async def test_a_signing_key_and_one_that_was_taken_back_open_nothing(browser, tokens):
    signing = tokens.issue("robot", kind="signing_key").secret
    revoked = tokens.issue("gone")
    tokens.revoke(revoked.token.token_id)
    for key in (signing, revoked.secret):
        assert (await browser.sign_in(key)).status == 403


@pytest.fixture
def _stopped_clock(site, monkeypatch):
    """Guesses are forgotten with time, which a busy machine needs more of."""
    monkeypatch.setattr(site.application.services.authentication, "_clock", lambda: 1000.0)


@pytest.mark.usefixtures("_stopped_clock")
async def test_wrong_keys_count_against_the_address_like_other_credentials(browser):
    key = make_key("ann", "operator")
    for _ in range(30):
        assert (await browser.sign_in("sw_wrong")).status == 403
    answer = await browser.sign_in("sw_wrong")
    assert answer.status == 429
    assert int(answer.fields["retry-after"]) > 0
    assert "Too many wrong keys" in answer.body.decode()
    assert (await browser.request("/skills", {"x-api-key": "sw_wrong"})).status == 429
    assert (await browser.request("/skills", {"x-api-key": key})).status == 200
    assert (await browser.sign_in(key)).status == 303


@pytest.mark.usefixtures("_stopped_clock")
async def test_wrong_credentials_count_against_the_login(browser):
    for _ in range(30):
        assert (await browser.request("/skills", {"x-api-key": "sw_wrong"})).status == 401
    assert (await browser.sign_in("sw_wrong")).status == 429


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/executions/../../evil",
        "/executions\r\nSet-Cookie: a=b",
        "/executions?a=\r\nb",
        "/executions ",
        "/skills/x",
        "/executionsevil",
        "/executions//evil.example",
        "javascript:alert(1)",
        "/executions" + "?" + "a" * 2000,
    ],
)
async def test_signing_in_leads_to_the_console_and_nowhere_else(browser, elsewhere):
    assert following_path(elsewhere) == ""
    answer = await browser.sign_in(make_key("ann"), elsewhere)
    assert answer.fields["location"] == "/executions"


@pytest.mark.parametrize(
    ("fields", "is_ours"),
    [
        ({b"sec-fetch-site": "same-origin"}, True),
        ({b"sec-fetch-site": "none"}, True),
        ({b"sec-fetch-site": "same-site", b"origin": ADDRESS}, False),
        ({b"sec-fetch-site": "cross-site", b"origin": ADDRESS}, False),
        ({b"origin": ADDRESS, b"host": "skills.example.com"}, True),
        ({b"origin": ADDRESS, b"host": "127.0.0.1:8000"}, True),
        ({b"origin": "http://127.0.0.1:8000", b"host": "127.0.0.1:8000"}, True),
        ({b"origin": "http://127.0.0.1:8001", b"host": "127.0.0.1:8000"}, False),
        ({b"origin": "https://evil.example", b"host": "skills.example.com"}, False),
        ({b"origin": "null", b"host": "skills.example.com"}, False),
        ({b"origin": "", b"host": ""}, False),
        ({b"host": "skills.example.com"}, False),
    ],
)
def test_a_form_is_believed_when_the_browser_says_that_it_is_ours(fields, is_ours):
    assert is_from_here(fields, ADDRESS) is is_ours


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
async def test_a_form_of_another_site_signs_nobody_in_and_does_nothing(browser, enter, desk, origin):
    answer = await browser.post("/login", {"key": make_key("ann")}, {"origin": origin})
    assert (answer.status, answer.fields.get("set-cookie")) == (403, None)
    execution = desk.put(new_execution())
    ann = await enter("ann", "operator")
    form = {"token": await ann.token()}
    assert (await ann.post(f"/executions/{execution.execution_id}/cancel", form, {"origin": origin})).status == 403
    assert not desk.executions[execution.execution_id].status.is_final


async def test_a_form_without_the_token_of_the_session_does_nothing(enter, desk):
    ann, bob = await enter("ann", "operator"), await enter("bob", "operator")
    path = f"/executions/{desk.put(new_execution()).execution_id}/cancel"
    for form in ({}, {"token": ""}, {"token": await bob.token()}, {"token": f"{await ann.token()}x"}):
        answer = await ann.post(path, form)
        assert answer.status == 403
        assert "Nothing was done" in answer.body.decode()
    assert (await ann.post("/logout", {})).status == 403
    assert (await ann.get("/executions")).status == 200


async def test_a_form_is_a_form_and_has_a_bound(enter):
    ann = await enter("ann", "operator")
    json = {"content-type": "application/json"}
    assert (await ann.post("/logout", b"{}", json)).status == 415
    assert (await ann.post("/logout", b"token=" + b"x" * 1_100_000)).status == 413
    assert (await ann.post("/logout", "token=ü".encode())).status == 400
    assert (await ann.post("/logout", b"a=1&" * 2000)).status == 400


async def test_signing_out_ends_the_session_also_for_who_copied_the_cookie(enter, site):
    ann = await enter("ann", "operator")
    thief = Browser(site)
    thief.cookies = dict(ann.cookies)
    assert (await thief.get("/executions")).status == 200
    assert (await ann.get("/logout")).fields["location"] == "/login"
    assert (await ann.get("/executions")).status == 200, "looking signs nobody out"
    answer = await ann.act("/logout")
    assert (answer.status, ann.cookies) == (303, {})
    assert "Max-Age=0" in answer.fields["set-cookie"]
    assert (await thief.get("/executions")).status == 303


async def test_a_session_of_another_key_than_the_one_that_is_shown_does_not_help_a_program(browser, enter, desk):
    execution = desk.put(new_execution(caller="principal secret"))
    ann = await enter("ann", "operator")
    cookie = "; ".join(f"{name}={value}" for name, value in ann.cookies.items())
    answer = await browser.request(
        f"/executions/{execution.execution_id}", {"accept": "application/json", "cookie": cookie}
    )
    assert answer.status == 404, "the cookie opens pages only"


async def test_who_follows_a_link_of_another_site_is_asked_again_by_ours(enter):
    ann = await enter("ann", "operator")
    cookies, ann.cookies = ann.cookies, {}
    answer = await ann.get("/executions?status=failed", {"sec-fetch-site": "cross-site"})
    assert answer.status == 200
    assert '<meta http-equiv="refresh" content="0">' in answer.body.decode()
    ann.cookies = cookies
    assert (
        "<h1>Executions"
        in (await ann.get("/executions?status=failed", {"sec-fetch-site": "same-origin"})).body.decode()
    )
    ann.cookies = {}
    assert (await ann.get("/executions", {"sec-fetch-site": "same-origin"})).status == 303


async def test_a_page_may_do_little_and_nobody_keeps_it(enter):
    ann = await enter("ann", "operator")
    for target in ("/executions", "/inbox", "/login"):
        answer = await ann.get(target)
        assert answer.fields["cache-control"] == "no-store"
        assert answer.fields["referrer-policy"] == "same-origin"
        assert "default-src 'none'" in answer.fields["content-security-policy"]
        assert "etag" not in answer.fields
        page = answer.body.decode()
        assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page)


async def test_other_methods_are_told_which_there_are(enter):
    ann = await enter("ann", "operator")
    some = f"exec-{'0' * 32}"
    for target, method, allowed in (
        ("/executions", "POST", "GET, HEAD"),
        ("/login", "DELETE", "GET, HEAD, POST"),
        (f"/executions/{some}/cancel", "GET", "POST"),
        (f"/inbox/{some}/claim", "GET", "POST"),
        (f"/inbox/{some}", "PUT", "GET, HEAD"),
    ):
        answer = await ann.request(target, HTML, method=method)
        assert (answer.status, answer.fields["allow"]) == (405, allowed)
