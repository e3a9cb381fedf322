"""Pinned skills: those that the operator makes tools of their own, with the inputs that they take.

A skill that is only read becomes a tool without inputs that gives its instructions. Who may not use a skill does not
see its tool. The name of a skill is a good name for a tool everywhere: models' interfaces take letters, digits,
hyphens and underscores; and ours all have an underscore, which no skill has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_types import Tool, ToolAnnotations
from msgspec import UNSET

from skillwire.bridges.mcp.blobs import blob_inputs, blob_schema
from skillwire.protocols.skill_sharing.nested_schemas import input_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.bridges.mcp.caller import Caller
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill

_NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


class Pinned:
    """The pinned skills of a server, by ``names``."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._kept: dict[str, tuple[Digest, Tool]] = {}

    def find(self, name: str, caller: Caller) -> Skill | None:
        """Return the pinned skill of this name, if the caller may use it."""
        return caller.usable.skills.get(name) if name in self._names else None

    async def tools(self, caller: Caller) -> list[Tool]:
        """Return the tools of the pinned skills that the caller may use, in the operator's order."""
        skills = (self.find(name, caller) for name in self._names)
        return [await self._tool(skill, caller) for skill in skills if skill is not None]

    async def _tool(self, skill: Skill, caller: Caller) -> Tool:
        digest, tool = self._kept.get(skill.name, (None, None))
        if tool is None or digest != skill.artifact.digest:
            schema = _NOTHING if skill.action is None else await input_schema_of(skill, caller)
            reads = skill.action is None
            hints = ToolAnnotations(read_only_hint=reads, open_world_hint=not reads)
            tool = Tool(name=skill.name, description=_description(skill), input_schema=schema, annotations=hints)
            self._kept[skill.name] = skill.artifact.digest, tool
        return tool


async def input_schema_of(skill: Skill, caller: Caller) -> dict[str, Any]:
    """Return the JSON Schema of the inputs of a skill that ``caller`` may use."""
    inputs = (await caller.describe(skill)).inputs
    blobs = await blob_inputs(skill, caller)
    properties: dict[str, Any] = {}
    for one in inputs:
        own = input_schema(one)
        if one.description and "description" not in own:
            own = {**own, "description": one.description}
        if one.default is not UNSET:
            own = {**own, "default": one.default}
        properties[one.name] = blob_schema(own) if one.name in blobs else own
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [one.name for one in inputs if one.required and one.default is UNSET]
    return {**schema, "required": required} if required else schema


def _description(skill: Skill) -> str:
    if skill.action is not None:
        return skill.description
    return f"Read the instructions of the skill {skill.name}: {skill.description}"
