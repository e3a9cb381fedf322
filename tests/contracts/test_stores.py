"""Grants, kept by digest and permissions, and tokens, which are revoked once and replaced with an overlap."""

from typing import Any

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryGrants, MemoryTokens
from tests.support.opened import Blocking

from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.tokens import SqlGrants, SqlTokens
from skillwire.errors import TrustError
from skillwire.model.access import Token
from skillwire.model.execution import Grant
from skillwire.model.package import Account, AccountUpdate, Change, Namespace, Right, Role
from skillwire.model.skill import Permissions

ASKED = Permissions(("https://b.example", "https://a.example"), ("API_KEY",))
GRANT = Grant("sha256:" + "a" * 64, ASKED, "weather", "1.0.0", "ann", 5.5, {"SKILL.md": "sha256:" + "0" * 64})


@pytest.fixture
def store(database):
    return Blocking(SqlGrants(database) if database else MemoryGrants())


@pytest.fixture
def packages(database):
    return SqlPackages(database) if database else MemoryPackages()


@pytest.fixture
def tokens(database, packages):
    return Blocking(SqlTokens(database) if database else MemoryTokens(packages))


def test_a_grant_is_for_one_artifact_and_one_set_of_permissions(store):
    store.add(GRANT)
    assert store.has(GRANT.digest, Permissions(ASKED.network[::-1], ASKED.secrets))
    assert not store.has("sha256:" + "b" * 64, ASKED)
    for other in (Permissions(), ASKED._replace(network=()), ASKED._replace(secrets=("API_KEY", "OTHER"))):
        assert not store.has(GRANT.digest, other)


def test_the_same_grant_again_takes_the_place_of_the_first(store):
    store.add(GRANT)
    store.add(GRANT._replace(by="bob", at=6.0))
    store.add(GRANT._replace(permissions=Permissions(), at=7.0))
    assert [(grant.by, grant.at) for grant in store.all()] == [("bob", 6.0), ("ann", 7.0)]


def test_an_artifact_is_taken_back_with_every_set_of_permissions(store):
    other = GRANT._replace(digest="sha256:" + "b" * 64)
    for grant in (GRANT, GRANT._replace(permissions=Permissions()), other):
        store.add(grant)
    assert store.remove(GRANT.digest) == 2
    assert store.remove(GRANT.digest) == 0
    assert not store.has(GRANT.digest, ASKED)
    assert [grant.digest for grant in store.all()] == [other.digest]


TOKEN = Token("old", "robot", "api_key", frozenset({"a"}), frozenset(), 5.0, 100.0, None, b"digest")
NEW = TOKEN._replace(token_id="new")  # noqa: S106  # an ID
OTHER = TOKEN._replace(token_id="other", created=4.0, expires=None)  # noqa: S106  # same


def test_a_token_is_identified_with_the_rights_of_its_account(tokens, packages):
    tokens.add(TOKEN._replace(account="ann"))
    tokens.add(OTHER)
    stored, change = Blocking(packages), Change(1.0, "ann", "account.create", "ann")
    assert stored.rights("ann").account is None
    assert tokens.find_with_rights("old") == (TOKEN._replace(account="ann"), stored.rights("ann"))
    stored.add_account(Account("ann", 1.0), change)
    stored.add_namespace(Namespace("ann", 1.0), "ann", change)
    rights = stored.rights("ann")
    assert (rights.account, rights.roles) == (Account("ann", 1.0), {"ann": Role.OWNER})
    assert tokens.find_with_rights("old") == (TOKEN._replace(account="ann"), rights)
    token, rights = tokens.find_with_rights("other")
    assert (token, rights.account, rights.roles) == (OTHER, None, {})
    assert tokens.find_with_rights("none") is None


def test_a_token_is_found_as_it_was(tokens):
    other = OTHER
    for token in (TOKEN, other):
        tokens.add(token)
    assert tokens.find("old") == TOKEN
    assert tokens.find("none") is None
    assert list(tokens.all()) == [other, TOKEN]


def test_an_account_has_a_bounded_number_of_valid_tokens(tokens, packages):
    ann, change = TOKEN._replace(account="ann", created=50.0), Change(50.0, "ann", "token.create", "ann")
    others: dict[str, dict[str, Any]] = {
        "ended": {"expires": 50.0},
        "revoked": {"revoked": 7.0},
        "other": {"account": "bob"},
    }
    for token_id, fields in others.items():
        tokens.add(ann._replace(token_id=token_id, **fields))
    assert tokens.add(ann._replace(token_id="first"), most=2)  # noqa: S106  # an ID
    assert tokens.add(ann._replace(token_id="endless", expires=None), most=2)  # noqa: S106  # same
    assert not tokens.add(ann._replace(token_id="third"), most=2, change=change)  # noqa: S106  # same
    assert (tokens.find("third"), Blocking(packages).audit(0, 9)) == (None, [])


def test_a_token_needs_the_right_of_its_change_when_it_is_stored(tokens, packages):
    Blocking(packages).add_account(Account("ann", 1.0), Change(1.0, "ann", "account.create", "ann"))
    for token_id, expires, revoked in (("ended", 50.0, None), ("revoked", None, 7.0), ("valid", None, None)):
        tokens.add(TOKEN._replace(token_id=token_id, account="ann", expires=expires, revoked=revoked))
    new, change = TOKEN._replace(token_id="new", account="ann"), Change(50.0, "ann", "token.create", "ann")  # noqa: S106  # an ID
    for right in (Right("ended"), Right("revoked"), Right("valid", is_operator=True)):
        with pytest.raises(TrustError):
            tokens.add(new, change=change._replace(right=right))
    assert tokens.find("new") is None
    assert tokens.add(new, change=change._replace(right=Right("valid")))


def test_pages_of_tokens_go_on_behind_one(tokens):
    tokens.add(TOKEN)  # of no account
    for token_id, created, account in (("d", 1.0, "ann"), ("b", 2.0, "bob"), ("a", 3.0, "ann"), ("c", 3.0, "ann")):
        tokens.add(TOKEN._replace(token_id=token_id, created=created, account=account))
    assert [one.token_id for one in tokens.page("", (0.0, ""), 3)] == ["d", "b", "a"]
    assert [one.token_id for one in tokens.page("", (3.0, "a"), 3)] == ["c"]
    assert [one.token_id for one in tokens.page("ann", (1.0, "d"), 1)] == ["a"]


def test_a_token_is_revoked_once(tokens):
    tokens.add(TOKEN)
    tokens.revoke("old", 7.0)
    tokens.revoke("old", 8.0)
    tokens.revoke("none", 8.0)
    assert tokens.find("old").revoked == 7.0


def test_a_change_is_in_the_audit_log_if_it_was_made(tokens, packages):
    def change(action):
        return Change(1.0, "ann", action, "ann")

    tokens.add(TOKEN, change=change("token.create"))
    assert tokens.succeed("old", NEW, end=50.0, change=change("token.rotate"))
    for token_id in ("old", "old", "none"):
        tokens.revoke(token_id, 7.0, change=change("token.revoke"))
    assert not tokens.succeed("old", OTHER, end=50.0, change=change("token.rotate"))
    tokens.add(OTHER)
    actions = [entry.change.action for entry in Blocking(packages).audit(0, 9)]
    assert actions == ["token.create", "token.rotate", "token.revoke"]


@pytest.mark.parametrize(("expires", "end"), [(None, 50.0), (100.0, 50.0), (20.0, 20.0)])
def test_a_token_ends_when_its_successor_is_stored(tokens, expires, end):
    tokens.add(TOKEN._replace(expires=expires))
    assert tokens.succeed("old", NEW, end=50.0)
    assert (tokens.find("old").expires, tokens.find("new").expires) == (end, 100.0)


def test_a_revoked_token_has_no_successor(tokens):
    tokens.add(TOKEN)
    tokens.revoke("old", 7.0)
    assert not tokens.succeed("old", NEW, end=50.0)
    assert not tokens.succeed("none", NEW, end=50.0)
    assert tokens.find("new") is None
    assert tokens.find("old").expires == 100.0


def test_ended_api_keys_of_a_name_are_forgotten(tokens):
    kinds: dict[str, dict[str, Any]] = {
        "signing": {"kind": "signing_key"},
        "open": {"expires": None},
        "late": {"expires": 300.0},
    }
    for token_id, fields in {**kinds, "named": {"name": "other"}, "gone": {}}.items():
        tokens.add(TOKEN._replace(token_id=token_id, **fields))
    assert tokens.forget("rob", before=200.0) == 1
    assert {token.token_id for token in tokens.all()} == {"signing", "open", "late", "named"}


def test_the_last_ended_sessions_are_kept_until_they_are_over(tokens):
    for number in ("a", "b", "c"):
        tokens.end_session(number, {"a": 10.0, "b": 30.0, "c": 20.0}[number], now=5.0, most=2)
    assert [tokens.is_session_ended(number) for number in ("a", "b", "c", "d")] == [False, True, True, False]
    tokens.end_session("d", 40.0, now=20.0, most=2)
    assert [tokens.is_session_ended(number) for number in ("b", "c", "d")] == [True, False, True]


def test_a_linked_account_has_no_sessions_of_an_earlier_person(tokens, packages):
    stored, change = Blocking(packages), Change(7.0, "root", "account.link", "ann")
    stored.add_account(Account("ann", 1.0), change)
    for number, (account, name) in enumerate([("ann", "session"), ("ann", "robot"), ("bob", "session")]):
        tokens.add(TOKEN._replace(token_id=f"{number}", name=name, account=account))
    assert stored.update_account("ann", AccountUpdate(("https://id.example", "42"), revoked="session"), change)
    assert [one.revoked for one in tokens.all()] == [7.0, None, None]
