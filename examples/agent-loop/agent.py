"""An agent that does a task with skills from MCP: it finds a skill, reads it, calls it, and answers.

Every agent has this loop: a policy gets the task and the history, and returns the next action; the loop performs it and
adds the result. The policy here is a script of thirty lines that understands one kind of question, in place of a model.
Replace it with a model and the tools that the server lists; nothing else changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

SKILLS = Path(__file__).parents[1] / "skills"
TASK = "An order of Friday 2026-11-20 is delivered 3 working days later. On which date?"
MOST_STEPS = 12


class Step(NamedTuple):
    """One turn of the loop: the tool that was called, with what, and what it answered."""

    tool: str
    arguments: dict[str, Any]
    is_error: bool
    text: str
    facts: Any


class Call(NamedTuple):
    """What a policy decides: to call a tool, and why."""

    tool: str
    arguments: dict[str, Any]
    why: str


class Answer(NamedTuple):
    """What a policy decides in the end."""

    text: str


class ScriptedPolicy:
    """Decides what to do next by rules. It stands where a model would, and no rule names a skill."""

    def decide(self, task: str, steps: list[Step]) -> Call | Answer:
        """Return the next call of a tool, or the answer."""
        done = {step.tool: step for step in steps}
        if steps and steps[-1].is_error:
            return Answer(f"I could not do it: {steps[-1].text}")
        if "find_skills" not in done:
            return Call("find_skills", {"query": task, "limit": 5}, "is there a skill for this?")
        found = [skill for skill in done["find_skills"].facts["skills"] if skill["callable"]]
        if not found:
            return Answer("I found no skill that can be called for this.")
        name = found[0]["name"]
        if "read_skill_file" not in done:
            return Call("read_skill_file", {"name": name}, "its instructions come before its first use")
        if "describe_skill" not in done:
            return Call("describe_skill", {"name": name}, "which inputs does it take?")
        if "call_skill" not in done:
            inputs = self.fill_in(task, done["describe_skill"].facts["input_schema"])
            return Call("call_skill", {"name": name, "arguments": inputs}, "the task says all that is required")
        run = steps[-1].facts
        if run["status"] == "running":
            return Call("execution_status", {"execution_id": run["run_id"], "wait_seconds": 20}, "it takes longer")
        return Answer(f"{run['output'].get('end', run['output'])} ({name})")

    def fill_in(self, task: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return values from the task for inputs whose descriptions ask for a date or a number of days."""
        values: dict[str, Any] = {}
        dates, numbers = re.findall(r"\d{4}-\d\d-\d\d", task), re.findall(r"(?<![\d-])\d{1,3}(?![\d-])", task)
        for name, one in schema["properties"].items():
            if one.get("type") == "integer" and numbers:
                values[name] = int(numbers.pop(0))
            elif one.get("type") == "string" and "date" in one.get("description", "").lower() and dates:
                values[name] = dates.pop(0)
        return values


async def work(client: Client, task: str, policy: ScriptedPolicy) -> str:
    """Do a task; return the answer. Every step is printed."""
    steps: list[Step] = []
    for number in range(1, MOST_STEPS + 1):
        decided = policy.decide(task, steps)
        if isinstance(decided, Answer):
            return decided.text
        print(f"{number}  {decided.tool} {json.dumps(decided.arguments)}\n   ({decided.why})")
        result = await client.call_tool(decided.tool, decided.arguments)
        text = "\n".join(getattr(item, "text", f"[{item.type}]") for item in result.content)
        steps.append(Step(decided.tool, decided.arguments, result.is_error, text, result.structured_content))
        print(f"   -> {shortened(steps[-1])}\n")
    return f"I gave up after {MOST_STEPS} steps."


def shortened(step: Step) -> str:
    """Return what a step gave, in a line or two."""
    if step.facts and "skills" in step.facts:
        return ", ".join(skill["name"] + (" (callable)" * skill["callable"]) for skill in step.facts["skills"])
    if step.facts and "input_schema" in step.facts:
        return "takes " + ", ".join(step.facts["input_schema"]["properties"])
    lines = step.text.strip().splitlines()
    return (
        lines[0] if len(lines) == 1 else f"{len(lines)} lines, among them {next(x for x in lines if x[:2] == '# ')!r}"
    )


@contextmanager
def connection(options: argparse.Namespace):
    """Give what the client connects to: a URL, or a process that is started for it and ended with it."""
    if options.url:
        fields = {"Authorization": f"Bearer {options.token}"} if options.token else {}
        patience = httpx2.Timeout(30, read=300)  # as MCP recommends: a call may take its time
        yield streamable_http_client(options.url, http_client=httpx2.AsyncClient(headers=fields, timeout=patience))
        return
    with tempfile.TemporaryDirectory(prefix="agent-loop-") as state:
        arguments = ["-m", "skillwire", "mcp", str(options.skills), "--execute", "--grant-all"]
        server = StdioServerParameters(command=sys.executable, args=arguments, env={"SKILLWIRE_HOME": state})
        with open(Path(state) / "log", "w") as log:
            yield stdio_client(server, errlog=log)


async def main() -> None:
    """Read the command line, do the task."""
    parser = argparse.ArgumentParser(description="Do a task with skills that are found over MCP.")
    parser.add_argument("task", nargs="?", default=TASK)
    parser.add_argument("--skills", type=Path, default=SKILLS, help="folder that skillwire mcp is started with")
    parser.add_argument("--url", help="of an endpoint instead, such as http://127.0.0.1:8000/mcp")
    parser.add_argument("--token", help="what is shown to that endpoint")
    options = parser.parse_args()
    with connection(options) as server:
        async with Client(server) as client:
            print(f"task: {options.task}\n")
            print("answer:", await work(client, options.task, ScriptedPolicy()))


if __name__ == "__main__":
    asyncio.run(main())
