"""What a person types into one field of a form, as a value. See :mod:`skillwire.invocation.forms`."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_sharing.validation import shown
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.invocation.forms import Field, FieldKind

_WORDS: Final = {
    "true": True,
    "yes": True,
    "y": True,
    "on": True,
    "false": False,
    "no": False,
    "n": False,
    "off": False,
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)"
_TIME: Final = re.compile(_CLOCK, re.ASCII)
_DATETIME: Final = re.compile(rf"\d{{4}}-\d\d-\d\d[Tt ]{_CLOCK}", re.ASCII)
_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:\S{1,2048}")


class WrongAnswerError(Exception):
    """An answer that is not what its field takes."""

    def __init__(self, message: str, expected: object, actual: object) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.actual = shown(actual)


def read_answer(answer: str, field: Field) -> Any:
    """Return the value that ``answer``, which is not blank, spells in ``field``.

    Raises:
        WrongAnswerError: it is not what the field takes.
    """
    if not _is_unicode(answer):
        raise WrongAnswerError("must be Unicode text", "text", answer.encode("ascii", "replace").decode())
    return _READERS[field.kind](answer, field)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: an argument of a command line may hold stray bytes, as half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_integer(answer: str, _: Field) -> int:
    text = answer.strip()
    if not _INTEGER.fullmatch(text):
        raise WrongAnswerError("must be a whole number", "integer", text)
    return int(text)


def _read_number(answer: str, _: Field) -> float:
    text = answer.strip()
    if not _NUMBER.fullmatch(text):
        raise WrongAnswerError("must be a number such as 12.5", "number", text)
    value = int(text) if _INTEGER.fullmatch(text) else float(text)
    if abs(value) == float("inf"):
        raise WrongAnswerError("must be a number that is not so large", "number", text)
    return value


def _read_boolean(answer: str, _: Field) -> bool:
    value = _WORDS.get(answer.strip().lower())
    if value is None:
        raise WrongAnswerError("must be true or false", "boolean", answer)
    return value


def _read_choice(answer: str, field: Field) -> Any:
    values = dict(zip(field.choices, field.values, strict=True))
    for text in (answer, answer.strip()):
        if text in values:
            return values[text]
    raise WrongAnswerError("must be equal to one of the allowed values", list(field.values), answer)


def _read_lines(answer: str, field: Field) -> list[str]:
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    for line in lines:
        if field.choices and line not in field.choices:
            raise WrongAnswerError("must hold nothing but the allowed values", list(field.choices), line)
    return lines


def _read_json(answer: str, _: Field) -> Any:
    try:
        return load_json(answer.encode(), max_bytes=limits.EXECUTION_OUTPUT_BYTES)
    except DecodeError as error:
        raise WrongAnswerError(f"must be JSON: {error.message}", "JSON", answer) from None


def _read_text(answer: str, _: Field) -> str:
    return answer.replace("\r\n", "\n")  # as browsers send line breaks


def _read_calendar(answer: str, field: Field) -> str:
    text = answer.strip()
    form, example, parse = _CALENDAR[field.kind]
    try:
        is_good = form.fullmatch(text) is not None
        parse(text)
    except ValueError:
        is_good = False
    if not is_good:
        raise WrongAnswerError(f"must be a {field.kind} such as {example}", example, text)
    return text


def _read_address(answer: str, field: Field) -> str:
    text = answer.strip()
    form, example = (_EMAIL, "an address such as ann@example.com") if field.kind == "email" else (_URL, "a URL")
    if not form.fullmatch(text):
        raise WrongAnswerError(f"must be {example}", example, text)
    return text


_CALENDAR: Final[dict[str, tuple[re.Pattern[str], str, Callable[[str], object]]]] = {
    "date": (_DATE, "2025-07-01", date.fromisoformat),
    "datetime": (_DATETIME, "2025-07-01T12:00:00Z", lambda text: datetime.fromisoformat(text.upper())),
    "time": (_TIME, "12:00:00Z", lambda text: datetime.fromisoformat(f"2000-01-01T{text.upper()}")),
}
_READERS: Final = cast(
    "Mapping[FieldKind, Callable[[str, Field], Any]]",
    {
        "text": _read_text, "number": _read_number, "integer": _read_integer, "boolean": _read_boolean,
        "choice": _read_choice, "date": _read_calendar, "datetime": _read_calendar, "time": _read_calendar,
        "email": _read_address, "url": _read_address, "lines": _read_lines, "json": _read_json,
    },
)  # fmt: skip
