"""Grants in SQLite: kept by digest and permissions, beside tokens and executions in one database."""

from __future__ import annotations

import pytest

from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.sqlite.open import open_database, open_grants, open_ledger, open_tokens
from skillwire.adapters.sqlite.stores import SqliteGrants
from skillwire.model.execution import Grant
from skillwire.model.skill import Permissions

ASKED = Permissions(("https://b.example", "https://a.example"), ("API_KEY",))
GRANT = Grant("sha256:" + "a" * 64, ASKED, "weather", "1.0.0", "ann", 5.5, {"SKILL.md": "sha256:" + "0" * 64})


@pytest.fixture
def store(tmp_path):
    return SqliteGrants(Database(tmp_path / "state.db"))


def test_what_was_granted_is_kept_with_all_that_people_ask_about(store, tmp_path):
    store.add(GRANT)
    (kept,) = SqliteGrants(Database(tmp_path / "state.db")).all()
    assert kept == GRANT._replace(permissions=Permissions(tuple(sorted(ASKED.network)), ASKED.secrets))


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


def test_all_that_lies_in_the_state_directory_shares_one_database(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    assert open_database() is open_database()
    assert open_ledger().database is open_database()
    assert not (tmp_path / "state").exists()
    assert open_grants().all() == []
    open_tokens().issue("caller")
    assert [path.name for path in (tmp_path / "state").glob("*.db")] == ["skillwire.db"]
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "other"))
    assert open_database().path.is_relative_to(tmp_path / "other")
