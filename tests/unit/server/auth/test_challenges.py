"""A server with an authorization server: what it tells those who come without a token, or with a wrong one."""

import pytest
from tests.support.opened import open_tokens
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.server import create_app

INDEX = "/.well-known/agent-skills/index.json"
LOCKED = "/.well-known/agent-skills/staff-guide/SKILL.md"
RESOURCE = "/.well-known/oauth-protected-resource"
HOST = {"Host": "skills.example.com"}
OFFER = """
[auth]
offer = "{offer}"
[oauth2]
issuer = "https://login.example.com"
audience = "skills"
authorization_url = "https://login.example.com/authorize"
token_url = "https://login.example.com/token"
[oauth2.scopes]
"skill:staff-guide" = "The guide"
[grants.scopes]
"staff" = ["staff-guide"]
"all" = ["*"]
"other" = ["open-notes"]
"""


@pytest.fixture
async def serve(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "skills"
    write_skill(folder, "open-notes", {"run.sh": "echo"})
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\nscenes = ["office"]\n', "a.txt": "x"})
    started = []

    async def serve(configuration, root_path=""):
        file = tmp_path / "server.toml"
        file.write_text(configuration)
        application = create_app([folder], blobs=tmp_path / "blobs", publisher="example-corp", configuration=file)
        started.append(application)
        await application.startup()
        await application.catalog.first(20)
        return Asgi(application, root_path)

    yield serve
    for application in started:
        await application.shutdown()


async def test_metadata_of_the_resource_names_the_issuer(serve):
    client = await serve(OFFER.format(offer="oauth2"))
    answer = await client.get(RESOURCE, HOST)
    assert (answer.status, answer.fields["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "resource": "http://skills.example.com",
        "authorization_servers": ["https://login.example.com"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["skill:staff-guide"],
    }
    head = await client.request(RESOURCE, HOST, method="HEAD")
    assert (head.fields["content-length"], head.body) == (str(len(answer.body)), b"")
    assert (await client.request(RESOURCE, HOST, method="POST")).status == 405


async def test_there_is_no_metadata_without_an_authorization_server(serve):
    client = await serve("")
    for method in ("GET", "HEAD", "POST"):
        assert (await client.request(RESOURCE, HOST, method=method)).status == 404


@pytest.mark.spec("SSP-auth-required")
async def test_a_refusal_names_the_metadata_and_says_whether_a_token_was_bad(serve):
    client = await serve(OFFER.format(offer="oauth2"), "/below")
    nobody = await client.get(LOCKED, HOST)
    named = 'Bearer realm="skills", resource_metadata="http://skills.example.com/below' + RESOURCE + '"'
    assert (nobody.status, nobody.fields["www-authenticate"]) == (401, named)
    bad = await client.get(INDEX, {**HOST, "Authorization": "Bearer x"})
    assert (bad.status, bad.fields["www-authenticate"]) == (401, named + ', error="invalid_token"')
    for fields in (
        {"X-API-Key": "x"},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "Bearer x", "X-API-Key": "x"},
    ):
        assert (await client.get(INDEX, {**HOST, **fields})).fields["www-authenticate"] == named


async def test_the_offer_decides_what_a_refusal_names(serve):
    client = await serve(OFFER.format(offer="custom"))
    assert (await client.get(LOCKED, HOST)).fields["www-authenticate"] == 'Signature realm="skills"'
    bad = await client.get(INDEX, {**HOST, "Authorization": "Bearer x"})
    assert bad.fields["www-authenticate"] == 'Bearer realm="skills", error="invalid_token"'


@pytest.mark.spec("SSP-permission-denied")
async def test_every_way_to_ask_for_a_locked_skill_says_which_scopes_open_it(serve):
    client = await serve(OFFER.format(offer="oauth2"))
    key = {**HOST, "X-API-Key": open_tokens().issue("caller", skills=["open-notes"]).secret}
    digest = client.application.catalog.current.everything.skills["staff-guide"].artifact.digest.hex
    base = "/.well-known/agent-skills"
    for path in (
        f"{base}/staff-guide/SKILL.md",
        f"{base}/staff-guide.tar.gz",
        f"{base}/sha256/{digest}.tar.gz",
        "/.well-known/skills/staff-guide/a.txt",
        f"{base}{base}/staff-guide/a.txt",
        f"/@staff-guide{INDEX}",
        f"/@office{base}/staff-guide/a.txt",
    ):
        answer = await client.get(path, key)
        details = answer.json()["error"]["details"]
        assert (answer.status, details["required_scopes"]) == (403, ["skill:staff-guide", "all", "staff"]), path
    several = await client.get(f"/@office{INDEX}", key)
    assert (several.status, several.json()["error"]["details"]["required_scopes"]) == (403, [])


async def test_connections_to_the_issuer_end_with_the_application(serve, monkeypatch):
    closed = []
    close = AsyncDriver.close

    async def closing(driver):
        await close(driver)
        closed.append(driver)

    monkeypatch.setattr(AsyncDriver, "close", closing)
    client = await serve(OFFER.format(offer="oauth2"))
    assert not closed
    await client.application.shutdown()
    assert len(closed) == 1
