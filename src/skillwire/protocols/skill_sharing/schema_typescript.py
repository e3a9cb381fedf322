"""The protocol's schema as TypeScript, in strict types. Spec: SSP §9.2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skillwire.protocols.skill_sharing.messages import CONDITIONS
from skillwire.protocols.skill_sharing.shapes import (
    Anything,
    Boolean,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Reference,
    Text,
    read_shapes,
    summary,
)

if TYPE_CHECKING:
    from skillwire.protocols.skill_sharing.shapes import Field, Shape

_HEAD = "// Skill Sharing Protocol: the types of its schema. Generated; see schema.json beside it."


def typescript() -> str:
    """Return ``schema.ts``: an exported type for each definition."""
    return "\n\n".join([_HEAD, *(_export(name, shape) for name, shape in read_shapes().items())]) + "\n"


def _export(name: str, shape: Shape) -> str:
    notes = [
        f"`{rule.demanded}` is required when `{rule.field}` is `{rule.value}`." for rule in CONDITIONS.get(name, ())
    ]
    comment = "\n".join(["/**", *(f" * {line}" for line in [summary(name), *notes]), " */"])
    if isinstance(shape, Record):
        return f"{comment}\nexport interface {name} {_type(shape)}"
    return f"{comment}\nexport type {name} = {_type(shape)};"


def _type(shape: Shape, indent: str = "") -> str:  # noqa: PLR0911  # one return for each shape
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
            return f"{_type(item, indent)}[]"
        case MapOf(value):
            return f"Record<string, {_type(value, indent)}>"
        case Reference(name):
            return name
        case Record(fields):
            inner = indent + "  "
            return "\n".join(["{", *(_member(field, inner) for field in fields), indent + "}"])


def _member(field: Field, indent: str) -> str:
    mark = "" if field.required else "?"
    return f"{indent}/** {field.description} */\n{indent}{field.name}{mark}: {_type(field.shape, indent)};"
