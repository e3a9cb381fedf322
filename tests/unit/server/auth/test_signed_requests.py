"""Signed requests: of a key in use, of now, and each once."""

import asyncio

import pytest
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.adapters.sql.tokens import SqlTokens
from skillwire.adapters.sqlite.async_database import AsyncDatabase
from skillwire.adapters.sqlite.database import Database
from skillwire.errors import FetchError, TrustError
from skillwire.protocols.skill_sharing.signing import sign
from skillwire.registry.tokens import Tokens
from skillwire.server.auth.authentication import SignedRequests

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
