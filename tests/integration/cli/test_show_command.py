"""What ``show`` prints of a manifest that says how its skill's health is found out."""

import json

import pytest
from tests.support.raw_server import RawServer, index_of, pages
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.cli.main import run
from skillwire.cli.show import _manifest_facts


@pytest.mark.parametrize(
    ("health", "told"),
    [
        ({"entrypoint": "look.py", "export": "check", "interval": 30}, "look.py check"),
        ({"url": "/healthz"}, "/healthz"),
        ({"interval": 30}, "by a function"),
        ({"url": ["a stranger's"]}, "by a function"),
    ],
)
def test_how_health_is_found_out_is_shown(health, told):
    assert dict(_manifest_facts({"health": health}))["health"] == told


@pytest.mark.parametrize("manifest", [{}, {"health": {}}, {"health": "a stranger's"}])
def test_a_manifest_without_it_shows_nothing_of_it(manifest):
    assert "health" not in dict(_manifest_facts(manifest))


FORECAST = {
    **DESCRIPTOR,
    "inputs": [
        {"name": "place", "type": "string", "description": "Where \x1b[31mto look.", "required": True},
        {"name": "days", "type": "number", "description": "How far.", "required": False, "default": 7},
    ],
    "output": {"content_type": "application/json", "schema": {"type": "object"}},
    "auth": {"type": "api_key", "header": "X-API-Key", "description": "Ask us for a key."},
    "access": "restricted",
}


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """Serve an index of Skill Sharing and two descriptors, one of them of a newer version; return host and port."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    with RawServer(pages(found)) as server:
        here = f"http://127.0.0.1:{server.port}"
        newer = ENTRY | {"id": "example-corp/newer", "name": "Newer", "descriptor_url": f"{here}/newer.json"}
        entry = ENTRY | {"descriptor_url": f"{here}/forecast.json", "access": "restricted"}
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry, newer]}
        found["/.well-known/skill-sharing"] = index
        found["/.well-known/skill-sharing?type=api"] = index
        found["/forecast.json"] = {
            **FORECAST,
            "endpoint": {"url": f"{here}/invoke", "method": "POST", "timeout_ms": 30000},
        }
        found["/newer.json"] = {**DESCRIPTOR, "id": "example-corp/newer", "protocol": {"version": "2.1.0"}}
        yield f"127.0.0.1:{server.port}"


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_find_prints_type_and_access(origin, capsys):
    assert run(["find", "weather", "--from", origin, "--type", "api"]) == 0
    said = capsys.readouterr()
    assert lines(said.out) == [
        "example-corp/forecast 2.1.0 callable (api) restricted Tells the weather.",
        "example-corp/newer 2.1.0 callable (api) Tells the weather.",
    ]
    assert lines(said.err) == [f"show details: skillwire show http://{origin}/forecast.json"]


def test_find_hands_the_facts_to_scripts(origin, capsys):
    assert run(["find", "--from", origin, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["hits"][0]
    assert (first["name"], first["digest"], first["found_via"]) == ("example-corp/forecast", None, "skill-sharing")
    assert first["shared"] == {
        "id": "example-corp/forecast",
        "title": "Forecast",
        "capability_type": "api",
        "access": "restricted",
        "provider": "Example",
        "descriptor_url": f"http://{origin}/forecast.json",
    }


def test_find_refuses_another_type(origin, capsys):
    assert run(["find", "--from", origin, "--type", "tool"]) == 2
    assert "plugin" in capsys.readouterr().err


@pytest.mark.parametrize("reference", ["{}/forecast", "{}/example-corp/forecast", "http://{}/forecast.json"])
def test_show_says_how_it_is_called_and_what_login_it_needs(origin, capsys, reference):
    assert run(["show", reference.format(origin)]) == 0
    said = capsys.readouterr()
    told = lines(said.out)
    assert told[0] == "example-corp/forecast 2.1.0"
    for line in (
        "digest none: the skill is called, not installed",
        "found via skill-sharing",
        "access restricted",
        f"endpoint POST http://{origin}/invoke",
        "time limit 30 s",
        "auth an API key in X-API-Key",
        "Ask us for a key.",
        f"log in skillwire auth login http://{origin}",
        "days number default 7 How far.",
        "output application/json",
    ):
        assert line in told
    assert "\x1b" not in said.out
    assert "call it: skillwire call " in said.err
    assert "skillwire add" not in said.err


def test_show_says_of_restricted_instructions_that_a_login_shows_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    found: dict[str, object] = {}
    with RawServer(pages(found)) as server:
        here = f"http://127.0.0.1:{server.port}"
        facts = {"access": "restricted", "capability_type": "knowledge"}
        entry = ENTRY | facts | {"descriptor_url": f"{here}/forecast.json"}
        found["/forecast.json"] = DESCRIPTOR | facts
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry]}
        found["/.well-known/skill-sharing"] = index
        assert run(["show", f"127.0.0.1:{server.port}/forecast"]) == 0
        said = capsys.readouterr()
        assert "digest none: shown after a login that may read the skill" in lines(said.out)
        assert f"log in first: skillwire auth login {here}" in said.err
        assert run(["show", f"127.0.0.1:{server.port}/forecast", "--token", "key"]) == 0
        assert "log in first" not in capsys.readouterr().err


def test_show_says_of_a_skill_of_both_protocols_how_it_is_called_and_added(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    listed = {"name": "forecast", "type": "skill-md", "description": "Tells the weather.", "url": "/forecast.md"}
    found: dict[str, object] = {
        "/.well-known/agent-skills/index.json": index_of({**listed, "digest": f"sha256:{'0' * 64}"}),
    }
    with RawServer(pages(found)) as server:
        here = f"http://127.0.0.1:{server.port}"
        reference = f"127.0.0.1:{server.port}/forecast"
        entry = ENTRY | {"descriptor_url": f"{here}/forecast.json"}
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry]}
        found["/.well-known/skill-sharing"] = index
        endpoint = {"url": f"{here}/invoke", "method": "POST"}
        scale: dict[str, object] = {
            "name": "scale",
            "type": "string",
            "description": "Scale.",
            "required": False,
            "default": "K",
        }
        scale["schema"] = {"enum": ["C", "K"]}
        inputs = [*FORECAST["inputs"], scale]
        found["/forecast.json"] = {**FORECAST, "access": "public", "inputs": inputs, "endpoint": endpoint}
        assert run(["show", reference]) == 0
        said = capsys.readouterr()
        told = lines(said.out)
        assert "found via agent-skills 0.2.0, skill-sharing" in told
        assert told[told.index("inputs") :] == [
            "inputs",
            "place string required Where [U+001B][31mto look.",
            "days number default 7 How far.",
            'scale string default "K"; one of "C", "K" Scale.',
        ]
        assert f"call it: skillwire call {reference} place=..." in lines(said.err)
        del found["/forecast.json"]
        assert run(["show", reference, "--refresh"]) == 0
        said = capsys.readouterr()
        assert "warning[SKILL_NOT_FOUND]: the index names a descriptor that is not there" in said.err
        assert "inputs" not in said.out
        assert "call it" not in said.err
        assert f"add it: skillwire add {reference}" in lines(said.err)
        del found["/.well-known/skill-sharing"]
        assert run(["show", reference, "--refresh"]) == 0
        assert "call it" not in capsys.readouterr().err


def test_a_quarantined_skill_is_not_offered_as_the_next_step(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    state = {"status": "quarantined", "reason": "steals keys"}
    entry = {"name": "notes", "type": "skill-md", "description": "Keeps notes.", "url": "/notes/SKILL.md"}
    index = index_of({**entry, "digest": "sha256:" + "0" * 64, "status": state})
    with RawServer(pages({"/.well-known/agent-skills/index.json": index})) as server:
        assert run(["show", f"127.0.0.1:{server.port}/notes"]) == 0
    said = capsys.readouterr()
    assert "status quarantined steals keys" in lines(said.out)
    assert lines(said.err) == ["read more: skillwire explain QUARANTINED"]


def test_show_hands_the_descriptor_to_scripts(origin, capsys):
    assert run(["show", f"{origin}/forecast", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["type"], document["skill"]["name"]) == ("none", "example-corp/forecast")
    assert document["descriptor"]["inputs"] == FORECAST["inputs"]


def test_show_of_a_newer_version_says_both_versions_and_the_range(origin, capsys):
    assert run(["show", f"{origin}/newer"]) == 1
    said = capsys.readouterr().err
    assert "error[VERSION_INCOMPATIBLE]: Protocol version 2.1.0 is not compatible with consumer version 1.0.0" in said
    assert "Versions <2.0.0 of the protocol are read here, and the document wants 2.1.0." in said


def test_which_says_that_it_is_called_and_shows_each_lookup(origin, capsys):
    assert run(["which", f"{origin}/forecast", "--explain"]) == 0
    told = lines(capsys.readouterr().out)
    assert told[:2] == [
        f"example-corp/forecast 2.1.0 http://{origin}/forecast.json",
        "listed by Skill Sharing, which has no digests: it is called, not installed",
    ]
    at = next(place for place, line in enumerate(told) if line.endswith(f"http://{origin}/.well-known/skill-sharing"))
    assert told[at + 1] == "index skill-sharing, 2 skills"


def test_add_refuses_before_it_asks_anything(origin, capsys, tmp_path):
    assert run(["add", f"{origin}/forecast", "--yes"]) == 5
    said = capsys.readouterr().err
    assert "error[AUTH_REQUIRED]: example-corp/forecast is restricted, and you are not logged in there" in said
    assert f"fix: Run skillwire auth login http://{origin}." in said
    assert not (tmp_path / ".agents").exists()
