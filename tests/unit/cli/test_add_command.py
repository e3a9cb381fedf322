"""``skillwire add``: what a person sees before the question, and when nothing is fetched."""

from typing import Any

import pytest
from tests.support.publishing import write_skill

from skillwire.cli import add
from skillwire.cli.main import run
from skillwire.cli.output import Output
from skillwire.resolver.plan import InstallPlan


@pytest.mark.parametrize(
    ("unknown", "consent", "terminal", "is_fetched"),
    [
        (("https://example.com",), False, True, True),
        (("https://example.com",), True, False, True),
        (("https://example.com",), False, False, False),
        ((), False, False, True),
    ],
)
def test_a_skill_is_reviewed_before_consent_is_asked_for(monkeypatch, unknown, consent, terminal, is_fetched):
    done = []

    class Client:
        def inspect(self, plan, *, consent, on_done):
            on_done()
            done.append(consent)
            return plan

    monkeypatch.setattr(add, "has_terminal", lambda: terminal)
    client: Any = Client()
    plan = InstallPlan((), unknown)
    assert add.inspect(client, Output(), plan, consent=consent) is plan
    assert done == [consent] * is_fetched


def test_a_folder_that_reads_as_a_repository_is_named_as_it_has_to_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "skills" / "greet").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    hint = "skills/greet is read as an address; the folder here is ./skills/greet"
    assert run(["add", "skills/greet", "--offline"]) != 0
    assert hint in capsys.readouterr().err
    (tmp_path / "skills" / "greet.git").mkdir()
    for text in ("./skills/greet", "./skills/greet.git", "../skills/greet.git", f"{tmp_path}/skills/greet.git"):
        monkeypatch.chdir(tmp_path / ("skills" if text.startswith("..") else ""))
        assert run(["add", text, "--offline"]) != 0
        assert "the folder here" not in capsys.readouterr().err


def test_one_unknown_of_several_chosen_skills_installs_none(tmp_path, monkeypatch, capsys):
    for name in ("one", "two"):
        write_skill(tmp_path / "skills", name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    command = ["add", "./skills", "--yes", "--agent", "codex", "--skill", "one", "--skill"]
    assert run([*command, "nope"]) == 3
    assert "error[SKILL_NOT_FOUND]: no skill is named nope" in capsys.readouterr().err
    assert not (tmp_path / ".agents").exists()
    assert run([*command, "two"]) == 0
    assert (tmp_path / ".agents/skills/two/SKILL.md").exists()
