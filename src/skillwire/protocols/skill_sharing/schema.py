"""The protocol's schema as JSON Schema 2020-12, written from the shapes of the messages.

``schema/draft/`` holds what this module and its two neighbours write; ``just schema`` writes it anew. The root is
a Skill Descriptor, every definition of the text is below ``$defs``. Spec: SSP §9.1.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

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
    from skillwire.protocols.skill_sharing.messages import Condition
    from skillwire.protocols.skill_sharing.shapes import Shape

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
        schema["allOf"] = [_condition(condition) for condition in CONDITIONS[name]]
    return schema


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "if": {"properties": {condition.field: {"const": condition.value}}, "required": [condition.field]},
        "then": {"required": [condition.demanded]},
    }


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
