"""A typed function as a skill: its inputs and output from its hints, their meaning from its docstring.

A hint is turned into JSON Schema by msgspec, which also reads the inputs of a call by it, so that what a descriptor
promises and what a function is handed cannot differ. The schema is then made to stand alone: definitions are put where
they are referred to, and null goes, since an input that may be None is left out of a call instead. A type that this
cannot do right is refused when the function is registered, not when it is called.
"""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from skillwire.errors import UsageError
from skillwire.folder.docstring import read_docstring
from skillwire.model.call_context import CallContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EMPTY: Final = inspect.Parameter.empty
_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NULL: Final = {"type": "null"}
#: What a schema says beside what it demands.
_NOTES: Final = frozenset({"description", "title", "default", "examples"})
_DEFINITION: Final = "#/$defs/"
_SHOWN: Final = 80
#: Up to here a float says which whole number it is.
_EXACT: Final = 2.0**53


class FunctionInput(NamedTuple):
    """One input: its type in JSON Schema, and its schema where that says more than the type.

    ``default`` is a JSON value, None for none; one that JSON cannot say is left to the function.
    """

    name: str
    input_type: str
    description: str
    required: bool
    default: Any = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """A function that can be called with JSON.

    Args:
        function: what is called, with keyword arguments.
        arguments: reads them; a field for each input.
        context: the parameter that gets a :class:`~skillwire.model.call_context.CallContext`, None for none.
        output: schema of what it returns, None where its hints do not say.
    """

    function: Callable[..., Any]
    summary: str
    details: str
    inputs: tuple[FunctionInput, ...]
    arguments: type[msgspec.Struct]
    context: str | None = None
    output: Mapping[str, Any] | None = None
    returns: str = ""

    def read(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return JSON inputs as the keyword arguments that the hints ask for.

        Raises:
            msgspec.ValidationError: they do not fit.
        """
        read = msgspec.convert(_integral(dict(inputs)), self.arguments, str_keys=True)
        return {name: getattr(read, name) for name in self.arguments.__struct_fields__}


def read_function(function: Callable[..., Any]) -> TypedFunction:
    """Return ``function`` with its inputs and output described.

    Raises:
        UsageError: ``FUNCTION_FORM`` when something of it cannot be described.
    """
    if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise refusal(function, "it is no function that returns a value")
    signature, hints = _signature(function), _hints(function)
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
        output=_output(function, hints.get("return", Any)),
        returns=written.returns,
    )


def refusal(function: object, why: str) -> UsageError:
    """Return the error that says why a function cannot be a skill."""
    name = getattr(function, "__qualname__", None) or repr(function)[:_SHOWN]
    return UsageError("FUNCTION_FORM", f"{name} cannot be a skill: {why}")


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise refusal(function, "its parameters cannot be read") from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except Exception as error:  # whatever its author wrote between quotes is evaluated here
        raise refusal(function, f"its type hints cannot be read: {error}") from error


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
    default = _default(function, name, parameter.default) if has_default else None
    said = {key: value for key, value in schema.items() if key not in _NOTES}
    return FunctionInput(
        name=name,
        input_type=input_type,
        description=description or schema.get("description", ""),
        required=not has_default and not _is_optional(hint),
        default=default,
        schema=None if said == {"type": input_type} else schema,
    )


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any, Any] | tuple[str, Any]:
    if parameter.default is not _EMPTY:
        return parameter.name, hint, msgspec.field(default_factory=lambda: parameter.default)
    return (parameter.name, hint, None) if _is_optional(hint) else (parameter.name, hint)


def _output(function: Callable[..., Any], hint: Any) -> Mapping[str, Any] | None:
    schema = _schema(function, "what it returns", type(None) if hint is None else hint)
    return schema or None


def _default(function: Callable[..., Any], name: str, value: Any) -> Any:
    try:
        default = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError) as error:
        raise refusal(function, f"the default of {name} is no JSON value: {error}") from error
    return None if _has_null(default) else default


def _schema(function: Callable[..., Any], name: str, hint: Any) -> dict[str, Any]:
    """Return the schema of a hint, its definitions in their places."""
    try:
        schema = msgspec.json.schema(hint)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        told = str(error).strip().rpartition("\n")[2]
        raise refusal(function, f"{name} has a type that JSON Schema cannot describe: {told}") from error
    definitions = schema.pop("$defs", {})
    try:
        placed: dict[str, Any] = _place(schema, definitions, ())
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
    if isinstance(placed.get("enum"), list):  # null stands beside it too, as a type
        placed["enum"] = [value for value in placed["enum"] if value is not None]
    return placed


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that does not let null pass: who has nothing to give leaves the input out."""
    schema = dict(schema)
    if isinstance(schema.get("anyOf"), list):
        kept = [_without_null(one) for one in schema.pop("anyOf") if one != _NULL]
        schema = {**kept[0], **schema} if len(kept) == 1 else {**schema, "anyOf": kept}
    return schema


def _json_type(schema: Mapping[str, Any]) -> str | None:
    """Return the one type that fits a schema, or None."""
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
