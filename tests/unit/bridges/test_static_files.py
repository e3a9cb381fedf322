"""What ``skillwire build --bridge`` writes for neighbours, and what it leaves out."""

import json
from pathlib import Path

import pytest
from tests.support.publishing import write_skill

from skillwire.cli.main import run

CATALOG = Path("site/.well-known/ai-catalog.json")
MARKETPLACE = Path("site/.claude-plugin/marketplace.json")


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "notes", {"run.sh": "echo"})
    write_skill(tmp_path / "skills", "omega-plan", {"skill.toml": 'access = "private"\n'})


def build(*options):
    return run(["build", "skills", "-o", "site", "-q", *options])


def test_nothing_is_written_unasked():
    assert build() == 0
    assert not CATALOG.exists()
    assert not MARKETPLACE.parent.exists()


def test_each_url_and_each_path_leads_to_a_file_of_the_site():
    both = ("--bridge", "ai-catalog", "--bridge", "marketplace")
    assert build(*both, "--base-url", "https://x.example/below/", "--publisher", "acme") == 0
    [entry] = json.loads(CATALOG.read_text())["entries"]
    assert entry["identifier"] == "urn:air:x.example:skill:notes"
    assert Path("site", entry["url"].removeprefix("https://x.example/below/")).is_file()
    document = json.loads(MARKETPLACE.read_text())
    [plugin] = document["plugins"]
    assert document["name"] == "acme"
    assert Path("site", plugin["source"], plugin["skills"][0], "SKILL.md").is_file()


def test_what_is_no_longer_asked_for_goes_away():
    assert build("--bridge", "marketplace") == 0
    assert MARKETPLACE.exists()
    assert build() == 0
    assert not MARKETPLACE.parent.exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--bridge", "ai-catalog"], "USAGE"),
        (["--bridge", "marketplace", "--publisher", "npm"], "MARKETPLACE_NAME"),
        (["--bridge", "agent-card"], "USAGE"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(capsys, options, code):
    assert build(*options) == 2
    assert f"error[{code}]" in capsys.readouterr().err
    assert not Path("site").exists()
