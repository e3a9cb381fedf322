"""An origin that refuses us: whichever protocol is spoken, it is told why, which credential was sent, what mends it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from tests.unit.test_endpoint_skills import ENDPOINT, ORIGIN, REFERENCE, Endpoint, failing, http, refusal

from skillwire import Client
from skillwire.adapters.files.credential_store import open_store
from skillwire.client.mcp_relay import RelayClient
from skillwire.codes import CODES
from skillwire.model.credential import Credential
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.trust.told_reason import told_reason

WHY = "this API key is not known, or has ended"
STORED = (
    f"The stored credential of {ORIGIN} was sent. Run skillwire login {ORIGIN} for a new one, "
    f"or skillwire logout {ORIGIN} to go without."
)


def refused(status=401, url=ENDPOINT):
    return http({"error": {"code": "AUTH_REQUIRED", "message": WHY}}, status)._replace(url=url)


class Closed(SimulatedPublisher):
    """Refuses everything."""

    def _ask(self, request):
        return refused(url=request.url)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    return tmp_path


@pytest.fixture
def logged_in(home):
    open_store().keep(Credential(ORIGIN, "api_key", "old", "login", "X-API-Key"))
    return home


def client_of(folder, driver):
    client = Client(folder)
    client.driver = driver
    return client


def test_a_stored_key_that_was_revoked_is_told_at_an_endpoint(logged_in):
    client = client_of(logged_in, Endpoint(describe_skill=lambda _: refused()))
    error = failing(client.skill, REFERENCE)
    assert (error.code, error.message, error.fix) == ("AUTH_REQUIRED", WHY, STORED)
    assert client.driver.requests[0].headers["X-API-Key"] == "old"


def test_it_is_told_by_an_index_too(logged_in):
    error = failing(client_of(logged_in, Closed()).index, ORIGIN)
    assert (error.code, error.message, error.fix) == ("ACCESS_DENIED", f"the origin answered 401: {WHY}", STORED)


def test_a_credential_from_elsewhere_is_not_said_to_be_stored(home):
    client = client_of(home, Endpoint(describe_skill=lambda _: refused()))
    client.set_token(ORIGIN, "old")
    error = failing(client.skill, REFERENCE)
    assert error.message == WHY
    assert error.fix == (
        f"The credential of {ORIGIN} from --token, SKILLWIRE_TOKENS or ~/.netrc was sent. Give another one, "
        f"or leave it away and run skillwire login {ORIGIN}."
    )


def test_the_relay_of_mcp_tells_it(logged_in):
    told: list[bytes] = []

    class Driver:
        policy = on_traffic = None

        async def run(self, exchange):
            next(exchange)
            try:
                exchange.send(refused(url=f"{ORIGIN}/mcp"))
            except StopIteration as stop:
                return stop.value

        async def close(self):
            pass

    async def lines():
        yield json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()

    async def relay():
        async with RelayClient(logged_in) as client:
            client._steps.driver = cast("Any", Driver())
            await client.relay(f"{ORIGIN}/mcp", lines(), told.append)

    asyncio.run(relay())
    assert json.loads(told[0])["error"]["message"] == f"AUTH_REQUIRED: {WHY}. {STORED}"


@pytest.mark.parametrize("fix", [CODES["PERMISSION_DENIED"].fix, "Send a credential that this was opened to.", None])
def test_what_is_closed_is_said_to_be_asked_for_by_nobody(home, fix):
    closed = refusal(-32004, "Permission denied: it is not open to you", code="PERMISSION_DENIED", fix=fix)
    client = client_of(home, Endpoint(execute_skill=lambda _: closed))
    error = failing(client.skill(REFERENCE).call, {"sheet_blob": f"blob:{'0' * 64}", "days": 1})
    assert error.fix == f"No credential was sent. Run skillwire login {ORIGIN}, with one that opens it."


def test_an_own_fix_of_the_endpoint_is_kept(home):
    closed = refusal(-32004, "not granted", code="PERMISSION_DENIED", fix="skillwire grant FOLDER")
    client = client_of(home, Endpoint(describe_skill=lambda _: closed))
    assert failing(client.skill, REFERENCE).fix == "skillwire grant FOLDER"


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
    assert told_reason(body) == reason
