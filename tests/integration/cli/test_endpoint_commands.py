"""``find``, ``show``, ``cat``, ``call`` and ``which`` at an endpoint of the Skills Protocol that is not ours."""

import json

import pytest
from tests.support.rpc_endpoint import HIDDEN, SKILLS, RpcEndpoint

from skillwire.cli.completion import complete
from skillwire.cli.main import cli, run


@pytest.fixture(scope="module")
def endpoint():
    with RpcEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def call(endpoint, capfd, monkeypatch, tmp_path):
    """Run the words of a command; ENDPOINT is the address. Return the exit code, and what was printed."""
    monkeypatch.chdir(tmp_path)
    endpoint.calls.clear()

    def begin(*words):
        code = run([word.replace("ENDPOINT", endpoint.address) for word in words])
        said = capfd.readouterr()
        return code, said.out, said.err

    return begin


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_show_tells_the_manifest_and_what_comes_next(call, endpoint):
    code, out, errors = call("show", "ENDPOINT#leads.sync")
    assert code == 0
    told = lines(out)
    for line in (
        "leads.sync 0.1.0",
        f"origin http://{endpoint.address}",
        "digest none: the skill is used at its endpoint, not installed",
        "found via skills-rpc",
        "tags crm, leads",
        "runs python code/main.py main",
        "network https://*.salesforce.com",
        "secrets SALESFORCE_API_KEY",
        "sheet blob required The sheet.",
        "days integer default 7 How far back.",
    ):
        assert line in told
    assert f"call it: skillwire call {endpoint.address}#leads.sync sheet=@FILE" in lines(errors)
    assert "skillwire add" not in errors
    assert [method for method, _ in endpoint.calls] == ["describe_skill"]


def test_show_says_the_address_once_and_no_type(call, endpoint):
    out = call("show", "ENDPOINT#leads.sync")[1]
    assert out.count(endpoint.address) == 1
    assert not [line for line in lines(out) if line.startswith("type ")]


def test_show_sends_to_the_login_before_what_is_not_open_is_called(call, endpoint, monkeypatch):
    monkeypatch.setitem(SKILLS["leads.sync"], "access", "restricted")
    origin = f"http://{endpoint.address.removesuffix('/rpc')}"
    told = lines(call("show", "ENDPOINT#leads.sync")[2])
    assert told[0] == f"log in first: skillwire auth login {origin}"
    assert told[1].startswith("call it: ")
    assert "log in first" not in call("show", "ENDPOINT#leads.sync", "--token", "key")[2]


def test_show_hands_the_manifest_to_scripts(call):
    document = json.loads(call("show", "ENDPOINT#leads.sync", "--json")[1])
    assert document["skill"]["rpc"]["kind"] == "action"
    assert document["manifest"]["inputs"]["sheet"]["type"] == "blob"
    assert document["frontmatter"]["name"] == "Lead Sync"


def test_show_reads_the_instructions_and_cat_a_file(call):
    assert call("show", "ENDPOINT#leads.sync", "--body")[1].startswith("\n# Leads")
    assert call("cat", "ENDPOINT#leads.sync", "SKILL.md")[1].startswith("---\nname: Lead Sync\n")
    code, _, errors = call("cat", "ENDPOINT#leads.sync", "other.md")
    assert (code, "error[FILE_NOT_FOUND]" in errors) == (3, True)
    code, _, errors = call("show", "ENDPOINT#leads.sync", "--files")
    assert (code, "which lists no files" in errors) == (2, True)


def test_call_makes_a_blob_waits_and_says_what_was_left(call, endpoint, tmp_path):
    (tmp_path / "in.csv").write_text("name\nAda\n")
    code, out, errors = call("call", "ENDPOINT#leads.sync", "sheet=@in.csv", "days=3")
    assert (code, json.loads(out)) == (0, {"leads": 2, "days": 3})
    assert [method for method, _ in endpoint.calls] == ["describe_skill", "create_blob", "execute_skill"]
    assert endpoint.calls[1][1] == {"content": "name\nAda\n", "kind": "text/csv"}
    (hint,) = lines(errors)
    assert hint.startswith(f"output file: skillwire cat {endpoint.address}#leads.sync blob:")
    assert hint.endswith("> LEADS.csv")
    assert call("cat", "ENDPOINT#leads.sync", hint.split()[5])[1] == "NAME\nADA\n"


def test_call_gives_scripts_the_same_document_as_elsewhere(call, tmp_path):
    (tmp_path / "in.csv").write_text("a\n")
    document = json.loads(call("call", "ENDPOINT#leads.sync", "sheet=@in.csv", "--json")[1])
    assert (document["status"], document["execution_id"], document["output"]) == (
        "completed", "run-1", {"leads": 1, "days": 7}
    )  # fmt: skip
    assert document["blobs"][0]["name"] == "out/LEADS.csv"
    assert [document[f"{what}_at"] for what in ("created", "updated", "completed")] == [None] * 3


def test_who_mistypes_a_path_is_not_sent_to_the_publisher(call, endpoint):
    code, _, errors = call("cat", "ENDPOINT#leads.sync", "../x")
    assert (code, "error[PATH_TRAVERSAL]" in errors) == (4, True)
    assert "fix: Name a file relative to SKILL.md, such as references/table.md." in errors
    assert "cause:" not in errors
    assert endpoint.calls == []


def test_who_mistypes_a_value_is_told_the_command_that_helps(call, endpoint):
    errors = call("call", "ENDPOINT#leads.sync", "days=five")[2]
    fix = f"and write skillwire call {endpoint.address}#leads.sync sheet=@FILE; skillwire show "
    assert f"fix: Correct or leave out days, {fix}" in errors


def test_a_run_that_fails_ends_with_8_and_says_what_it_printed(call):
    code, out, errors = call("call", "ENDPOINT#leads.broken")
    assert (code, out) == (8, "")
    assert errors.startswith("end of its log:\n  Oh\n")
    assert "error[EXECUTION_FAILED]: It broke" in errors
    assert "\x1b" not in errors
    assert "\u202e" not in errors


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["leads.sync"], 2, "error[INPUTS]: sheet is required"),
        (["leads.sync", "sheet=@nowhere.csv"], 2, "the input sheet cannot be read: No such file"),
        (["leads.sync", "sheet=blob:a", "--no-wait"], 2, "there is no call without waiting"),
        (["leads.sync", "sheet=blob:a", "--priority", "high"], 2, "has no priority"),
        (["leads.reading"], 2, "it is read, not called"),
        (["leads.snyc"], 3, "Did you mean leads.sync or "),
    ],
)
def test_what_cannot_be_called_is_said_before_anything_is_executed(call, endpoint, words, code, said):
    found, _, errors = call("call", f"ENDPOINT#{words[0]}", *words[1:])
    assert found == code
    assert said in errors
    assert "execute_skill" not in [method for method, _ in endpoint.calls]


def test_an_interruption_says_that_nothing_can_be_asked_for(call, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skillwire.client.endpoint_calls.run_seconds", interrupt)
    code, _, errors = call("call", "ENDPOINT#leads.broken")
    assert code == 130
    assert "has no status to query" in errors


def test_what_a_hostile_endpoint_says_commands_no_terminal(call, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for words in (
        ["show", "ENDPOINT#leads.hostile"],
        ["show", "ENDPOINT#leads.hostile", "--body"],
        ["cat", "ENDPOINT#leads.hostile", "SKILL.md"],
        ["find", "--from", "ENDPOINT#"],
        ["which", "ENDPOINT#leads.hostile", "--explain"],
        ["call", "ENDPOINT#leads.hostile"],
        ["call", "ENDPOINT#leads.hostile", f"a {HIDDEN}=1"],
        ["call", "ENDPOINT#leads.hostile", "--dry-run", f"a {HIDDEN}=1"],
    ):
        _, out, errors = call(*words)
        for hidden in ("\x1b[31m", "\u202e", "\U000e0041"):
            assert hidden not in out + errors, words


def test_which_explains_and_add_refuses(call, endpoint):
    code, out, _ = call("which", "ENDPOINT#leads.sync", "--explain")
    assert code == 0
    assert f"1 http://{endpoint.address}" in lines(out)
    assert "endpoint of the Skills Protocol, 1 skill" in lines(out)
    assert "reason its endpoint describes it" in lines(out)
    code, _, errors = call("add", "ENDPOINT#leads.sync")
    assert (code, "error[NO_DIGEST]" in errors) == (4, True)


def test_completion_knows_the_names_of_a_list_that_was_read(call, endpoint):
    typed = f"{endpoint.address}#leads.s"
    assert complete(cli, ["show"], typed) == []
    call("find", "--from", "ENDPOINT#")
    assert [word.value for word in complete(cli, ["show"], typed)] == [f"{endpoint.address}#leads.sync"]
    assert [word.value for word in complete(cli, ["cat", f"{endpoint.address}#leads.sync"], "S")] == ["SKILL.md"]


def test_an_endpoint_may_be_a_source(call, endpoint, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_SOURCES", f"http://{endpoint.address}#")
    code, out, _ = call("find", "sheet")
    assert (code, lines(out)) == (0, ["leads.sync 0.1.0 callable (action) Counts leads of a sheet."])
    code, _, errors = call("show", "code-review")
    assert (code, "error[SKILL_NOT_FOUND]" in errors) == (3, True)
    assert f"{endpoint.address}#" in [word.value for word in complete(cli, ["show"], "127")]
    assert complete(cli, ["show"], "leads") == []


@pytest.mark.usefixtures("call")
def test_a_source_without_an_index_ends_no_completion(endpoint, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_SOURCES", f"lan: ./ours.git http://{endpoint.address}#")
    found = [word.value for word in complete(cli, ["show"], "")]
    assert "./ours.git/" in found
    assert f"{endpoint.address}#" in found
    assert not [word for word in found if word.startswith("lan:")]
    assert "lan:" in [word.value for word in complete(cli, ["find", "--from"], "")]


@pytest.mark.parametrize("place", ["ENDPOINT", "http://ENDPOINT", "ENDPOINT#", "ENDPOINT#leads."])
def test_find_lists_what_the_endpoint_has(call, endpoint, place):
    code, out, errors = call("find", "--from", place)
    assert code == 0
    assert lines(out)[0] == "leads.broken 0.1.0 callable (action) Always fails."
    assert lines(out)[2] == "leads.reading 0.1.0 instruction Says how leads are read."
    assert f"show details: skillwire show {endpoint.address}#leads.broken" in errors
