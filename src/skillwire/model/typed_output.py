"""Outputs as types of the caller's program.

msgspec converts a JSON value to dataclasses, ``TypedDict``, ``msgspec.Struct`` and types made of them. Pydantic
validates its own types, also inside of the others; nothing is imported from it. Trust: an output is hostile, and raises
nothing but ValidationError, whose message has no control characters.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from skillwire.errors import SourceLocation, UsageError, ValidationError

T = TypeVar("T")

_MESSAGE: Final = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_LENGTH: Final = 300


class _PydanticError(ValueError):
    """The first error that Pydantic reports, with the steps from the value to its place."""

    def __init__(self, error: Any) -> None:
        first = error.errors(include_url=False, include_input=False)[0]
        super().__init__(first["msg"])
        self.steps = [str(step) for step in first["loc"]]


def check_type(into: object) -> None:
    """Raise ``USAGE`` for a type that no output can be converted to."""
    try:
        is_known = not isinstance(msgspec.inspect.type_info(into), msgspec.inspect.CustomType) or _has_validator(into)
    except TypeError:
        is_known = False
    if not is_known:
        fix = "Give a dataclass, a TypedDict, a msgspec.Struct, a model of Pydantic, or a type such as list[int]."
        raise UsageError("USAGE", f"into={ascii(into)[:_LENGTH]} is not a type of JSON values", fix=fix)


def convert_output(value: object, into: type[T], source: str) -> T:
    """Return ``value`` as ``into``; raise ``OUTPUT_DIFFERS`` with the JSON Pointer of the first difference."""
    try:
        if _has_validator(into):  # also a dataclass of Pydantic, whose own checks msgspec skips
            validated: T = _validate(into, value)
            return validated
        return msgspec.convert(value, into, dec_hook=_validate)
    except (msgspec.ValidationError, _PydanticError) as error:
        found = _MESSAGE.fullmatch(str(error))
        message, path = (found[1], found[2]) if found else (str(error), None)
        inner = error if isinstance(error, _PydanticError) else error.__cause__
        steps = [name or index for name, index in _STEP.findall(path or "")]
        steps += inner.steps if isinstance(inner, _PydanticError) else []
        pointer = _printable("".join(f"/{step}" for step in steps))
        text = f"the output is not {_name(into)}: {f'{pointer}: ' if pointer else ''}{_printable(message)}"
        place = SourceLocation(f"{source}#{pointer}")
        fix = f"Correct {_name(into)}, or report the output to the provider if it is not as described."
        raise ValidationError("OUTPUT_DIFFERS", text, place=place, details={"path": pointer}, fix=fix) from None


def _validate(into: Any, value: object) -> Any:
    """Return ``value`` as Pydantic reads it; msgspec calls this for types that it does not know."""
    if not _has_validator(into):
        raise TypeError(f"{_name(into)} is not a type of JSON values")
    try:
        return into.__pydantic_validator__.validate_python(value)
    except ValueError as error:
        raise _PydanticError(error) from None


def _has_validator(into: object) -> bool:
    return hasattr(into, "__pydantic_validator__")


def _name(into: object) -> str:
    return str(getattr(into, "__name__", into))


def _printable(text: str) -> str:
    return ascii(text)[1:-1][:_LENGTH]
