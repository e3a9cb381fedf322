"""The device flow over HTTP: metadata, codes, polls and revocation, in the forms of OAuth 2.0."""

import json
from urllib.parse import urlencode

import pytest
from tests.support.publishing import Asgi
from tests.support.registry_site import RegistrySite

from skillwire.protocols.oauth.codec import decode_device, decode_metadata, decode_tokens
from skillwire.registry.accounts import REGISTRY_SCOPES, Actor
from skillwire.server import create_app
from skillwire.wire.exchange import HttpResponse

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SITE = "http://skills.example.com"
METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    await site.account("ann")
    clock = [1_000_000.0]
    for part in (site.parts.device_logins, site.parts.accounts):
        part._clock = lambda: clock[0]
    site.later = lambda seconds: clock.__setitem__(0, clock[0] + seconds)  # type: ignore[attr-defined]  # for tests
    return site


async def post(site, path, form, media="application/x-www-form-urlencoded", **fields):
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    own = {"Host": "skills.example.com", "Content-Type": media, **fields}
    return await site.request(f"/api/registry/oauth/{path}", own, method="POST", body=body)


async def poll(site, codes, wait=5.0, **more):
    site.later(wait)
    form = {"grant_type": GRANT, "device_code": codes["device_code"], "client_id": "skillwire", **more}
    return await post(site, "token", form)


async def approve(site, codes, *scopes, lifetime=None):
    token = (await site.application.services.authentication.tokens().all("ann"))[0]
    actor = Actor("ann", frozenset(REGISTRY_SCOPES), token_id=token.token_id)
    await site.parts.device_logins.approve(actor, codes["user_code"], scopes, lifetime)


def as_response(answer, url=f"{SITE}/x"):
    return HttpResponse(url, answer.status, answer.fields, answer.body)


async def test_our_client_reads_metadata_codes_and_token(site):
    found = decode_metadata(as_response(await site.request(METADATA, {"Host": "skills.example.com"})), SITE)
    assert (found.token_url, found.device_url) == (
        f"{SITE}/api/registry/oauth/token",
        f"{SITE}/api/registry/oauth/device",
    )
    assert (found.revocation_url, found.authorization_url) == (f"{SITE}/api/registry/oauth/revoke", None)
    begun = await post(site, "device", {"client_id": "skillwire", "scope": "read publish"})
    assert begun.fields["cache-control"] == "no-store"
    device = decode_device(as_response(begun))
    assert (device.verification_url, device.expires_in, device.interval) == (f"{SITE}/account/device", 600, 5)
    codes = begun.json()
    assert codes["verification_uri_complete"] == f"{SITE}/account/device?user_code={codes['user_code']}"
    await approve(site, codes, "read", lifetime=3600.0)
    answer = await poll(site, codes)
    tokens = decode_tokens(as_response(answer))
    assert (tokens.scope, tokens.expires_in, tokens.refresh_token) == ("read", 3600, None)
    assert answer.fields["cache-control"] == "no-store"
    assert (await site.call("GET", "/whoami", by=tokens.access_token)).json()["account"] == "ann"
    assert (await post(site, "revoke", {"token": tokens.access_token, "client_id": "skillwire"})).status == 200
    assert (await site.call("GET", "/whoami", by=tokens.access_token)).status == 401
    for shown in ("nonsense", tokens.access_token):  # no answer tells whether it was a token
        assert (await post(site, "revoke", {"token": shown})).status == 200


async def test_a_registry_below_a_path_names_itself_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path, base_url="https://skills.example.com/team")
    found = decode_metadata(as_response(await site.get(METADATA)), "https://skills.example.com/team")
    assert str(found.token_url).removeprefix("https://skills.example.com") == "/team/api/registry/oauth/token"
    begun = (await post(site, "device", {"client_id": "skillwire"})).json()
    assert begun["verification_uri"] == "https://skills.example.com/team/account/device"


async def test_each_state_has_its_error(site):
    codes = (await post(site, "device", {"client_id": "skillwire"})).json()

    async def error(**more):
        answer = await poll(site, codes, **more)
        assert answer.status == 400
        assert codes["device_code"] not in answer.body.decode()
        assert answer.json()["error_description"]
        return answer.json()["error"]

    assert await error() == "authorization_pending"
    assert await error(wait=1.0) == "slow_down"
    assert await error(wait=10.0, grant_type="password") == "unsupported_grant_type"
    assert await error(wait=10.0, client_id="other") == "invalid_grant"
    assert await error(wait=600.0) == "expired_token"
    await approve(site, codes := (await post(site, "device", {"client_id": "skillwire"})).json(), "read")
    assert (await poll(site, codes)).status == 200
    assert await error() == "invalid_grant"


@pytest.mark.parametrize(
    ("path", "form", "error"),
    [
        ("device", {}, "invalid_request"),
        ("device", {"client_id": "x", "scope": "root"}, "invalid_scope"),
        ("device", {"client_id": "x" * 65}, "invalid_scope"),
        ("device", b"client_id=a&client_id=b", "invalid_request"),
        ("device", b"&".join(b"k%d=1" % number for number in range(20)), "invalid_request"),
        ("token", {"grant_type": GRANT}, "invalid_request"),
        ("token", {"grant_type": "refresh_token"}, "unsupported_grant_type"),
        ("token", {}, "invalid_request"),
        ("device", {"client_id": "x", "grant_type": "y", "scope": "root"}, "invalid_scope"),
        ("token", b"\xff\xfe=%ff", "invalid_request"),
        ("revoke", {}, "invalid_request"),
    ],
)
async def test_malformed_forms_are_refused(site, path, form, error):
    answer = await post(site, path, form)
    assert (answer.status, answer.json()["error"]) == (400, error)


async def test_only_forms_of_a_bounded_size_are_read(site):
    assert (await post(site, "device", b"client_id=" + b"x" * 3000)).status == 413
    answer = await post(site, "device", json.dumps({"client_id": "x"}).encode(), "application/json")
    assert answer.json()["error"] == "invalid_request"


async def test_one_address_begins_a_bounded_number_of_logins(site):
    statuses = [(await post(site, "device", {"client_id": "x"})).status for _ in range(21)]
    assert statuses == [200] * 20 + [429]


async def test_without_a_registry_there_is_no_authorization_server(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    (tmp_path / "skills").mkdir()
    site = Asgi(create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False))
    site.application.catalog._refresh(None)
    for path in (METADATA, "/api/registry/oauth/device", "/account"):
        assert (await site.get(path)).status == 404
