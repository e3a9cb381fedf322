"""The tools for agent frameworks name arguments of Python in their errors, and no option of the command line."""

import asyncio
import sys
from types import SimpleNamespace

import pytest
from tests.unit.client.test_sharing import LISTED, ORIGIN, Place
from tests.unit.protocols.sharing_samples import ENTRY

import skillwire
from skillwire.errors import SkillwireError

KEYED = f"{ORIGIN}/skills/keyed.json"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(sys.modules, "agents", SimpleNamespace(FunctionTool=SimpleNamespace))
    return Place(tmp_path)


def refused(origin="https://skills.example.com", framework="openai-agents", **options):
    with pytest.raises(SkillwireError) as caught:
        skillwire.tools(origin, framework, **options)
    fix = caught.value.diagnostics().fix
    assert "--" not in fix
    return caught.value.code, fix


def test_a_client_to_be_awaited_is_refused(place):
    fix = refused(client=skillwire.AsyncClient(place.client.root))
    assert fix == ("USAGE", "Give a skillwire.Client: the tools call it in threads, and an agent awaits them.")


def test_the_command_installs_a_missing_framework(monkeypatch):
    monkeypatch.setitem(sys.modules, "agents", None)
    assert refused()[1].endswith("or in a checkout pip install '.[openai-agents]'.")


def test_errors_name_arguments(place):
    assert refused(framework="autogen", client=place.client)[1].startswith("Give framework= one of langchain, ")
    place.list("forecast", "advice")
    named = refused(names=["zebra"], client=place.client)
    assert named == ("SKILL_NOT_FOUND", "Give names= that it offers: advice, forecast.")
    assert refused(names=["forecasts"], client=place.client)[1] == "Did you mean forecast?"
    offline = place.open(place.client.root, offline=True)
    assert refused("https://other.example", client=offline) == ("OFFLINE", "Client(offline=False)")


@pytest.mark.parametrize("tokens", [{}, {"https://skills.example.com": "TOKEN"}])
def test_a_refusal_names_where_tokens_are_given(tokens, place):
    place.publisher.answer(LISTED, b"", status=401)
    code, fix = refused(client=place.open(place.client.root, tokens=tokens))
    assert (code, fix) == ("ACCESS_DENIED", 'client.set_token("https://skills.example.com", "TOKEN")')


def test_the_agent_is_told_arguments_too(place):
    place.list("forecast")
    [tool] = skillwire.tools("skills.example.com", "openai-agents", client=place.client)
    place.publisher.answer("https://skills.example.com/forecast.md", b"", status=401)
    told = asyncio.run(tool.on_invoke_tool(None, '{"name": "forecast"}'))
    assert told.startswith("ACCESS_DENIED: ")
    assert "client.set_token(" in told
    assert "--" not in told
    unknown = asyncio.run(tool.on_invoke_tool(None, '{"name": "zebra"}'))
    assert unknown == "SKILL_NOT_FOUND: there is no skill zebra\nUse a listed name."


def test_skills_that_the_credentials_may_not_use_are_left_out_and_reported(place):
    place.list("advice")
    secret, keyed = ENTRY | {"access": "restricted"}, ENTRY | {"id": "example-corp/keyed", "descriptor_url": KEYED}
    guide = ENTRY | {"id": "example-corp/guide", "capability_type": "knowledge", "access": "restricted"}
    place.share(secret, keyed, guide)
    place.describe(access="restricted")
    place.describe(KEYED, id="example-corp/keyed", auth={"type": "api_key"})
    [tool] = skillwire.tools(ORIGIN, "openai-agents", client=place.client)
    assert tool.params_json_schema["properties"]["name"]["enum"] == ["advice"]
    left_out = [(one.code, one.message.partition(" ")[0]) for one in place.findings if one.level == "note"]
    assert left_out == [("AUTH_REQUIRED", name) for name in ("forecast", "guide", "keyed")]

    with_key = place.open(place.client.root, tokens={ORIGIN: "TOKEN", "https://example.com": "TOKEN"})
    found = skillwire.tools(ORIGIN, "openai-agents", client=with_key)
    assert [tool.name for tool in found] == ["forecast", "keyed", "read_skill"]
    assert found[-1].params_json_schema["properties"]["name"]["enum"] == ["advice", "guide"]


def test_no_tool_has_a_name_that_apis_of_models_refuse(place):
    ids = ["a.example/forecast", "b/forecast", "b/read_skill", "b/v1.5"]
    place.share(*(ENTRY | {"id": one, "descriptor_url": f"{ORIGIN}/{one}.json"} for one in ids))
    for one in ids:
        place.describe(f"{ORIGIN}/{one}.json", id=one)
    found = skillwire.tools(ORIGIN, "openai-agents", client=place.client)
    assert sorted(tool.name for tool in found) == ["a_example_forecast", "b_forecast", "b_read_skill", "v1_5"]
    [tool] = skillwire.tools(ORIGIN, "openai-agents", names=["b/forecast"], client=place.client)
    assert tool.name == "b_forecast"


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["a/v1.5", "a/v1_5"], ["a_v1_5", "a_v1_5_2"]),
        (["read/skill", "q/skill"], ["q_skill", "read_skill_2"]),
        (["z/a_b", "a/b", "c/b"], ["a_b", "a_b_2", "c_b"]),
        ([f"a/{'x' * 80}", f"b/{'x' * 80}y"], ["x" * 62 + "_2", "x" * 64]),
    ],
)
def test_each_skill_has_a_tool_of_its_own_name(ids, names, place):
    place.share(*(ENTRY | {"id": one, "descriptor_url": f"{ORIGIN}/{one}.json"} for one in ids))
    for one in ids:
        place.describe(f"{ORIGIN}/{one}.json", id=one)
    found = skillwire.tools(ORIGIN, "openai-agents", client=place.client)
    assert sorted(tool.name for tool in found) == names
    chosen = [skillwire.tools(ORIGIN, "openai-agents", names=[one], client=place.client)[0].name for one in ids]
    assert sorted(chosen) == names
