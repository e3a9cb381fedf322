"""Whatever stands in a token, a key set or an issuer's answer, it is read or refused, and nothing else escapes."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st
from tests.support.jose import AUDIENCE, ISSUER, NOW, good_claims, signing_key

from skillwire.errors import DecodeError, TrustError
from skillwire.protocols.skill_sharing.signing import is_signed_by, read_signature, sign
from skillwire.server.auth.access_token import (
    TokenRules,
    check_form,
    decode_token,
    is_jwt,
    validate_claims,
    verify,
)
from skillwire.server.auth.issuer import read_key_set

RULES = TokenRules(ISSUER, frozenset({AUDIENCE}), allow_untyped=True)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CLAIMS = st.fixed_dictionaries(
    {}, optional={name: VALUES | st.just(value) for name, value in good_claims(nbf=NOW).items()}
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "alg": VALUES | st.sampled_from(["ES256", "none", "HS256"]),
        "kid": VALUES | st.just("one"),
        "typ": VALUES | st.sampled_from(["JWT", "at+jwt"]),
        "cty": VALUES,
        "crit": VALUES,
        "b64": VALUES,
    },
)
MEMBERS = ("kty", "crv", "n", "e", "x", "y", "kid", "use", "alg", "key_ops")
KEYS = st.dictionaries(
    st.sampled_from(MEMBERS), VALUES | st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "sig", "AQAB"])
)


def verify_text(token):
    """Return the claims of a token under the one key that there is."""
    check_form(token)
    if not is_jwt(token):
        raise TrustError("AUTH_REQUIRED", "no JWT")
    parts = decode_token(token, allow_untyped=True)
    keys = read_key_set(json.dumps({"keys": [signing_key("ES256").jwk()]}).encode(), "keys")
    key = keys.find("one", "ES256")
    assert key
    return verify(parts, key, RULES, NOW)


@given(st.text(alphabet="abcXYZ019-_.~=", max_size=60) | st.text(max_size=20))
def test_no_text_is_a_token(text):
    with contextlib.suppress(TrustError):
        verify_text(text)
        raise AssertionError(text)


@given(HEADERS, CLAIMS)
def test_header_and_claims_are_judged_whatever_they_are(header, claims):
    head = {"alg": "ES256", "kid": "one", "typ": "at+jwt", **header}
    token = signing_key("ES256").token(claims, **head)
    with contextlib.suppress(TrustError):
        found = verify_text(token)
        assert claims["iss"] == ISSUER
        assert found.subject or found.client_id
        assert not {"crit", "cty", "b64"} & {name for name, value in header.items() if value is not None}


@given(CLAIMS)
def test_answers_of_an_issuer_are_judged_whatever_they_are(claims):
    with contextlib.suppress(TrustError):
        validate_claims(claims, RULES, NOW)
        assert AUDIENCE in (claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]])


@given(st.data())
def test_token_with_one_letter_changed_says_nothing_else(data):
    token = signing_key("ES256").token()
    position = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("AZaz09-_."))
    with contextlib.suppress(TrustError):
        assert verify_text(token[:position] + letter + token[position + 1 :]) == verify_text(token)


@given(st.lists(VALUES | KEYS, max_size=5), st.binary(max_size=40))
def test_key_sets_are_read_whatever_stands_in_them(keys, noise):
    found = read_key_set(json.dumps({"keys": [*keys, signing_key("ES256").jwk()]}).encode(), "keys")
    assert found.find("one", "ES256") or "one" in json.dumps(keys)
    with contextlib.suppress(DecodeError):
        read_key_set(noise, "keys")


@given(st.text(max_size=30), st.text(max_size=30), st.binary(max_size=30), st.integers(0, 10**11))
def test_what_is_signed_is_recognised_and_nothing_shifts_between_its_parts(method, target, body, timestamp):
    method, target = (part.encode("utf-8", "replace").decode() for part in (method, target))
    signature = sign("a" * 16, b"secret", method, target, body, timestamp=timestamp)
    assert read_signature(str(signature)) == signature
    assert is_signed_by(signature, b"secret", method, target, body) == ("\n" not in method + target)
    if "\n" not in method + target:
        assert not is_signed_by(signature, b"secret", method + "x", target, body)
        assert not is_signed_by(signature, b"secret", method, target + "\n", body[1:])
