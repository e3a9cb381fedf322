"""The protocol's JSON Schema; documents against it: every violation, or the value; schemas nested in descriptors.

The schema follows from the message classes (``./dev docs`` writes its other forms), and is JSON Schema 2020-12 with
every definition below ``$defs``. It checks types; :mod:`~skillwire.protocols.skill_sharing.codec` checks the rest.
It refers to nothing outside, and its patterns run in an engine with linear time. Schemas nested in a descriptor are
compiled and applied to values, here and by every reader, so they are judged first.

Our engine does not backtrack, but readers of what we publish may use one that does, and a pattern such as ``(a+)+$``
stops it for hours. :func:`may_backtrack` finds a group that repeats without bound and

- contains an unbounded repetition, unless a separator that nothing else in the group can match divides the rounds, as
  in ``(-[a-z]+)*``; or
- has branches that may begin with the same character, as ``(a|ab)*``.

Some patterns that it reports are harmless. Spec: SSP §8.3.1, §9.1, §9.3. Trust: documents are hostile.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
from msgspec import inspect

from skillwire import limits
from skillwire.errors import SourceLocation, ValidationError
from skillwire.protocols.skill_sharing.messages import CONDITIONS, DEFINITIONS, ParameterDefinition, SkillDescriptor
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from jsonschema_rs import Draft202012Validator
    from jsonschema_rs import ValidationError as SchemaError


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAMES: Final = {definition: name for name, definition in DEFINITIONS.items()}


@cache
def json_schema(root: str = "SkillDescriptor") -> dict[str, Any]:
    """Return the schema of ``root``, one of the definitions, with all the others below ``$defs``."""
    definitions = {}
    for name, definition in DEFINITIONS.items():
        definitions[name] = {"description": _summary(name), **_schema(inspect.type_info(definition), top=True)}
        if name in CONDITIONS:
            definitions[name]["allOf"] = [
                {
                    "if": {"properties": {condition.field: {"const": condition.value}}, "required": [condition.field]},
                    "then": {"required": [condition.demanded]},
                }
                for condition in CONDITIONS[name]
            ]
    head = {"$schema": _DIALECT, "title": root, "description": _summary(root), "$ref": f"#/$defs/{root}"}
    return {**head, "$defs": definitions}


def _summary(name: str) -> str:
    return (DEFINITIONS[name].__doc__ or "").split(" Spec:", 1)[0]


def _schema(kind: Any, *, top: bool = False) -> dict[str, Any]:  # noqa: PLR0911  # one return for each kind
    definition = getattr(kind, "cls", None)
    if not top and definition in _NAMES:
        return {"$ref": f"#/$defs/{_NAMES[definition]}"}
    match kind:
        case inspect.Metadata():
            return _schema(kind.type) | {"description": (kind.extra_json_schema or {})["description"]}
        case inspect.StructType():
            return {
                "type": "object",
                "properties": {field.encode_name: _schema(field.type) for field in kind.fields},
                "required": [field.encode_name for field in kind.fields if field.required],
            }
        case inspect.EnumType():
            return {"type": "string", "enum": [str(member.value) for member in kind.cls]}
        case inspect.StrType():  # the end of a text is \Z in Python and $ in the dialect of JSON Schema
            return {"type": "string"} | ({"pattern": kind.pattern.replace(r"\Z", "$")} if kind.pattern else {})
        case inspect.ListType():
            return {"type": "array", "items": _schema(kind.item_type)}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type)}
        case inspect.UnionType():  # of the two kinds of number; a field that may be absent has no union here
            return {"type": "number"}
        case inspect.BoolType():
            return {"type": "boolean"}
    return {}


_DIGITS_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdecimal() else 0 for byte in range(256))
_LONG_NUMBER: Final = b"0" * limits.JSON_INTEGER_DIGITS
_encoder: Final = msgspec.json.Encoder()
#: How much of a wrong value an error shows.
_SHOWN: Final = 200
#: How many errors are reported: a document may break one rule a million times.
_MOST_ERRORS: Final = 100


class Violation(NamedTuple):
    """One violation: a JSON Pointer, a message, the expected and the actual value. Spec: SSP §8.3.1."""

    path: str
    message: str
    expected: Any = None
    actual: Any = None


class Validation(NamedTuple):
    """The result of :func:`validate`. Spec: SSP §9.3."""

    valid: bool
    errors: tuple[Violation, ...] = ()


def validate(document: object, definition: str = "SkillDescriptor") -> Validation:
    """Return the violations in a JSON value or its bytes, in order; ``definition`` is a key of ``DEFINITIONS``.

    Raises DecodeError for bytes that are not JSON.
    """
    value = load_json(document, max_bytes=limits.DESCRIPTOR_BYTES) if isinstance(document, bytes) else document
    errors = tuple(map(_violation, islice(_validator(definition).iter_errors(value), _MOST_ERRORS)))
    return Validation(not errors, errors)


def parse(document: object, *, source: str = "descriptor") -> SkillDescriptor:
    """Return the descriptor in a decoded JSON value or its bytes. Raises as :func:`parse_as`."""
    if isinstance(document, bytes):
        found = parse_as(document, "SkillDescriptor", max_bytes=limits.DESCRIPTOR_BYTES, source=source)
    else:
        found = convert(document, "SkillDescriptor", source=source)
    return cast("SkillDescriptor", found)


def parse_as(data: bytes, definition: str, *, max_bytes: int, source: str) -> Any:
    """Return the message of a definition in ``data``.

    Raises DecodeError, ValidationError (``VALIDATION_ERROR``) with every violation in ``details``.
    """
    quick = _parse_plain(data, definition, max_bytes)
    if quick is not None:
        return quick
    return convert(load_json(data, max_bytes=max_bytes, source=source), definition, source=source)


def _parse_plain(data: bytes, definition: str, max_bytes: int) -> Any | None:
    """Return the message in ``data`` if it is small, plain and valid; None means that :func:`parse_as` must judge it.

    The typed decoder is five times as fast as the guarded reader, but accepts duplicate keys and any depth. Without
    escapes a text is encoded as it was read, so a duplicate or unknown key shows as a missing colon when the value is
    encoded again, and a small number of brackets bounds the depth.
    """
    if len(data) > max_bytes or b"\\" in data or data.count(b"{") + data.count(b"[") > limits.JSON_DEPTH:
        return None
    if _LONG_NUMBER in data.translate(_DIGITS_AS_ZEROS):
        return None
    try:
        message = _decoder(definition).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the guarded reader reports the fault and its place
        return None
    return message if _encoder.encode(message).count(b":") == data.count(b":") else None


@cache
def _decoder(definition: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(DEFINITIONS[definition])


def serialize(descriptor: SkillDescriptor) -> str:
    """Return ``descriptor`` as JSON, indented by 2; :func:`parse` gives it back as it was. Spec: SSP §9.3."""
    return msgspec.json.format(_encoder.encode(descriptor), indent=2).decode()


def convert(value: object, definition: str, *, source: str) -> Any:
    """Return the message in a decoded JSON value. Raises ValidationError (``VALIDATION_ERROR``) with every violation.

    Conversion accepts exactly what the schema accepts (tests check it), so the slower validator only explains failures.
    """
    try:
        return msgspec.convert(value, DEFINITIONS[definition])
    except msgspec.ValidationError as error:
        violations = validate(value, definition).errors or (Violation("", str(error)),)
        raise invalid(definition, violations, source) from None


def invalid(definition: str, violations: Sequence[Violation], source: str) -> ValidationError:
    """Return the error for an invalid document. Spec: SSP §8.3.1."""
    first = violations[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ValidationError(
        "VALIDATION_ERROR",
        f"Invalid {definition} document: {first.path or '/'} {first.message}{more}",
        place=SourceLocation(f"{source}#{first.path}" if first.path else source),
        details={"errors": [violation._asdict() for violation in violations]},
    )


@cache
def _validator(definition: str) -> Draft202012Validator:
    return compiled(json_schema(definition))


def _violation(error: SchemaError) -> Violation:
    kind, path = error.kind, pointer(error.instance_path)
    if kind.name == "required":
        field = str(cast("Any", kind).property)
        return Violation(path + pointer([field]), "is required", "a value")
    expected = expected_by(error)
    if kind.name == "type":
        return Violation(path, f"must be of type {expected}", expected, shown(error.instance))
    if kind.name == "enum":
        return Violation(path, "must be equal to one of the allowed values", expected, shown(error.instance))
    if kind.name == "pattern":
        return Violation(path, "must be a version such as 1.0.0", "MAJOR.MINOR.PATCH", shown(error.instance))
    return Violation(path, error.message, expected, shown(error.instance))


def expected_by(error: SchemaError) -> Any:
    """Return what the failed keyword of a schema demands."""
    name, demanded = error.kind.name, getattr(error.kind, "value", None)
    if name in _NESTED:  # it holds errors, no value of JSON
        return _NESTED[name]
    return " or ".join(demanded) if name == "type" and isinstance(demanded, list) else demanded


_NESTED: Final = {
    "anyOf": "what one of its schemas takes",
    "oneOf": "what exactly one of its schemas takes",
    "propertyNames": "names that its schema takes",
}


def pointer(path: Iterable[str | int]) -> str:
    """Return a path as a JSON Pointer. Spec: RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def shown(value: object) -> object:
    """Return ``value`` if it is short, else its beginning, or the size of an array or object."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    if len(msgspec.json.encode(value)) <= _SHOWN:
        return value
    return f"an array of {len(value)}" if isinstance(value, list) else "a large object"


_PART: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:[:=!>]|P?<[^>]*>|<[=!])|\{\d*,?\d*\}|.", re.DOTALL)
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d*,\}")
_QUANTIFIER: Final = re.compile(r"[*+?]|\{\d*,?\d*\}")
_SEPARATOR: Final = re.compile(r"\\?[^A-Za-z0-9\\\[\](){}|*+?.^$]|\\[.()\[\]{}|*+?^$]")


def may_backtrack(pattern: str) -> bool:
    """Whether matching ``pattern`` may take exponential time."""
    parts = _PART.findall(pattern)
    opened: list[int] = []
    for position, part in enumerate(parts):
        if part.startswith("("):
            opened.append(position)
        elif part == ")" and opened:
            inner = parts[opened.pop() + 1 : position]
            after = parts[position + 1] if position + 1 < len(parts) else ""
            if not _UNBOUNDED.fullmatch(after):
                continue
            branches = _branches(inner)
            if len(branches) > 1 and _may_begin_alike(branches):
                return True
            if any(map(_UNBOUNDED.fullmatch, inner)) and not all(map(_is_separated, branches)):
                return True
    return False


def _branches(parts: list[str]) -> list[list[str]]:
    depth, branches = 0, [list[str]()]
    for part in parts:
        depth += part.startswith("(") - (part == ")")
        if part == "|" and not depth:
            branches.append([])
        else:
            branches[-1].append(part)
    return branches


def _may_begin_alike(branches: list[list[str]]) -> bool:
    begins = [next((part for part in branch if not part.startswith("(")), "") for branch in branches]
    plain = all((len(begin) == 1 and begin != ".") or _SEPARATOR.fullmatch(begin) for begin in begins)
    return not plain or len(set(begins)) < len(begins)


def _is_separated(branch: list[str]) -> bool:
    """Whether one end of a branch is a character, once, that nothing else in it matches."""
    for end, rest in ((branch[:1], branch[1:]), (branch[-1:], branch[:-1])):
        once = not (end == branch[:1] and rest and _QUANTIFIER.fullmatch(rest[0]))
        if end and once and _SEPARATOR.fullmatch(end[0]) and not any(_matches(part, end[0][-1]) for part in rest):
            return True
    return False


def _matches(part: str, character: str) -> bool:
    if _QUANTIFIER.fullmatch(part) or part in {"|", ")"} or part.startswith("("):
        return False
    try:
        return re.fullmatch(part, character) is not None
    except re.error:  # of another dialect: its matches are unknown
        return True


TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
#: Keywords whose values are names of schemas, and those whose values are no schemas.
_NAMING: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_PATTERN_LENGTH: Final = 512
_DIALECTS: Final = (_DIALECT, "http://json-schema.org/draft-07/schema")


def find_unsafe_keywords(schema: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Yield the violations that make the schema at ``path`` unsafe."""
    violations = list(_walk(schema, path))
    yield from violations
    if schema and not violations and (flaw := compile_error(schema)):
        yield flaw._replace(path=path + flaw.path)


def judge_default(parameter: ParameterDefinition, path: str) -> Iterator[Violation]:
    """Yield a violation when the default of an input does not fit it."""
    for error in islice(compiled(input_schema(parameter)).iter_errors(parameter.default), 1):
        place = f"{path}/default{pointer(error.instance_path)}"
        yield Violation(place, error.message, expected_by(error), shown(error.instance))


def input_schema(parameter: ParameterDefinition) -> dict[str, Any]:
    """Return the schema of an input's value: its type and its own schema.

    The own schema stays the root, because it may refer to its own parts.
    """
    own = {"type": parameter.type} if parameter.type in TYPES else {}
    schema = parameter.schema or {}
    if own and schema.get("type", parameter.type) != parameter.type:
        return {**schema, "allOf": [*schema.get("allOf", ()), own]}
    return {**own, **schema}


def inputs_schema(parameters: Iterable[ParameterDefinition]) -> dict[str, Any]:
    """Return the schema of all inputs together: an object that has no others."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for one in parameters:
        properties[one.name] = own = input_schema(one)
        if one.description:
            own.setdefault("description", one.description)
        if one.has_default:
            own["default"] = one.default
        elif one.required:
            required.append(one.name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def compiled(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Return a validator of ``schema`` that fetches nothing and matches patterns in linear time."""
    options = {"offline": True, "pattern_options": engine().RegexOptions()}
    return cast("Draft202012Validator", engine().Draft202012Validator(dict(schema), **options))


def engine() -> ModuleType:
    """Return the validator's package."""
    import jsonschema_rs  # noqa: PLC0415  # takes milliseconds, and most clients and servers need none of it

    return jsonschema_rs


def compile_error(schema: Mapping[str, Any]) -> Violation | None:
    """Return what makes ``schema`` no JSON Schema, at its place in it; or None."""
    try:
        compiled(schema)
    except engine().ValidationError as error:
        return _violation(error)
    except (engine().ReferencingError, ValueError) as error:
        return Violation("", str(error).partition("\n")[0], "a JSON Schema")
    return None


def _walk(schema: object, path: str) -> Iterator[Violation]:
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _walk(item, f"{path}/{position}")
    for key, value in schema.items() if isinstance(schema, dict) else ():
        here = path + pointer([key])
        yield from _check_keyword(key, value, here)
        if key in _NAMING and isinstance(value, dict):
            for name, inner in value.items():
                yield from _walk(inner, here + pointer([name]))
        elif key not in _VALUES:
            yield from _walk(value, here)


def _check_keyword(key: str, value: object, path: str) -> Iterator[Violation]:
    if key in _REFERENCES and not (isinstance(value, str) and value.startswith("#")):
        yield Violation(path, "must refer to the schema itself", "#/...", shown(value))
    elif key in {"$id", "id"} and isinstance(value, str):
        yield Violation(path, "must not give the schema an address", "no $id", shown(value))
    elif key == "$schema" and str(value).rstrip("#") not in _DIALECTS:
        yield Violation(path, "must be a dialect that is known", _DIALECTS[0], shown(value))
    elif key == "pattern" or (key == "patternProperties" and isinstance(value, dict)):
        for pattern in [value] if key == "pattern" else cast("dict[str, Any]", value):
            if not isinstance(pattern, str) or len(pattern) > _PATTERN_LENGTH:
                most = f"at most {_PATTERN_LENGTH} characters"
                yield Violation(path, "must be a short pattern", most, shown(pattern))
            elif may_backtrack(pattern):
                message = "nests repetitions, which can take exponential time"
                yield Violation(path, message, "a plain pattern", pattern)
