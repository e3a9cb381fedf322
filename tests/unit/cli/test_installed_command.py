"""``skillwire update`` and ``verify``: what they say of skills that are up to date, and of none."""

import pytest
from tests.support.command import run_command
from tests.support.publishing import write_skill


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "source", "notes")
    assert run_command("add", "./source/notes", "--agent", "codex", "--yes").code == 0
    return tmp_path


def test_changed_files_of_a_current_skill_lead_to_verify(project):
    assert run_command("update").err == "all skills are up to date\n"
    with (project / ".agents/skills/notes/SKILL.md").open("a") as file:
        file.write("Mine.\n")
    said = run_command("update").err.splitlines()
    assert said == ["all skills are up to date", "installed files differ from skills.lock: skillwire verify"]


@pytest.mark.parametrize(("scope", "lock"), [((), "project/skills.lock"), (("--global",), "user/.agents/skills.lock")])
def test_verify_names_the_lock_that_is_not_there(tmp_path, monkeypatch, scope, lock):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    done = run_command("verify", *scope)
    assert (done.code, done.err) == (0, f"no skills are installed: there is no {tmp_path / lock}\n")


@pytest.mark.parametrize(
    ("content", "only_line_ends"),
    [
        (b"a\r\nb\nc\r\n", True),
        (b"b\nc\na\n", False),  # a moved line is the same text removed and added
        (b"\xef\xbb\xbfa\r\nb\nc\n", False),
    ],
)
def test_only_line_ends_differ_where_all_else_is_the_same(project, content, only_line_ends):
    text = project / "source/notes/steps.txt"
    text.write_bytes(b"a\nb\nc\n")
    assert run_command("add", "./source/notes", "--agent", "codex", "--yes", "--overwrite").code == 0
    text.write_bytes(content)
    done = run_command("diff", "notes")
    assert done.code == 1
    assert "steps.txt  changed  +" in done.out
    assert ("Only its line ends differ." in done.out) is only_line_ends
