"""What a server tells those without a good token, and signed requests: of a key in use, of now, and each once."""

import asyncio
import json

import pytest
from tests.support.opened import Blocking, open_tokens
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.sql.tokens import SqlTokens
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import FetchError, TrustError
from skillwire.model.access import Principal
from skillwire.protocols.skill_sharing.signing import sign
from skillwire.registry.tokens import Tokens
from skillwire.server import create_app
from skillwire.server.auth.authentication import ProtectedResource, SignedRequests
from skillwire.server.auth.oauth import audiences_of
from skillwire.server.configuration import OAuth2Settings

MCP = '[mcp]\nrequire = "authenticated"\n'
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
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


RESOURCES = {
    # the audience, the path, what the metadata names
    "no URL": ("skills", "", "http://skills.example.com"),
    "no URL, of MCP": ("skills", "/mcp", "http://skills.example.com/mcp"),
    "with a slash": ("http://skills.example.com/", "", "http://skills.example.com/"),
    "with a slash, of MCP": ("http://skills.example.com/", "/mcp", "http://skills.example.com/mcp"),
    "of MCP": ("http://skills.example.com/mcp", "/mcp", "http://skills.example.com/mcp"),
    "of MCP, elsewhere": ("http://skills.example.com/mcp", "", "http://skills.example.com/mcp"),
    "of another site": ("https://other.example", "", "http://skills.example.com"),
}


@pytest.mark.parametrize(("audience", "path", "resource"), RESOURCES.values(), ids=RESOURCES)
def test_resource_that_is_published_is_an_audience_that_is_taken(audience, path, resource):
    settings = OAuth2Settings(issuer="https://login.example.com", audience=audience)
    document = ProtectedResource(settings, "").document("http://skills.example.com", path)
    assert document is not None
    assert json.loads(document)["resource"] == resource
    assert resource in audiences_of(audience, "http://skills.example.com")


def test_nothing_but_the_audience_and_the_own_resources_is_taken():
    assert audiences_of("skills", "") == {"skills"}
    assert audiences_of("https://a.example/", "") == {
        "https://a.example",
        "https://a.example/",
        "https://a.example/mcp",
    }


async def test_clients_of_mcp_are_told_where_to_log_in(serve):
    client = await serve(OFFER.format(offer="api_key") + MCP, "/below")
    metadata = "http://skills.example.com/below" + RESOURCE + "/mcp"
    named = f'Bearer realm="skills", resource_metadata="{metadata}"'
    key = open_tokens().issue("caller", skills=["open-notes"]).secret
    for fields, status, challenge in (
        ({}, 401, named),
        ({"Authorization": "Bearer x"}, 401, named + ', error="invalid_token"'),
        ({"X-API-Key": key}, 200, None),
    ):
        answer = await client.request("/mcp", {**HOST, **JSON, **fields}, method="POST", body=PING)
        assert (answer.status, answer.fields.get("www-authenticate")) == (status, challenge)
    assert (await client.get(RESOURCE + "/mcp", HOST)).json()["resource"] == "http://skills.example.com/below/mcp"
    assert (await client.request("/mcp", HOST, method="OPTIONS")).status == 204
    # What other paths offer stays the operator's choice.
    assert (await client.get(LOCKED, HOST)).fields["www-authenticate"] == 'Bearer realm="skills"'


class Issuer:
    """Knows one token, of somebody who has the scopes."""

    def __init__(self, *scopes):
        self.principal = Principal("https://login.example.com#alice", frozenset(), frozenset(scopes))

    async def recognise(self, _, *, asks):
        assert asks
        return self.principal

    async def close(self):
        pass


async def call_locked(client, fields):
    call = {"name": "call_skill", "arguments": {"name": "staff-guide"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    return await client.request("/mcp", {**HOST, **JSON, **fields}, method="POST", body=body)


@pytest.mark.parametrize("scopes", [(), ("skill:other",)])
async def test_token_that_lacks_a_scope_is_told_which_one(serve, monkeypatch, scopes):
    client = await serve(OFFER.format(offer="oauth2"))
    monkeypatch.setattr(client.application.services.authentication, "_bearer", Issuer(*scopes))
    for answer, path in (
        (await client.get(LOCKED, {**HOST, "Authorization": "Bearer x"}), ""),
        (await call_locked(client, {"Authorization": "Bearer x"}), "/mcp"),
    ):
        metadata = f'resource_metadata="http://skills.example.com{RESOURCE}{path}"'
        challenge = f'Bearer realm="skills", {metadata}, error="insufficient_scope", scope="skill:staff-guide"'
        assert (answer.status, answer.fields["www-authenticate"]) == (403, challenge)
        assert answer.json()["error"]["code"] == "PERMISSION_DENIED"


async def test_caller_whom_no_scope_helps_is_not_sent_to_log_in(serve, monkeypatch):
    client = await serve(OFFER.format(offer="oauth2"))
    monkeypatch.setattr(client.application.services.authentication, "_bearer", Issuer("skill:staff-guide"))
    key = open_tokens().issue("caller", skills=["open-notes"]).secret
    for fields in ({"X-API-Key": key}, {"Authorization": "Bearer x"}):
        answer = await client.get(LOCKED, {**HOST, **fields})
        assert (answer.status, "www-authenticate" in answer.fields) == (403, False)
        called = await call_locked(client, fields)
        assert (called.status, b"PERMISSION_DENIED: staff-guide is there" in called.body) == (200, True)


async def test_there_is_no_metadata_without_an_authorization_server(serve):
    client = await serve("")
    for path in (RESOURCE, RESOURCE + "/mcp"):
        for method in ("GET", "HEAD", "POST"):
            assert (await client.request(path, HOST, method=method)).status == 404


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
async def test_every_way_to_ask_for_a_locked_skill_says_which_scopes_open_it(serve, tmp_path):
    for name in ("post-guide", "lift-guide"):
        write_skill(tmp_path / "skills", name, {"skill.toml": 'access = "restricted"\nscenes = ["house"]\n'})
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
        f"/@office{INDEX}",
    ):
        answer = await client.get(path, key)
        details = answer.json()["error"]["details"]
        assert (answer.status, details["required_scopes"]) == (403, ["skill:staff-guide", "all", "staff"]), path
    several = await client.get(f"/@house{INDEX}", key)
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


REQUEST = ("POST", "/skills/a/executions", b"{}")
START = 1_700_000_000.5
WINDOW = int(limits.SIGNATURE_WINDOW_SECONDS)
AHEAD = int(limits.SIGNATURE_AHEAD_SECONDS)


class World:
    def __init__(self, path):
        self.now = START
        self.database = Database(path)
        self.tokens = Blocking(Tokens(SqlTokens(AsyncDatabase(self.database)), b"k" * 32, lambda: self.now))
        self.requests = Blocking(SignedRequests(self.tokens.wrapped.signing_key, lambda: self.now))
        self.key = self.tokens.issue("robot", skills=["a"], scopes=["s"], kind="signing_key")
        self.now += 10 * WINDOW

    def sign(self, timestamp=None, key=None, request=REQUEST):
        key = key or self.key
        at = int(self.now) if timestamp is None else timestamp
        return str(sign(key.token.token_id, key.secret.encode(), *request, timestamp=at))

    def reason(self, header, request=REQUEST):
        with pytest.raises(TrustError) as caught:
            self.requests.recognise(header, *request)
        assert caught.value.code == "AUTH_REQUIRED"
        return caught.value.details["reason"]


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "skillwire.db")
    yield world
    world.database.close()


@pytest.mark.spec("SSP-auth-custom")
def test_signed_request_says_whose_it_is_and_what_that_opens(world):
    principal = world.requests.recognise(world.sign(), *REQUEST)
    assert (principal.name, principal.grants, principal.scopes) == ("robot", {"a"}, {"s"})


def test_signature_counts_once_as_long_as_its_time_is_good(world):
    header = world.sign(int(world.now) + AHEAD)
    world.requests.recognise(header, *REQUEST)
    assert world.reason(header) == "repeated"
    world.now += WINDOW + AHEAD - 1
    assert world.reason(header) == "repeated"
    world.now += 2
    assert world.reason(header) == "expired"


def test_of_two_copies_at_once_one_counts(world):
    header = world.sign()

    async def ask():
        try:
            return (await world.requests.wrapped.recognise(header, *REQUEST)).name
        except TrustError as error:
            return error.details["reason"]

    async def ask_twice():
        return await asyncio.gather(ask(), ask())

    answers = asyncio.run(ask_twice())
    assert sorted(answers) == ["repeated", "robot"]


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        *((0, None), (AHEAD, None), (1 - WINDOW, None)),
        *((AHEAD + 1, "early"), (WINDOW, "early"), (-WINDOW - 1, "expired"), (-(10**9), "expired")),
    ],
)
def test_time_may_be_past_a_while_and_ahead_a_little(world, offset, reason):
    header = world.sign(int(world.now) + offset)
    if reason is None:
        assert world.requests.recognise(header, *REQUEST)
    else:
        assert world.reason(header) == reason


def test_what_was_signed_before_the_server_began_is_refused(world):
    again = Blocking(SignedRequests(world.tokens.wrapped.signing_key, lambda: world.now))
    header = world.sign()
    world.requests.recognise(header, *REQUEST)
    with pytest.raises(TrustError, match="before this server"):
        again.recognise(world.sign(int(world.now) - 1), *REQUEST)
    assert again.recognise(world.sign(int(world.now) + 1), *REQUEST)


def test_another_request_another_key_and_no_key_are_told_alike(world):
    other = world.tokens.issue("other", kind="signing_key")
    header = world.sign(key=other).replace(other.token.token_id, world.key.token.token_id)
    texts = set()
    for refused in (header, world.sign(request=("GET", "/", b"")), world.sign().replace(header[:16], "a" * 16)):
        assert world.reason(refused) == "unknown"
        with pytest.raises(TrustError) as caught:
            world.requests.recognise(refused, *REQUEST)
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert world.reason("Bearer x") == "malformed"
    assert world.requests.recognise(world.sign(), *REQUEST)  # what was refused is not remembered


def test_key_that_was_taken_back_and_an_api_key_sign_nothing(world):
    header = world.sign()
    world.tokens.revoke(world.key.token.token_id)
    assert world.reason(header) == "unknown"
    api_key = world.tokens.issue("robot")
    assert world.reason(world.sign(key=api_key)) == "unknown"


def test_unknown_key_with_the_signature_of_an_empty_secret_is_refused(world):
    assert world.reason(str(sign("a" * 16, b"", *REQUEST, timestamp=int(world.now)))) == "unknown"


def test_memory_of_signatures_is_bounded_for_each_key(world, monkeypatch):
    monkeypatch.setattr(limits, "SIGNATURES_KEPT", 5)
    for number in range(5):
        world.requests.recognise(world.sign(int(world.now) + number), *REQUEST)
    with pytest.raises(FetchError) as caught:
        world.requests.recognise(world.sign(int(world.now) + 5), *REQUEST)
    assert caught.value.code == "TOO_MANY_SIGNATURES"
    other = world.tokens.issue("other", kind="signing_key")
    assert world.requests.recognise(world.sign(key=other), *REQUEST)
    world.now += 2 * WINDOW + 1
    assert world.requests.recognise(world.sign(), *REQUEST)
    assert len(world.requests._seen) == 1
