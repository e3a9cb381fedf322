"""``skillwire executions list``: recent calls of this machine, newest first, without asking a provider."""

import json

import pytest

from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.files.calls import FileCalls
from skillwire.cli.main import run
from skillwire.model.remote_execution import CallRecord


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))


def remember(number, execution_id):
    book = FileCalls(state_directory() / "calls.json", lambda: 1_751_371_200.0)
    record = CallRecord(
        f"key-{number}", "example.com/forecast", "acme/forecast", "https://example.com/x", 1_751_371_200.0
    )
    kept = book.begin(record, f"call {number}".encode(), may_take_up=False)
    book.answered(kept._replace(execution_id=execution_id, status_url=f"https://example.com/status/{execution_id}"))
    book.release(kept)


@pytest.mark.parametrize("words", [[], ["list"]])
def test_recent_executions_are_listed_newest_first(capsys, words):
    remember(1, "exec-1")
    remember(2, "exec-2")
    assert run(["executions", *words]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "exec-2  acme/forecast  2025-07-01T12:00:00Z",
        "exec-1  acme/forecast  2025-07-01T12:00:00Z",
    ]
    assert shown.err == "show one: skillwire executions show ID\n"


def test_the_newest_twenty_are_listed_and_the_others_counted(capsys):
    for number in range(25):
        remember(number, f"exec-{number}")
    assert run(["executions"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == [f"exec-{number}" for number in range(24, 4, -1)]
    assert shown.err.splitlines()[0] == "5 more; see them with --limit 25"
    assert run(["executions", "list", "--limit", "25", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["total"], len(document["executions"])) == (25, 25)


def test_the_document_has_what_a_program_needs_to_ask_for_them(capsys):
    remember(1, "exec-1")
    assert run(["executions", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["executions"]
    assert row == {
        "execution_id": "exec-1",
        "skill_id": "acme/forecast",
        "reference": "example.com/forecast",
        "created_at": "2025-07-01T12:00:00Z",
        "status_url": "https://example.com/status/exec-1",
    }


def test_where_nothing_was_called_nothing_is_listed(capsys):
    assert run(["executions"]) == 0
    assert capsys.readouterr() == ("", "there are no recent executions\n")
