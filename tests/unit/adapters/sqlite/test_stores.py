"""Grants and tokens in SQLite: in one database with the executions."""

from tests.contracts.test_stores import ASKED, GRANT
from tests.support.opened import Blocking, open_database, open_grants, open_ledger, open_tokens

from skillwire.adapters.sql.tokens import SqlGrants
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.model.skill import Permissions


def test_what_was_granted_is_kept_with_all_that_people_ask_about(tmp_path):
    first, second = (Blocking(SqlGrants(AsyncDatabase(Database(tmp_path / "state.db")))) for _ in range(2))
    first.add(GRANT)
    (kept,) = second.all()
    assert kept == GRANT._replace(permissions=Permissions(tuple(sorted(ASKED.network)), ASKED.secrets))


def test_all_that_lies_in_the_state_directory_shares_one_database(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    assert open_database() is open_database()
    assert open_ledger()._database.database is open_database()
    assert not (tmp_path / "state").exists()
    assert open_grants().all() == []
    open_tokens().issue("caller")
    assert [path.name for path in (tmp_path / "state").glob("*.db")] == ["skillwire.db"]
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "other"))
    assert open_database().path.is_relative_to(tmp_path / "other")
