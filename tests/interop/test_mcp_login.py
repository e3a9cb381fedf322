"""The OAuth client of the MCP SDK logs in to ``/mcp`` by itself, knowing nothing but its address."""

import contextlib
import urllib.parse

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from tests.support.mcp_host import MODES
from tests.support.oidc_provider import running_oidc_provider
from tests.support.publishing import write_skill

from skillwire.server import create_app
from skillwire.server.configuration import read_configuration

pytestmark = pytest.mark.deep
SITE = "http://skills.example.com"
CALLBACK = "http://127.0.0.1:4711/callback"
CONFIGURATION = """
[auth]
offer = "oauth2"
[oauth2]
issuer = "{issuer}"
audience = "{audience}"
authorization_url = "{authorization}"
token_url = "{token}"
scopes = {{ "skill:forecast" = "Read the forecast", "skill:billing" = "Bill" }}
[mcp]
require = "authenticated"
"""


class Person:
    """Somebody with a client of MCP, a browser, and a memory for what the client stores."""

    def __init__(self, provider):
        self._provider = provider
        self._landed = ""
        self.asked: list[dict[str, str]] = []
        self._tokens = self._client = None

    async def open(self, url):
        self.asked.append(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)))
        self._landed = self._provider.approve(url)

    async def land(self):
        found = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self._landed).query))
        return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found.get("iss"))

    async def get_tokens(self):
        return self._tokens

    async def set_tokens(self, tokens):
        self._tokens = tokens

    async def get_client_info(self):
        return self._client

    async def set_client_info(self, client_info):
        self._client = client_info


@pytest.fixture
def provider():
    with running_oidc_provider() as provider:
        yield provider


@pytest.fixture
def serving(tmp_path, monkeypatch, provider):
    """Publish two locked skills at SITE."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    for name in ("forecast", "billing"):
        write_skill(tmp_path / "skills", name, {"skill.toml": 'access = "restricted"\n'})

    @contextlib.asynccontextmanager
    async def serving(audience):
        text = CONFIGURATION.format(
            issuer=provider.issuer,
            audience=audience,
            authorization=provider.authorization_endpoint,
            token=provider.token_endpoint,
        )
        configuration = read_configuration(text.encode(), "server.toml")
        folder, blobs = tmp_path / "skills", tmp_path / "blobs"
        application = create_app([folder], blobs=blobs, configuration=configuration, base_url=SITE)
        await application.startup()
        await application.catalog.first(20)
        try:
            yield application
        finally:
            application.close_streams()
            await application.shutdown()

    return serving


@contextlib.asynccontextmanager
async def connected(application, person, mode):
    metadata = OAuthClientMetadata.model_validate(
        {"redirect_uris": [CALLBACK], "client_name": "An agent", "token_endpoint_auth_method": "none"}
    )
    login = OAuthClientProvider(f"{SITE}/mcp", metadata, person, person.open, person.land)
    inside = httpx2.ASGITransport(application, client=("192.0.2.7", 1234))
    async with (
        httpx2.AsyncClient(auth=login, mounts={SITE: inside}) as http,
        Client(streamable_http_client(f"{SITE}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("audience", [SITE, f"{SITE}/", f"{SITE}/mcp", "skills"])
@pytest.mark.parametrize("mode", MODES)
async def test_client_of_the_sdk_logs_in_unaided(serving, provider, mode, audience):
    provider.add_resource(f"{SITE}/mcp", "skill:forecast skill:billing")
    person = Person(provider)
    async with serving(audience) as application, connected(application, person, mode) as client:
        read = await client.call_tool("read_skill_file", {"name": "forecast"})
    assert not read.is_error
    (asked,) = person.asked
    assert asked["resource"] == f"{SITE}/mcp"
    assert set(asked["scope"].split()) >= {"skill:forecast", "skill:billing"}


@pytest.mark.parametrize("mode", MODES)
async def test_client_of_the_sdk_asks_for_the_scope_that_is_missing(serving, provider, mode):
    provider.add_resource(f"{SITE}/mcp", "skill:forecast")
    person = Person(provider)
    async with serving(f"{SITE}/") as application, connected(application, person, mode) as client:
        assert not (await client.call_tool("read_skill_file", {"name": "forecast"})).is_error
        provider.add_resource(f"{SITE}/mcp", "skill:forecast skill:billing")
        assert not (await client.call_tool("read_skill_file", {"name": "billing"})).is_error
    assert len(person.asked) == 2
