"""Forms on pages: the fields of a schema (:mod:`skillwire.executions.task_form`), with widgets, values and errors.

A person answers a task with one, and calls a skill with one. Typed values are kept when they do not fit, and each error
is shown at its field, or above the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwire.executions.task_form import Field

#: Before the names of fields, so that none is taken for one of ours.
PREFIX: Final = "field:"
#: More choices than these are a list to open.
_CHOICES: Final = 6
#: A text that may be longer has several lines.
_LONG_LINE: Final = 120
_HINTS: Final[Mapping[str, str]] = {
    "date": "Such as 2025-07-01.",
    "datetime": "In UTC, such as 2025-07-01T12:00:00Z.",
    "time": "In UTC, such as 12:00:00Z.",
    "json": "As JSON.",
    "lines": "One on each line.",
}
_MODES: Final[Mapping[str, str]] = {"integer": "numeric", "number": "decimal", "email": "email", "url": "url"}
_ENDS: Final = ".!?…:。！？"  # noqa: RUF001  # Chinese ones too
_YES_OR_NO: Final = (("true", "Yes"), ("false", "No"))


def read_typed(fields: Sequence[Field], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the untrusted form's value of each field; several values are several lines."""
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    return {field.name: "\n".join(sent.get(PREFIX + field.name, ())) for field in fields}


def form_input(
    index: int, field: Field, typed: Mapping[str, str] | None, errors: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a field with its widget, choices and value; ``wrong`` and ``summary`` are sentences about its error.

    Without ``typed`` values it has its default. Each error has a ``path`` and a ``message``.
    """
    value = (field.default or "") if typed is None else typed.get(field.name, "")
    choices = _YES_OR_NO if field.kind == "boolean" else [(choice, choice) for choice in field.choices]
    error = next((str(error["message"]) for error in errors if _is_at(field, str(error["path"]))), "")
    is_picked = field.kind == "date" and not choices and not error  # a picker would not show a wrong text
    hint = "" if choices or is_picked else _HINTS.get(field.kind, "")
    continues_label = error.startswith(("is ", "must "))  # the label of the field is the subject of the sentence
    return {
        "field": field,
        "key": f"field-{index}",
        "name": PREFIX + field.name,
        "widget": _widget(field, choices),
        "choices": choices,
        "value": value,
        "chosen": frozenset(value.splitlines()) if field.kind == "lines" else frozenset({value}),
        "type": "date" if is_picked else "text",
        "about": f"{as_sentence(field.description)} {hint}".strip() if hint else field.description,
        "mode": _MODES.get(field.kind, "text"),
        "error": error,
        "wrong": f"This {error}." if continues_label else f"{error[:1].upper()}{error[1:]}." if error else "",
        "summary": f" {error}." if continues_label else f": {error}.",
    }


def as_sentence(text: str) -> str:
    """Return ``text`` with a full stop, unless it is empty or has an end of its own."""
    line = text.rstrip()
    return f"{line}." if line and line[-1] not in _ENDS else line


def _is_at(field: Field, path: str) -> bool:
    """Whether an error concerns a field: its value, or something within it."""
    return path == field.pointer or (path.startswith(f"{field.pointer}/") and field.kind in {"json", "lines"})


def general_errors(fields: Sequence[Field], errors: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each error that belongs to no field; a page shows them above the form."""
    others = [error for error in errors if not any(_is_at(field, str(error["path"])) for field in fields)]
    return [f"{str(error['path']).removeprefix('/output')} {error['message']}.".lstrip() for error in others]


def _widget(field: Field, choices: Sequence[tuple[str, str]]) -> str:
    if field.kind == "lines":
        return "several" if choices else "lines"
    if choices:
        return "choices" if len(choices) <= _CHOICES else "list"
    if field.kind == "text" and (field.maximum is None or field.maximum > _LONG_LINE):
        return "lines"
    return "code" if field.kind == "json" else "line"
