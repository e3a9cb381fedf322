"""``skillwire registry``: what its lists show of the rows that a registry answers."""

import json

import pytest
from tests.support.command import run_command

from skillwire.client.registry import RegistryFlows, RemoteRegistry
from skillwire.model.package import Change
from skillwire.registry.audit import FIRST_DIGEST, chain_digest


@pytest.fixture
def answered(monkeypatch):
    """Let a registry answer these rows, of the audit log two a page."""
    monkeypatch.setenv("SKILLWIRE_REGISTRY", "https://registry.example")
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {"operator": True})

    def answer(*rows):
        def request(_, __, path):
            after = int(path.partition("?after=")[2] or 0)
            following = after + 2 if after + 2 < len(rows) else None
            return {"operator": True, "entries": list(rows[after : after + 2]), "next": following}

        monkeypatch.setattr(RemoteRegistry, "rows", lambda *_, **__: list(rows))
        monkeypatch.setattr(RemoteRegistry, "request", request)

    return answer


def test_a_token_is_listed_with_its_account_and_its_expiry(answered):
    row = {"id": "abc", "name": "robot", "scopes": ["read"], "created": 1.0, "used": None, "revoked": None}
    answered({**row, "account": "ann", "expires": None}, {**row, "account": "bob", "expires": 1_800_000_000.0})
    first, second = run_command("registry", "token", "list").out.splitlines()
    assert ("ann" in first, "never expires" in first) == (True, True)
    assert ("bob" in second, "expires 2027-01-15" in second) == (True, True)


def test_an_answer_is_printed_as_it_is_documented(monkeypatch, answered):
    answered()
    account = {"account": "ann", "operator": False, "scopes": ["read"], "namespaces": {"acme": "owner"}}
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {**account, "of a later version": 1})
    assert run_command("registry", "whoami", "--json").document()["answer"] == account
    state = {"status": "active"}
    package = {"namespace": "acme", "name": "a", "created": 1.0, "access": "public", "status": state, "latest": "1.0.0"}
    details = {"name": "acme", "created": 1.0, "proof": {"kind": "", "domain": "", "at": 0.0}, "packages": [package]}
    for absent in ({}, {"members": {"ann": "owner"}}):
        monkeypatch.setattr(RemoteRegistry, "request", lambda *_, absent=absent: {**details, "next": None, **absent})
        shown = run_command("registry", "member", "list", "acme", "--json").document()["answer"]
        assert shown == {**details, "next": None, **absent}
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {**account, "scopes": None})
    refused = run_command("registry", "whoami", "--json")
    assert (refused.code, refused.document()["error"]["code"]) == (1, "REGISTRY_ANSWER")


@pytest.mark.parametrize(
    ("action", "details", "shown"),
    [
        ("package.rename", {"to": "acme/new"}, "to acme/new"),
        ("member.set", {"account": "bob", "role": "owner"}, "account bob, role owner"),
        ("member.remove", {"account": "bob"}, "account bob"),
        ("version.publish", {"digest": "sha256:00"}, ""),
        ("token.create", {"id": "k1", "scopes": ["publish", "read"]}, "id k1, scopes publish read"),
        ("token.rotate", {"id": "k2", "on": "the server", "replaces": "k1"}, "id k2, replaces k1, on the server"),
    ],
)
def test_a_line_of_the_audit_log_names_what_was_changed(answered, action, details, shown):
    entry = {"number": 1, "at": 1.0, "account": "ann", "target": "acme", "address": "", "digest": ""}
    answered({**entry, "action": action, "details": details, "request_id": "r-7"})
    line = run_command("registry", "audit").out
    assert shown in line
    assert line.endswith("r-7\n")
    assert "sha256" not in line


@pytest.fixture
def log(answered):
    """Let a registry answer a log of three entries; the value is their digests."""
    rows, digest = [], FIRST_DIGEST
    for number in (1, 2, 3):
        change = Change(float(number), "ann", "member.set", f"space{number}", {}, "", "")
        digest = chain_digest(digest, number, change)
        rows.append({**change._asdict(), "number": number, "digest": digest})
    answered(*rows)
    return [row["digest"] for row in rows]


@pytest.mark.usefixtures("log")
def test_most_shows_the_newest_entries():
    shown = run_command("registry", "audit", "--most", "2").out
    assert [one for one in ("space1", "space2", "space3") if one in shown] == ["space2", "space3"]
    assert len(json.loads(run_command("registry", "audit", "--most", "2", "--json").out)["answer"]["entries"]) == 2
    assert run_command("registry", "audit", "--most", "2", "--verify").code == 2, "a part of the log has no verdict"


def test_a_verified_log_has_a_verdict_for_programs(log):
    done = run_command("registry", "audit", "--verify", "--json", "--expect", log[1])
    assert json.loads(done.out)["answer"] == {"verified": 3, "digest": log[2]}


def test_a_digest_that_was_kept_and_is_gone_breaks_the_log(log):
    done = run_command("registry", "audit", "--verify", "--expect", "f" * 64)
    assert (done.code, "AUDIT_BROKEN" in done.err) == (4, True)
    assert run_command("registry", "audit", "--expect", log[0]).code == 2


@pytest.mark.usefixtures("log")
def test_a_part_of_a_long_log_is_the_newest_one_and_the_verdict_is_on_all_of_it(monkeypatch):
    monkeypatch.setattr("skillwire.cli.registry._AUDIT_ENTRIES", 2)
    assert run_command("registry", "audit", "--verify").out.startswith("verified 3 entries")
    assert "space3" in run_command("registry", "audit", "--most", "1").out
    shown = run_command("registry", "audit")
    assert [one for one in ("space1", "space2", "space3") if one in shown.out] == ["space2", "space3"]
    assert shown.err == "only the newest 2 of 3 entries are shown\n"


def test_an_empty_log_is_broken(answered):
    answered()
    done = run_command("registry", "audit", "--verify")
    assert (done.code, "AUDIT_BROKEN" in done.err) == (4, True)


def test_pages_of_a_log_that_do_not_go_on_are_refused(answered, monkeypatch):
    answered()
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {"entries": [], "next": 0})
    assert "REGISTRY_ANSWER" in run_command("registry", "audit").err


@pytest.mark.usefixtures("answered")
def test_a_quarantine_names_the_other_packages_of_the_same_bytes(monkeypatch):
    answer: dict[str, object] = {"copies": ["bob/notes", "eve/notes"]}
    monkeypatch.setattr(RemoteRegistry, "set_state", lambda *_, **__: answer)
    status = ("registry", "status", "ann/notes", "quarantined", "--reason", "steals keys")
    assert run_command(*status).err == "other packages have the same bytes: bob/notes, eve/notes\n"
    document = run_command(*status, "--json").document()
    assert (document["copies"], document["more_copies"]) == (answer["copies"], False)
    answer["copies"] = ["bob/notes", "ann/notes@1.0.0", "ann/notes@1.0.2"]
    assert run_command(*status).err.splitlines() == [
        "other packages have the same bytes: bob/notes",
        "other versions have the same bytes: ann/notes@1.0.0, ann/notes@1.0.2",
    ]
    many = [f"p{number}/notes" for number in range(100)]
    answer |= {"copies": many, "more_copies": True}
    named, cut = run_command(*status).err.splitlines()
    assert named == "other packages have the same bytes: " + ", ".join(many[:8]) + " and 92 more"
    assert cut == "not all packages were compared: others may have the same bytes"
    assert run_command(*status, "--json").document()["more_copies"]


@pytest.mark.usefixtures("answered")
def test_deleting_a_package_needs_a_yes(monkeypatch):
    sent = []

    def set_state(*arguments, **_):
        sent.append(arguments[1:])
        return {}

    monkeypatch.setattr(RemoteRegistry, "set_state", set_state)
    refused = run_command("registry", "status", "ann/notes", "deleted")
    assert (refused.code, "pass --yes" in refused.err, sent) == (2, True, [])
    assert run_command("registry", "status", "ann/notes", "deleted", "--yes").code == 0
    assert sent == [("ann/notes", "deleted")]


@pytest.mark.parametrize("status", ["archived", "deleted"])
def test_a_state_of_packages_alone_is_refused_for_a_version(status):
    refused = run_command("registry", "status", "ann/notes@1.0.0", status, "--yes")
    assert (refused.code, f"a version cannot be {status}" in refused.err) == (2, True)


def test_an_export_that_is_not_there_is_no_damaged_one(tmp_path):
    refused = run_command("registry", "import", str(tmp_path / "nosuch"))
    assert (refused.code, "does not exist" in refused.err) == (2, True)


def test_a_command_of_the_program_is_found_where_a_group_has_none():
    assert "Did you mean skillwire yank?" in run_command("registry", "yank", "ann/notes@1.0.0").err


@pytest.mark.usefixtures("answered")
def test_a_list_of_members_without_any_is_refused(monkeypatch):
    answer = {"name": "acme", "created": 1.0, "proof": {"kind": "", "domain": "", "at": 0.0}, "packages": []}
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {**answer, "next": None})
    shown = run_command("registry", "member", "list", "acme")
    assert (shown.code, shown.out) == (5, "")
    assert "error[PERMISSION_DENIED]: only members of acme see its members" in shown.err


def test_a_registry_without_its_scheme_has_that_of_other_addresses(monkeypatch):
    asked = []

    def ask(self, *_):
        asked.append(self.url)
        yield from ()
        return {}

    monkeypatch.setattr(RegistryFlows, "ask", ask)
    for given in ("127.0.0.1:18100", "skills.example.com/team/", "https://skills.example.com"):
        run_command("registry", "whoami", "--registry", given)
    assert asked == ["http://127.0.0.1:18100", "https://skills.example.com/team", "https://skills.example.com"]


def test_a_wrong_role_is_refused_by_the_name_of_its_argument():
    refused = run_command("registry", "member", "add", "acme", "bob", "king")
    assert (refused.code, "for 'ROLE': 'king' is not one of" in refused.err) == (2, True)


def test_init_names_the_state_directory(tmp_path):
    done = run_command("registry", "init", "ann", env={"SKILLWIRE_HOME": str(tmp_path)})
    assert (done.code, f"state directory: {tmp_path}/state\n" in done.err) == (0, True)
