"""``skillwire update``: what it says of skills that are up to date."""

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
