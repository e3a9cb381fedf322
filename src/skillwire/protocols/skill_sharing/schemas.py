"""The protocol's schema as JSON Schema 2020-12, TypeScript and MDX, from the shapes of the message classes.

``schema/draft/`` holds the three forms; ``just schema`` writes them. The root is a Skill Descriptor; every definition
is below ``$defs``. Spec: SSP §1.5, §9.1, §9.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import inspect

from skillwire.protocols.skill_sharing.messages import CONDITIONS, DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Text:
    """A string; ``pattern`` is a regular expression in Python's dialect."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number, whole or not."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value of JSON."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these strings."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys and values of one shape."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Reference:
    """A definition, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record."""

    name: str
    shape: Shape
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class Record:
    """An object with these fields."""

    fields: tuple[Field, ...]


Shape = Text | Number | Boolean | Anything | OneOf | ListOf | MapOf | Reference | Record

_NAMES: Final = {definition: name for name, definition in DEFINITIONS.items()}
_PLAIN: Final[dict[type, Shape]] = {inspect.BoolType: Boolean(), inspect.AnyType: Anything()}


def read_shapes() -> Mapping[str, Shape]:
    """Return the shape of each definition, in the text's order."""
    return {name: _shape(inspect.type_info(definition), top=True) for name, definition in DEFINITIONS.items()}


def summary(name: str) -> str:
    """Return what a definition is, in one sentence."""
    return (DEFINITIONS[name].__doc__ or "").split(" Spec:", 1)[0]


def _shape(kind: Any, *, top: bool = False) -> Shape:  # noqa: PLR0911  # one return for each kind
    if isinstance(kind, inspect.Metadata):
        return _shape(kind.type)
    definition = getattr(kind, "cls", None)
    if not top and definition in _NAMES:
        return Reference(_NAMES[definition])
    match kind:
        case inspect.StructType():
            return Record(tuple(_field(field) for field in kind.fields))
        case inspect.EnumType():
            return OneOf(tuple(str(member.value) for member in kind.cls))
        case inspect.StrType():
            return Text(kind.pattern)
        case inspect.ListType():
            return ListOf(_shape(kind.item_type))
        case inspect.DictType():
            return MapOf(_shape(kind.value_type))
        case inspect.UnionType():  # of the two kinds of number; a field that may be absent has no union here
            return Number()
    return _PLAIN[type(kind)]


def _field(field: inspect.Field) -> Field:
    described = field.type
    description = ""
    if isinstance(described, inspect.Metadata):
        description = (described.extra_json_schema or {}).get("description", "")
    return Field(field.encode_name, _shape(described), description, field.required)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ROOT: Final = "SkillDescriptor"


@cache
def json_schema(root: str = ROOT) -> dict[str, Any]:
    """Return the schema of ``root``, one of the definitions, with all the others below ``$defs``."""
    return {
        "$schema": DIALECT,
        "title": root,
        "description": summary(root),
        "$ref": f"#/$defs/{root}",
        "$defs": {name: _definition(name, shape) for name, shape in read_shapes().items()},
    }


def _definition(name: str, shape: Shape) -> dict[str, Any]:
    schema = {"description": summary(name), **_schema(shape)}
    if name in CONDITIONS:
        schema["allOf"] = [
            {
                "if": {"properties": {condition.field: {"const": condition.value}}, "required": [condition.field]},
                "then": {"required": [condition.demanded]},
            }
            for condition in CONDITIONS[name]
        ]
    return schema


def _schema(shape: Shape) -> dict[str, Any]:  # noqa: PLR0911  # one return for each shape
    match shape:
        case Text(pattern):
            # The end of a text is \Z in Python and $ in the dialect of JSON Schema.
            return {"type": "string"} | ({"pattern": pattern.replace(r"\Z", "$")} if pattern else {})
        case Number():
            return {"type": "number"}
        case Boolean():
            return {"type": "boolean"}
        case Anything():
            return {}
        case OneOf(values):
            return {"type": "string", "enum": list(values)}
        case ListOf(item):
            return {"type": "array", "items": _schema(item)}
        case MapOf(value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case Reference(name):
            return {"$ref": f"#/$defs/{name}"}
        case Record(fields):
            return {
                "type": "object",
                "properties": {
                    field.name: _schema(field.shape) | {"description": field.description} for field in fields
                },
                "required": [field.name for field in fields if field.required],
            }


_MDX_HEAD = """{/* Generated; see schema.json beside it. */}

# Skill Sharing Protocol: schema

Each definition with its fields. A field that is not required may be absent, and is never `null`."""


def mdx() -> str:
    """Return ``schema.mdx``: a section for each definition."""
    return "\n\n".join([_MDX_HEAD, *(_section(name, shape) for name, shape in read_shapes().items())]) + "\n"


def _section(name: str, shape: Shape) -> str:
    parts = [f"## {name}", summary(name)]
    if isinstance(shape, Record):
        rows = [f"| `{path}` | {kind} | {required} | {text} |" for path, kind, required, text in _rows(shape)]
        parts.append("\n".join(["| field | type | required | meaning |", "| --- | --- | --- | --- |", *rows]))
    elif isinstance(shape, OneOf):
        parts.append("One of " + ", ".join(f'`"{value}"`' for value in shape.values) + ".")
    parts += [
        f"`{rule.demanded}` is required when `{rule.field}` is `{rule.value}`." for rule in CONDITIONS.get(name, ())
    ]
    return "\n\n".join(parts)


def _rows(record: Record, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    for field in record.fields:
        path = prefix + field.name
        yield path, _mdx_type(field.shape), "yes" if field.required else "no", field.description.replace("{", r"\{")
        if isinstance(field.shape, Record):
            yield from _rows(field.shape, f"{path}.")


def _mdx_type(shape: Shape) -> str:  # noqa: PLR0911  # one return for each shape
    match shape:
        case Text():
            return "string"
        case Number():
            return "number"
        case Boolean():
            return "boolean"
        case Anything():
            return "any"
        case OneOf(values):
            return " or ".join(f'`"{value}"`' for value in values)
        case ListOf(item):
            return f"list of {_mdx_type(item)}"
        case MapOf(value):
            return f"map of string to {_mdx_type(value)}"
        case Reference(name):
            return f"[{name}](#{name.lower()})"
        case Record():
            return "object"


_TYPESCRIPT_HEAD = "// Skill Sharing Protocol: the types of its schema. Generated; see schema.json beside it."


def typescript() -> str:
    """Return ``schema.ts``: an exported type for each definition."""
    return "\n\n".join([_TYPESCRIPT_HEAD, *(_export(name, shape) for name, shape in read_shapes().items())]) + "\n"


def _export(name: str, shape: Shape) -> str:
    notes = [
        f"`{rule.demanded}` is required when `{rule.field}` is `{rule.value}`." for rule in CONDITIONS.get(name, ())
    ]
    comment = "\n".join(["/**", *(f" * {line}" for line in [summary(name), *notes]), " */"])
    if isinstance(shape, Record):
        return f"{comment}\nexport interface {name} {_typescript_type(shape)}"
    return f"{comment}\nexport type {name} = {_typescript_type(shape)};"


def _typescript_type(shape: Shape, indent: str = "") -> str:  # noqa: PLR0911  # one return for each shape
    match shape:
        case Text():
            return "string"
        case Number():
            return "number"
        case Boolean():
            return "boolean"
        case Anything():
            return "unknown"
        case OneOf(values):
            return " | ".join(json.dumps(value) for value in values)
        case ListOf(item):
            return f"{_typescript_type(item, indent)}[]"
        case MapOf(value):
            return f"Record<string, {_typescript_type(value, indent)}>"
        case Reference(name):
            return name
        case Record(fields):
            inner = indent + "  "
            return "\n".join(["{", *(_member(field, inner) for field in fields), indent + "}"])


def _member(field: Field, indent: str) -> str:
    mark = "" if field.required else "?"
    return f"{indent}/** {field.description} */\n{indent}{field.name}{mark}: {_typescript_type(field.shape, indent)};"
