"""The authorization server of these tests does what the tests of ours take for granted."""

import base64
import hashlib
import json
import urllib.parse
import urllib.request

import pytest
from tests.support.oidc_provider import JWT_RESOURCE, NATIVE, OPAQUE_RESOURCE, oidc_provider

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]
CALLBACK = "http://127.0.0.1:4711/callback"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def claims(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def test_service_gets_a_jwt_for_the_one_resource_and_an_opaque_token_for_the_other(oidc_provider):
    found = claims(oidc_provider.token(scope="skill:forecast"))
    assert (found["iss"], found["aud"], found["scope"]) == (oidc_provider.issuer, JWT_RESOURCE, "skill:forecast")
    assert found["exp"] - found["iat"] == 300
    opaque = oidc_provider.token(resource=OPAQUE_RESOURCE)
    assert "." not in opaque
    assert oidc_provider.introspect(opaque)["active"]
    oidc_provider.revoke(opaque)
    assert oidc_provider.introspect(opaque) == {"active": False}


def test_person_approves_with_pkce_and_the_refresh_token_rotates(oidc_provider):
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urllib.parse.urlencode(
        {
            "client_id": NATIVE.client_id,
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": "openid offline_access skill:forecast",
            "resource": JWT_RESOURCE,
            "state": "xyz",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
    )
    landed = oidc_provider.approve(f"{oidc_provider.authorization_endpoint}?{query}")
    assert landed.startswith(CALLBACK + "?")
    answer = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(landed).query))
    assert answer["state"] == "xyz"
    form = {
        "grant_type": "authorization_code",
        "client_id": NATIVE.client_id,
        "code": answer["code"],
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
    }
    tokens = oidc_provider.post(oidc_provider.token_endpoint, form)
    assert (claims(tokens["access_token"])["sub"], claims(tokens["access_token"])["scope"]) == (
        "alice",
        "skill:forecast",
    )
    refresh = {"grant_type": "refresh_token", "client_id": NATIVE.client_id, "refresh_token": tokens["refresh_token"]}
    renewed = oidc_provider.post(oidc_provider.token_endpoint, refresh)
    assert renewed["refresh_token"] != tokens["refresh_token"]
    assert oidc_provider.post(oidc_provider.token_endpoint, refresh)["error"] == "invalid_grant"


def test_person_approves_a_device(oidc_provider):
    asked = oidc_provider.post(
        oidc_provider.device_authorization_endpoint,
        {"client_id": NATIVE.client_id, "scope": "openid offline_access skill:forecast", "resource": JWT_RESOURCE},
    )
    form = {"grant_type": DEVICE_GRANT, "client_id": NATIVE.client_id, "device_code": asked["device_code"]}
    assert oidc_provider.post(oidc_provider.token_endpoint, form)["error"] == "authorization_pending"
    oidc_provider.approve(asked["verification_uri_complete"])
    tokens = oidc_provider.post(oidc_provider.token_endpoint, form)
    assert claims(tokens["access_token"])["sub"] == "alice"
    assert tokens["refresh_token"]


def test_lifetime_and_keys_change(oidc_provider):
    def keys():
        with urllib.request.urlopen(oidc_provider.jwks_uri) as response:  # noqa: S310  # of loopback
            return {key["kid"] for key in json.load(response)["keys"]}

    oidc_provider.set_lifetime(2)
    found = claims(oidc_provider.token())
    oidc_provider.set_lifetime(300)
    assert found["exp"] - found["iat"] == 2
    before = keys()
    oidc_provider.change_keys()
    assert not before & keys()
