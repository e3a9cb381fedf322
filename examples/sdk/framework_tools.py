"""Give an agent the skills of an origin as tools: python framework_tools.py 127.0.0.1:8000

Needs skillwire[pydantic-ai]. The model is one for tests, which needs no key; give the agent a real one instead.
"""

import sys

import skillwire
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def decide(messages, info):
    last = messages[-1].parts[0]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"The tool says: {last.content}")])
    print("tools:", ", ".join(tool.name for tool in info.function_tools))
    return ModelResponse(parts=[ToolCallPart("working-days", {"start": "2026-04-02", "days": 5})])


tools = skillwire.tools(sys.argv[1], "pydantic-ai", names=["working-days", "csv-profile"])
agent = Agent(FunctionModel(decide), tools=tools)
print(agent.run_sync("Which date is five working days after 2 April 2026?").output)
