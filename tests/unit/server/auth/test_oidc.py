"""Signing in with OpenID Connect: what binds an answer to its request, and which tokens sign nobody in."""

import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from tests.support.console_browser import Browser
from tests.support.jose import ISSUER, NOW, encode, signing_key
from tests.support.registry_site import RegistrySite

from skillwire.errors import SkillwireError
from skillwire.server.auth.oidc import OidcSignIn
from skillwire.server.configuration import Credentials, OAuth2Settings, ServerConfiguration
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse

CLIENT = "console"
SECRET = "the-secret-of-the-console"  # noqa: S105  # of the test
CALLBACK = "http://skills.example.com/account/sign-in/answer"
CODE = "code-that-is-secret-4711"


class Issuer:
    """An issuer that drives its own answers: ``claims`` change the ID token, ``metadata`` the document."""

    def __init__(self):
        self.key = signing_key("RS256")
        self.claims = {}
        self.header = {"typ": None}
        self.metadata = {}
        self.asked = []
        self.nonce = ""
        self.used = set()

    def answer(self, request):
        path = urlsplit(request.url).path
        if path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
            document = {"issuer": ISSUER, **{name: f"{ISSUER}{place}" for name, place in places.items()}}
            return 200, {**document, **self.metadata}
        if path == "/keys":
            return 200, {"keys": [self.key.jwk()]}
        if path == "/token":
            form = dict(parse_qsl(request.body if isinstance(request.body, str) else request.body.decode()))
            if form["code"] in self.used:
                return 400, {"error": "invalid_grant"}
            self.used.add(form["code"])
            return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token()}
        return 404, {}

    def id_token(self):
        claims = {"iss": ISSUER, "sub": "42", "aud": CLIENT, "exp": NOW + 300, "iat": NOW, "nonce": self.nonce}
        return self.key.token(
            {key: value for key, value in {**claims, **self.claims}.items() if value is not None}, **self.header
        )

    async def run(self, exchange):
        try:
            request = next(exchange)
            while True:
                self.asked.append(request)
                status, document = self.answer(request)
                fields = {"content-type": "application/json"}
                response = HttpResponse(request.url, status, fields, json.dumps(document).encode())
                request = exchange.send(response)
        except StopIteration as stop:
            return stop.value


def make_sign_in(issuer, **settings):
    configured = OAuth2Settings(
        **{"issuer": ISSUER, "audience": "x", "client_id": CLIENT, "sign_in": "anyone", **settings}
    )
    clock = {"clock": lambda: NOW, "monotonic": lambda: 0.0}
    return OidcSignIn(configured, Credentials(CLIENT, SECRET), issuer, AddressPolicy(), **clock)


@pytest.fixture
def issuer():
    return Issuer()


class Visit:
    """A sign-in that a browser has begun: what it was asked, and what its cookie carries."""

    def __init__(self, url, carried):
        self.query = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
        self.carried = carried

    def answer(self, **more):
        fields = {"state": self.query["state"], "code": f"{CODE}-{self.query['state'][:6]}", **more}
        return (
            f"/account/sign-in/answer?{urlencode({key: value for key, value in fields.items() if value is not None})}"
        )


async def begin(sign_in, issuer):
    visit = Visit(*await sign_in.begin(CALLBACK))
    issuer.nonce = visit.query["nonce"]
    return visit


async def test_the_code_is_redeemed_with_all_that_binds_it(issuer):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    assert visit.query["redirect_uri"] == CALLBACK
    assert (visit.query["response_type"], visit.query["code_challenge_method"]) == ("code", "S256")
    assert "openid" in visit.query["scope"].split()
    found = await sign_in.finish(visit.answer(), visit.carried)
    assert found.person == (ISSUER, "42")
    [request] = [one for one in issuer.asked if one.url == f"{ISSUER}/token"]
    form = dict(parse_qsl(request.body if isinstance(request.body, str) else request.body.decode()))
    assert (form["code"], form["redirect_uri"], form["code_verifier"]) == (
        f"{CODE}-{visit.query['state'][:6]}",
        CALLBACK,
        visit.carried["verifier"],
    )
    assert request.headers["Authorization"].startswith("Basic ")
    second = await begin(sign_in, issuer)
    assert not {visit.query[key] for key in ("state", "nonce", "code_challenge")} & set(second.query.values())


@pytest.mark.parametrize(
    ("claims", "proposed"),
    [
        ({"preferred_username": "Ann.Smith"}, "ann.smith"),
        ({"email": "ann@example.com"}, "ann"),
        ({"preferred_username": "Änn Ørsted", "nickname": "ann"}, "nn-rsted"),
        ({"preferred_username": "日本", "sub": "auth0|12"}, "auth0-12"),
        ({"preferred_username": 7, "sub": "日本"}, ""),
    ],
)
async def test_a_name_is_proposed(issuer, claims, proposed):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    issuer.claims = claims
    assert (await sign_in.finish(visit.answer(), visit.carried)).proposed == proposed


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"exp": NOW - 120},
        {"exp": None},
        {"iat": NOW + 3600},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": "a\nb"},
        {"nonce": None},
        {"nonce": "of another request"},
        {"nonce": ["x"]},
    ],
)
async def test_an_id_token_that_does_not_fit_signs_nobody_in(issuer, claims):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    issuer.claims = claims
    with pytest.raises(SkillwireError) as caught:
        await sign_in.finish(visit.answer(), visit.carried)
    assert caught.value.code == "AUTH_REQUIRED"


async def test_several_audiences_need_us_as_the_authorized_party(issuer):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    issuer.claims = {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert (await sign_in.finish(visit.answer(), visit.carried)).person.subject == "42"


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}, {"kid": "unknown"}, {"crit": ["x"]}])
async def test_a_token_that_is_not_signed_by_the_issuer_signs_nobody_in(issuer, header):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    issuer.header = {"typ": None, **header}
    with pytest.raises(SkillwireError):
        await sign_in.finish(visit.answer(), visit.carried)


async def test_a_forged_signature_signs_nobody_in(issuer):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    whole = issuer.id_token().split(".")
    forged = {"iss": ISSUER, "sub": "root", "aud": CLIENT, "exp": NOW + 300, "iat": NOW, "nonce": issuer.nonce}
    issuer.id_token = lambda: f"{whole[0]}.{encode(forged)}.{whole[2]}"
    with pytest.raises(SkillwireError):
        await sign_in.finish(visit.answer(), visit.carried)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"state": "of another"}, "LOGIN_STATE"),
        ({"state": None}, "LOGIN_STATE"),
        ({"iss": "https://other.example"}, "LOGIN_STATE"),
        ({"error": "access_denied", "code": None}, "LOGIN_DENIED"),
        ({"code": None}, "LOGIN_ANSWER"),
    ],
)
async def test_an_answer_to_another_request_is_refused_before_its_code_is_sent(issuer, answer, code):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    with pytest.raises(SkillwireError) as caught:
        await sign_in.finish(visit.answer(**answer), visit.carried)
    assert caught.value.code == code
    assert not [one for one in issuer.asked if one.url == f"{ISSUER}/token"]


async def test_an_issuer_that_promises_to_name_itself_must(issuer):
    issuer.metadata = {"authorization_response_iss_parameter_supported": True}
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    with pytest.raises(SkillwireError):
        await sign_in.finish(visit.answer(), visit.carried)
    assert await sign_in.finish(visit.answer(iss=ISSUER), visit.carried)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"authorization_endpoint": None},
        {"token_endpoint": "http://issuer.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "https://127.0.0.1/token"},
    ],
)
async def test_metadata_that_leads_elsewhere_is_refused(issuer, metadata):
    issuer.metadata = metadata
    with pytest.raises(SkillwireError):
        await make_sign_in(issuer).begin(CALLBACK)


async def test_a_code_counts_once(issuer):
    sign_in = make_sign_in(issuer)
    visit = await begin(sign_in, issuer)
    await sign_in.finish(visit.answer(), visit.carried)
    with pytest.raises(SkillwireError):
        await sign_in.finish(visit.answer(), visit.carried)


class TestPages:
    @pytest.fixture
    async def site(self, tmp_path, monkeypatch, issuer):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("CONSOLE_SECRET", SECRET)
        settings = OAuth2Settings(
            ISSUER,
            "x",
            client_id=CLIENT,
            client_secret_env="CONSOLE_SECRET",  # noqa: S106  # a name
            sign_in="anyone",
        )
        site = RegistrySite(tmp_path, configuration=ServerConfiguration(oauth2=settings))
        site.look()
        site.application.services.authentication.sign_in = make_sign_in(issuer)
        yield site
        await site.application.services.authentication.close()

    async def begin(self, browser, issuer, following=""):
        answer = await browser.get(f"/account/sign-in?{urlencode({'next': following})}")
        assert answer.status == 303
        visit = Visit(answer.fields["location"], answer.fields["set-cookie"])
        assert answer.fields["location"].startswith(f"{ISSUER}/auth?")
        issuer.nonce = visit.query["nonce"]
        return visit

    async def finish(self, browser, target):
        return await browser.get(target, {"sec-fetch-site": "cross-site"})

    async def sign_in(self, browser, issuer, following=""):
        visit = await self.begin(browser, issuer, following)
        return await self.finish(browser, visit.answer())

    async def test_a_new_person_chooses_a_name_and_comes_back_to_the_account(self, site, issuer):
        issuer.claims = {"preferred_username": "Ann"}
        browser = Browser(site.application)
        assert "Sign in with issuer.example" in (await browser.get("/login")).body.decode()
        answer = await self.sign_in(browser, issuer, "/account/device?user_code=BCDF-GHJK")
        assert 'content="0; url=../../account/new"' in answer.body.decode()
        assert CODE not in answer.body.decode()
        page = await browser.get("/account/new")
        assert 'value="ann"' in page.body.decode()
        answer = await browser.post("/account/new", {"account": "ann"}, {"x-request-id": "r-3"})
        assert (answer.status, answer.fields["location"]) == (303, "/account/device?user_code=BCDF-GHJK")
        assert ">ann" in (await browser.get("/account")).body.decode()
        changes = [one.change for one in await site.store.audit(0, 9)]
        assert [(one.action, one.target, one.address, one.request_id) for one in changes] == [
            ("account.create", "ann", "192.0.2.7", "r-3"),
            ("account.sign-in", "ann", "192.0.2.7", "r-3"),
        ]
        second = Browser(site.application)
        answer = await self.sign_in(second, issuer)
        assert 'content="0; url=../../account"' in answer.body.decode()
        made = await second.act("/account/tokens", name="x", scope="read", lifetime="1")
        assert made.status == 200

    async def test_a_taken_name_is_refused_and_another_one_asked_for(self, site, issuer):
        await site.account("ann")
        browser = Browser(site.application)
        await self.sign_in(browser, issuer)
        answer = await browser.post("/account/new", {"account": "ann"})
        assert (answer.status, "is taken" in answer.body.decode()) == (422, True)
        assert (await site.store.account("ann")).issuer == ""
        assert (await browser.post("/account/new", {"account": "ann2"})).status == 303

    async def test_a_new_person_in_a_browser_with_another_session_gets_an_own_one(self, site, issuer):
        await site.account("ops", is_operator=True)
        browser = Browser(site.application)
        await browser.sign_in(site.tokens["ops"])
        await self.sign_in(browser, issuer)
        assert (await browser.post("/account/new", {"account": "ann"})).status == 403
        form = {"account": "ann", "token": await browser.token("/account/new")}
        assert (await browser.post("/account/new", form)).status == 303
        assert ">ann" in (await browser.get("/account")).body.decode()

    async def test_without_a_linked_account_nobody_is_let_in_where_operators_link(self, site, issuer):
        site.application.services.authentication.sign_in = make_sign_in(issuer, sign_in="linked")
        browser = Browser(site.application)
        answer = await self.sign_in(browser, issuer)
        assert (answer.status, browser.cookies) == (403, {})
        assert f"42 at {ISSUER}" in unescape(answer.body.decode())
        await site.account("ops", is_operator=True)
        await site.account("ann")
        linked = await site.call("PUT", "/accounts/ann/identity", {"issuer": ISSUER, "subject": "42"}, by="ops")
        assert linked.status == 204
        await self.sign_in(browser, issuer)
        assert ">ann" in (await browser.get("/account")).body.decode()
        denied = await site.call("PUT", "/accounts/ops/identity", {"issuer": ISSUER, "subject": "42"}, by="ann")
        assert denied.status == 403

    async def test_the_cookies_of_each_step_are_for_this_server_alone(self, site, issuer):
        visit = await self.begin(Browser(site.application), issuer)
        for part in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"):
            assert part in visit.carried.split("; ")
        site.application.services.console.sessions._base_url = "https://skills.example.com"
        for step, kind in (("-state", "Lax"), ("-person", "Strict"), ("", "Strict")):
            scope: Any = {"headers": [], "scheme": "https", "root_path": "", "server": None}
            field = site.application.services.console.sessions.set_cookie(scope, "x", step)["Set-Cookie"]
            assert re.fullmatch(
                rf"__Host-skillwire-[0-9a-f]{{8}}{step}=x; Path=/; Max-Age=\d+; HttpOnly; SameSite={kind}; Secure",
                field,
            )

    async def test_an_answer_counts_in_the_browser_that_asked_and_once(self, site, issuer):
        ann, thief = Browser(site.application), Browser(site.application)
        visit = await self.begin(ann, issuer)
        assert (await self.finish(thief, visit.answer())).status == 403
        other = await self.begin(thief, issuer)
        assert (await self.finish(thief, visit.answer())).status == 403, "the state of another browser"
        cookies = dict(ann.cookies)
        issuer.nonce = visit.query["nonce"]
        assert (await self.finish(ann, visit.answer())).status == 200
        assert not [name for name in ann.cookies if name.endswith("-state")]
        assert (await self.finish(ann, visit.answer())).status == 403
        ann.cookies = cookies
        assert (await self.finish(ann, visit.answer())).status == 403, "the issuer takes a code once"
        assert other.query["state"] != visit.query["state"]

    async def test_a_step_ends_after_some_minutes_and_no_cookie_is_another(self, site, issuer):
        sessions = site.application.services.console.sessions
        browser = Browser(site.application)
        visit = await self.begin(browser, issuer)
        [(name, value)] = browser.cookies.items()
        browser.cookies = {name.replace("-state", "-person"): value}
        assert (await browser.get("/account/new")).fields["location"] == "/login"
        browser.cookies = {name: f"{value[:-1]}{'A' if value[-1] != 'A' else 'B'}"}
        assert (await self.finish(browser, visit.answer())).status == 403
        browser.cookies = {name: value}
        now = sessions._clock
        sessions._clock = lambda: now() + 601
        assert (await self.finish(browser, visit.answer())).status == 403

    @pytest.mark.parametrize(
        "elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example", "/account/\r\nx: y", "javascript:x"]
    )
    async def test_signing_in_leads_nowhere_else(self, site, issuer, elsewhere):
        answer = await self.sign_in(Browser(site.application), issuer, elsewhere)
        assert "evil" not in answer.body.decode()
        browser = Browser(site.application)
        await self.sign_in(browser, issuer, elsewhere)
        assert (await browser.post("/account/new", {"account": "ann"})).fields["location"] == "/account"

    async def test_the_redirect_is_bounded_for_each_address(self, site):
        site.application.services.clock = lambda: 1000.0
        browser = Browser(site.application)
        statuses = [(await browser.get("/account/sign-in")).status for _ in range(21)]
        assert statuses == [303] * 20 + [429]

    async def test_nothing_secret_is_logged_or_shown(self, site, issuer, capsys):
        browser = Browser(site.application)
        visit = await self.begin(browser, issuer)
        issuer.claims = {"nonce": "wrong"}
        answer = await self.finish(browser, visit.answer())
        log = capsys.readouterr()
        shown = f"{answer.body.decode()}{log.out}{log.err}"
        assert "a sign-in failed" in shown
        for secret in (CODE, SECRET, issuer.id_token(), visit.query["state"], issuer.nonce):
            assert secret not in shown

    async def test_an_issuer_that_is_down_is_a_page(self, site, issuer):
        issuer.metadata = {"issuer": "https://other.example"}
        answer = await Browser(site.application).get("/account/sign-in")
        assert (answer.status, "Signing in failed" in answer.body.decode()) == (403, True)

    async def test_a_session_is_revoked_as_a_token(self, site, issuer):
        browser = Browser(site.application)
        await self.sign_in(browser, issuer)
        await browser.post("/account/new", {"account": "ann"})
        [token] = await site.application.services.authentication.tokens().all("ann")
        assert "this session" in (await browser.get("/account")).body.decode()
        assert (await browser.act(f"/account/tokens/{token.token_id}/revoke")).status == 303
        assert (await browser.get("/account")).status == 303
