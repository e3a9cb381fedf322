"""JSON Schemas (2020-12) of the documents that commands print with ``--json``, made from the types of those documents.

The documents are typed dictionaries, not ``msgspec.Struct``s: importing msgspec takes longer than a whole
``list --json``, and a dictionary needs no import.

A document names its schema in the field ``schema``, as ``skillwire/NAME/N``. Within a number N a field is never
removed, renamed or given another meaning or type; fields may be added, and values to a list of allowed ones. Anything
else makes N+1. Tests validate every document that a test makes a command print.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Never,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from skillwire.cli import documents, documents_run

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
_MODULES: Final = (documents, documents_run)
_FIRST: Final = ("schema", "event")
#: Documents that are printed one object a line.
_STREAMS: Final = {"serve/1": "serve", "lan/1": "lan", "scene-event/1": "scene join and request, with --follow,"}
_SIMPLE: Final[dict[object, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},  # every whole number in a document is a count
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Any: {},
    object: {},
}


def names() -> list[str]:
    """Return the names of all documents, sorted."""
    return sorted(_documents())


def schema_of(name: str) -> Schema:
    """Return the schema of the document ``name``, such as ``find/1``.

    Raises:
        KeyError: there is no such document.
    """
    head = {"$schema": DIALECT, "title": f"skillwire/{name}"}
    kinds = _documents()[name]
    if name in _STREAMS:
        meaning = f"Output of {_STREAMS[name]} one object a line."
        return {**head, "description": meaning, "oneOf": [_object(kind) for kind in kinds]}
    schema = _object(kinds[0])
    if "findings" not in schema["properties"]:  # check has its own, with the cause
        schema["properties"] |= _object(documents.WithFindings)["properties"]
        schema["required"].append("findings")
    return {**head, **schema}


@cache
def _documents() -> dict[str, list[type]]:
    """Return name → the types of a document; a stream has one for each kind of line."""
    found: dict[str, list[type]] = {}
    for module in _MODULES:
        for kind in vars(module).values():
            hints = get_type_hints(kind) if is_typeddict(kind) and kind.__module__ == module.__name__ else {}
            name = get_args(hints["schema"])[0].removeprefix("skillwire/") if "schema" in hints else None
            if name is not None and (name not in _STREAMS or "event" in hints):
                found.setdefault(name, []).append(kind)
    return found


def _object(kind: type) -> Schema:
    value = documents_run.VALUES.get(kind, object)
    hints = get_type_hints(kind, include_extras=True) | get_type_hints(value, include_extras=True)
    fields = {name: hints[name] for name in (*(name for name in _FIRST if name in hints), *hints)}
    named = next((hints[name] for name in reversed(_FIRST) if name in hints), None)
    return {
        "type": "object",
        **({} if named is None else {"description": get_args(named)[1]}),
        "properties": {name: _field(name, hint) for name, hint in fields.items()},
        "required": [name for name, hint in fields.items() if get_origin(hint) is not NotRequired],
        "additionalProperties": False,
    }


def _field(name: str, hint: Any) -> Schema:
    meaning = {"schema": "Name of this document", "event": "What happened"}.get(name)
    return _schema(hint) if meaning is None else {**_schema(hint), "description": meaning}


def _schema(hint: Any) -> Schema:  # noqa: PLR0911  # one return for each form of type
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if origin is NotRequired:
        return _schema(arguments[0])
    if origin is Annotated:
        return {**_schema(arguments[0 if len(arguments) == 2 else 2]), "description": arguments[1]}  # noqa: PLR2004  # see there
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"type": "string", "enum": list(arguments)}
    if origin in {Union, UnionType}:
        return {"anyOf": [{"type": "null"} if part is NoneType else _schema(part) for part in arguments]}
    if origin in {list, tuple}:
        return {"type": "array", **({"maxItems": 0} if arguments[0] is Never else {"items": _schema(arguments[0])})}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": _schema(arguments[1]) or True}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": list(hint)}
    return _object(hint)
