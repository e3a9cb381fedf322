"""Stored credentials in the requests of a client: where they go, when they are renewed, and what a crash leaves."""

import asyncio
import hashlib
import json
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from blockbuster import blockbuster_ctx
from tests.support.eventually import PATIENCE
from tests.support.private_origin import SKILL, private_origin
from tests.support.raw_server import RawServer, answer
from tests.unit.client.test_endpoint_skills import ENDPOINT, REFERENCE, Endpoint, failing, http, refusal
from tests.unit.client.test_endpoint_skills import ORIGIN as ENDPOINT_ORIGIN

from skillwire import AsyncClient, Client
from skillwire.adapters.files.credentials import open_store
from skillwire.client.credentials import StoredCredentials
from skillwire.client.mcp_relay import RelayClient
from skillwire.codes import CODES
from skillwire.errors import FetchError, SkillwireError
from skillwire.model.credential import Credential, TokenRenewal
from skillwire.protocols.skills_rpc.errors import error_object
from skillwire.server.runs import check_allowed
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.trust.guarded_json import server_message
from skillwire.wire.exchange import All, HttpRequest, HttpResponse, Work, drive

ORIGIN = "https://skills.example"
TOKEN_ENDPOINT = "https://auth.example/token"  # noqa: S105  # an address
GRANT = TokenRenewal(TOKEN_ENDPOINT, "me", None, False, "refresh-0", "https://auth.example/revoke")
TOKEN = Credential(ORIGIN, "oauth2", "token-0", "login", expires_at=10_000.0, grant=GRANT)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))


class AuthorizationServer:
    """A token endpoint of loopback whose refresh tokens are for one use; ``talk`` may say something else."""

    def __init__(self):
        self.asked = 0
        self.spent = set()
        self.say = None
        self.url = ""
        self._lock = threading.Lock()

    def talk(self, peer):
        while head := peer.request():
            size = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))[15:])
            body = peer._buffer
            while len(body) < size:
                body += peer._socket.recv(65536)
            peer._buffer = b""
            peer.send(self.say if self.say is not None else self._renew(body.decode()))

    def _renew(self, body):
        with self._lock:
            self.asked += 1
            if body in self.spent:
                return answer(b'{"error": "invalid_grant"}', status="400 Bad Request")
            self.spent.add(body)
            number = len(self.spent)
        document = {"access_token": f"token-{number}", "token_type": "Bearer", "expires_in": 3600}
        document["refresh_token"] = f"refresh-{number}"
        return answer(json.dumps(document).encode(), "Content-Type: application/json")


@pytest.fixture
def auth():
    server = AuthorizationServer()
    with RawServer(server.talk) as listener:
        server.url = listener.url("/token")
        yield server


@pytest.fixture
def origin():
    with private_origin() as origin:
        origin.accepts = lambda headers: headers.get("authorization") == "Bearer token-1"
        yield origin


def store_token(origin, auth, *, left):
    grant = TokenRenewal(auth.url, "me", None, False, "refresh-0")
    open_store().keep(Credential(origin.url, "oauth2", "token-0", "login", expires_at=time.time() + left, grant=grant))


def look(origin, tmp_path):
    with Client(tmp_path) as client:
        return [skill.name for skill in client.index(origin.url)]


def stored_for(url):
    found = open_store().find(url)
    assert found is not None
    return found


def code_of(call, *arguments):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.spec("OAU-refresh")
@pytest.mark.parametrize("left", [3000, 30, -30])
def test_a_token_is_renewed_ahead_of_its_end_or_when_it_is_refused(origin, auth, tmp_path, left):
    store_token(origin, auth, left=left)
    assert look(origin, tmp_path) == ["secret-plan"]
    assert auth.asked == 1
    stored = stored_for(origin.url)
    assert (stored.secret, stored.grant.refresh_token, stored.login) == ("token-1", "refresh-1", "login")
    sent = origin.sent("authorization")
    assert sent[-1] == "Bearer token-1"
    assert ("Bearer token-0" in sent) == (left > 60)


async def test_the_asynchronous_client_renews_without_holding_up_its_loop(origin, auth, tmp_path):
    store_token(origin, auth, left=3000)
    async with AsyncClient(tmp_path) as client:
        with blockbuster_ctx("skillwire"):
            skill = await client.show(f"{origin.url}/secret-plan")
            assert await skill.open("SKILL.md") == SKILL
    assert auth.asked == 1


async def test_many_tasks_at_once_renew_once(origin, auth, tmp_path):
    store_token(origin, auth, left=3000)
    async with AsyncClient(tmp_path, refresh=True) as client, asyncio.timeout(PATIENCE):
        found = await asyncio.gather(*(client.index(origin.url) for _ in range(40)))
    assert [len(skills) for skills in found] == [1] * 40
    assert auth.asked == 1


def test_what_was_cached_is_known_after_a_renewal(origin, auth, tmp_path):
    origin.accepts = lambda headers: headers.get("authorization", "").startswith("Bearer token-")
    store_token(origin, auth, left=3000)
    look(origin, tmp_path)
    origin.requests.clear()
    open_store().keep(replace(stored_for(origin.url), secret="token-9"))  # noqa: S106  # of this test
    with Client(tmp_path, offline=True) as client:
        assert [skill.name for skill in client.index(origin.url)] == ["secret-plan"]
    assert origin.requests == []


def test_a_refresh_that_is_refused_says_to_log_in(origin, auth, tmp_path):
    auth.say = answer(b'{"error": "invalid_grant"}', "Content-Type: application/json", status="400 Bad Request")
    store_token(origin, auth, left=-30)
    assert code_of(look, origin, tmp_path) == "LOGIN_EXPIRED"
    assert stored_for(origin.url).secret == "token-0"  # noqa: S105  # of this test


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (answer(b"<html>login</html>", "Content-Type: text/html"), "CONTENT_TYPE"),
        (answer(b"x" * 10_000_000, "Content-Type: application/json"), "BODY_TOO_LARGE"),
        (answer(b"", "Location: https://evil.example/token", status="307 Temporary Redirect"), "REDIRECT_REFUSED"),
        (answer(b"", "Location: /other", status="302 Found"), "REDIRECT_REFUSED"),
    ],
)
def test_a_token_endpoint_that_misbehaves_is_an_error_and_changes_nothing(origin, auth, tmp_path, said, code):
    auth.say = said
    store_token(origin, auth, left=-30)
    before = open_store().path.read_bytes()
    assert code_of(look, origin, tmp_path) == code
    assert open_store().path.read_bytes() == before
    assert origin.sent("authorization") == []


def test_a_token_that_still_holds_will_do_when_its_server_is_away(origin, auth, tmp_path):
    auth.say = answer(b"{}", status="503 Service Unavailable")
    origin.accepts = lambda headers: headers.get("authorization") == "Bearer token-0"
    store_token(origin, auth, left=30)
    assert look(origin, tmp_path) == ["secret-plan"]


def test_an_api_key_goes_in_its_own_field_to_its_own_origin(origin, tmp_path):
    with private_origin() as other:
        for place in (origin, other):
            place.accepts = lambda headers: headers.get("x-api-key") == "key-1"
        open_store().keep(Credential(origin.url, "api_key", "key-1", "login", header="X-API-Key"))
        assert look(origin, tmp_path) == ["secret-plan"]
        assert set(origin.sent("x-api-key")) == {"key-1"}
        assert origin.sent("authorization") == []
        assert code_of(look, other, tmp_path) == "ACCESS_DENIED"
        assert other.sent("x-api-key") == []


def test_a_key_to_sign_with_is_sent_nowhere(origin, tmp_path):
    open_store().keep(Credential(origin.url, "custom", "key-1", "login", key_id="k"))
    assert code_of(look, origin, tmp_path) == "ACCESS_DENIED"
    assert not [value for _, headers in origin.requests for value in headers.values() if "key-1" in value]


def test_an_artifact_on_another_origin_is_fetched_without_the_credential(origin, tmp_path):
    with private_origin() as other:
        other.accepts = lambda _: True
        index = json.loads(origin._index())
        index["skills"][0]["url"] = f"{other.url}/secret-plan/SKILL.md"
        index["skills"][0]["digest"] = f"sha256:{hashlib.sha256(SKILL).hexdigest()}"
        origin.documents["/.well-known/agent-skills/index.json"] = index
        open_store().keep(Credential(origin.url, "api_key", "key-1", "login"))
        with Client(tmp_path) as client:
            client.index(other.url)  # the user means this one, too
            client.show(f"{origin.url}/secret-plan").body()
        assert "Bearer key-1" in origin.sent("authorization")
        assert other.sent("authorization") == []


@pytest.mark.parametrize(("option", "variable"), [(None, None), (None, "variable"), ("option", "variable")])
def test_the_order_of_credentials(origin, tmp_path, monkeypatch, option, variable):
    origin.accepts = lambda _: True
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password pw\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    open_store().keep(Credential(origin.url, "api_key", "stored", "login"))
    if variable:
        monkeypatch.setenv("SKILLWIRE_TOKENS", f"{origin.url}={variable}")
    with Client(tmp_path, tokens={origin.url: option} if option else {}) as client:
        client.index(origin.url)
    assert set(origin.sent("authorization")) == {f"Bearer {option or variable or 'stored'}"}
    open_store().remove(origin.url)
    monkeypatch.delenv("SKILLWIRE_TOKENS", raising=False)
    origin.requests.clear()
    look(origin, tmp_path)
    assert origin.sent("authorization")[0].startswith("Basic ")


def test_a_token_that_the_user_names_later_wins_over_the_stored_one(origin, tmp_path):
    origin.accepts = lambda _: True
    open_store().keep(Credential(origin.url, "api_key", "stored", "login"))
    with Client(tmp_path, refresh=True) as client:
        client.index(origin.url)
        assert set(origin.sent("authorization")) == {"Bearer stored"}
        origin.requests.clear()
        client.set_token(origin.url, "named")
        client.index(origin.url)
    assert set(origin.sent("authorization")) == {"Bearer named"}


class CrashError(Exception):
    """What ends the process."""


class TestSteps:
    """The flow itself, each step done by hand."""

    def credentials(self, **fields):
        open_store().keep(replace(TOKEN, **fields))
        stored = StoredCredentials(open_store(), lambda: 1000.0)
        stored.take(ORIGIN)
        return stored

    def flow(self, urls=(f"{ORIGIN}/a",)):
        def ask(url):
            response = yield HttpRequest(url, headers={"authorization": TOKEN.mark})
            return response.status

        def run():
            if len(urls) == 1:
                return (yield from ask(urls[0]))
            return (yield All([ask(url) for url in urls]))

        return run()

    def drive(self, stored, flow, respond):
        """Do every step; return the result, and every request."""
        requests = []

        def do(step):
            if isinstance(step, HttpRequest):
                return drive(stored.send(step), do_plain)
            if isinstance(step, All):
                return [drive(one, do) for one in step.flows]
            return do_plain(step)

        def do_plain(step):
            if isinstance(step, Work):
                return step.call()
            requests.append(step)
            return respond(step)

        return drive(flow, do), requests

    def respond(self, request):
        if request.url == TOKEN_ENDPOINT:
            document = {"access_token": "token-1", "token_type": "bearer", "refresh_token": "refresh-1"}
            return HttpResponse(request.url, 200, {"content-type": "application/json"}, json.dumps(document).encode())
        good = request.headers.get("Authorization") == "Bearer token-1"
        return HttpResponse(request.url, 200 if good else 401, {}, b"")

    def test_conversations_at_once_are_each_taken_up_again(self):
        stored = self.credentials()
        urls = [f"{ORIGIN}/{number}" for number in range(4)]
        result, requests = self.drive(stored, self.flow(urls), self.respond)
        assert result == [200] * 4
        assert [request.url for request in requests].count(TOKEN_ENDPOINT) == 1

    def test_the_mark_goes_nowhere_as_a_credential(self):
        stored = self.credentials()
        _, requests = self.drive(stored, self.flow(), self.respond)
        assert not [request for request in requests if TOKEN.mark in request.headers.values()]

    def test_the_new_tokens_are_stored_before_they_are_used(self):
        stored = self.credentials()
        used = []

        def respond(request):
            if request.headers.get("Authorization") == "Bearer token-1":
                used.append(stored_for(ORIGIN))
                raise CrashError
            return self.respond(request)

        with pytest.raises(CrashError):
            self.drive(stored, self.flow(), respond)
        assert used[0].secret == "token-1"  # noqa: S105  # of this test
        assert used[0].grant.refresh_token == "refresh-1"  # noqa: S105  # same
        assert stored_for(ORIGIN) == used[0]

    def test_a_token_that_another_process_has_renewed_is_taken(self):
        stored = self.credentials()
        open_store().keep(replace(TOKEN, secret="token-1"))  # noqa: S106  # of this test
        result, requests = self.drive(stored, self.flow(), self.respond)
        assert result == 200
        assert [request.url for request in requests] == [f"{ORIGIN}/a"] * 2

    def test_a_login_that_another_process_has_ended_is_told(self):
        stored = self.credentials()
        open_store().remove(ORIGIN)
        with pytest.raises(FetchError) as caught:
            self.drive(stored, self.flow(), self.respond)
        assert caught.value.code == "LOGIN_EXPIRED"

    def test_what_has_ended_and_cannot_be_renewed_is_told_and_not_sent(self):
        stored = self.credentials(expires_at=999.0, grant=replace(GRANT, refresh_token=None))
        with pytest.raises(FetchError) as caught:
            self.drive(stored, self.flow(), self.respond)
        assert caught.value.code == "LOGIN_EXPIRED"
        assert f"skillwire auth login {ORIGIN}" in str(caught.value.fix)

    def test_the_lock_is_let_go_when_the_renewal_fails(self):
        stored = self.credentials(expires_at=999.0)

        def respond(request):
            raise FetchError("TIMEOUT", request.url)

        with pytest.raises(FetchError):
            self.drive(stored, self.flow(), respond)
        open_store().unlock_renewal(ORIGIN, open_store().lock_renewal(ORIGIN))


WHY = "this API key is not known, or has ended"
STORED = (
    f"The stored credential of {ENDPOINT_ORIGIN} was sent. Run skillwire auth login {ENDPOINT_ORIGIN} for a new one, "
    f"or skillwire auth logout {ENDPOINT_ORIGIN} to go without."
)


def refused(status=401, url=ENDPOINT):
    return http({"error": {"code": "AUTH_REQUIRED", "message": WHY}}, status)._replace(url=url)


class Closed(SimulatedPublisher):
    """Refuses everything."""

    status = 401

    def _ask(self, request):
        return refused(self.status, request.url)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    return tmp_path


@pytest.fixture
def logged_in(home):
    open_store().keep(Credential(ENDPOINT_ORIGIN, "api_key", "old", "login", "X-API-Key"))
    return home


def client_of(folder, driver):
    client = Client(folder)
    client.driver = driver
    return client


def test_a_stored_key_that_was_revoked_is_told_at_an_endpoint(logged_in):
    client = client_of(logged_in, Endpoint(describe_skill=lambda _: refused()))
    error = failing(client.show, REFERENCE)
    assert (error.code, error.message, error.fix) == ("AUTH_REQUIRED", WHY, STORED)
    assert client.driver.requests[0].headers["X-API-Key"] == "old"


def test_it_is_told_by_an_index_too(logged_in):
    error = failing(client_of(logged_in, Closed()).index, ENDPOINT_ORIGIN)
    assert (error.code, error.message, error.fix) == ("ACCESS_DENIED", f"the origin answered 401: {WHY}", STORED)


def test_what_a_server_says_of_its_failure_is_told(logged_in):
    closed = Closed()
    closed.status = 503
    error = failing(client_of(logged_in, closed).index, ENDPOINT_ORIGIN)
    assert (error.code, error.message) == ("HTTP_STATUS", f"the origin answered 503: {WHY}")


def test_a_credential_from_elsewhere_is_not_said_to_be_stored(home):
    client = client_of(home, Endpoint(describe_skill=lambda _: refused()))
    client.set_token(ENDPOINT_ORIGIN, "old")
    error = failing(client.show, REFERENCE)
    assert error.message == WHY
    assert error.fix == (
        f"The credential of {ENDPOINT_ORIGIN} from --token, SKILLWIRE_TOKENS or ~/.netrc was sent. Give another one, "
        f"or leave it away and run skillwire auth login {ENDPOINT_ORIGIN}."
    )


def test_the_relay_of_mcp_tells_it(logged_in):
    told: list[bytes] = []

    class Driver:
        policy = on_traffic = None

        async def send(self, _):
            return refused(url=f"{ENDPOINT_ORIGIN}/mcp")

        async def close(self):
            pass

    async def lines():
        yield json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()

    async def relay():
        async with RelayClient(logged_in) as client:
            client._runner.driver = cast("Any", Driver())
            await client.relay(f"{ENDPOINT_ORIGIN}/mcp", lines(), told.append)

    asyncio.run(relay())
    assert json.loads(told[0])["error"]["message"] == f"AUTH_REQUIRED: {WHY}. {STORED}"


@pytest.mark.parametrize("fix", [CODES["PERMISSION_DENIED"].fix, "Send a credential that this was opened to.", None])
def test_what_is_closed_is_said_to_be_asked_for_by_nobody(home, fix):
    closed = refusal(-32004, "Permission denied: it is not open to you", code="PERMISSION_DENIED", fix=fix)
    client = client_of(home, Endpoint(execute_skill=lambda _: closed))
    error = failing(client.show(REFERENCE).call, {"sheet_blob": f"blob:{'0' * 64}", "days": 1})
    assert error.fix == f"No credential was sent. Run skillwire auth login {ENDPOINT_ORIGIN}, with one that opens it."


@pytest.mark.parametrize("is_local", [False, True])
def test_no_credential_is_advised_where_the_operator_opens_it_to_no_caller(home, is_local):
    openings = {"execute_skill": False}
    check = partial(check_allowed, "address 127.0.0.1", openings, "execute skills", is_local=is_local)
    closed = http({"jsonrpc": "2.0", "id": 1, "error": error_object(failing(check))})
    client = client_of(home, Endpoint(execute_skill=lambda _: closed))
    error = failing(client.rpc(ENDPOINT).execute_skill, "a.b")
    assert (error.message, error.in_python) == ("this server does not execute skills", "")
    assert "valid" not in error.diagnostics().cause
    fix = "Start this command with --execute." if is_local else "The operator of the server: write execute_skill = true"
    assert str(error.fix).startswith(fix)


def test_an_own_fix_of_the_endpoint_is_kept(home):
    closed = refusal(-32004, "not granted", code="PERMISSION_DENIED", fix="skillwire grant add FOLDER")
    client = client_of(home, Endpoint(describe_skill=lambda _: closed))
    assert failing(client.show, REFERENCE).fix == "skillwire grant add FOLDER"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"message": "no"}}', "no"),
        (b'{"detail": "no"}', "no"),
        (b'{"error": "invalid_token", "error_description": "ended"}', "ended"),
        (b'{"error": {"message": "a\\u202eb"}}', "a[U+202E]b"),
        (b'{"error": {"message": 7}}', ""),
        (b"[]", ""),
        (b"<html>", ""),
        (b"", ""),
        (b'"' + b"x" * 100_000 + b'"', ""),
    ],
)
def test_a_reason_is_read_from_what_servers_say(body, reason):
    assert server_message(body) == reason
