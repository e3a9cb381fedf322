"""``skillwire inbox``: tasks are listed, shown, claimed, handed in by arguments, file or terminal, and declined."""

import io
import json
import re

import pytest
from tests.support.opened import open_ledger
from tests.support.tasks import add_task

from skillwire.cli.completion import complete
from skillwire.cli.main import cli

GROUP = ("inbox",)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path / "state"


@pytest.fixture
def typing(monkeypatch):
    """Be at a terminal where these lines are typed; return the list of what is asked."""

    def begin(*lines, agrees=True):
        asked, answers = [], iter(lines)

        def prompt(text, *, default, **_):
            asked.append(text)
            return next(answers) or default

        monkeypatch.setattr("skillwire.cli.inbox.can_ask", lambda _: True)
        monkeypatch.setattr("skillwire.cli.inbox.click.prompt", prompt)
        monkeypatch.setattr("skillwire.cli.inbox.confirm", lambda _: agrees)
        return asked

    return begin


def kept(task):
    return open_ledger().find(task.execution_id)


def test_the_most_urgent_stands_first(told, document):
    later, sooner = add_task(title="Later", seconds=10_800.0), add_task(title="Sooner", seconds=600.0)
    told("claim", later.execution_id, "--as", "bob")
    lines = told().out.splitlines()
    assert re.split(" {2,}", lines[0]) == [sooner.execution_id[:13], "free", "10 minutes left", "Sooner"]
    assert lines[1].startswith(f"{later.execution_id[:13]}  bob has it  3 hours left")
    first, second = document("list", "--as", "bob")["tasks"]
    assert (first["title"], first["held_by"], first["mine"]) == ("Sooner", None, False)
    assert (second["title"], second["held_by"], second["mine"]) == ("Later", "bob", True)
    assert document("list", "--skill", "nosuch")["tasks"] == []


def test_where_there_is_no_ledger_none_is_made(told, document, state):
    assert "there are no open tasks" in told().err
    for arguments in (["show", "exec-aaaa"], ["claim", "exec-aaaa"], ["complete", "exec-aaaa", "a=b"]):
        assert document(*arguments, status=3)["error"]["code"] == "TASK_NOT_FOUND"
    assert complete(cli, ["inbox", "show"], "") == []
    assert not state.exists()


def test_a_task_is_shown_with_what_is_given_and_what_is_asked_for(told, document):
    task = add_task(inputs={"guests": 4, "note": "by\x1b[31m the window"})
    out = told("show", task.execution_id[:13]).out
    for line in (
        "Book a table\n",
        "Call the restaurant and book a table.\n",
        f"  id       {task.execution_id}\n",
        "by concierge(unverified name)\n",
        "  guests: 4  How many come\n",
        "output to submit: What the restaurant said\n",
        "  booked (true or false, required)  Whether there was a table.\n",
        "  table (whole number, 1 to 99)\n",
        "  room (garden | hall)\n",
    ):
        assert line in out
    assert "\x1b" not in out
    shown = document("show", task.execution_id)
    assert (shown["did"], shown["inputs"]["guests"]) == ("shown", 4)
    assert [(field["name"], field["kind"], field["required"]) for field in shown["fields"]] == [
        ("booked", "boolean", True),
        ("table", "integer", False),
        ("room", "choice", False),
        ("wishes", "lines", False),
    ]


def test_a_task_is_claimed_under_a_name_and_given_back(told, document):
    task = add_task()
    assert told("claim", task.execution_id).out == f"claimed {task.execution_id[:13]}  Book a table\n"
    assert kept(task).worker == "human:ann"
    failed = document("claim", task.execution_id, "--as", "bob", status=6)["error"]
    assert (failed["code"], failed["details"]) == ("TASK_TAKEN", {"holder": "ann"})
    assert document("release", task.execution_id, "--as", "bob", status=6)["error"]["code"] == "TASK_TAKEN"
    assert document("release", task.execution_id)["task"]["held_by"] is None


def test_arguments_are_handed_in(document):
    task = add_task()
    done = document("complete", task.execution_id, "booked=yes", "table=4", "wishes=a=b", "wishes=quiet")
    assert (done["did"], done["task"]["status"]) == ("completed", "completed")
    assert json.loads(kept(task).output) == {"booked": True, "table": 4, "room": "hall", "wishes": ["a=b", "quiet"]}
    assert document("complete", task.execution_id, "booked=yes", status=6)["error"]["code"] == "TASK_ENDED"


def test_json_is_handed_in_from_a_file(document, tmp_path):
    task = add_task()
    file = tmp_path / "answer.json"
    file.write_text('{"booked": false}')
    document("complete", task.execution_id, "--output", str(file))
    assert json.loads(kept(task).output) == {"booked": False}


def test_json_is_handed_in_from_standard_input(document, monkeypatch):
    task = add_task(output=None)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'["any", 1]')))
    document("complete", task.execution_id, "--output", "-")
    assert json.loads(kept(task).output) == ["any", 1]


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ([], "USAGE", 2),
        (["booked"], "USAGE", 2),
        (["booked=yes", "--output", "ANSWER"], "USAGE", 2),
        (["booked=perhaps"], "VALIDATION_ERROR", 1),
        (["booked=yes", "table=0"], "VALIDATION_ERROR", 1),
        (["nosuch=1"], "VALIDATION_ERROR", 1),
        (["--output", "ANSWER"], "JSON_SYNTAX", 1),
    ],
)
def test_what_does_not_fit_is_refused_and_nobody_has_the_task(document, tmp_path, arguments, code, status):
    task = add_task()
    (tmp_path / "ANSWER").write_text("{")
    arguments = [str(tmp_path / word) if word == "ANSWER" else word for word in arguments]
    assert document("complete", task.execution_id, *arguments, status=status)["error"]["code"] == code
    assert kept(task) == task


def test_everything_that_is_wrong_is_told_at_once(document, tmp_path):
    task = add_task()
    (tmp_path / "answer.json").write_text('{"table": 0, "room": "cellar"}')
    failed = document("complete", task.execution_id, "--output", str(tmp_path / "answer.json"), status=1)["error"]
    assert {flaw["path"] for flaw in failed["details"]["errors"]} == {"/output/booked", "/output/table", "/output/room"}
    for path in ("/output/booked", "/output/table", "/output/room"):
        assert path in failed["message"]


def test_a_task_of_somebody_else_is_not_handed_in(document):
    task = add_task()
    document("claim", task.execution_id, "--as", "bob")
    assert document("complete", task.execution_id, "booked=yes", status=6)["error"]["code"] == "TASK_TAKEN"
    assert document("complete", task.execution_id, "booked=yes", "--as", "bob")["task"]["status"] == "completed"


def test_a_rehearsal_changes_nothing(told, document):
    task = add_task()
    assert "would be completed" in told("complete", task.execution_id, "booked=yes", "--dry-run").out
    assert document("reject", task.execution_id, "--reason", "No.", "--dry-run")["dry_run"]
    assert kept(task) == task


def test_a_task_is_declined_with_a_reason(document):
    task = add_task()
    assert document("reject", task.execution_id, status=2)["error"]["code"] == "USAGE"
    assert document("reject", task.execution_id, "--reason", " ", status=2)["error"]["code"] == "USAGE"
    assert document("reject", task.execution_id, "--reason", "Closed. ")["task"]["status"] == "failed"
    assert (kept(task).failure.reason, kept(task).failure.message) == ("rejected", "Closed.")


def test_a_terminal_asks_field_by_field(told, typing):
    task = add_task()
    asked = typing("perhaps", "", "yes", "four", "4", "", "a window", "quiet", "")
    out, errors = told("complete", task.execution_id)
    assert asked == [
        *["booked (true or false)"] * 3,
        *["table (whole number, 1 to 99)"] * 2,
        "room (garden | hall) [hall]",
        "wishes (texts)",
        *["wishes (one more)"] * 2,
    ]
    assert json.loads(kept(task).output) == {
        "booked": True,
        "table": 4,
        "room": "hall",
        "wishes": ["a window", "quiet"],
    }
    for said in ("must be true or false", "is required", "must be a whole number", "Whether there was a table."):
        assert said in errors
    assert "completed" in out


def test_a_terminal_asks_again_for_what_the_schema_refuses(told, typing):
    task = add_task()
    asked = typing("yes", "500", "", "", "5")
    assert "/table 500 is greater than" in told("complete", task.execution_id).err
    assert asked[-1].startswith("table")
    assert json.loads(kept(task).output)["table"] == 5


@pytest.mark.parametrize("held", [True, False])
def test_who_changes_their_mind_leaves_the_task_as_it_was(told, typing, held):
    task = add_task()
    if held:
        told("claim", task.execution_id)
    typing("yes", "", "", "", agrees=False)
    assert "nothing was submitted" in told("complete", task.execution_id, status=1).err
    assert kept(task).worker == ("human:ann" if held else None)


def test_who_breaks_off_leaves_the_task_to_others(told, typing, monkeypatch):
    task = add_task()
    typing()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skillwire.cli.inbox.click.prompt", interrupt)
    told("complete", task.execution_id, status=130)
    assert [event.what for event in kept(task).timeline] == ["accept", "claim", "release"]


def test_a_rehearsal_at_a_terminal_leaves_the_task_to_others(told, typing):
    task = add_task()
    typing("yes", "", "", "")
    assert "would be completed" in told("complete", task.execution_id, "--dry-run").out
    assert (kept(task).worker, kept(task).output) == (None, None)


def test_a_name_that_is_none_is_refused(document):
    assert document("list", "--as", "\x1b[31m", status=2)["error"]["code"] == "USAGE"


def test_a_shell_completes_the_ids_of_open_tasks():
    task = add_task()
    for verb in ("show", "claim", "complete", "reject", "release"):
        assert [(word.value, word.help) for word in complete(cli, ["inbox", verb], "exec-")] == [
            (task.execution_id, "Book a table")
        ]
