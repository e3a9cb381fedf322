"""The protocol's schema as a page for people, in MDX. Spec: SSP §1.5."""

from __future__ import annotations

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
    from collections.abc import Iterator

    from skillwire.protocols.skill_sharing.shapes import Shape

_HEAD = """{/* Generated; see schema.json beside it. */}

# Skill Sharing Protocol: schema

Each definition with its fields. A field that is not required may be absent, and is never `null`."""


def mdx() -> str:
    """Return ``schema.mdx``: a section for each definition."""
    return "\n\n".join([_HEAD, *(_section(name, shape) for name, shape in read_shapes().items())]) + "\n"


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
        yield path, _type(field.shape), "yes" if field.required else "no", field.description.replace("{", r"\{")
        if isinstance(field.shape, Record):
            yield from _rows(field.shape, f"{path}.")


def _type(shape: Shape) -> str:  # noqa: PLR0911  # one return for each shape
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
            return f"list of {_type(item)}"
        case MapOf(value):
            return f"map of string to {_type(value)}"
        case Reference(name):
            return f"[{name}](#{name.lower()})"
        case Record():
            return "object"
