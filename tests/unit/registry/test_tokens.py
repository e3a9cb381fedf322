"""Tokens: shown once, recognised while they are good, replaced with an overlap, taken back at once."""

import sqlite3

import pytest
from tests.support.opened import Blocking

from skillwire.adapters.sql.tokens import SqlTokens
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import NotFoundError, UsageError
from skillwire.registry.tokens import Tokens

KEY = b"k" * 32


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "skillwire.db")
    yield database
    database.close()


@pytest.fixture
def tokens(database, clock):
    return Blocking(Tokens(SqlTokens(AsyncDatabase(database)), KEY, clock))


def test_token_is_recognised_and_what_it_opens_is_known(tokens):
    issued = tokens.issue("build robot", skills=["a", "b"], scopes=["publish"])
    found = tokens.recognise(issued.secret)
    assert found == issued.token
    assert (found.name, found.skills, found.scopes) == ("build robot", frozenset("ab"), frozenset({"publish"}))
    assert tokens.all() == [issued.token]


def test_secret_is_in_no_file(tokens, tmp_path):
    issued = tokens.issue("robot")
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert issued.token.token_id.encode() in kept
    assert issued.secret.encode() not in kept
    assert issued.secret[-20:].encode() not in kept


def test_database_with_another_key_recognises_nobody(tokens, database, clock):
    issued = tokens.issue("robot")
    assert Blocking(Tokens(SqlTokens(AsyncDatabase(database)), b"x" * 32, clock)).recognise(issued.secret) is None


def test_hash_of_one_token_under_the_id_of_another_is_worthless(tokens, database):
    one, two = tokens.issue("one", skills=["*"]), tokens.issue("two")
    with sqlite3.connect(database.path) as connection:
        connection.execute("UPDATE tokens SET digest = ? WHERE token_id = ?", (two.token.digest, one.token.token_id))
    prefix, _, secret = two.secret.split("_", 2)
    assert tokens.recognise(f"{prefix}_{one.token.token_id}_{secret}") is None


@pytest.mark.parametrize("text", ["", "sw_", "sw__", "bearer", "sw_aaaaaaaaaaaaaaaa_" + "a" * 43, "\ud800", "é" * 70])
def test_what_is_no_token_is_not_recognised(tokens, text):
    tokens.issue("robot")
    assert tokens.recognise(text) is None


def test_token_with_one_letter_changed_is_not_recognised(tokens):
    secret = tokens.issue("robot").secret
    for position in range(len(secret)):
        other = "b" if secret[position] != "b" else "c"
        assert tokens.recognise(secret[:position] + other + secret[position + 1 :]) is None


def test_token_ends(tokens, clock):
    issued = tokens.issue("robot", expires_in=60)
    clock.now += 59.9
    assert tokens.recognise(issued.secret)
    clock.now += 0.1
    assert tokens.recognise(issued.secret) is None


def test_token_is_taken_back_at_once_and_for_good(tokens, clock):
    issued = tokens.issue("robot")
    revoked = tokens.revoke(issued.token.token_id)
    assert revoked.revoked == clock.now
    assert tokens.recognise(issued.secret) is None
    clock.now += 5
    assert tokens.revoke(issued.token.token_id) == revoked


def test_what_ended_long_ago_is_forgotten_by_its_name(tokens, clock):
    short = tokens.issue("LAN agent x", expires_in=10).token
    kept = [tokens.issue(name, expires_in=ends).token for name, ends in (("LAN agent y", None), ("lan agent z", 10))]
    kept.append(tokens.issue("LAN agent signs", expires_in=10, kind="signing_key").token)
    clock.now += 20
    assert tokens.forget_ended("LAN agent ", kept=10) == 0
    clock.now += 1
    assert tokens.forget_ended("LAN agent ", kept=10) == 1
    assert short not in tokens.all()
    assert {token.token_id for token in tokens.all()} == {token.token_id for token in kept}


def test_successor_has_the_same_rights_and_both_work_for_a_while(tokens, clock):
    old = tokens.issue("robot", skills=["a"], scopes=["s"], expires_in=100)
    clock.now += 10
    new = tokens.rotate(old.token.token_id, overlap=5)
    assert (new.token.skills, new.token.scopes, new.token.name) == (frozenset("a"), frozenset("s"), "robot")
    assert new.token.expires == clock.now + 100
    assert tokens.recognise(old.secret)
    assert tokens.recognise(new.secret)
    clock.now += 5
    assert tokens.recognise(old.secret) is None
    assert tokens.recognise(new.secret)


class Meanwhile(SqlTokens):
    """Does something the first time after a token was read."""

    def __init__(self, database, deed):
        super().__init__(AsyncDatabase(database))
        self.deed = deed

    async def find(self, token_id):
        found = await super().find(token_id)
        deed, self.deed = self.deed, None
        if deed is not None:
            await deed()
        return found


def test_token_that_is_taken_back_while_it_is_replaced_stays_so_and_has_no_successor(tokens, database, clock):
    old = tokens.issue("robot")
    store = Meanwhile(database, lambda: tokens.wrapped.revoke(old.token.token_id))
    with pytest.raises(UsageError, match="has ended already"):
        Blocking(Tokens(store, KEY, clock)).rotate(old.token.token_id, overlap=60)
    assert tokens.recognise(old.secret) is None
    [kept] = tokens.all()
    assert kept.revoked == clock.now


def test_overlap_lengthens_nothing(tokens, clock):
    old = tokens.issue("robot", expires_in=10)
    tokens.rotate(old.token.token_id, overlap=1_000)
    clock.now += 10
    assert tokens.recognise(old.secret) is None
    with pytest.raises(UsageError):
        tokens.rotate(old.token.token_id, overlap=1)


def test_signing_key_is_derived_and_no_api_key(tokens):
    issued = tokens.issue("signer", kind="signing_key")
    token, key = tokens.signing_key(issued.token.token_id)
    assert (token, key) == (issued.token, issued.secret.encode())
    assert tokens.recognise(issued.secret) is None
    assert tokens.recognise(f"sw_{token.token_id}_{issued.secret}") is None
    tokens.revoke(token.token_id)
    assert tokens.signing_key(token.token_id) is None
    assert tokens.signing_key(tokens.issue("robot").token.token_id) is None


def test_what_cannot_be_a_token_is_refused(tokens):
    for arguments in (
        {"name": " "},
        {"name": "a" * 129},
        {"name": "a\nb"},
        {"name": "a", "skills": ["No Skill"]},
        {"name": "a", "scopes": ['a"b']},
        {"name": "a", "scopes": [""]},
        {"name": "a", "expires_in": 0},
        {"name": "a", "expires_in": 1e11},
    ):
        with pytest.raises(UsageError) as caught:
            tokens.issue(**arguments)
        assert caught.value.code == "TOKEN_FORM"
    assert not tokens.all()
    for deed in (tokens.revoke, tokens.look_up, lambda token_id: tokens.rotate(token_id, overlap=1)):
        with pytest.raises(NotFoundError):
            deed("absent")
