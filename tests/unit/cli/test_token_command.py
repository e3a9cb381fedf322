"""``skillwire token``: a secret is printed once and alone; tokens are listed, replaced, taken back, and rehearsed."""

import pytest
from tests.support.command import run_command
from tests.support.opened import Blocking, open_tokens

from skillwire.adapters.stores import open_stores
from skillwire.cli.completion import complete
from skillwire.cli.main import cli
from skillwire.cli.options import in_words

GROUP = ("token",)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    return tmp_path / "state"


def test_the_secret_stands_alone_on_standard_output_and_works(told):
    out, errors = told("create", "build robot", "--skill", "maps", "--scope", "tasks", "--expires", "90d")
    assert out.count("\n") == 1
    token = open_tokens().recognise(out.strip())
    assert token is not None
    assert (token.name, sorted(token.skills), sorted(token.scopes)) == ("build robot", ["maps"], ["tasks"])
    assert token.expires == token.created + 90 * 86_400
    assert out.strip() not in errors
    assert f"made {token.token_id} for build robot, ends in 90 days: opens maps; allows tasks" in errors
    assert told("create", "quiet one", "-q").err == ""


def test_a_scope_that_names_a_skill_opens_it(document):
    made = document("create", "caller", "--skill", "maps", "--scope", "skill:notes", "--scope", "operator")
    assert (made["token"]["skills"], made["token"]["scopes"]) == (["maps", "notes"], ["operator"])


def test_an_unknown_scope_is_refused_with_those_that_there_are(document):
    failed = document("create", "x", "--scope", "nonsense", status=2)["error"]
    assert failed["message"] == "no server here knows the scope 'nonsense'"
    assert failed["fix"] == "Give operator, tasks or skill:NAME."


def test_a_signing_key_signs(document):
    made = document("create", "signer", "--signing", "--skill", "*")
    assert made["token"]["kind"] == "signing_key"
    found = open_tokens().signing_key(made["token"]["id"])
    assert found is not None
    assert found[1].decode() == made["secret"]


def test_no_list_shows_a_secret(told, document):
    secrets = [document("create", "one", "--skill", "a")["secret"], document("create", "two", "--signing")["secret"]]
    shown = told("list").out + told("list", "--json").out
    assert not [secret for secret in secrets if secret in shown or secret[-20:] in shown]


def test_the_list_says_how_each_stands(told, document, monkeypatch):
    ids = [
        document("create", *arguments)["token"]["id"]
        for arguments in (["a"], ["b", "--expires", "2h"], ["c", "--expires", "1s"], ["d"])
    ]
    told("revoke", ids[3])
    real = open_tokens().look_up(ids[0]).created
    monkeypatch.setattr("skillwire.cli.token.time.time", lambda: real + 60)
    assert [row["state"] for row in document("list")["tokens"]] == ["good", "good", "ended", "revoked"]
    lines = told("list").out.splitlines()
    for line, token_id, state in zip(
        lines, ids, ["never expires", "ends in 119 minutes", "ended", "revoked"], strict=True
    ):
        assert line.startswith(token_id)
        assert f"  {state}  " in line


def test_a_revoked_token_is_none_and_revoking_again_says_the_same(document):
    made = document("create", "caller")
    first = document("revoke", made["token"]["id"])
    assert (first["token"]["state"], first["secret"], first["replaces"]) == ("revoked", None, None)
    assert open_tokens().recognise(made["secret"]) is None
    assert document("revoke", made["token"]["id"])["token"]["revoked_at"] == first["token"]["revoked_at"]


def test_a_successor_has_the_same_rights_and_the_old_one_lasts_a_while(document):
    made = document("create", "caller", "--skill", "a", "--scope", "tasks", "--expires", "30d")
    after = document("rotate", made["token"]["id"], "--overlap", "1h")
    assert after["replaces"]["id"] == made["token"]["id"]
    assert after["replaces"]["expires_at"] < after["token"]["expires_at"]
    for field in ("name", "kind", "skills", "scopes"):
        assert after["token"][field] == made["token"][field]
    assert open_tokens().recognise(made["secret"])
    assert open_tokens().recognise(after["secret"])
    gone = document("rotate", after["token"]["id"], "--overlap", "0s")
    assert open_tokens().recognise(after["secret"]) is None
    assert open_tokens().recognise(gone["secret"])


def test_changes_of_an_accounts_token_are_in_the_audit_log_of_the_registry(document):
    issued = run_command("registry", "init", "ann").out.strip()
    first = open_tokens().recognise(issued).token_id
    rotated = document("rotate", first)
    document("revoke", rotated["token"]["id"], "--dry-run")
    document("revoke", rotated["token"]["id"])
    document("revoke", document("create", "caller")["token"]["id"])  # of no account, so of no registry
    changes = [entry.change for entry in Blocking(open_stores().packages).audit(0, 9)]
    assert [one.action for one in changes] == ["account.create", "token.create", "token.rotate", "token.revoke"]
    assert {(one.account, one.target) for one in changes} == {("ann", "ann")}
    scopes, new = ["admin", "publish", "read"], rotated["token"]["id"]
    assert [dict(one.details) for one in changes[1:]] == [
        {"id": first, "scopes": scopes},
        {"id": new, "replaces": first, "scopes": scopes, "on": "the server"},
        {"id": new, "on": "the server"},
    ]
    assert not [one for one in changes if issued[-20:] in repr(one) or rotated["secret"][-20:] in repr(one)]


def test_what_has_ended_has_no_successor(document):
    made = document("create", "caller")
    document("revoke", made["token"]["id"])
    for more in ([], ["--dry-run"]):
        assert document("rotate", made["token"]["id"], *more, status=2)["error"]["code"] == "TOKEN_FORM"


def test_a_rehearsal_changes_nothing(document, state):
    rehearsed = document("create", "caller", "--skill", "a", "--dry-run")
    assert (rehearsed["dry_run"], rehearsed["secret"], rehearsed["token"]["id"]) == (True, None, None)
    assert not state.exists()
    made = document("create", "caller", "--skill", "a")
    before = open_tokens().all()
    assert document("rotate", made["token"]["id"], "--dry-run")["secret"] is None
    assert document("revoke", made["token"]["id"], "--dry-run")["token"]["state"] == "good"
    assert open_tokens().all() == before


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_an_id_that_there_is_not_is_said_and_nothing_is_made(document, verb, state):
    assert document(verb, "nosuch", status=3)["error"]["code"] == "TOKEN_NOT_FOUND"
    assert document("list")["tokens"] == []
    assert not state.exists()
    document("create", "caller")
    assert document(verb, "nosuch", status=3)["error"]["code"] == "TOKEN_NOT_FOUND"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["x", "--skill", "No Name"], "TOKEN_FORM"),
        (["x", "--scope", "two words"], "TOKEN_FORM"),
        (["x", "--scope", "nonsense"], "TOKEN_FORM"),
        (["x", "--scope", "operator", "--scope", "operators"], "TOKEN_FORM"),
        (["x", "--scope", "skill:No Name"], "TOKEN_FORM"),
        ([" "], "TOKEN_FORM"),
        (["bad\x1b[31mname"], "TOKEN_FORM"),
        (["x", "--expires", "0d"], "TOKEN_FORM"),
        (["x", "--expires", "90"], "USAGE"),
        (["x", "--expires", "-1d"], "USAGE"),
        (["x", "--expires", "5300w"], "USAGE"),
        (["x", "--expires", "99999999999d"], "USAGE"),
        (["x", "--expires", "\u0669d"], "USAGE"),
    ],
)
def test_what_is_malformed_is_refused_with_and_without_a_rehearsal(document, arguments, code, state):
    for more in ([], ["--dry-run"]):
        assert document("create", *arguments, *more, status=2)["error"]["code"] == code
    assert not state.exists()


def test_a_shell_completes_the_ids_of_tokens_that_are_not_revoked(document, state):
    assert complete(cli, ["token", "revoke"], "") == []
    assert not state.exists()
    kept, gone = (document("create", name)["token"]["id"] for name in ("kept", "gone"))
    document("revoke", gone)
    for verb in ("revoke", "rotate"):
        assert [(word.value, word.help) for word in complete(cli, ["token", verb], "")] == [(kept, "kept")]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "a second"), (45, "45 seconds"), (7_199, "120 minutes"), (7_200, "2 hours"), (90 * 86_400 - 1, "90 days")],
)
def test_how_long_in_words(seconds, words):
    assert in_words(seconds) == words
