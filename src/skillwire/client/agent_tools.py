"""The skills of an origin as tools of an agent framework.

A callable skill becomes a tool: its inputs as JSON Schema, and a call that returns its output as text. Skills that are
instructions share the tool ``read_skill``, whose description lists them: an agent loads one when a task needs it. What
is listed, read and called is what the client's credentials allow: Skill Sharing lists restricted skills for all callers
(SSP §7.3), so one is left out where the client has no credential. Calls run in threads, so a framework may use
any event loop. A failure becomes text for the agent: code, message and fix.

Trust: an agent follows descriptions and instructions of the origin; escaped hidden characters cannot hide any of them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from skillwire import limits
from skillwire.client.endpoint_calls import parameters_of
from skillwire.client.skill import RemoteSkill
from skillwire.client.sync import Client
from skillwire.errors import (
    NotFoundError,
    SkillwireError,
    SourceLocation,
    UsageError,
    ValidationError,
    did_you_mean,
    first_of,
)
from skillwire.model.skill import SKILL_MD, Finding, is_callable
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.validation import inputs_schema
from skillwire.resolver.context import as_finding
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

Framework: TypeAlias = Literal["langchain", "openai-agents", "pydantic-ai"]

READ_SKILL: Final = "read_skill"
_MOST: Final = 128  # tools that the APIs of models take in one request
_SHOWN: Final = 5
_NAME_LENGTH: Final = 64  # characters that the APIs of models take in the name of a tool
_NO_TOOL: Final = re.compile(r"[^A-Za-z0-9_-]")  # what the APIs of models refuse in the name of a tool


class SkillTool(NamedTuple):
    """A tool before it is one of a framework; ``run`` takes the inputs, blocks, and raises SkillwireError."""

    name: str
    description: str
    schema: dict[str, Any]
    run: Callable[[Mapping[str, Any]], str]


def tools(
    origin: str,
    framework: Framework,
    *,
    names: Collection[str] = (),
    client: Client | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Return the skills of an origin as tools of an agent framework.

    Args:
        origin: as a user would type it. The agent follows what its skills say, so give origins that you trust.
        framework: ``langchain``, ``openai-agents`` or ``pydantic-ai``, each an extra of skillwire.
        names: of the skills to offer; by default all that the client may use.
        client: with the credentials to use; by default a new one. It must stay open while the tools are used.
        timeout: seconds that one call may take.

    Raises:
        UsageError: ``USAGE`` for a framework that is unknown or not installed, and for too many skills.
        NotFoundError: ``SKILL_NOT_FOUND`` for one of ``names``. Otherwise as :meth:`Client.find`.
    """
    if framework not in _FRAMEWORKS:
        fix = f"Give framework= one of {', '.join(_FRAMEWORKS)}."
        raise UsageError("USAGE", f"unknown framework {ascii(framework)[:40]}", fix=fix)
    package, make = _FRAMEWORKS[framework]
    try:
        module = importlib.import_module(package)
    except ImportError:
        extra = f"skillwire[{framework}] @ git+URL"
        fix = f"Install it where skillwire is: pip install '{extra}', or in a checkout pip install '.[{framework}]'."
        raise UsageError("USAGE", f"the framework {framework} is not installed", fix=fix) from None
    client = Client() if client is None else client
    if not isinstance(client, Client):
        fix = "Give a skillwire.Client: the tools call it in threads, and an agent awaits them."  # type: ignore[unreachable]  # untyped callers
        raise UsageError("USAGE", f"client= is of the type {type(client).__name__}", fix=fix)
    try:
        skills = _by_tool_name([skill for skill, _ in client.find("", origin)])
        ids = {skill.name: name for name, skill in skills.items()}
        names = [ids.get(name, name) for name in names]
        if missing := [name for name in names if name not in skills]:
            message = f"{origin} offers no skill {ascii(missing[0])[1:-1][:80]}"
            offered = f"Give names= that it offers: {first_of(sorted(skills), _SHOWN)}."
            fix = did_you_mean(missing[0], skills) or offered
            raise NotFoundError("SKILL_NOT_FOUND", message, fix=fix, in_python="")
        chosen = {name: skills[name] for name in sorted(names or skills)}
        if len(chosen) > _MOST:
            message = f"{origin} offers {len(chosen)} skills, and an agent takes at most {_MOST} tools"
            raise UsageError("USAGE", message, fix='Name those that it needs: names=["csv-profile"].')
        return [make(module, tool) for tool in _tools_of(chosen, client, timeout, is_strict=bool(names))]
    except SkillwireError as error:
        error.fix, error.in_python = error.in_python or error.fix, ""  # a program has no command line
        raise


def _by_tool_name(skills: list[RemoteSkill]) -> dict[str, RemoteSkill]:
    """Return skills by the last part of their ids, or by the whole id where others share that, as a tool is named.

    A name is cut to the length that a tool's has; one that is taken then gets a number, in the order of the ids.
    """
    short = {skill.name: _NO_TOOL.sub("_", skill.name.rpartition("/")[2]) for skill in skills}
    times = Counter([*short.values(), READ_SKILL])
    named: dict[str, RemoteSkill] = {}
    for skill_id, skill in sorted({skill.name: skill for skill in skills}.items()):
        whole = short[skill_id] if times[short[skill_id]] == 1 else _NO_TOOL.sub("_", skill_id)
        name, number = whole[:_NAME_LENGTH], 1
        while name in named or name == READ_SKILL:
            number += 1
            name = f"{whole[: _NAME_LENGTH - len(f'_{number}')]}_{number}"
        named[name] = skill
    return named


def _tools_of(
    skills: Mapping[str, RemoteSkill], client: Client, timeout: float | None, *, is_strict: bool
) -> list[SkillTool]:
    """Return a tool for each callable skill, and one for all instructions; report skills that the client cannot use."""
    found: list[SkillTool] = []
    instructions: dict[str, RemoteSkill] = {}
    for name, skill in skills.items():
        kind = (skill.rpc.kind or "action") if skill.rpc else None
        is_open, url, schema = skill.shared is None or skill.shared.access == "public", skill.url, None
        try:
            if skill.rpc and is_callable(kind, None):
                schema = inputs_schema(parameters_of(skill.described().manifest, skill.rpc.endpoint) or [])
            elif is_callable(kind, skill.shared and skill.shared.capability_type):
                descriptor = skill.descriptor()
                schema = inputs_schema(descriptor.inputs)
                is_open = is_open and descriptor.access == "public" and descriptor.auth.type == "none"
                url = descriptor.endpoint.url
        except SkillwireError as error:
            if is_strict:
                raise
            client._session.context.report(as_finding(error))  # noqa: SLF001  # the session of this package
            continue
        if not (is_open or is_strict or client._session.access.find_credential(parse_url(url))):  # noqa: SLF001  # same
            message, fix = (
                f"{name} is not public, and is left out",
                f'client.set_token("{parse_url(url).origin}", "TOKEN")',
            )
            client._session.context.report(Finding("AUTH_REQUIRED", "note", message, SourceLocation(url), fix))  # noqa: SLF001  # same
        elif schema is None:
            instructions[name] = skill
        else:
            found.append(SkillTool(name, skill.description, schema, partial(_call, skill, timeout)))
    if instructions:
        lines = [f"- {name}: {skill.description}" for name, skill in instructions.items()]
        text = "Read the instructions of a skill before a task that it is for, or one of its files.\n" + "\n".join(
            lines
        )
        properties = {
            "name": {"type": "string", "enum": list(instructions)},
            "path": {"type": "string", "description": "Path of a file of the skill.", "default": SKILL_MD},
        }
        schema = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
        found.append(SkillTool(READ_SKILL, text, schema, partial(_read, instructions)))
    return found


def _call(skill: RemoteSkill, timeout: float | None, inputs: Mapping[str, Any]) -> str:
    execution = skill.call(inputs, timeout=timeout).check()
    if isinstance(execution.output, bytes):
        return f"{len(execution.output):,} bytes of {execution.content_type}"
    return execution.output if isinstance(execution.output, str) else json.dumps(execution.output, ensure_ascii=False)


def _read(skills: Mapping[str, RemoteSkill], inputs: Mapping[str, Any]) -> str:
    name, path = str(inputs.get("name")), str(inputs.get("path") or SKILL_MD)
    if (skill := skills.get(name)) is None:
        message = f"there is no skill {ascii(name)[1:-1][:80]}"
        raise NotFoundError("SKILL_NOT_FOUND", message, fix="Use a listed name.", in_python="")
    if path == SKILL_MD:
        others = [] if skill.rpc else [file.path for file in skill.files() if file.path != SKILL_MD]
        return neutralise(skill.body().strip()) + ("\n\nFiles: " + ", ".join(others) if others else "")
    content = skill.open(path)
    try:
        return neutralise(content.decode())
    except UnicodeDecodeError:
        return f"{path} is not text: {len(content):,} bytes"


def _text_of(error: SkillwireError) -> str:
    """Return an error for an agent, which cannot run the commands that some general advice names."""
    fix = error.in_python or error.fix
    if error.code == "VALIDATION_ERROR":
        fix = "Correct the inputs, and call it again."
    return f"{error.code}: {error.message}" + (f"\n{fix}" if fix else "")


def _langchain(module: Any, tool: SkillTool) -> Any:
    class Tool(module.BaseTool):  # type: ignore[misc]  # a StructuredTool keeps inputs named config or run_manager
        def _run(self, /, **inputs: Any) -> str:
            try:
                return tool.run(inputs)
            except SkillwireError as error:
                raise module.ToolException(_text_of(error)) from error

        async def _arun(self, /, **inputs: Any) -> str:
            return await asyncio.to_thread(partial(self._run, **inputs))

    return Tool(name=tool.name, description=tool.description, args_schema=tool.schema, handle_tool_error=True)


def _openai_agents(module: Any, tool: SkillTool) -> Any:
    def call(arguments: str) -> str:
        try:
            inputs = load_json(arguments.encode() or b"{}", max_bytes=limits.CALL_INPUT_BYTES, source=tool.name)
            if not isinstance(inputs, dict):
                raise ValidationError("VALIDATION_ERROR", "the arguments are not an object")
            return tool.run(inputs)
        except SkillwireError as error:
            return _text_of(error)

    async def invoke(_: object, arguments: str) -> str:
        return await asyncio.to_thread(call, arguments)

    return module.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,  # a strict schema has no optional inputs
    )


def _pydantic_ai(module: Any, tool: SkillTool) -> Any:
    async def call(**inputs: Any) -> str:
        try:
            return await asyncio.to_thread(tool.run, inputs)
        except SkillwireError as error:
            if error.code == "VALIDATION_ERROR":
                raise module.ModelRetry(_text_of(error)) from error
            return _text_of(error)

    return module.Tool.from_schema(call, name=tool.name, description=tool.description, json_schema=tool.schema)


#: Framework → the module that it needs, and the function that makes its kind of tool.
_FRAMEWORKS: Final[dict[str, tuple[str, Callable[[Any, SkillTool], Any]]]] = {
    "langchain": ("langchain_core.tools", _langchain),
    "openai-agents": ("agents", _openai_agents),
    "pydantic-ai": ("pydantic_ai", _pydantic_ai),
}
