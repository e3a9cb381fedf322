"""``--timeout`` and ``rungs`` of the commands that read origins: one limit for all requests, one trace of sources."""

import json

import pytest
from tests.support.raw_server import RawServer, index_of, pages

from skillwire import Client, FetchError
from skillwire.cli.main import run
from skillwire.model.digest import Digest
from skillwire.wire.exchange import TimeLimit

CONTENT = b"---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n"
ENTRY = {"name": "notes", "type": "skill-md", "description": "Writes notes.", "url": "/a", "digest": Digest.of(CONTENT)}


def silent(peer):
    peer.request()
    peer.request()  # until the client goes


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def origin():
    served = {"/.well-known/agent-skills/index.json": index_of(ENTRY), "/a": CONTENT}
    with RawServer(pages(served)) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture
def mute():
    with RawServer(silent) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "words",
    [
        "find --from {}",
        "show {}/notes",
        "cat {}/notes SKILL.md",
        "add {}/notes",
        "which {}/notes",
        "diff {}/notes 1.0.0",
    ],
)
def test_an_origin_that_never_answers_costs_the_time_that_is_allowed(mute, capsys, words):
    assert run([*words.format(mute).split(), "--timeout", "1s"]) == 5
    assert "error[TIMEOUT]" in capsys.readouterr().err


def test_a_silent_origin_leaves_half_of_the_time_to_the_next(mute, origin, capsys, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_SOURCES", f"{mute} {origin}")
    for words in (["find"], ["show", "notes"], ["which", "notes"]):
        assert run([*words, "--timeout", "6s"]) == 0
        assert "notes" in capsys.readouterr().out


def test_a_program_limits_one_question_or_all(mute):
    with Client() as client:
        for ask in (client.index, client.show, client.plan, client.add):
            with pytest.raises(FetchError, match="TIMEOUT"):
                ask(f"{mute}/notes", timeout=0.2)
        error = client.which(f"{mute}/notes", timeout=0.2).error
        assert error is not None
        assert error.code == "TIMEOUT"
        client.limit = TimeLimit(0.2)
        with pytest.raises(FetchError, match="TIMEOUT"):
            client.find("", mute)


def test_the_hint_for_a_time_limit_is_one(capsys):
    assert run(["show", "example.com/notes", "--timeout", "1ms"]) == 2
    assert "such as 30s" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["show {}/notes", "add {}/notes --yes --dry-run", "add {}/notes --yes"])
def test_the_sources_that_were_tried_are_in_the_document(origin, capsys, words):
    assert run([*words.format(origin).split(), "--json"]) == 0
    (rung,) = json.loads(capsys.readouterr().out)["rungs"]
    assert (rung["name"], rung["outcome"], rung["found"]) == ("named", "found", 1)
