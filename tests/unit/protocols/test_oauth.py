"""OAuth 2.0 without a network: what is asked, what is believed, and what is never shown."""

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauthlib.oauth2 import BackendApplicationClient, WebApplicationClient

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError, TrustError, ValidationError
from skillwire.model.credential import Credential, TokenRenewal
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.client import (
    ask_for_code,
    await_device,
    begin_device,
    check_endpoint,
    fetch_metadata,
    fetch_resource,
    read_answer,
    redeem_code,
    renew,
    revoke,
    use_client_credentials,
)
from skillwire.protocols.oauth.codec import decode_device, decode_tokens
from skillwire.protocols.oauth.messages import ClientIdentity, DeviceCode, ServerMetadata, Tokens
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse, follow

TOKEN_URL = "https://auth.example/token"  # noqa: S105  # an address
REDIRECT = "http://127.0.0.1:4711/callback"
SECRETS = {"secret": "hush-client", "refresh": "hush-refresh", "code": "hush", "access": "hush-access"}
PUBLIC = ClientIdentity("me")
CONFIDENTIAL = ClientIdentity("me & you", SECRETS["secret"])
GRANT = TokenRenewal(TOKEN_URL, "me", refresh_token=SECRETS["refresh"], revocation_url="https://auth.example/revoke")
SERVER = ServerMetadata(TOKEN_URL, "https://auth.example", "https://auth.example/authorize?tenant=a")


def answer(document, status=200, url=TOKEN_URL, content_type="application/json", **headers):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return HttpResponse(url, status, {"content-type": content_type, **headers}, body)


def said(error, status=400, **more):
    return answer({"error": error, **more}, status)


GOOD = answer({"access_token": SECRETS["access"], "token_type": "bearer", "expires_in": 300})


def asked(exchange, response=GOOD):
    request = next(exchange)
    try:
        exchange.send(response)
    except StopIteration as stop:
        return request, stop.value
    raise AssertionError("it asks again")


def form(request):
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


def code_of(call, *arguments, **options):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments, **options)
    return caught.value.code


class TestTokenRequests:
    @pytest.mark.spec("OAU-refresh")
    def test_a_renewal_is_the_message_that_oauthlib_makes(self):
        request, tokens = asked(renew(GRANT))
        theirs = WebApplicationClient("me").prepare_refresh_body(refresh_token=SECRETS["refresh"], client_id="me")
        assert form(request) == {name: values[0] for name, values in parse_qs(theirs).items()}
        assert (request.method, request.url) == ("POST", TOKEN_URL)
        assert "Authorization" not in request.headers
        assert tokens == Tokens(SECRETS["access"], 300.0)

    def test_client_credentials_are_the_message_that_oauthlib_makes(self):
        request, _ = asked(use_client_credentials(TOKEN_URL, CONFIDENTIAL, "a b"))
        theirs = BackendApplicationClient("me & you").prepare_request_body(scope="a b")
        assert form(request) == {name: values[0] for name, values in parse_qs(theirs).items()}

    @pytest.mark.spec("OAU-secret-basic")
    def test_a_secret_goes_by_basic_form_encoded(self):
        request, _ = asked(use_client_credentials(TOKEN_URL, CONFIDENTIAL, ""))
        kind, _, value = request.headers["Authorization"].partition(" ")
        assert (kind, base64.b64decode(value)) == ("Basic", b"me+%26+you:hush-client")
        assert "client_secret" not in form(request)

    @pytest.mark.spec("OAU-secret-basic")
    def test_a_secret_goes_into_the_body_where_nothing_else_is_known(self):
        request, _ = asked(use_client_credentials(TOKEN_URL, replace(CONFIDENTIAL, sends_secret_in_body=True), ""))
        assert (form(request)["client_id"], form(request)["client_secret"]) == ("me & you", "hush-client")
        assert "Authorization" not in request.headers

    def test_a_grant_without_a_refresh_token_is_renewed_by_the_secret(self):
        request, _ = asked(renew(TokenRenewal(TOKEN_URL, "me", "hush-client", scope="a")))
        assert form(request) == {"grant_type": "client_credentials", "scope": "a"}

    @pytest.mark.spec("OAU-revoke")
    @pytest.mark.parametrize(("refresh", "expected"), [("hush-refresh", "refresh_token"), (None, "access_token")])
    def test_the_refresh_token_is_revoked_or_else_the_access_token(self, refresh, expected):
        request, done = asked(revoke(replace(GRANT, refresh_token=refresh), "hush-access"), answer(b""))
        assert done
        assert form(request)["token_type_hint"] == expected
        assert form(request)["token"] == (refresh or "hush-access")
        assert request.url == "https://auth.example/revoke"

    @pytest.mark.spec("OAU-tls")
    @pytest.mark.parametrize(
        ("url", "code"),
        [
            ("http://auth.example/token", "PLAIN_HTTP_REFUSED"),
            ("https://auth.example:8443/token", "PORT_REFUSED"),
            ("https://10.0.0.1/token", "ADDRESS_REFUSED"),
            ("https://169.254.169.254/token", "ADDRESS_REFUSED"),
            ("http://127.0.0.1:9000/token", "ADDRESS_REFUSED"),
            ("ftp://auth.example/", "URL"),
        ],
    )
    def test_an_endpoint_is_asked_over_https_at_public_addresses(self, url, code):
        assert code_of(check_endpoint, url, AddressPolicy()) == code

    @pytest.mark.spec("OAU-tls")
    def test_the_user_may_name_an_endpoint_of_their_own_network(self):
        url = "http://127.0.0.1:9000/token"
        check_endpoint(url, AddressPolicy().naming(parse_url(url)))
        check_endpoint(TOKEN_URL, AddressPolicy())


class TestAnswers:
    @pytest.mark.spec("OAU-no-redirect")
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_token_request_is_not_redirected(self, status):
        moved = answer(b"", status, location="https://evil.example/")
        with pytest.raises(TrustError) as caught:
            follow(renew(GRANT), [moved])
        assert caught.value.code == "REDIRECT_REFUSED"

    @pytest.mark.spec("OAU-answer")
    @pytest.mark.parametrize(
        ("response", "code"),
        [
            (answer(b"<html>", content_type="text/html"), "CONTENT_TYPE"),
            (answer(b"<html>"), "JSON_SYNTAX"),
            (answer(b"access_token=a&token_type=bearer", content_type="text/plain"), "JSON_SYNTAX"),
            (answer([]), "LOGIN_ANSWER"),
            (answer({"token_type": "bearer"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a", "token_type": "mac"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a\r\nX: y", "token_type": "bearer"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a b", "token_type": "bearer"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a" * 20_000, "token_type": "bearer"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a", "token_type": "bearer", "expires_in": "soon"}), "LOGIN_ANSWER"),
            (answer({"access_token": "a", "token_type": "bearer", "expires_in": -1}), "LOGIN_ANSWER"),
            (answer({"access_token": "a", "token_type": "bearer", "refresh_token": 1}), "LOGIN_ANSWER"),
            (answer(b"{" + b" " * 70_000 + b"}"), "LIMIT_SIZE"),
            (answer({}, 500), "HTTP_STATUS"),
            (said("invalid_client", 401), "LOGIN_REFUSED"),
            (said("access_denied"), "LOGIN_DENIED"),
            (said("Weird\x1b[31m"), "LOGIN_REFUSED"),
        ],
    )
    def test_what_is_no_token_is_refused(self, response, code):
        assert code_of(decode_tokens, response) == code

    def test_numbers_may_be_quoted_and_are_bounded(self):
        document = {"access_token": "a", "token_type": "Bearer", "expires_in": "60"}
        assert decode_tokens(answer(document)).expires_in == 60
        assert decode_tokens(answer({**document, "expires_in": 1e300})).expires_in == limits.OAUTH_TOKEN_SECONDS

    @pytest.mark.spec("OAU-refresh")
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            ("invalid_grant", "LOGIN_EXPIRED"),
            ("unauthorized_client", "LOGIN_EXPIRED"),
            ("temporarily_unavailable", "LOGIN_REFUSED"),
        ],
    )
    def test_a_renewal_that_is_refused_for_good_ends_the_login(self, error, code):
        assert code_of(follow, renew(GRANT), [said(error)]) == code

    @pytest.mark.spec("OAU-secrets")
    @given(st.sampled_from(sorted(SECRETS.values())), st.sampled_from([200, 400, 401, 500]))
    def test_no_error_and_no_repr_shows_a_secret_that_a_server_repeats(self, secret, status):
        repeated = {"error": secret, "error_description": f"no such {secret}", "access_token": f"{secret} x"}
        client = replace(CONFIDENTIAL)
        question = replace(ask_for_code(SERVER, "me", REDIRECT, ""), verifier=SECRETS["access"], state="s")
        exchanges = [
            use_client_credentials(TOKEN_URL, client, ""),
            redeem_code(question, SECRETS["code"], client),
            renew(replace(GRANT, client_secret=SECRETS["secret"])),
        ]
        for exchange, own in zip(
            exchanges, [["secret"], ["secret", "code", "access"], ["secret", "refresh"]], strict=True
        ):
            if secret not in [SECRETS[name] for name in own]:
                exchange.close()
                continue
            with pytest.raises(SkillwireError) as caught:
                follow(exchange, [answer(repeated, status)])
            told = f"{caught.value!r} {caught.value} {caught.value.details} {caught.value.diagnostics()}"
            assert secret not in told
        credential = Credential("https://a.example", "oauth2", SECRETS["access"], "l", grant=GRANT)
        shown = f"{credential!r} {client!r} {Tokens(SECRETS['access'], 1, SECRETS['refresh'])!r} {question!r}"
        assert not [value for value in SECRETS.values() if value in shown]


RESOURCE = "https://skills.example/"
DEVICE = DeviceCode("hush-device", "ABCD", "https://auth.example/activate", 600.0, 5.0)


def await_after_sleep():
    exchange = await_device(TOKEN_URL, PUBLIC, DEVICE, lambda: 0.0, resource=RESOURCE)
    next(exchange)  # the pause before the first question
    return exchange.send(None)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: next(use_client_credentials(TOKEN_URL, CONFIDENTIAL, "a", resource=RESOURCE)),
        lambda: next(begin_device("https://auth.example/device", PUBLIC, "", resource=RESOURCE)),
        await_after_sleep,
        lambda: next(redeem_code(ask_for_code(SERVER, "me", REDIRECT, "", resource=RESOURCE), "c", PUBLIC)),
        lambda: next(renew(replace(GRANT, resource=RESOURCE))),
        lambda: next(renew(TokenRenewal(TOKEN_URL, "me", "hush-client", resource=RESOURCE))),
    ],
)
def test_every_request_for_a_token_names_the_resource(request_of):
    assert form(request_of())["resource"] == RESOURCE


class TestAuthorizationCode:
    def test_the_question_names_the_resource(self):
        question = ask_for_code(SERVER, "me", REDIRECT, "", resource=RESOURCE)
        assert parse_qs(urlsplit(question.url).query)["resource"] == [RESOURCE]

    def question(self, server=SERVER):
        return ask_for_code(server, "me", REDIRECT, "read offline_access")

    @pytest.mark.spec("OAU-pkce")
    def test_the_question_has_a_challenge_of_a_new_verifier(self):
        one, other = self.question(), self.question()
        assert one.verifier != other.verifier
        assert one.state != other.state
        fields = {name: values[0] for name, values in parse_qs(urlsplit(one.url).query).items()}
        digest = hashlib.sha256(one.verifier.encode()).digest()
        assert fields["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert fields["code_challenge_method"] == "S256"
        assert (fields["tenant"], fields["client_id"], fields["redirect_uri"]) == ("a", "me", REDIRECT)
        assert (fields["scope"], fields["prompt"], fields["state"]) == ("read offline_access", "consent", one.state)
        assert one.verifier not in one.url

    @pytest.mark.spec("OAU-pkce")
    def test_the_token_endpoint_is_told_the_verifier(self):
        question = self.question()
        request, _ = asked(redeem_code(question, "c", PUBLIC))
        assert form(request) == {
            "grant_type": "authorization_code",
            "client_id": "me",
            "code": "c",
            "code_verifier": question.verifier,
            "redirect_uri": REDIRECT,
        }

    def test_http_stays_http_where_the_user_has_named_it(self):
        server = replace(SERVER, authorization_url="http://127.0.0.1:9000/authorize")
        assert self.question(server).url.startswith("http://127.0.0.1:9000/authorize?")

    @pytest.mark.spec("OAU-state")
    @pytest.mark.parametrize("state", ["", "state=", "state=wrong", "state=é"])
    def test_another_state_is_refused(self, state):
        assert code_of(read_answer, f"/callback?code=c&{state}", self.question()) == "LOGIN_STATE"

    @pytest.mark.spec("OAU-once")
    def test_a_parameter_stands_once(self):
        question = self.question()
        target = f"/callback?state={question.state}&code=a&code=b"
        assert code_of(read_answer, target, question) == "LOGIN_ANSWER"

    @pytest.mark.spec("OAU-iss")
    @pytest.mark.parametrize(
        ("server", "iss", "fits"),
        [
            (SERVER, None, True),
            (SERVER, "https://auth.example", True),
            (SERVER, "https://auth.example/", False),
            (SERVER, "https://evil.example", False),
            (replace(SERVER, sends_issuer=True), None, False),
            (replace(SERVER, sends_issuer=True), "https://auth.example", True),
            (replace(SERVER, issuer=None), "https://auth.example/tenant", True),
            (replace(SERVER, issuer=None), "https://evil.example", False),
            (replace(SERVER, issuer=None), "evil", False),
        ],
    )
    def test_the_issuer_is_the_one_that_was_asked(self, server, iss, fits):
        question = self.question(server)
        target = f"/callback?state={question.state}&code=c" + (f"&iss={iss}" if iss else "")
        if fits:
            assert read_answer(target, question) == "c"
        else:
            assert code_of(read_answer, target, question) == "LOGIN_STATE"

    def test_a_refusal_and_an_answer_without_a_code_are_told(self):
        question = self.question()
        assert code_of(read_answer, f"/callback?state={question.state}&error=access_denied", question) == "LOGIN_DENIED"
        assert code_of(read_answer, f"/callback?state={question.state}", question) == "LOGIN_ANSWER"

    @given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
    def test_whatever_comes_is_refused_with_a_code(self, target):
        with pytest.raises((TrustError, DecodeError, FetchError)):
            read_answer(f"/callback{target}", ask_for_code(SERVER, "me", REDIRECT, ""))


class TestDevice:
    DEVICE = DeviceCode("hush-device", "ABCD", "https://auth.example/device", 60.0, 5.0)

    def poll(self, *answers, expires_in=60.0):
        """Return what came of it, and the pause before each question."""
        pauses, now = [], [0.0]
        exchange: Any = await_device(TOKEN_URL, PUBLIC, replace(self.DEVICE, expires_in=expires_in), lambda: now[0])
        waiting = list(answers)
        try:
            step = next(exchange)
            while True:
                pauses.append(step.seconds)
                now[0] += step.seconds
                next(exchange)
                item = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                step = exchange.throw(item) if isinstance(item, Exception) else exchange.send(item)
        except StopIteration as stop:
            return stop.value, pauses
        except SkillwireError as error:
            return error.code, pauses

    @pytest.mark.spec("OAU-device-pace")
    def test_the_pace_is_the_servers(self):
        lost = FetchError("CONNECTION_LOST", "lost")
        pending, slower = said("authorization_pending"), said("slow_down")
        tokens, pauses = self.poll(pending, slower, pending, lost, GOOD, expires_in=500)
        assert pauses == [5, 5, 10, 10, 20]
        assert tokens.access_token == SECRETS["access"]

    @pytest.mark.spec("OAU-device-pace")
    def test_nothing_is_asked_after_the_time_of_the_code(self):
        code, pauses = self.poll(said("authorization_pending"))
        assert (code, sum(pauses)) == ("LOGIN_TIMEOUT", 55)

    @pytest.mark.parametrize(
        ("response", "code"),
        [
            (said("access_denied"), "LOGIN_DENIED"),
            (said("expired_token"), "LOGIN_TIMEOUT"),
            (said("invalid_grant"), "LOGIN_REFUSED"),
        ],
    )
    def test_a_refusal_ends_it(self, response, code):
        assert self.poll(response) == (code, [5])

    def test_the_codes_are_read_and_bounded(self):
        document = {
            "device_code": "d",
            "user_code": "U" * 100,
            "verification_uri": "https://auth.example/device",
            "expires_in": 10**8,
            "interval": 0,
        }
        device = decode_device(answer(document))
        assert (len(device.user_code), device.expires_in, device.interval) == (64, 1800, 1)
        assert device.complete_url is None
        complete = {**document, "verification_uri_complete": "https://auth.example/device?user_code=U"}
        assert decode_device(answer(complete)).complete_url == "https://auth.example/device?user_code=U"
        for missing in ("device_code", "user_code", "verification_uri", "expires_in"):
            without = {key: value for key, value in document.items() if key != missing}
            assert code_of(decode_device, answer(without)) == "LOGIN_ANSWER"

    def test_a_person_is_sent_to_a_web_address_only(self):
        document = {"device_code": "d", "user_code": "U", "verification_uri": "https://auth.example", "expires_in": 9}
        for key in ("verification_uri", "verification_uri_complete"):
            hostile = {**document, key: "javascript:alert(1)"}
            with pytest.raises(ValidationError):
                follow(begin_device("https://auth.example/device", PUBLIC, ""), [answer(hostile)])

    def test_a_refused_scope_is_corrected_with_its_option(self):
        with pytest.raises(FetchError) as refused:
            decode_device(answer({"error": "invalid_scope"}, status=400))
        assert (refused.value.code, refused.value.fix) == ("LOGIN_REFUSED", "Correct --scope, or leave it out.")


class TestMetadata:
    DOCUMENT: ClassVar = {"issuer": "https://auth.example/tenant", "token_endpoint": TOKEN_URL}
    MISSING = HttpResponse("https://auth.example/", 404, {}, b"")

    def test_it_is_looked_for_where_both_texts_say(self):
        exchange: Any = fetch_metadata("https://auth.example/tenant")
        urls = [next(exchange).url]
        urls += [exchange.send(self.MISSING).url for _ in range(3)]
        assert [url.removeprefix("https://auth.example") for url in urls] == [
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
            "/tenant/.well-known/oauth-authorization-server",
        ]
        with pytest.raises(StopIteration) as stop:
            exchange.send(answer(self.DOCUMENT))
        assert stop.value.value == ServerMetadata(TOKEN_URL, "https://auth.example/tenant")

    def test_none_is_no_error(self):
        assert follow(fetch_metadata("https://auth.example"), [self.MISSING] * 2) is None

    @pytest.mark.spec("OAU-metadata-issuer")
    @pytest.mark.parametrize("issuer", ["https://auth.example", "https://evil.example", None])
    def test_metadata_of_another_issuer_is_refused(self, issuer):
        found = answer({**self.DOCUMENT, "issuer": issuer})
        assert code_of(follow, fetch_metadata("https://auth.example/tenant"), [found]) == "LOGIN_STATE"

    @pytest.mark.spec("OAU-resource")
    @pytest.mark.parametrize(
        ("resource", "code"), [("https://evil.example/", "LOGIN_STATE"), (None, "LOGIN_ANSWER"), ("x", "URL")]
    )
    def test_metadata_of_another_resource_is_refused(self, resource, code):
        found = answer({"resource": resource, "authorization_servers": ["https://auth.example"]})
        url = "https://skills.example/.well-known/oauth-protected-resource"
        assert code_of(follow, fetch_resource(url), [found]) == code
