"""``skillwire which``: what it prints, and what it hands to scripts."""

import json
import re
import time

import pytest
from tests.support.git_server import GitServer, Repository
from tests.support.raw_server import RawServer, index_of, pages

from skillwire.cli.main import run
from skillwire.model.digest import Digest

DIGEST = Digest.of(b"content")
ENTRY = {"name": "code-review", "type": "skill-md", "description": "d", "url": "/a.md", "digest": DIGEST}


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """Serve an index of one skill at the 0.2.0 path, and nothing else; return host and port."""
    monkeypatch.chdir(tmp_path)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # what is told of freshness depends on no pause
    index = {"/.well-known/agent-skills/index.json": index_of(ENTRY)}
    with RawServer(pages(index, "Cache-Control: max-age=600")) as server:
        yield f"127.0.0.1:{server.port}"


def test_it_names_the_url_and_the_digest(origin, capsys):
    assert run(["which", f"{origin}/code-review"]) == 0
    assert capsys.readouterr().out == f"code-review  http://{origin}/a.md\n  {DIGEST}\n"


def test_it_explains_every_lookup(origin, capsys, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_TOKENS", f"http://{origin}=hush")
    monkeypatch.setenv("SKILLWIRE_SOURCES", f"127.0.0.1:1 {origin} 127.0.0.1:2")
    assert run(["which", "code-review", "--explain"]) == 0
    said = capsys.readouterr().out
    lines = [line.strip() for line in said.splitlines()]
    at = lines.index(f"2  http://{origin}/.well-known/agent-skills/index.json")
    assert lines[at + 1 : at + 5] == [
        "index 0.2.0, 1 skill",
        "fetched just now; fresh for 10 min",
        "with the credential from SKILLWIRE_TOKENS",
        "the address policy allows it",
    ]
    assert [line for line in lines if line.endswith("[CONNECT_FAILED]")]
    assert "reason  it is the first of 3 sources, in their order, whose index lists it" in lines
    assert "decision       asks before installing" in lines
    assert lines[-1] == "installed  no"
    assert "hush" not in said


def test_the_document_holds_what_is_explained(origin, capsys):
    assert run(["which", f"{origin}/code-review", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "skillwire/which/1"
    assert document["skills"][0]["digest"] == DIGEST
    assert document["lookups"][0]["answered_by"] == "origin"
    assert document["lookups"][0]["fresh_for_seconds"] == 600.0
    assert document["trust"]["decision"] == "ask"
    assert (document["error"], document["installed"]) == (None, [])


def test_what_is_not_found_is_an_error_and_can_be_explained(origin, capsys):
    assert run(["which", f"{origin}/code-reviw", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["schema"] == "skillwire/error/1"
    assert run(["which", f"{origin}/code-reviw", "--explain"]) == 3
    said = capsys.readouterr()
    assert f"http://{origin}/code-reviw/.well-known/skills/index.json\n     no index there\n" in said.out
    assert "fix: Did you mean code-review?" in said.err
    assert run(["which", f"{origin}/code-reviw", "--explain", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "SKILL_NOT_FOUND"
    assert len(document["lookups"]) == 7


def test_offline_says_what_the_cache_does_not_hold(origin, capsys):
    assert run(["which", f"{origin}/code-review", "--explain", "--offline"]) == 5
    said = capsys.readouterr().out
    assert said.count("the index is not in the cache [OFFLINE]") == 5
    assert "no index there" not in said


def test_what_only_offline_use_allows_is_marked_as_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with RawServer(pages({"/.well-known/agent-skills/index.json": index_of(ENTRY)})) as server:
        origin = f"127.0.0.1:{server.port}"
        assert run(["which", f"{origin}/code-review"]) == 0
        assert "stale" not in capsys.readouterr().out
    assert run(["which", f"{origin}/code-review", "--explain", "--offline"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"code-review  http://{origin}/a.md  stale\n")
    assert "stale, which --offline alone uses" in said


@pytest.mark.parametrize("place", ["http", "file"])
def test_a_repository_is_explained_without_a_question_to_skill_sharing(tmp_path, monkeypatch, capsys, place):
    monkeypatch.chdir(tmp_path)
    Repository(tmp_path / "repos/r").skill("skills/a").commit("v1.0.0")
    with GitServer(tmp_path / "repos") as server:
        url = f"{server.url}/r/.git" if place == "http" else f"file://{tmp_path}/repos/r"
        assert run(["which", f"{url}//skills/a", "--explain"]) == 0
        assert "index git, 1 skill" in capsys.readouterr().out
        assert not [request for request in server.requests if "well-known" in request]


def test_several_skills_are_named_and_an_unknown_digest_leads_to_the_versions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Repository(tmp_path / "r").skill("skills/a").skill("skills/b").commit("v1.0.0")
    assert run(["show", f"file://{tmp_path}/r"]) == 2
    assert "means 2 skills: a, b\n" in capsys.readouterr().err
    assert run(["show", f"file://{tmp_path}/r//skills/a@sha256:{'0' * 64}"]) == 3
    command = re.search(r"fix: List the versions: skillwire (.*)\.\n", capsys.readouterr().err)
    assert command is not None
    assert run(command[1].split()) == 0
    assert capsys.readouterr().out == "versions\n  1.0.0\n"
