"""Documents against the schema: everything that is wrong with one, or the value that it spells.

The schema asks for types and for nothing that could be dangerous or wrong beyond them; that is
:mod:`~skillwire.protocols.skill_sharing.rules`. Spec: SSP §9.3, §8.3.1. Trust: documents are hostile. The schema is
ours, nothing is fetched for it, and its patterns run in an engine whose time grows with the text only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from skillwire import limits
from skillwire.errors import Place, ValidationError
from skillwire.protocols.skill_sharing.messages import DEFINITIONS, SkillDescriptor
from skillwire.protocols.skill_sharing.schema import json_schema
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jsonschema_rs import Draft202012Validator
    from jsonschema_rs import ValidationError as SchemaError

_DIGITS_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdecimal() else 0 for byte in range(256))
_LONG_NUMBER: Final = b"0" * limits.JSON_INTEGER_DIGITS
_encoder: Final = msgspec.json.Encoder()
#: As much of a wrong value as is told.
_SHOWN: Final = 200
#: A document may break one rule a million times; so many errors are told.
_MOST_ERRORS: Final = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong: where (a JSON Pointer), what, what should stand there, what does. Spec: SSP §8.3.1."""

    path: str
    message: str
    expected: Any = None
    actual: Any = None

    def as_object(self) -> dict[str, Any]:
        """Return it as the protocol writes it."""
        return {"path": self.path, "message": self.message, "expected": self.expected, "actual": self.actual}


@dataclass(frozen=True, slots=True)
class Validation:
    """What validating gave. Spec: SSP §9.3."""

    valid: bool
    errors: tuple[Violation, ...] = ()


def validate(document: object, definition: str = "SkillDescriptor") -> Validation:
    """Return everything that is wrong with ``document``, in the order in which it stands there.

    Args:
        document: a decoded JSON value, or the bytes of one.
        definition: a key of :data:`~skillwire.protocols.skill_sharing.messages.DEFINITIONS`.

    Raises:
        DecodeError: bytes that are no JSON.
    """
    value = load_json(document, max_bytes=limits.DESCRIPTOR_BYTES) if isinstance(document, bytes) else document
    errors: list[Violation] = []
    for error in _validator(definition).iter_errors(value):
        errors.append(_violation(error))
        if len(errors) == _MOST_ERRORS:
            break
    return Validation(not errors, tuple(errors))


def parse(document: object, *, source: str = "descriptor") -> SkillDescriptor:
    """Return the descriptor that ``document`` spells: a decoded JSON value, or the bytes of one.

    Raises:
        DecodeError: bytes that are no JSON.
        ValidationError: ``VALIDATION_ERROR`` with every error in ``details``.
    """
    if isinstance(document, bytes):
        return cast(
            "SkillDescriptor",
            parse_as(document, "SkillDescriptor", max_bytes=limits.DESCRIPTOR_BYTES, source=source),
        )
    return cast("SkillDescriptor", convert(document, "SkillDescriptor", source=source))


def parse_as(data: bytes, definition: str, *, max_bytes: int, source: str) -> Any:
    """Return the message of a definition that ``data`` spells.

    Raises:
        DecodeError: bytes that are no JSON, or more than ``max_bytes`` of them.
        ValidationError: ``VALIDATION_ERROR`` with every error in ``details``.
    """
    quick = parse_plain(data, definition, max_bytes)
    if quick is not None:
        return quick
    return convert(load_json(data, max_bytes=max_bytes, source=source), definition, source=source)


def parse_plain(data: bytes, definition: str, max_bytes: int) -> Any | None:
    """Return the message that ``data`` spells, if it is as most are: small, plain, and without fault.

    None is no judgement: :func:`parse_as` gives one.

    The typed decoder is five times as fast as the guarded reader, and does not see a key that stands twice, nor how
    deep a document is. Without escapes a text is written as it was read, so a second key, or one that the schema does
    not know, shows as a colon that is missing when the value is written again. So few brackets cannot nest too deep.
    """
    if len(data) > max_bytes or b"\\" in data or data.count(b"{") + data.count(b"[") > limits.JSON_DEPTH:
        return None
    if _LONG_NUMBER in data.translate(_DIGITS_AS_ZEROS):
        return None
    try:
        message = _decoder(definition).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the guarded reader says what is wrong, and where
        return None
    return message if _encoder.encode(message).count(b":") == data.count(b":") else None


@cache
def _decoder(definition: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(DEFINITIONS[definition])


def serialize(descriptor: SkillDescriptor) -> str:
    """Return ``descriptor`` as JSON, indented by 2; :func:`parse` gives it back as it was. Spec: SSP §9.3."""
    return msgspec.json.format(_encoder.encode(descriptor), indent=2).decode()


def convert(value: object, definition: str, *, source: str) -> Any:
    """Return the message that a decoded JSON value spells.

    Converting accepts what the schema accepts (``tests/property`` shows it), so the slower validator is asked only
    what is wrong.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` with every error in ``details``.
    """
    try:
        return msgspec.convert(value, DEFINITIONS[definition])
    except msgspec.ValidationError as error:
        violations = validate(value, definition).errors or (Violation("", str(error)),)
        raise invalid(definition, violations, source) from None


def invalid(definition: str, violations: Sequence[Violation], source: str) -> ValidationError:
    """Return the error that says what is wrong with a document. Spec: SSP §8.3.1."""
    first = violations[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ValidationError(
        "VALIDATION_ERROR",
        f"Invalid {definition} document: {first.path or '/'} {first.message}{more}",
        place=Place(f"{source}#{first.path}" if first.path else source),
        details={"errors": [violation.as_object() for violation in violations]},
    )


@cache
def _validator(definition: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, RegexOptions  # noqa: PLC0415  # heavy, and the client may do without

    return Draft202012Validator(json_schema(definition), offline=True, pattern_options=RegexOptions())


def _violation(error: SchemaError) -> Violation:
    kind, path = error.kind, pointer(error.instance_path)
    if kind.name == "required":
        field = str(cast("Any", kind).property)
        return Violation(f"{path}/{_escape(field)}", "is required", expected="a value", actual=None)
    expected = kind.value
    if kind.name == "type":
        return Violation(path, f"must be of type {' or '.join(expected)}", " or ".join(expected), shown(error.instance))
    if kind.name == "enum":
        return Violation(path, "must be equal to one of the allowed values", expected, shown(error.instance))
    if kind.name == "pattern":
        return Violation(path, "must be a version such as 1.0.0", "MAJOR.MINOR.PATCH", shown(error.instance))
    return Violation(path, error.message, expected, shown(error.instance))


def pointer(path: Iterable[str | int]) -> str:
    """Return a path as a JSON Pointer. Spec: RFC 6901."""
    return "".join(f"/{_escape(str(part))}" for part in path)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def shown(value: object) -> object:
    """Return ``value`` if it is short, else how it begins: an error is no place for a megabyte."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if isinstance(value, str) or len(text) > _SHOWN:
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return value
