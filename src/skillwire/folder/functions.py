"""A typed Python function as a skill: its inputs and output from type hints, their meaning from the docstring.

msgspec turns each hint into JSON Schema and also decodes a call's inputs by it, so the descriptor and the function's
arguments cannot differ. The schema is made self-contained: definitions are inlined, and null is removed, because a
caller leaves an optional input out. A type that does not allow this is refused at registration. The docstring's first
paragraph is the summary; of its sections (Google style), ``Args:`` and ``Returns:`` are read. The files written from
this pass the strict rules and contain no code: the function runs in the process that registered it.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from skillwire.errors import UsageError
from skillwire.model.access import Access
from skillwire.model.execution import CallContext
from skillwire.model.skill import SKILL_MD, FileContent

_SECTION: Final = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|See Also|Todo|Warnings?):\s*"
)
_ENTRY: Final = re.compile(r"\*{0,2}(\w+(?:, ?\w+)*)(?: ?\([^()]*\))?: ?(.*)")
_ARGUMENTS: Final = frozenset({"Args", "Arguments", "Parameters"})


class Docstring(NamedTuple):
    """The parts of a docstring; ``details`` is the text between the summary and the first section."""

    summary: str = ""
    details: str = ""
    arguments: Mapping[str, str] = MappingProxyType({})
    returns: str = ""


def read_docstring(text: str | None) -> Docstring:
    """Return the parts of a docstring."""
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    into = prose
    for line in inspect.cleandoc(text or "").split("\n"):
        if heading := _SECTION.fullmatch(line):
            into = sections.setdefault(heading[1], [])
        else:
            into.append(line)
    summary, _, details = "\n".join(prose).strip().partition("\n\n")
    arguments: dict[str, str] = {}
    for name in _ARGUMENTS & sections.keys():
        arguments |= _entries(sections[name])
    returns = next((_flow(lines) for name, lines in sections.items() if name.startswith("Return")), "")
    return Docstring(_flow([summary]), details.strip(), arguments, returns)


def _entries(lines: list[str]) -> dict[str, str]:
    """Return the text of each argument; deeper indented lines continue it."""
    entries: dict[str, list[str]] = {}
    into: list[str] = []
    block = inspect.cleandoc("\n" + "\n".join(lines)).split("\n")
    for line in block:
        entry = _ENTRY.fullmatch(line)
        if entry and not line.startswith(" "):
            into = [entry[2]]
            for name in entry[1].split(","):
                entries[name.strip()] = into
        else:
            into.append(line)
    return {name: _flow(text) for name, text in entries.items()}


def _flow(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


_EMPTY: Final = inspect.Parameter.empty
_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NULL: Final = {"type": "null"}
#: Keywords of a schema that only describe.
_NOTES: Final = frozenset({"description", "title", "default", "examples"})
_DEFINITION: Final = "#/$defs/"
_SHOWN: Final = 80
#: Up to here a float says which whole number it is.
_EXACT: Final = 2.0**53


class FunctionInput(NamedTuple):
    """One input: its JSON Schema type, and its schema where the type is not enough.

    ``default`` is a JSON value or None; the function applies a default that JSON cannot express.
    """

    name: str
    input_type: str
    description: str
    required: bool
    default: Any = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """A function that can be called with JSON."""

    function: Callable[..., Any]  # called with keyword arguments
    summary: str
    details: str
    inputs: tuple[FunctionInput, ...]
    arguments: type[msgspec.Struct]  # decodes the inputs
    context: str | None = None  # the parameter for a CallContext
    output: Mapping[str, Any] | None = None  # schema of the result, if the hints state it
    returns: str = ""

    def read(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return JSON inputs as keyword arguments. Raises msgspec.ValidationError when they do not fit the hints."""
        read = msgspec.convert(_integral(dict(inputs)), self.arguments, str_keys=True)
        return {name: getattr(read, name) for name in self.arguments.__struct_fields__}


def read_function(function: Callable[..., Any]) -> TypedFunction:
    """Return ``function`` with described inputs and output. Raises UsageError (``FUNCTION_FORM``)."""
    if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise refusal(function, "it is no function that returns a value")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise refusal(function, "its parameters cannot be read") from error
    try:
        target = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(target, include_extras=True)
    except Exception as error:  # evaluates what the author wrote between quotes
        raise refusal(function, f"its type hints cannot be read: {error}") from error
    written = read_docstring(inspect.getdoc(function))
    inputs, fields, context = [], [], None
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, _EMPTY)
        if hint is CallContext or (_is_optional(hint) and CallContext in get_args(hint)):
            context = parameter.name
            continue
        inputs.append(_input(function, parameter, hint, written.arguments.get(parameter.name, "")))
        fields.append(_field(parameter, hint))
    if unknown := written.arguments.keys() - signature.parameters.keys():
        raise refusal(function, f"its docstring describes {min(unknown)}, which is no parameter")
    return TypedFunction(
        function=function,
        summary=written.summary,
        details=written.details,
        inputs=tuple(inputs),
        arguments=msgspec.defstruct("Inputs", fields, kw_only=True, forbid_unknown_fields=True),
        context=context,
        output=_schema(function, "what it returns", hints.get("return", Any) or type(None)) or None,
        returns=written.returns,
    )


def refusal(function: object, why: str) -> UsageError:
    """Return the error for a function that cannot be a skill."""
    name = getattr(function, "__qualname__", None) or repr(function)[:_SHOWN]
    return UsageError("FUNCTION_FORM", f"{name} cannot be a skill: {why}")


def _input(function: Callable[..., Any], parameter: inspect.Parameter, hint: Any, description: str) -> FunctionInput:
    name = parameter.name
    if parameter.kind not in _KINDS:
        raise refusal(function, f"{name} cannot be given by name")
    if hint is _EMPTY:
        raise refusal(function, f"{name} has no type hint")
    schema = _without_null(_schema(function, name, hint))
    input_type = _json_type(schema)
    if input_type is None:
        raise refusal(function, f"{name} may be of several JSON types, or of any: {_shown(hint)}")
    has_default = parameter.default is not _EMPTY
    try:
        default = msgspec.to_builtins(parameter.default, str_keys=True) if has_default else None
    except (TypeError, ValueError) as error:
        raise refusal(function, f"the default of {name} is no JSON value: {error}") from error
    demands = {key: value for key, value in schema.items() if key not in _NOTES}
    return FunctionInput(
        name=name,
        input_type=input_type,
        description=description or schema.get("description", ""),
        required=not has_default and not _is_optional(hint),
        default=None if _has_null(default) else default,
        schema=None if demands == {"type": input_type} else schema,
    )


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any, Any] | tuple[str, Any]:
    if parameter.default is not _EMPTY:
        return parameter.name, hint, msgspec.field(default_factory=lambda: parameter.default)
    return (parameter.name, hint, None) if _is_optional(hint) else (parameter.name, hint)


def _schema(function: Callable[..., Any], name: str, hint: Any) -> dict[str, Any]:
    """Return the schema of a hint, its definitions in their places."""
    try:
        schema = msgspec.json.schema(hint)
        placed: dict[str, Any] = _place(schema, schema.pop("$defs", {}), ())
    except (TypeError, ValueError, NameError, AttributeError) as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise refusal(function, f"{name} has a type that JSON Schema cannot describe: {reason}") from error
    except RecursionError as error:
        raise refusal(function, f"{name} has a type that holds itself: {_shown(hint)}") from error
    return placed


def _place(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_place(item, definitions, within) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITION):
        name = reference.removeprefix(_DEFINITION)
        if name in within:
            raise RecursionError
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {**_place(definitions[name], definitions, (*within, name)), **rest}
    placed = {
        key: _place(value, definitions, within)
        for key, value in schema.items()
        if not (key == "default" and _has_null(value))  # a note, which TOML cannot write
    }
    if isinstance(placed.get("enum"), list):  # null is listed as a type too
        placed["enum"] = [value for value in placed["enum"] if value is not None]
    return placed


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that rejects null: callers leave an absent input out."""
    schema = dict(schema)
    if isinstance(schema.get("anyOf"), list):
        kept = [_without_null(one) for one in schema.pop("anyOf") if one != _NULL]
        schema = {**kept[0], **schema} if len(kept) == 1 else {**schema, "anyOf": kept}
    return schema


def _json_type(schema: Mapping[str, Any]) -> str | None:
    if isinstance(schema.get("type"), str):
        return str(schema["type"]) if schema["type"] != "null" else None
    if "enum" in schema:
        found = {_TYPES.get(type(value)) for value in schema["enum"]}
    elif "anyOf" in schema:
        found = {_json_type(one) for one in schema["anyOf"]}
    else:
        return None
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else None


_TYPES: Final[dict[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _is_optional(hint: Any) -> bool:
    while hasattr(hint, "__metadata__"):
        hint = hint.__origin__
    return get_origin(hint) in {Union, types.UnionType} and type(None) in get_args(hint)


def _integral(value: Any) -> Any:
    """Return a JSON value with its whole numbers as ``int``: to JSON Schema 1.0 is an integer, to msgspec it is not."""
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT else value


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_null(item) for item in value.values())
    return value is None or (isinstance(value, list | tuple) and any(_has_null(item) for item in value))


def _shown(hint: Any) -> str:
    return (hint.__name__ if isinstance(hint, type) else str(hint))[:_SHOWN]


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_MS: Final = 1000
_SKILL_MD: Final = """\
---
name: {name}
description: {quoted}
metadata:
  version: "{version}"
---

# {title}

{description}

{details}## Inputs

{inputs}
## Output

{output}

## How to call it

This skill runs at its publisher's and is called over the network; there is nothing to install. Its Skill
Descriptor contains the address. With skillwire, and the address of the publisher:

```sh
{call}
```
"""
_BY_TYPE: Final[Mapping[str, Any]] = {"string": "text", "number": 1.5, "integer": 1, "boolean": True}
_EXAMPLE_DEPTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFacts:
    """The facts of a function's skill beyond hints and docstring."""

    name: str
    description: str
    version: str = "0.1.0"
    access: Access = Access.PUBLIC
    capability_type: str | None = None
    tags: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    timeout: float | None = None  # seconds
    retry: int = 1  # attempts
    backoff: float = 1.0  # seconds before the second attempt
    idempotent: bool = False


def function_files(typed: TypedFunction, facts: FunctionFacts) -> tuple[FileContent, ...]:
    """Return the files of a function's skill. Raises ValueError for a value without a TOML form."""
    skill_toml = "\n".join(_skill_toml(typed, facts))
    example = [f"{one.name}={_example(one)}" for one in typed.inputs if one.required]
    skill_md = _SKILL_MD.format(
        name=facts.name,
        quoted=json.dumps(facts.description, ensure_ascii=False),
        version=facts.version,
        title=facts.name.replace("-", " ").capitalize(),
        description=facts.description,
        details=f"{typed.details}\n\n" if typed.details else "",
        inputs="\n".join(_inputs(typed.inputs)),
        output=_sentence(typed.returns or "One JSON value."),
        call=" ".join([f"skillwire call ADDRESS/{facts.name}", *example]),
    )
    return FileContent(SKILL_MD, skill_md.encode()), FileContent("skill.toml", skill_toml.encode())


def _example(one: FunctionInput) -> str:
    value = example_value({"type": one.input_type, **(one.schema or {})})
    return shlex.quote(value if isinstance(value, str) else _json(value))


def example_value(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value for a JSON Schema, which fits types, required properties, and allowed values. Trust: untrusted."""
    for key in ("examples", "enum"):
        if isinstance(values := schema.get(key), list) and values:
            return values[0]
    if "default" in schema:
        return schema["default"]
    kind = schema.get("type")
    if kind == "object":
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, Mapping) or not isinstance(required, list) or depth == _EXAMPLE_DEPTH:
            return {}
        wanted = {name: one for name, one in properties.items() if name in required and isinstance(one, Mapping)}
        return {name: example_value(one, depth + 1) for name, one in wanted.items()}
    return [] if kind == "array" else _BY_TYPE.get(str(kind), "text")


def _inputs(inputs: tuple[FunctionInput, ...]) -> Iterator[str]:
    if not inputs:
        yield "None.\n"
        return
    yield "| name | type | required | what it means |"
    yield "| --- | --- | --- | --- |"
    for one in inputs:
        meaning = _sentence(_cell(one.description))
        if values := (one.schema or {}).get("enum"):
            meaning += f" One of {', '.join(f'`{_cell(_json(value))}`' for value in values)}."
        if one.default is not None:
            meaning += f" `{_cell(_json(one.default))}` unless given."
        yield f"| `{one.name}` | {one.input_type} | {'yes' if one.required else 'no'} | {meaning.strip()} |"
    yield ""
    for one in inputs:
        if one.schema and "enum" not in one.schema:
            schema = json.dumps(one.schema, indent=2, ensure_ascii=False)
            yield f"`{one.name}` fits this schema:\n\n```json\n{schema}\n```\n"


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
