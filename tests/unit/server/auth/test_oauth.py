"""Access tokens: a good one opens what it says; whatever is wrong with one is refused; a failing issuer is no 401."""

import asyncio
import hashlib
import hmac
import json

import pytest
from tests.support.jose import AUDIENCE, ISSUER, NOW, SigningKey, encode, good_claims, signing_key

from skillwire import limits
from skillwire.errors import FetchError, TrustError
from skillwire.server.auth.grants import Grants
from skillwire.server.auth.oauth import BearerTokens
from skillwire.server.configuration import Credentials, OAuth2Settings
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
