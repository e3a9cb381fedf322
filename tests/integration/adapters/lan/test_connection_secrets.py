"""Keys over TLS: given to whom a certificate vouches for, bounded, and seen by nobody else."""

import asyncio
import functools
import gc
import json
import logging
import socket
import ssl
import time
import warnings
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.authorities import World
from tests.support.certificates import serial
from tests.support.eventually import eventually_async
from tests.support.memory_stores import MemoryTokens

from skillwire import limits
from skillwire.adapters.lan import connection_secrets
from skillwire.adapters.lan.connection_secrets import (
    KEY_SECONDS,
    SecretsClient,
    SecretsServer,
    TokenIssuer,
    client_context,
    find_port,
)
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.lan import LanSkill
from skillwire.protocols.skill_discovery import credentials as messages
from skillwire.protocols.skill_discovery.credentials import ConnectionSecret, SecretRequest
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.registry.tokens import Tokens
from skillwire.trust.certificates import RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed
from skillwire.wire.exchange import HttpResponse

KEY = "sw_secret_that_nobody_may_see"
SKILL = LanSkill("agent-001", "skill-a", "1.0.0", "tool-skill", "127.0.0.1", 8080)
SECONDS = 30


@pytest.fixture(scope="module")
def world():
    return World()


def _awaited(give):
    async def given(*asked):
        return give(*asked)

    return given


@pytest.fixture
async def serve(world):
    """Give what starts a server of keys; all are stopped afterwards."""
    started = []

    async def serve(*, identity=None, give=None, **options):
        async def known(asked, _):
            return ConnectionSecret(KEY, time.time() + 3600) if asked.skill_id == "skill-a" else None

        own = identity or world.identity("agent-001")
        server = SecretsServer(own, world.authority(), _awaited(give) if give else known, **options)
        await server.start("127.0.0.1")
        started.append(server)
        return server

    yield serve
    for server in started:
        await server.stop()


def own(name):
    return self_signed(name, new_key(), datetime.now(UTC))


def client(world, name, *, identity=None, **options):
    return SecretsClient(name, identity or world.identity(name), world.authority(), **options)


async def refused(work):
    with pytest.raises(SkillwireError) as caught:
        await work
    return caught.value


@pytest.mark.spec("SDP-connection-secret")
async def test_who_is_certified_is_given_a_key_and_nothing_of_it_is_logged(world, serve, caplog):
    caplog.set_level(logging.DEBUG)
    server = await serve()
    found = await client(world, "agent-002").fetch(SKILL, server.port, "auth")
    assert found.api_key == KEY
    assert found.expires == pytest.approx(time.time() + 3600, abs=60)
    assert KEY not in repr(found)
    assert "agent-002" in caplog.text
    assert KEY not in caplog.text
    assert server.counters == {"handed out": 1}


@pytest.mark.spec("SDP-authority-renewal")
async def test_who_is_certified_under_a_new_authority_is_given_a_key_by_a_server_that_runs():
    world = World()
    server = SecretsServer(
        world.identity("agent-001"),
        world.authority(),
        _awaited(lambda *_: ConnectionSecret(KEY, time.time() + 3600)),
    )
    await server.start("127.0.0.1")
    try:
        before = world.identity("agent-003")
        new = world.renew()
        asking = client(world, "agent-002", identity=world.identity("agent-002"))
        await refused(asking.fetch(SKILL, server.port, "auth"))
        world.revocations.take(world.revoke() + new, world.now)
        assert (await asking.fetch(SKILL, server.port, "auth")).api_key == KEY
        found = await client(world, "agent-003", identity=before).fetch(SKILL, server.port, "auth")
        assert found.api_key == KEY
    finally:
        await server.stop()


@pytest.mark.parametrize("flaw", ["another agent", "own certificate", "revoked", "other root", "unknown skill"])
async def test_who_is_not_is_given_none(flaw):
    world = World()
    server = SecretsServer(world.identity("agent-001"), world.authority(), _awaited(lambda *_: None))
    await server.start("127.0.0.1")
    identity = world.identity("agent-002")
    asking = client(world, "agent-002", identity=identity, use_unverified=True)
    if flaw == "another agent":
        asking = client(world, "agent-003", identity=identity)
    elif flaw == "own certificate":
        asking = client(world, "agent-002", identity=own("agent-002"))
    elif flaw == "revoked":
        world.revocations.take(world.revoke(serial(identity)), time.time())
    elif flaw == "other root":
        asking = client(world, "agent-002", identity=World().identity("agent-002"))
    error = await refused(asking.fetch(SKILL, server.port, "auth"))
    await server.stop()
    assert error.code == "DISC_004"
    assert server.counters["handed out"] == 0


@pytest.mark.parametrize("flaw", ["another agent", "own certificate", "other root", "revoked", "another key"])
async def test_a_false_provider_learns_nothing(serve, flaw):
    world = World()
    identity = world.identity("agent-001")
    shown = {
        "another agent": world.identity("agent-009"),
        "own certificate": own("agent-001"),
        "other root": World().identity("agent-001"),
        "revoked": identity,
        "another key": identity,
    }[flaw]
    asked: list[SecretRequest] = []
    server = await serve(identity=shown, give=lambda one, _: asked.append(one))
    if flaw == "revoked":
        world.revocations.take(world.revoke(serial(identity)), time.time())
    known = world.chain().judge(world.identity("agent-001").certificate, time.time())
    key = known.key if flaw == "another key" else None
    error = await refused(client(world, "agent-002").fetch(SKILL, server.port, "auth", key=key))
    assert isinstance(error, TrustError)
    assert error.code == "DISC_004"
    assert not asked
    assert server.counters["handed out"] == server.counters["refused"] == 0


class TestUnverified:
    """Agents that nobody certified, where both sides say that they will do."""

    async def test_they_prove_their_key_and_are_given_one(self, world, serve):
        server = await serve(identity=own("agent-001"), use_unverified=True)
        found = await client(world, "x", identity=own("x"), use_unverified=True).fetch(SKILL, server.port, "auth")
        assert found.api_key == KEY

    async def test_a_provider_says_whether_they_will_do(self, world, serve):
        server = await serve()
        error = await refused(client(world, "x", identity=own("x")).fetch(SKILL, server.port, "auth"))
        assert error.code == "DISC_004"
        assert "no authority that is trusted here" in error.message

    @pytest.mark.parametrize("flaw", ["no proof", "old", "other provider", "other skill", "other key"])
    async def test_a_proof_is_for_this_provider_this_skill_and_now(self, serve, flaw):
        provider, identity = own("agent-001"), own("x")
        server = await serve(identity=provider, use_unverified=True)
        asked = SecretRequest("auth", "skill-a", "x")
        shown = own("agent-001").certificate if flaw == "other provider" else provider.certificate
        signer = EcdsaIdentity(new_key(), identity.certificate) if flaw == "other key" else identity
        signed = asked.signed(signer, shown, time.time() - (100 if flaw == "old" else 0))
        if flaw == "no proof":
            signed = replace(signed, signature="")
        elif flaw == "other skill":
            signed = replace(signed, scene="other")
        context = client_context()
        answer = await _talk(server.port, context, messages.write_request(signed))
        assert json.loads(answer)["error"]["code"] == "DISC_004"
        assert server.counters["handed out"] == 0


async def _talk(port, context, line):
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(line)
        await writer.drain()
        answer = await reader.readline()
        writer.transport.abort()
    return answer


MALFORMED = [b"\n", b"[]\n", b"{}\n", b'{"scene": "a b", "skillId": "x", "agentId": "y"}\n', b"\xff\n"]


@pytest.mark.parametrize("line", MALFORMED)
async def test_what_is_no_question_is_refused(serve, line):
    server = await serve()
    context = client_context()
    assert "error" in json.loads(await _talk(server.port, context, line))


async def test_a_line_without_end_is_broken_off(serve):
    server = await serve()
    context = client_context()
    try:
        answer = await _talk(server.port, context, bytes(20_000))
    except OSError:
        answer = b""
    assert answer == b""
    assert server.counters["handed out"] == 0


async def test_only_tls_1_3_is_spoken(serve):
    server = await serve()
    context = client_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await _talk(server.port, context, b"{}\n")
    assert server.counters["malformed"] == 0


async def test_connections_are_bounded_for_each_host_and_time_runs_out(world, serve, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SECRET_SECONDS", 2)
    server = await serve()
    loop = asyncio.get_running_loop()
    idle = []
    for _ in range(limits.LAN_SECRET_PER_HOST + 4):
        one = socket.socket()
        one.setblocking(False)
        await loop.sock_connect(one, ("127.0.0.1", server.port))
        idle.append(one)
    wanted = {"too many connections": 4, "timeout": limits.LAN_SECRET_PER_HOST}
    await eventually_async(lambda: server.counters == wanted)
    for one in idle:
        one.close()
    monkeypatch.setattr(limits, "LAN_SECRET_SECONDS", SECONDS)
    found = await client(world, "agent-002").fetch(SKILL, server.port, "auth")
    assert found.api_key == KEY


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_has_just_come_is_closed_with_the_server(world, turns):
    server = SecretsServer(world.identity("agent-001"), world.authority(), _awaited(lambda *_: None))
    await server.start("127.0.0.1")
    with socket.create_connection(("127.0.0.1", server.port)), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        await asyncio.sleep(0)
        gc.collect()
        assert [str(one.message) for one in told] == []


async def test_a_renewed_certificate_is_shown_from_then_on(world, serve):
    identity = world.identity("agent-001", days=1)
    server = await serve(identity=identity)
    fresh = world.center.issue(RequestedNames(("agent-001",)), identity.key.public_key(), time.time())
    identity.certificate = fresh
    context = client_context()
    async with asyncio.timeout(SECONDS):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
    assert shown == fresh


async def test_who_has_no_certificates_asks_for_no_key():
    group = GroupKey(b"a secret that all of us share")
    assert await SecretsClient("x", group, group).ask_provider(SKILL, "auth") is None


async def test_where_nobody_listens_it_is_the_network_that_failed(world):
    error = await refused(client(world, "agent-002").ask_provider(SKILL._replace(port=1), "auth"))
    assert (type(error), error.code, str(error.place)) == (FetchError, "DISC_005", f"http://127.0.0.1:1{PATH}")
    assert "an earlier key is valid until it expires" in error.diagnostics().fix


@pytest.mark.parametrize(("told", "port"), [(8443, 8443), (True, None), (0, None), (65_536, None), ("8443", None)])
async def test_a_port_is_a_whole_number(told, port, monkeypatch):
    async def ask(_):
        return HttpResponse("", 200, {}, json.dumps({"tlsPort": told}).encode())

    monkeypatch.setattr(connection_secrets, "send_to_known_address", ask)
    assert await find_port(SKILL) == port


@pytest.mark.parametrize("code", ["HTTP_SYNTAX", "BODY_TOO_LARGE", "TLS_FAILED"])
async def test_where_something_else_answers_no_keys_are_handed_out(code, monkeypatch):
    async def ask(_):
        raise FetchError(code, "somebody is there")

    monkeypatch.setattr(connection_secrets, "send_to_known_address", ask)
    assert await find_port(SKILL) is None


@pytest.mark.parametrize("code", ["TIMEOUT", "CONNECTION_LOST"])
async def test_a_provider_that_takes_the_connection_and_does_not_answer_is_a_failure_of_the_network(code, monkeypatch):
    async def ask(_):
        raise FetchError(code, "no whole answer within 5 s")

    monkeypatch.setattr(connection_secrets, "send_to_known_address", ask)
    error = await refused(find_port(SKILL))
    assert (error.code, str(error.place)) == ("DISC_005", f"http://{SKILL.endpoint}{PATH}")
    assert "no whole answer within 5 s" in error.message


def test_a_timestamp_is_a_whole_number():
    asked = json.loads(messages.write_request(SecretRequest("auth", "x", "y", b"1", 7, "z")))
    for flaw in (True, 7.0, "7"):
        with pytest.raises(SkillwireError, match="timestamp"):
            messages.read_request(json.dumps(asked | {"timestamp": flaw}).encode())


async def test_an_address_where_nobody_is_is_a_failure_of_the_network(world):
    error = await refused(client(world, "agent-002").fetch(SKILL, 1, "auth"))
    assert isinstance(error, FetchError)
    assert (error.code, str(error.place)) == ("DISC_005", "127.0.0.1:1")
    assert "an earlier key is valid until it expires" in error.diagnostics().fix


@pytest.mark.parametrize("answer", [b"", b"{}\n", b"no JSON\n"])
async def test_who_breaks_off_or_answers_nonsense_is_a_failure_of_the_network(world, serve, monkeypatch, answer):
    server = await serve()

    async def talk(*_, **__):
        return answer

    monkeypatch.setattr(SecretsClient, "_talk", talk)
    error = await refused(client(world, "agent-002").fetch(SKILL, server.port, "auth"))
    assert error.code == "DISC_005"
    assert ("broke off" if not answer else "cannot be read") in error.message


async def test_who_is_refused_is_told_by_whom_and_what_to_do(world, serve):
    server = await serve(give=lambda *_: None)
    error = await refused(client(world, "agent-002").fetch(SKILL, server.port, "auth"))
    assert (error.code, str(error.place)) == ("DISC_004", f"127.0.0.1:{server.port}")
    assert "useUnverified" in error.diagnostics().fix


@pytest.mark.spec("SDP-connection-secret")
async def test_a_key_is_handed_out_with_how_it_is_used(world, serve):
    given = ConnectionSecret(KEY, 2e9, "bearer", "Authorization", "/skills/v2")
    server = await serve(give=lambda *_: given)
    assert await client(world, "agent-002").fetch(SKILL, server.port, "auth") == given


ANSWER = {"apiKey": KEY, "expiresAt": "2033-05-18T03:33:20Z"}


def test_of_a_key_that_comes_without_a_word_it_is_known_how_ours_are_used():
    assert messages.read_answer(json.dumps(ANSWER).encode()) == (KEY, 2e9, "api-key", "X-API-Key", "")


@pytest.mark.parametrize(
    ("name", "flaws"),
    [
        ("authType", ["", "api key", 1]),
        ("authHeader", ["", "X-API-Key: x", "X\r\nY", "é", None, "Host", "content-length", "Transfer-Encoding"]),
        (
            "basePath",
            [
                "v1",
                "/",
                "//evil.example",
                "/a/",
                "/a b",
                "/a?b",
                "/a#b",
                "/\n",
                "/" + "a" * 200,
                "/../x",
                "/a/..",
                "/.",
                "/%0d",
                "/%2E%2E/x",
                "/a%2Fb",
            ],
        ),
    ],
)
def test_how_a_key_is_used_is_no_more_than_a_field_and_a_path(name, flaws):
    for flaw in flaws:
        with pytest.raises(SkillwireError, match=name):
            messages.read_answer(json.dumps(ANSWER | {name: flaw}).encode())


@pytest.mark.spec("SDP-connection-secret")
async def test_a_key_is_a_token_for_one_skill_and_one_hour_and_not_made_for_each_question():
    now = [time.time()]
    tokens: Any = Tokens(MemoryTokens(), bytes(32), lambda: now[0])
    names = {"skill-a": "csv-profile"}
    giver: Any = TokenIssuer(lambda: tokens, lambda skill_id, _: names.get(skill_id), lambda: now[0])
    give = functools.partial(giver, host="192.0.2.7")
    asked = SecretRequest("auth", "skill-a", "agent-002")
    first = await give(asked)
    token = await tokens.recognise(first.api_key)
    assert (token.skills, token.scopes, token.expires) == ({"csv-profile"}, frozenset(), now[0] + KEY_SECONDS)
    assert "agent-002" in token.name
    assert await give(asked) == first
    assert await give(replace(asked, agent_id="agent-003")) != first
    assert await give(replace(asked, skill_id="skill-b")) is None
    now[0] += KEY_SECONDS / 2 + 1
    second = await give(asked)
    assert second != first
    await tokens.revoke((await tokens.recognise(second.api_key)).token_id)
    assert await give(asked) != second
    assert len(await tokens.all()) == 4


class TestTokenGiver:
    """Keys are made, bounded, and forgotten."""

    @pytest.fixture
    def now(self):
        return [time.time()]

    @pytest.fixture
    def store(self):
        return MemoryTokens()

    @pytest.fixture
    def tokens(self, store, now):
        return Tokens(store, bytes(32), lambda: now[0])

    @pytest.fixture
    def give(self, tokens, now):
        return TokenIssuer(lambda: tokens, lambda *_: "csv-profile", lambda: now[0])

    async def test_what_ended_a_day_ago_is_forgotten_and_nothing_else(self, give, tokens, now):
        kept = (await tokens.issue("build robot", expires_in=1)).token
        for number in range(3):
            await give(SecretRequest("auth", "skill-a", f"agent-{number}"), "192.0.2.7")
        now[0] += KEY_SECONDS + 1
        await give(SecretRequest("auth", "skill-a", "agent-001"), "192.0.2.7")
        assert len(await tokens.all()) == 5
        now[0] += 86_400
        last = await give(SecretRequest("auth", "skill-a", "agent-001"), "192.0.2.7")
        now[0] += KEY_SECONDS + 1
        await give(SecretRequest("auth", "skill-a", "agent-002"), "192.0.2.7")
        names = sorted(token.name for token in await tokens.all())
        assert names == ["LAN agent agent-001", "LAN agent agent-002", "build robot"]
        assert kept in await tokens.all()
        assert last.expires == now[0] - 1

    async def test_new_ones_are_bounded_for_each_host_and_in_all(self, give, tokens, now, monkeypatch):
        monkeypatch.setattr(limits, "LAN_SECRET_KEYS", limits.LAN_SECRET_KEYS_PER_HOST + 1)
        first = None
        for number in range(limits.LAN_SECRET_KEYS_PER_HOST):
            first = first or await give(SecretRequest("auth", "skill-a", f"agent-{number}"), "192.0.2.7")
            await give(SecretRequest("auth", "skill-a", f"agent-{number}"), "192.0.2.7")
        more = SecretRequest("auth", "skill-a", "agent-more")
        for host, is_refused in (("192.0.2.7", True), ("192.0.2.8", False), ("192.0.2.9", True)):
            with pytest.raises(TrustError) if is_refused else nullcontext():
                await give(replace(more, agent_id=host), host)
        assert len(await tokens.all()) == limits.LAN_SECRET_KEYS_PER_HOST + 1
        assert await give(SecretRequest("auth", "skill-a", "agent-0"), "192.0.2.7") == first
        now[0] += KEY_SECONDS
        assert await give(more, "192.0.2.7")

    async def test_requests_at_the_same_time_are_given_the_same_key(self, give, tokens, store, monkeypatch):
        add = store.add

        async def slow(token, **recorded):
            await asyncio.sleep(0)  # the other request comes here too, unless it has to wait for its turn
            return await add(token, **recorded)

        monkeypatch.setattr(store, "add", slow)
        asked = SecretRequest("auth", "skill-a", "agent-002")
        found = await asyncio.gather(give(asked, "192.0.2.7"), give(asked, "192.0.2.7"))
        assert found[0] == found[1]
        assert len(await tokens.all()) == 1


async def test_who_has_had_enough_keys_is_told_so(world, serve):
    def enough(*_):
        raise TrustError("DISC_004", "enough keys were made for now")

    server = await serve(give=enough)
    error = await refused(client(world, "agent-002").fetch(SKILL, server.port, "auth"))
    assert "enough keys" in error.message
    assert server.counters == {"refused": 1}


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_message_or_refused(line):
    for read in (messages.read_request, messages.read_answer):
        with suppress(SkillwireError):
            read(line)


@given(st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True), st.binary(max_size=60), st.integers(0, 2**40))
def test_a_question_is_read_as_it_was_written(name, certificate, timestamp):
    plain = SecretRequest(name, name, name)
    signed = replace(plain, certificate=certificate, timestamp=timestamp, signature="x")
    assert messages.read_request(messages.write_request(plain)) == plain
    assert messages.read_request(messages.write_request(signed)) == signed
