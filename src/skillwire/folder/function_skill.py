"""The folder that a function would have: a SKILL.md to be read, and a skill.toml, written from its description.

So a skill that is a function is a skill like any other: it goes through the same strict rules, stands in every index,
is found by search and shown on a page. There is no file of its code in it; it runs where it was registered.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skillwire.folder.files import SKILL_MD
from skillwire.model.access import Access
from skillwire.model.skill import FileContent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.folder.typed_function import FunctionInput, TypedFunction

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_MS: Final = 1000
_EXAMPLES: Final = {
    "string": "text",
    "number": "1.5",
    "integer": "1",
    "boolean": "true",
    "array": "'[]'",
    "object": "'{}'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFacts:
    """What is said of a function's skill beyond its hints and docstring.

    Args:
        timeout: seconds that a call may take; None for what the server allows.
        retry: how many attempts may be made. backoff: seconds before the second.
    """

    name: str
    description: str
    version: str = "0.1.0"
    access: Access = Access.PUBLIC
    capability_type: str | None = None
    tags: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    timeout: float | None = None
    retry: int = 1
    backoff: float = 1.0
    idempotent: bool = False


def function_files(typed: TypedFunction, facts: FunctionFacts) -> tuple[FileContent, ...]:
    """Return the files of a function's skill.

    Raises:
        ValueError: something of it has no form in TOML.
    """
    skill_md = "\n".join(_skill_md(typed, facts))
    skill_toml = "\n".join(_skill_toml(typed, facts))
    return FileContent(SKILL_MD, skill_md.encode()), FileContent("skill.toml", skill_toml.encode())


def _skill_md(typed: TypedFunction, facts: FunctionFacts) -> Iterator[str]:
    yield "---"
    yield f"name: {facts.name}"
    yield f"description: {json.dumps(facts.description, ensure_ascii=False)}"
    yield "metadata:"
    yield f'  version: "{facts.version}"'
    yield "---"
    yield ""
    yield f"# {facts.name.replace('-', ' ').capitalize()}"
    yield ""
    yield facts.description
    if typed.details:
        yield ""
        yield typed.details
    yield ""
    yield from _inputs(typed.inputs)
    yield "## Output"
    yield ""
    yield _sentence(typed.returns or "One JSON value.")
    yield ""
    yield "## How to call it"
    yield ""
    yield "This skill runs at its publisher's and is called over the network; there is nothing to install. Its Skill"
    yield "Descriptor says where. With skillwire, and the address that this was found at:"
    yield ""
    yield "```sh"
    yield " ".join([f"skillwire call ADDRESS/{facts.name}", *_example(typed.inputs)])
    yield "```"
    yield ""


def _inputs(inputs: tuple[FunctionInput, ...]) -> Iterator[str]:
    yield "## Inputs"
    yield ""
    if not inputs:
        yield "None."
        yield ""
        return
    yield "| name | type | required | what it means |"
    yield "| --- | --- | --- | --- |"
    for one in inputs:
        meaning = _sentence(_cell(one.description))
        if values := (one.schema or {}).get("enum"):
            meaning += f" One of {', '.join(f'`{_cell(_json(value))}`' for value in values)}."
        if one.default is not None:
            meaning += f" `{_cell(_json(one.default))}` unless given."
        meaning = meaning.strip()
        yield f"| `{one.name}` | {one.input_type} | {'yes' if one.required else 'no'} | {meaning} |"
    yield ""
    for one in inputs:
        if one.schema and "enum" not in one.schema:
            yield f"`{one.name}` fits this schema:"
            yield ""
            yield "```json"
            yield json.dumps(one.schema, indent=2, ensure_ascii=False)
            yield "```"
            yield ""


def _example(inputs: tuple[FunctionInput, ...]) -> Iterator[str]:
    for one in inputs:
        if one.required:
            yield f"{one.name}={_EXAMPLES[one.input_type]}"


def _skill_toml(typed: TypedFunction, facts: FunctionFacts) -> Iterator[str]:
    yield "# Written by skillwire from a function of its publisher."
    head: dict[str, Any] = {
        "version": facts.version,
        "kind": "action",
        "access": facts.access.value,
        "capability_type": facts.capability_type,
        "tags": list(facts.tags),
        "scenes": list(facts.scenes),
        "capabilities": list(facts.capabilities),
        "idempotent": facts.idempotent or None,
    }
    yield from _table(None, head)
    yield from _table("executor", {"kind": "function"})
    for one in typed.inputs:
        row = {"type": one.input_type, "description": one.description, "required": one.required or None}
        yield from _table(f"inputs.{_key(one.name)}", row | {"default": one.default, "schema": one.schema})
    output = {"content_type": "application/json", "schema": typed.output, "description": typed.returns}
    yield from _table("output", output)
    endpoint: dict[str, Any] = {}
    if facts.timeout is not None:
        endpoint["timeout_ms"] = max(round(facts.timeout * _MS), 1)
    if facts.retry > 1:
        endpoint["retry"] = {"max_attempts": facts.retry, "backoff_ms": max(round(facts.backoff * _MS), 1)}
    if endpoint:
        yield from _table("endpoint", endpoint)
    yield ""


def _table(name: str | None, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table; what is None or empty is left out."""
    if name is not None:
        yield ""
        yield f"[{name}]"
    for key, value in values.items():
        if value is not None and (value or isinstance(value, bool | int | float) or key == "default"):
            yield f"{_key(key)} = {_toml(value)}"


def _toml(value: Any) -> str:
    """Return a JSON value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value} cannot be written in a skill.toml")
    return json.dumps(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(text: str) -> str:
    """Return ``text`` with a final stop, if it has any."""
    return text if not text or text[-1] in ".!?:`)" else f"{text}."
