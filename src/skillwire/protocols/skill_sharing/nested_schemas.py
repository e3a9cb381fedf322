"""The schemas inside of a descriptor: what an input and the output look like.

They are compiled and run against values, here and by every reader, so they are judged first. Trust: hostile, in a
document of bounded size and depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skillwire.protocols.skill_sharing.validation import Violation, pointer, shown
from skillwire.trust.slow_patterns import may_explode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema_rs import Draft202012Validator

    from skillwire.protocols.skill_sharing.messages import ParameterDefinition

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
#: Keywords whose values are names of schemas, and those whose values are no schemas.
_NAMING: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_PATTERN_LENGTH: Final = 512
_DIALECTS: Final = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")


def find_dangers(schema: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Yield what makes a schema unfit to be used; ``path`` is where it stands."""
    if not schema:
        return
    found = False
    for violation in _walk(schema, path):
        found = True
        yield violation
    if not found and (why := compile_error(schema)):
        yield Violation(path, why, "a JSON Schema", None)


def judge_default(parameter: ParameterDefinition, path: str) -> Iterator[Violation]:
    """Yield a violation when the default of an input does not fit it."""
    for error in compiled(input_schema(parameter)).iter_errors(parameter.default):
        yield Violation(f"{path}/default{pointer(error.instance_path)}", error.message, None, shown(error.instance))
        return


def input_schema(parameter: ParameterDefinition) -> dict[str, Any]:
    """Return the schema that a value of an input has to fit: its type, and what its schema says.

    The schema stays the root, since it may refer to its own parts from there.
    """
    own = {"type": parameter.type} if parameter.type in TYPES else {}
    schema = parameter.schema or {}
    return {**schema, "allOf": [*schema.get("allOf", ()), own]} if schema and own else schema or own


def compiled(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Return a validator of ``schema`` that fetches nothing and matches patterns in linear time."""
    from jsonschema_rs import Draft202012Validator, RegexOptions  # noqa: PLC0415  # heavy, and few descriptors need it

    return Draft202012Validator(dict(schema), offline=True, pattern_options=RegexOptions())


def compile_error(schema: Mapping[str, Any]) -> str | None:
    """Return why ``schema`` is none, or None."""
    from jsonschema_rs import ReferencingError, ValidationError  # noqa: PLC0415  # as above

    try:
        compiled(schema)
    except (ValidationError, ReferencingError, ValueError) as error:
        return str(error).partition("\n")[0]
    return None


def _walk(schema: object, path: str) -> Iterator[Violation]:
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _walk(item, f"{path}/{position}")
    for key, value in schema.items() if isinstance(schema, dict) else ():
        here = path + pointer([key])
        yield from _judge_keyword(key, value, here)
        if key in _NAMING and isinstance(value, dict):
            for name, inner in value.items():
                yield from _walk(inner, here + pointer([name]))
        elif key not in _VALUES:
            yield from _walk(value, here)


def _judge_keyword(key: str, value: object, path: str) -> Iterator[Violation]:
    if key in _REFERENCES and not (isinstance(value, str) and value.startswith("#")):
        yield Violation(path, "must refer to the schema itself", "#/...", shown(value))
    elif key in {"$id", "id"} and isinstance(value, str):
        yield Violation(path, "must not give the schema an address", "no $id", shown(value))
    elif key == "$schema" and str(value).rstrip("#") not in _DIALECTS:
        yield Violation(path, "must be a dialect that is known", _DIALECTS[0], shown(value))
    elif key == "pattern":
        yield from _judge_pattern(value, path)
    elif key == "patternProperties" and isinstance(value, dict):
        for pattern in value:
            yield from _judge_pattern(pattern, path)


def _judge_pattern(pattern: object, path: str) -> Iterator[Violation]:
    if not isinstance(pattern, str) or len(pattern) > _PATTERN_LENGTH:
        yield Violation(path, "must be a short pattern", f"at most {_PATTERN_LENGTH} characters", shown(pattern))
    elif may_explode(pattern):
        yield Violation(path, "repeats what repeats, which can take exponential time", "a plain pattern", pattern)
