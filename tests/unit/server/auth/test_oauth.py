"""Access tokens: a good one opens what it says; whatever is wrong with one is refused; a failing issuer is no 401."""

import asyncio
import hashlib
import hmac
import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from tests.support.console_browser import Browser
from tests.support.jose import AUDIENCE, ISSUER, NOW, SigningKey, encode, good_claims, signing_key
from tests.support.registry_site import RegistrySite

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.registry.accounts import read_session_name
from skillwire.server import create_app
from skillwire.server.auth.oauth import BearerTokens, OidcSignIn
from skillwire.server.configuration import ConsoleRoles, Credentials, Grants, OAuth2Settings, ServerConfiguration
from skillwire.server.console_request import ConsoleRequest
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse

JWKS = f"{ISSUER}/keys"
INTROSPECT = f"{ISSUER}/introspect"
METADATA = f"{ISSUER}/.well-known/openid-configuration"
DEEP = b'{"a":' * 100
TWICE = b'{"typ":"at+jwt","alg":"RS256","alg":"none"}'
GRANTS = Grants(
    subjects={"alice": frozenset({"billing"})},
    clients={"app": frozenset({"maps"})},
    scopes={"read": frozenset({"reader"})},
)


class Issuer:
    """Drives exchanges with answers that stand here by URL, as an issuer behind a network would give them."""

    def __init__(self):
        self.answers = {}
        self.asked = []
        self.gate = None

    def says(self, url, document, status=200):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[url] = HttpResponse(url, status, {}, body)

    async def run(self, exchange):
        try:
            request = next(exchange)
            while True:
                self.asked.append(request)
                if self.gate is not None:
                    await self.gate.wait()
                await asyncio.sleep(0)
                found = self.answers.get(request.url) or HttpResponse(request.url, 404, {}, b"")
                request = exchange.throw(found) if isinstance(found, Exception) else exchange.send(found)
        except StopIteration as stop:
            return stop.value


class World:
    """An issuer, a clock, and who recognises its tokens."""

    def __init__(self, **settings):
        self.issuer = Issuer()
        self.now = NOW
        self.credentials = settings.pop("credentials", None)
        base_url = settings.pop("base_url", "")
        self.settings = OAuth2Settings(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": JWKS, **settings})
        self.tokens = BearerTokens(
            self.settings,
            GRANTS,
            self.issuer,
            credentials=self.credentials,
            base_url=base_url,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )

    def publish(self, *keys):
        self.issuer.says(JWKS, {"keys": [key.jwk() if isinstance(key, SigningKey) else key for key in keys]})

    async def reason(self, token):
        with pytest.raises(TrustError) as caught:
            await self.tokens.recognise(token)
        assert caught.value.code == "AUTH_REQUIRED"
        shown = f"{caught.value!r} {caught.value.diagnostics()} {caught.value.__cause__}"
        assert not [part for part in token.split(".") if len(part) > 20 and part[:20] in shown]
        return caught.value.details["reason"]

    async def unavailable(self, token):
        with pytest.raises(FetchError) as caught:
            await self.tokens.recognise(token)
        assert caught.value.code == "ISSUER_UNAVAILABLE"
        assert caught.value.retryable
        return caught.value


@pytest.fixture
def world():
    world = World()
    world.publish(signing_key("RS256"), signing_key("ES256", "two"))
    return world


@pytest.mark.spec("SSP-auth-oauth2")
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_good_token_says_who_and_opens_what_scopes_and_configuration_say(world, algorithm):
    world.publish(signing_key(algorithm))
    principal = await world.tokens.recognise(signing_key(algorithm).token())
    assert principal.name == f"{ISSUER}#alice"
    assert principal.grants == {"forecast", "billing", "maps", "reader"}
    assert principal.scopes == {"skill:forecast", "read"}


async def test_client_without_a_subject_is_named_by_its_id(world):
    principal = await world.tokens.recognise(signing_key("RS256").token(good_claims(sub=None, scope="skill:*")))
    assert principal.name == f"{ISSUER}?client_id=app"
    assert principal.has("anything", "x")


@pytest.mark.parametrize("subject", ["alice", None])
async def test_client_whose_id_is_the_subject_of_somebody_is_not_that_person(world, subject):
    token = signing_key("RS256").token(good_claims(sub=subject, client_id="alice", scope=None))
    principal = await world.tokens.recognise(token)
    assert (principal.name, principal.grants) == (f"{ISSUER}?client_id=alice", frozenset())


@pytest.mark.parametrize("scope", [None, "", "skill:", "skill:../x", "skill:A", "Skill:forecast"])
async def test_scope_that_names_no_skill_opens_none(world, scope):
    claims = good_claims(scope=scope, sub="bob", client_id=None)
    assert not (await world.tokens.recognise(signing_key("RS256").token(claims))).grants


CLAIMS = {
    "another issuer": ({"iss": "https://issuer.example.evil"}, "issuer"),
    "an issuer with a slash": ({"iss": ISSUER + "/"}, "issuer"),
    "no issuer": ({"iss": None}, "malformed"),
    "another audience": ({"aud": "https://other.example/"}, "audience"),
    "other audiences": ({"aud": ["https://other.example/", None, {}]}, "audience"),
    "no audience": ({"aud": None}, "audience"),
    "expired": ({"exp": NOW - limits.TOKEN_LEEWAY_SECONDS}, "expired"),
    "no end": ({"exp": None}, "malformed"),
    "an end that is text": ({"exp": "9999999999"}, "malformed"),
    "an end that is true": ({"exp": True}, "malformed"),
    "not yet": ({"nbf": NOW + limits.TOKEN_LEEWAY_SECONDS + 1}, "early"),
    "issued tomorrow": ({"iat": NOW + 86_400}, "early"),
    "nobody": ({"sub": None, "client_id": None}, "malformed"),
    "a subject that is a list": ({"sub": ["alice"]}, "malformed"),
    "a long subject": ({"sub": "a" * 256}, "malformed"),
    "a subject of two lines": ({"sub": "alice\nadmin"}, "malformed"),
    "scopes as a number": ({"scope": 7}, "malformed"),
    "many scopes": ({"scope": "s " * (limits.TOKEN_SCOPES + 1)}, "malformed"),
}


@pytest.mark.parametrize(("changes", "reason"), CLAIMS.values(), ids=CLAIMS)
async def test_signed_token_with_wrong_claims_is_refused(world, changes, reason):
    assert await world.reason(signing_key("RS256").token(good_claims(**changes))) == reason


@pytest.mark.parametrize("audience", [AUDIENCE.rstrip("/"), AUDIENCE.rstrip("/") + "/mcp", "https://skills.test/mcp"])
async def test_token_for_a_resource_of_this_server_is_good(audience):
    world = World(base_url="https://skills.test")
    world.publish(signing_key("RS256"))
    assert await world.tokens.recognise(signing_key("RS256").token(good_claims(aud=audience)))


async def test_audience_in_a_list_and_clocks_that_differ_a_little_are_good(world):
    changes = {"aud": ["x", AUDIENCE], "exp": NOW - limits.TOKEN_LEEWAY_SECONDS + 1, "iat": NOW + 20, "nbf": NOW + 29}
    assert await world.tokens.recognise(signing_key("RS256").token(good_claims(**changes)))


HEADERS = {
    "another type": ({"typ": "id+jwt"}, "type"),
    "the type of an ID token": ({"typ": "JWT"}, "type"),
    "no type": ({"typ": None}, "type"),
    "a type that is a number": ({"typ": 1}, "type"),
    "a nested token": ({"cty": "JWT"}, "type"),
    "a critical extension": ({"crit": ["exp"], "exp": 1}, "malformed"),
    "an empty critical list": ({"crit": []}, "malformed"),
    "an unencoded payload": ({"b64": False}, "malformed"),
    "an unknown key": ({"kid": "three"}, "key"),
    "the key of another algorithm": ({"kid": "two"}, "key"),
    "no key where none is alone": ({"kid": None, "alg": "PS256"}, "key"),
    "a key that is a path": ({"kid": "../../dev/null"}, "key"),
    "a key that is a number": ({"kid": 1}, "malformed"),
    "none": ({"alg": "none"}, "algorithm"),
    "None": ({"alg": "None"}, "algorithm"),
    "no algorithm": ({"alg": None}, "algorithm"),
    "a list of algorithms": ({"alg": ["RS256"]}, "algorithm"),
    "SHA-512": ({"alg": "RS512"}, "algorithm"),
    "an encrypted one's": ({"alg": "RSA-OAEP"}, "algorithm"),
}


@pytest.mark.parametrize(("changes", "reason"), HEADERS.values(), ids=HEADERS)
async def test_signed_token_with_a_wrong_header_is_refused(world, changes, reason):
    assert await world.reason(signing_key("RS256").token(**changes)) == reason


async def test_hmac_with_the_public_key_as_its_secret_is_refused(world):
    for algorithm in ("HS256", "HS384", "HS512"):
        signed = f"{encode({'alg': algorithm, 'kid': 'one', 'typ': 'at+jwt'})}.{encode(good_claims())}"
        secret = json.dumps(signing_key("RS256").jwk()).encode()
        forged = hmac.digest(secret, signed.encode(), hashlib.sha256)
        assert await world.reason(f"{signed}.{encode(forged)}") == "algorithm"


async def test_key_that_a_token_brings_along_is_not_used(world):
    stranger = signing_key("RS256", "stranger")
    for header in ({"jwk": stranger.jwk()}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/"}):
        assert await world.reason(stranger.token(kid="one", **header)) == "signature"
    assert {request.url for request in world.issuer.asked} == {JWKS}


async def test_token_that_was_changed_anywhere_is_refused(world):
    header, payload, signature = signing_key("RS256").token().split(".")
    other = encode(good_claims(sub="root"))
    assert await world.reason(f"{header}.{other}.{signature}") == "signature"
    assert await world.reason(f"{header}.{payload}.{encode(bytes(256))}") == "signature"
    assert await world.reason(f"{header}.{payload}.{encode(b'')}A") in ("signature", "malformed")
    for algorithm in ("PS256", "ES256"):
        world.now += limits.ISSUER_RETRY_SECONDS
        assert await world.reason(f"{encode({'alg': algorithm, 'typ': 'at+jwt'})}.{payload}.{signature}") != ""


async def test_what_has_not_the_form_of_a_token_is_refused(world):
    good = signing_key("RS256").token()
    header, payload, signature = good.split(".")
    two_signatures = json.dumps({"payload": payload, "signatures": [{"protected": header, "signature": signature}] * 2})
    for token in (
        "",
        " ",
        "é" * 20,
        "a\nb",
        two_signatures,
        f"{good}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}",
        f"{header}..{signature}",
        f"{encode(b'[1]')}.{payload}.{signature}",
        f"{encode(b'{')}.{payload}.{signature}",
        f"{encode(DEEP)}.{payload}.{signature}",
        f"{encode(TWICE)}.{payload}.{signature}",
        "A" * (limits.BEARER_TOKEN_BYTES + 1),
        signing_key("RS256").token(good_claims(padding="x" * limits.BEARER_TOKEN_BYTES)),
    ):
        assert await world.reason(token) == "malformed"
    assert await world.reason(signing_key("RS256").token([1])) == "malformed"


async def test_token_without_a_type_is_taken_where_the_operator_allows_it():
    world = World(allow_untyped=True)
    world.publish(signing_key("RS256"))
    for kind in (None, "JWT", "at+jwt", "application/at+JWT"):
        assert await world.tokens.recognise(signing_key("RS256").token(typ=kind))
    assert await world.reason(signing_key("RS256").token(typ="logout+jwt")) == "type"


async def test_two_keys_of_one_name_name_nothing_and_the_same_key_twice_is_one(world):
    world.publish(signing_key("RS256"), signing_key("RS256", "other").jwk(kid="one"), signing_key("ES256"))
    assert await world.reason(signing_key("RS256").token()) == "key"
    assert await world.tokens.recognise(signing_key("ES256").token())
    again = World()
    again.publish(signing_key("RS256"), signing_key("RS256"))
    assert await again.tokens.recognise(signing_key("RS256").token())


async def test_key_that_cannot_be_used_is_passed_over(world):
    good = signing_key("RS256")
    point = signing_key("ES256").jwk()
    world.publish(
        7,
        {},
        {"kty": "oct", "kid": "one", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": ["RSA"], "crv": {}},
        good.jwk(use="enc"),
        good.jwk(key_ops=["sign"]),
        good.jwk(alg="RSA-OAEP"),
        good.jwk(kid=["one"]),
        good.jwk(n=encode(b"\x01" * 128)),
        good.jwk(n=encode(b"\x01" * 1200)),
        good.jwk(n="A" * 2049),
        good.jwk(e="AA"),
        good.jwk(e=encode(b"\xff" * 200)),
        good.jwk(n="!"),
        good.jwk(n="AAAAA"),
        {**point, "x": point["y"], "kid": "off the curve"},
        good.jwk(),
    )
    assert await world.tokens.recognise(good.token())
    world.now += limits.ISSUER_RETRY_SECONDS
    assert await world.reason(signing_key("ES256", "off the curve").token()) == "key"


async def test_token_without_a_key_name_is_taken_when_only_one_key_fits(world):
    assert await world.tokens.recognise(signing_key("RS256").token(kid=None))
    several = World()
    several.publish(signing_key("RS256"), signing_key("RS256", "other"))
    assert await several.reason(signing_key("RS256").token(kid=None)) == "key"


async def test_keys_are_found_through_the_metadata_of_the_issuer():
    world = World(jwks_url=None)
    world.publish(signing_key("RS256"))
    world.issuer.says(METADATA, {"issuer": ISSUER, "jwks_uri": JWKS})
    assert await world.tokens.recognise(signing_key("RS256").token())
    oauth = World(jwks_url=None)
    oauth.publish(signing_key("RS256"))
    oauth.issuer.says(f"{ISSUER}/.well-known/oauth-authorization-server", {"issuer": ISSUER, "jwks_uri": JWKS})
    assert await oauth.tokens.recognise(signing_key("RS256").token())


@pytest.mark.parametrize(
    "metadata", [{"issuer": "https://evil.example", "jwks_uri": JWKS}, {"jwks_uri": JWKS}, {"issuer": ISSUER}, [], b"<"]
)
async def test_metadata_of_another_issuer_or_without_keys_is_no_use(metadata):
    world = World(jwks_url=None)
    world.publish(signing_key("RS256"))
    world.issuer.says(METADATA, metadata)
    await world.unavailable(signing_key("RS256").token())


async def test_keys_are_asked_for_once_by_all_who_wait_and_again_when_they_are_old(world):
    token = signing_key("RS256").token(good_claims(exp=NOW + 10**6))
    world.issuer.gate = asyncio.Event()
    waiting = [asyncio.create_task(world.tokens.recognise(token)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    world.issuer.gate.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert all(not isinstance(one, BaseException) for one in done[1:])
    assert len(world.issuer.asked) == 1
    world.now += limits.JWKS_FRESH_SECONDS
    await world.tokens.recognise(token)
    assert len(world.issuer.asked) == 1
    world.now += 1
    await world.tokens.recognise(token)
    assert len(world.issuer.asked) == 2


async def test_new_key_is_found_and_strangers_cannot_make_us_ask_more_than_now_and_then(world):
    await world.tokens.recognise(signing_key("RS256").token())
    world.now += limits.ISSUER_RETRY_SECONDS
    world.publish(signing_key("RS256", "new"))
    assert await world.tokens.recognise(signing_key("RS256", "new").token())
    assert len(world.issuer.asked) == 2
    for number in range(100):
        await world.unavailable(signing_key("RS256").token(kid=f"made up {number}"))
    assert len(world.issuer.asked) == 2
    world.now += limits.ISSUER_RETRY_SECONDS
    await world.reason(signing_key("RS256").token(kid="made up"))
    assert len(world.issuer.asked) == 3


async def test_key_that_may_be_new_is_not_the_fault_of_the_caller(world):
    """The issuer rotates its key just after the keys were fetched."""
    old, new = signing_key("RS256"), signing_key("RS256", "new")
    await world.tokens.recognise(old.token())
    world.publish(old, new)
    world.now += 10
    error = await world.unavailable(new.token())
    assert error.details == {"retry_after": limits.ISSUER_RETRY_SECONDS - 10}
    assert await world.tokens.recognise(old.token())
    # No key makes these good, so that their callers need not wait to learn it.
    assert await world.reason(new.token(good_claims(exp=NOW - 60))) == "expired"
    assert await world.reason(new.token(good_claims(iss="https://other.example"))) == "issuer"
    world.publish(new)
    world.now += error.details["retry_after"]
    assert await world.tokens.recognise(new.token())
    assert await world.reason(old.token()) == "key"  # which the issuer has withdrawn


async def test_last_keys_are_used_for_a_day_while_the_issuer_is_down(world):
    token = signing_key("RS256").token(good_claims(exp=NOW + 10**6))
    await world.tokens.recognise(token)
    world.issuer.answers[JWKS] = FetchError("TIMEOUT", "no answer")
    world.now += limits.JWKS_KEPT_SECONDS
    assert await world.tokens.recognise(token)
    await world.unavailable(signing_key("RS256").token(kid="of a new key, who knows"))
    world.now += 1
    await world.unavailable(token)


@pytest.mark.parametrize("status", [401, 404, 500, 503])
async def test_issuer_that_fails_is_no_fault_of_the_caller(status):
    world = World()
    world.issuer.says(JWKS, b"", status)
    error = await world.unavailable(signing_key("RS256").token())
    assert str(status) in error.message
    documents: list[object] = [b"<html>", [], {"keys": {}}, {"keys": []}, {"keys": [{}] * (limits.JWKS_KEYS + 1)}]
    for document in documents:
        world.now += limits.ISSUER_RETRY_SECONDS
        world.issuer.says(JWKS, document)
        await world.unavailable(signing_key("RS256").token())


async def test_issuer_that_never_answers_is_waited_for_a_bounded_time(world, monkeypatch):
    monkeypatch.setattr(limits, "ISSUER_SECONDS", 0.01)
    world.issuer.gate = asyncio.Event()
    await world.unavailable(signing_key("RS256").token())
    await world.tokens.close()


# --- opaque tokens ---


@pytest.fixture
def opaque():
    return World(introspection_url=INTROSPECT, credentials=Credentials("we&us", "s3cret: +"))


def active(**changes):
    return {"active": True, "token_type": "Bearer", **good_claims(**changes)}


async def test_issuer_is_asked_about_an_opaque_token_and_its_answer_is_kept_a_minute(opaque):
    opaque.issuer.says(INTROSPECT, active())
    principal = await opaque.tokens.recognise("opaque-token")
    assert (principal.name, principal.has("forecast", "x")) == (f"{ISSUER}#alice", True)
    (request,) = opaque.issuer.asked
    assert (request.method, request.body) == ("POST", b"token=opaque-token&token_type_hint=access_token")
    assert request.headers["Authorization"] == "Basic d2UlMjZ1czpzM2NyZXQlM0ErJTJC"
    opaque.issuer.says(INTROSPECT, {"active": False})
    opaque.now += limits.INTROSPECTION_SECONDS - 1
    assert await opaque.tokens.recognise("opaque-token")
    opaque.now += 1
    assert await opaque.reason("opaque-token") == "inactive"


async def test_opaque_token_is_not_kept_beyond_its_end(opaque):
    opaque.issuer.says(INTROSPECT, active(exp=NOW + 10))
    assert await opaque.tokens.recognise("opaque-token")
    opaque.now += 10
    assert await opaque.reason("opaque-token") == "expired"


async def test_refusal_is_kept_shortly(opaque):
    opaque.issuer.says(INTROSPECT, {"active": False})
    assert await opaque.reason("opaque-token") == "inactive"
    opaque.issuer.says(INTROSPECT, active())
    assert await opaque.reason("opaque-token") == "inactive"
    assert len(opaque.issuer.asked) == 1
    opaque.now += limits.INTROSPECTION_REFUSED_SECONDS
    assert await opaque.tokens.recognise("opaque-token")


@pytest.mark.parametrize(
    "says",
    [
        {},
        {"active": "true"},
        {"active": 1, **good_claims()},
        active(token_type="DPoP"),  # noqa: S106  # a kind, no secret
        active(iss="https://evil.example"),
        active(aud=None),
        active(aud="https://other.example/"),
        active(exp=NOW - 60),
        active(nbf=NOW + 60),
        active(sub=None, client_id=None),
        active(sub=7),
    ],
)
async def test_opaque_token_that_the_issuer_does_not_vouch_for_here_is_refused(opaque, says):
    opaque.issuer.says(INTROSPECT, says)
    assert await opaque.reason("opaque-token") == "inactive"


@pytest.mark.parametrize("failure", [(b"", 401), (b"", 302), (b"[]", 200), (b"opaque-token is no JSON", 200)])
async def test_introspection_that_fails_is_no_401_and_is_not_kept(opaque, failure):
    opaque.issuer.says(INTROSPECT, *failure)
    error = await opaque.unavailable("opaque-token")
    assert "opaque-token" not in f"{error} {error.__cause__} {error.__context__}"
    assert "s3cret" not in f"{error!r} {opaque.credentials!r}"
    opaque.issuer.says(INTROSPECT, active())
    assert await opaque.tokens.recognise("opaque-token")


async def test_one_token_is_asked_about_once_and_many_do_not_pile_up(opaque):
    opaque.issuer.says(INTROSPECT, active())
    opaque.issuer.gate = asyncio.Event()
    most = limits.INTROSPECTIONS_AT_ONCE + limits.INTROSPECTIONS_WAITING
    same = [asyncio.create_task(opaque.tokens.recognise("token-0")) for _ in range(20)]
    others = [asyncio.create_task(opaque.tokens.recognise(f"token-{number}")) for number in range(1, most)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(opaque.issuer.asked) == limits.INTROSPECTIONS_AT_ONCE
    await opaque.unavailable("one-too-many")
    opaque.issuer.gate.set()
    await asyncio.gather(*same, *others)
    assert len(opaque.issuer.asked) == most
    assert await opaque.tokens.recognise("one-too-many")


async def test_issuer_is_not_asked_for_an_address_with_many_refused_tokens(opaque):
    opaque.issuer.says(INTROSPECT, active())
    assert await opaque.tokens.recognise("known")
    assert await opaque.tokens.recognise("known", asks=False)
    with pytest.raises(TrustError):
        await opaque.tokens.recognise("made-up", asks=False)
    assert len(opaque.issuer.asked) == 1


async def test_answers_are_bounded(opaque, monkeypatch):
    monkeypatch.setattr(limits, "INTROSPECTIONS_KEPT", 3)
    opaque.issuer.says(INTROSPECT, active())
    for name in ("a", "b", "c", "d", "b", "a"):
        await opaque.tokens.recognise(name)
    assert len(opaque.issuer.asked) == 5


async def test_introspection_is_found_in_the_metadata(opaque):
    world = World(credentials=opaque.credentials)
    world.issuer.says(METADATA, {"issuer": ISSUER, "introspection_endpoint": INTROSPECT})
    world.issuer.says(INTROSPECT, active())
    assert await world.tokens.recognise("opaque-token")
    none = World(credentials=opaque.credentials)
    none.issuer.says(METADATA, {"issuer": ISSUER})
    await none.unavailable("opaque-token")


async def test_jwt_is_never_asked_about_and_an_opaque_token_not_without_credentials(opaque):
    opaque.publish(signing_key("RS256"))
    opaque.issuer.says(INTROSPECT, active())
    assert await opaque.reason(signing_key("RS256").token(alg="none")) == "algorithm"
    assert not opaque.issuer.asked
    world = World()
    assert await world.reason("opaque-token") == "malformed"
    assert not world.issuer.asked


CLIENT = "console"
SECRET = "the-secret-of-the-console"  # noqa: S105  # of the test
CALLBACK = "http://skills.example.com/account/sign-in/answer"
CODE = "code-that-is-secret-4711"


class SignInIssuer:
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
    return SignInIssuer()


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
        elsewhere = {"issuer": f"{ISSUER}x", "subject": "42"}
        other = (await site.call("PUT", "/accounts/ann/identity", elsewhere, by="ops")).json()["error"]
        assert (other["code"], other["details"]["fix"]) == ("ACCOUNT_FORM", f"Use {ISSUER}, the issuer of [oauth2].")
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
        assert (answer.status, "Signing in failed" in answer.body.decode()) == (503, True)

    async def test_a_session_is_revoked_as_a_token(self, site, issuer):
        browser = Browser(site.application)
        await self.sign_in(browser, issuer)
        await browser.post("/account/new", {"account": "ann"})
        [token] = await site.application.services.authentication.tokens().all("ann")
        assert "this session" in (await browser.get("/account")).body.decode()
        assert (await browser.act(f"/account/tokens/{token.token_id}/revoke")).status == 303
        assert (await browser.get("/account")).status == 303


class TestConsole:
    """A server without accounts: people at the issuer open its console."""

    @pytest.fixture
    async def site(self, tmp_path, monkeypatch, issuer):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
        configuration = ServerConfiguration(
            grants=Grants(subjects={"reader": frozenset({"notes"})}),
            console=ConsoleRoles(frozenset({"42", "group:platform"}), frozenset({"group:desk"})),
        )
        application = create_app([], blobs=tmp_path / "blobs", access_log=False, configuration=configuration)
        application.services.authentication.sign_in = make_sign_in(issuer)
        yield application
        await application.services.authentication.close()

    async def sign_in(self, site, issuer, following="", **claims):
        issuer.claims, browser = claims, Browser(site)
        begun = await browser.get(f"/account/sign-in?{urlencode({'next': following})}")
        visit = Visit(begun.fields["location"], begun.fields["set-cookie"])
        assert visit.query["code_challenge_method"] == "S256"
        issuer.nonce = visit.query["nonce"]
        return browser, await browser.get(visit.answer(), {"sec-fetch-site": "cross-site"})

    @pytest.mark.parametrize(
        ("claims", "shown"),
        [
            ({"sub": "42", "preferred_username": "ann"}, ("executions", "Executions")),
            ({"sub": "43", "groups": ["platform"]}, ("executions", "Executions")),
            ({"sub": "44", "roles": ["x", "desk", 7], "preferred_username": "tom"}, ("inbox", "Your executions")),
            ({"sub": "45", "groups": "platform"}, ("executions", "Your executions")),
            ({"sub": "group:platform", "nickname": "max"}, ("executions", "Your executions")),
        ],
    )
    async def test_the_configuration_says_what_a_person_sees(self, site, issuer, claims, shown):
        first, title = shown
        has_inbox = first == "inbox" or title == "Executions"
        browser, answer = await self.sign_in(site, issuer, **claims)
        assert f'content="0; url=../../{first}"' in answer.body.decode()
        page = (await browser.get("/executions")).body.decode()
        assert f"<h1>{title}</h1>" in page
        assert ("/inbox" in page) is has_inbox
        assert "group:platform" not in page
        assert (await browser.get("/inbox")).status == (200 if has_inbox else 403)

    async def test_a_person_sees_what_their_access_tokens_called_and_is_one_in_each_session(self, site, issuer):
        seen = []
        for _ in range(2):
            browser, _answer = await self.sign_in(site, issuer, sub="45", preferred_username="eve")
            scope: Any = {"headers": [(b"cookie", "; ".join(f"{k}={v}" for k, v in browser.cookies.items()).encode())]}
            scope |= {"type": "http", "scheme": "http", "root_path": "", "server": None, "path": "/", "method": "GET"}
            session = await site.services.console.sessions.find(scope)
            unused: Any = None
            request = ConsoleRequest("/", scope, unused, unused, unused, session)
            assert request.caller == f"principal {ISSUER}#45"
            seen.append((request.name, request.worker))
        assert seen[0] == seen[1]
        assert re.fullmatch(r"human:eve#[a-z2-7]{16}", seen[0][1])
        other, _answer = await self.sign_in(site, issuer, sub="46", preferred_username="eve")
        assert other.cookies

    async def test_only_people_who_are_named_are_let_in_where_that_is_set(self, site, issuer):
        site.services.authentication.sign_in = make_sign_in(issuer, sign_in="linked")
        browser, answer = await self.sign_in(site, issuer, sub="45")
        assert (answer.status, browser.cookies) == (403, {})
        assert f"45 at {ISSUER}" in unescape(answer.body.decode())
        for subject in ("42", "reader"):
            browser, answer = await self.sign_in(site, issuer, sub=subject)
            assert answer.status == 200
        assert (await browser.get("/account/new")).fields["location"] == "/login"

    @pytest.mark.parametrize("elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example"])
    async def test_signing_in_leads_nowhere_else(self, site, issuer, elsewhere):
        _, answer = await self.sign_in(site, issuer, elsewhere)
        assert "evil" not in answer.body.decode()

    async def test_signing_out_ends_the_session(self, site, issuer):
        browser, _ = await self.sign_in(site, issuer, "/inbox", sub="42")
        cookies = dict(browser.cookies)
        assert (await browser.act("/logout")).fields["location"] == "/login"
        browser.cookies = cookies
        assert (await browser.get("/executions")).fields["location"].startswith("/login")

    async def test_the_login_page_offers_it(self, site):
        page = (await Browser(site).get("/login?next=/inbox")).body.decode()
        assert "Sign in with issuer.example" in page
        assert "account/sign-in?next=/inbox" in unescape(page).replace("%2F", "/")

    async def test_a_key_of_an_account_cannot_name_itself_a_person(self, site, issuer):
        tokens = site.services.authentication.tokens()
        name = f"browser sign-in: ann {ISSUER}#42"
        own = await tokens.issue(name, account="eve")
        assert read_session_name(own.token) is None
        assert read_session_name((await tokens.issue(name)).token) == ("ann", f"{ISSUER}#42")
        _, answer = await self.sign_in(site, issuer, sub="x" * 600)
        assert (answer.status, "Signing in failed" in answer.body.decode()) == (403, True)
