"""``skillwire.tools`` in agents of three frameworks: each shows our tools to a model, calls them, and returns results.

The models are those that the frameworks have for tests, or a script: no network but loopback.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import started

import skillwire
from skillwire import Client
from skillwire.errors import NotFoundError, UsageError

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
SERVICE = f"""
from typing import Annotated
import msgspec, skillwire

publisher = skillwire.Publisher("acme")

@publisher.skill
def add_up(first: int, config: Annotated[int, msgspec.Meta(ge=1)] = 2) -> dict[str, int]:
    '''Add two numbers. Use when two numbers are to be added.

    Args:
        first: The first number.
    '''
    if first < 0:
        raise ValueError("the first number is negative")
    return {{"sum": first + config}}

@publisher.skill(access="private")
def secret_plan() -> None:
    '''Plan in secret. Use when a secret plan is asked for.'''

folders = ["{EXAMPLES / "csv-profile"}"]
publisher.serve(port=0, folders=folders, access_log=False, on_ready=lambda address: print(address, flush=True))
"""
#: What a model sees of the two skills that everyone may use.
ADD_UP = {
    "type": "object",
    "properties": {
        "first": {"type": "integer", "description": "The first number."},
        "config": {"type": "integer", "minimum": 1, "default": 2},
    },
    "additionalProperties": False,
    "required": ["first"],
}
#: Arguments that a model gives → the beginning of what it is told.
ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("add-up", {"first": 3}, '{"sum": 5}'),
    ("add-up", {"first": 3, "config": 4}, '{"sum": 7}'),
    ("add-up", {"first": "x"}, "VALIDATION_ERROR: "),
    ("add-up", {"first": -1}, "EXECUTION_FAILED: the first number is negative"),
    ("read_skill", {"name": "csv-profile"}, "# CSV profile"),
    ("read_skill", {"name": "csv-profile", "path": "references/remedies.md"}, "# Remedies"),
    ("read_skill", {"name": "csv-profile", "path": "none"}, "FILE_NOT_FOUND: "),
]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "service.py").write_text(SERVICE)
    with started(folder / "service.py", home=folder / "home", may_log_errors=True) as address:
        yield address


@pytest.fixture
def client(tmp_path):
    with Client(tmp_path) as client:
        yield client


async def in_openai_agents(tools: list[Any], name: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    """Let a scripted model call a tool; return the schema that it was sent, and what it was told."""
    from agents import Agent, ModelResponse, RunConfig, Runner, Usage  # noqa: PLC0415  # takes seconds
    from agents.models.interface import Model  # noqa: PLC0415  # same
    from openai.types.responses import (  # noqa: PLC0415  # same
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    turns: list[dict[str, Any]] = []

    class Scripted(Model):
        async def get_response(self, *_, **turn):
            turns.append(turn)
            if len(turns) == 1:
                said = json.dumps(arguments)
                call = ResponseFunctionToolCall(call_id="1", name=name, arguments=said, type="function_call")
                return ModelResponse([call], Usage(), None)
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            last = ResponseOutputMessage(id="2", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse([last], Usage(), None)

        def stream_response(self, *_, **__):
            raise AssertionError

    config = RunConfig(model=Scripted(), tracing_disabled=True)
    await Runner.run(Agent(name="tester", tools=tools), "Do it.", run_config=config)
    schema = {tool.name: tool.params_json_schema for tool in turns[0]["tools"]}
    return schema, turns[1]["input"][-1]["output"]


async def in_pydantic_ai(tools: list[Any], name: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    from pydantic_ai import Agent  # noqa: PLC0415  # takes seconds
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415  # same
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415  # same

    seen: list[Any] = []

    def respond(messages, info):
        seen.append((messages, info))
        return ModelResponse(parts=[ToolCallPart(name, arguments) if len(seen) == 1 else TextPart("done")])

    await Agent(FunctionModel(respond), tools=tools).run("Do it.")
    part = seen[1][0][-1].parts[0]
    schema = {tool.name: tool.parameters_json_schema for tool in seen[0][1].function_tools}
    return schema, part.content


async def in_langchain(tools: list[Any], name: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415  # takes seconds

    functions = [convert_to_openai_tool(tool)["function"] for tool in tools]
    [tool] = [tool for tool in tools if tool.name == name]
    call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
    message = await tool.ainvoke(call)
    assert await asyncio.to_thread(tool.invoke, call) == message
    failed = message.content.partition(": ")[0].isupper()
    assert message.status == ("error" if failed else "success")
    return {function["name"]: function["parameters"] for function in functions}, message.content


AGENTS = {"openai-agents": in_openai_agents, "langchain": in_langchain, "pydantic-ai": in_pydantic_ai}


@pytest.mark.parametrize("framework", AGENTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the frameworks
def test_an_agent_sees_calls_and_reads_the_skills_that_it_may_use(framework, origin, client):
    tools = skillwire.tools(origin, framework, client=client)
    for name, arguments, answer in ANSWERS:
        schema, content = asyncio.run(AGENTS[framework](tools, name, arguments))
        assert list(schema) == ["add-up", "read_skill"], "a private skill has no tool"
        assert schema["add-up"] == ADD_UP
        assert schema["read_skill"]["properties"]["name"]["enum"] == ["csv-profile"]
        assert content.startswith(answer), content


def test_instructions_are_listed_with_what_they_are_for(origin, client):
    [tool] = skillwire.tools(origin, "langchain", names=["csv-profile"], client=client)
    assert (tool.name, "\n- csv-profile: Profiles a CSV" in tool.description) == ("read_skill", True)
    assert "\nFiles: references/remedies.md, scripts/csv_profile.py" in tool.invoke({"name": "csv-profile"})
    assert tool.invoke({"name": "other"}).startswith("SKILL_NOT_FOUND: there is no skill other")


@pytest.mark.parametrize(
    ("framework", "names", "message"),
    [
        ("autogen", (), "framework= one of langchain, openai-agents, pydantic-ai"),
        ("langchain", ["add-upp"], "offers no skill add-upp"),
        ("langchain", ["secret-plan"], "offers no skill secret-plan"),
    ],
)
def test_what_cannot_be_offered_is_an_error(framework, names, message, origin, client):
    with pytest.raises((UsageError, NotFoundError), match=message):
        skillwire.tools(origin, framework, names=names, client=client)


def test_a_framework_that_is_missing_names_its_extra(origin, client, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(UsageError, match=r"skillwire\[pydantic-ai\]"):
        skillwire.tools(origin, "pydantic-ai", client=client)
