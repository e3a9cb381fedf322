"""The page of the examples calls a skill of each capability type, and shows what that gives."""

import json
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from tests.support.command import run_command
from tests.support.forked import run_forked
from tests.support.pages import check, play_session, shown
from tests.support.processes import started
from tests.support.publishing import serving
from tests.support.sandbox_world import sandbox_missing

from skillwire import Client

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = EXAMPLES / "README.md"
OVERLAY = EXAMPLES / "capabilities" / "translation-overlay" / "code" / "main.py"
TYPES = {
    "plugin": "translation-overlay",
    "api": "weather-forecast",
    "knowledge": "git-commit-messages",
    "task": "warehouse-pickup",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def folders(home):
    with serving(EXAMPLES / "skills", home, EXAMPLES / "capabilities", "--grant-all") as origin:
        yield origin


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    home = tmp_path_factory.mktemp("weather")
    with started(EXAMPLES / "weather" / "service.py", "--port", 0, home=home, may_log_errors=True) as url:
        yield url.removeprefix("http://")


@pytest.fixture
def origins(folders, weather):
    return {"127.0.0.1:8000": folders, "127.0.0.1:8001": weather}


@pytest.mark.parametrize("kind", TYPES)
def test_each_is_called_as_the_page_shows(kind, origins, home, tmp_path):
    if kind == "plugin" and (why := sandbox_missing()):
        pytest.skip(why)
    acts = play_session(shown(PAGE, kind), tmp_path, origins, home=home)
    check(acts, 1)
    verb = "cat" if kind == "knowledge" else "call"
    assert any(f"{verb} 127.0.0.1:800{int(kind == 'api')}/{TYPES[kind]}" in command for command, *_ in acts)


def test_each_is_of_its_type_and_valid(origins):
    with Client() as client:
        for kind, name in TYPES.items():
            [skill] = [
                found
                for origin in origins.values()
                for found, _ in client.find("", [origin], capability_type=kind)
                if found.name.endswith(name)  # an id where there is a descriptor alone
                and not (kind == "api" and origin == origins["127.0.0.1:8000"])  # the placeholder
            ]
            assert str(skill.descriptor().capability_type) == kind


def test_the_folders_have_no_findings():
    checked = run_command("check", EXAMPLES / "capabilities")
    assert checked.code == 0
    assert "2 skills: no findings" in checked.out + checked.err


def test_the_service_gives_what_the_placeholder_describes(weather):
    described = json.loads((EXAMPLES / "skills" / "weather-forecast" / "descriptor.json").read_text())
    with Client() as client:
        skill = client.show(f"{weather}/weather-forecast")
        assert [one.name for one in skill.descriptor().inputs] == [one["name"] for one in described["inputs"]]
        output = skill.call({"location": "Tokyo, Japan", "days": 14, "units": "imperial"}).check().output
    jsonschema_rs.validate(described["output"]["schema"], output)
    assert len(output["forecasts"]) == 14


class TestOverlay:
    def marks(self, *segments, **languages):
        asked = json.dumps({"segments": segments, **({"source": "de"} | languages)})
        done = json.loads(run_forked([sys.executable, OVERLAY, asked]).stdout)
        words = [segments[mark["segment"]][mark["start"] : mark["end"]] for mark in done["overlay"]]
        return list(zip(words, (mark["translation"] for mark in done["overlay"]), strict=True)), done["unknown"]

    def test_the_longest_term_wins_and_words_are_whole(self):
        assert self.marks("Bratkartoffeln", "eis", "Eisbein") == (
            [("Bratkartoffeln", "fried potatoes"), ("eis", "ice cream")],
            1,
        )
        assert self.marks("pommes de terre sautées", source="fr", target="it") == ([("pommes de terre", "patate")], 1)

    @pytest.mark.parametrize("asked", ['{"segments": ["a"], "source": "xx"}', '{"source": "de"}', "[1]", "{", ""])
    def test_what_makes_no_sense_is_said(self, asked):
        done = run_forked([sys.executable, OVERLAY, asked])
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("main.py: ")
