"""The shape of each message, read from its class: what the three forms of the schema are written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import inspect

from skillwire.protocols.skill_sharing.messages import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


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
