"""Forms on pages: the fields of a schema (:mod:`skillwire.executions.tasks`), with widgets, values and errors.

A person answers a task with one, and calls a skill with one. Typed values are kept when they do not fit, and each error
is shown at its field, or above the form.

A call is also shown as commands and programs to copy. These start from the example: each input has the first of the
``examples`` in its schema (``example`` in ``skill.toml``), and a required one without an example or a default gets a
value of its type, so each snippet is complete. The form has the default of an input in place of its example.

Trust: the names and values of a skill become part of what people paste, so each is quoted for its language, and
characters that a terminal or a reader would obey are escaped.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from skillwire.errors import ValidationError
from skillwire.executions.callable_skill import InputRules
from skillwire.executions.tasks import WHOLE, Field, form_of, read_form, text_of
from skillwire.folder.functions import example_value
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.messages import AuthType, ParameterDefinition, SkillDescriptor
from skillwire.protocols.skill_sharing.validation import input_schema
from skillwire.web.address import short_address
from skillwire.web.environment import shorten

#: Before the names of fields, so that none is taken for one of ours.
FIELD_PREFIX: Final = "field:"
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
    return {field.name: "\n".join(sent.get(FIELD_PREFIX + field.name, ())) for field in fields}


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
        "name": FIELD_PREFIX + field.name,
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


_SNIPPET_WIDTH: Final = 72
_INPUTS_PATH: Final = "/inputs"
_DEFAULT_LENGTH: Final = 200  # characters of a default in a text


class Snippet(NamedTuple):
    """Lines to copy: a key that is unique on its page, a title, the lines, and what they are."""

    key: str
    title: str
    lines: str
    what: str


def other_endpoint(descriptor: SkillDescriptor) -> str:
    """Return what the page says where the skill's own descriptor sends calls to another server."""
    return f"This site answers no calls of this skill. Its endpoint does: {descriptor.endpoint.url}"


def example_inputs(parameters: Iterable[ParameterDefinition]) -> dict[str, Any]:
    """Return the inputs of a call to try."""
    found = {}
    for one in parameters:
        schema = {"type": one.type, **(one.schema or {})}
        if schema.get("examples") or (one.required and not one.has_default):
            found[one.name] = example_value(schema)
    return found


def call_snippets(name: str, descriptor: SkillDescriptor, address: str, *, has_mcp: bool) -> list[Snippet]:
    """Return a call of the skill ``name`` in each language; ``has_mcp`` is whether the site calls skills by MCP."""
    inputs, reference, endpoint = (
        example_inputs(descriptor.inputs),
        f"{short_address(address)}/{name}",
        descriptor.endpoint,
    )
    needs_login = descriptor.auth.type is not AuthType.NONE
    header = descriptor.auth.header or "Authorization"
    prefix = "" if descriptor.auth.header else "Bearer "
    credential = f'{shlex.quote(f"{header}: ")}"$TOKEN"' if descriptor.auth.header else f'"{header}: {prefix}$TOKEN"'
    texts = frozenset(one.name for one in descriptor.inputs if one.type == "string")
    pairs = "".join(f" {shlex.quote(_pair(key, value, texts))}" for key, value in inputs.items())
    login = f"skillwire auth login {parse_url(endpoint.url).origin}\n" if needs_login else ""
    snippets = [Snippet("cli", "CLI", f"{login}skillwire call {reference}{pairs}", "that calls it")]
    request = {"skill_id": descriptor.id, "caller": {"id": "me", "type": "user"}, "inputs": inputs}
    fields = {"Content-Type": "application/json", "Prefer": "wait=30"}
    has_body = endpoint.method in {"POST", "PUT"}
    if has_body:
        lines = [f"curl -sS -X {endpoint.method} {shlex.quote(endpoint.url)}"]
        lines += [f"-H {shlex.quote(f'{field}: {value}')}" for field, value in fields.items()]
        lines += [f"-H {credential}"] if needs_login else []
        body = shlex.quote(_json_text(request))
        snippets.append(Snippet("curl", "curl", " \\\n  ".join([*lines, f"-d {body}"]), "with curl"))
    rows = "".join(f"    {key!r}: {value!r},\n" for key, value in inputs.items())
    written = repr(inputs) if len(repr(inputs)) < _SNIPPET_WIDTH else f"{{\n{rows}}}"
    python = (
        f"from skillwire import Client\n\ninputs = {written}\n"
        f"execution = Client().call({reference!r}, inputs)\nprint(execution.check().output)"
    )
    snippets.append(Snippet("python", "Python", python, "in Python"))
    if has_body:
        headers = json.dumps(fields)[1:-1]
        headers += f", {json.dumps(header)}: `{prefix}${{process.env.TOKEN}}`" if needs_login else ""
        following = endpoint.status_url and (
            'while (["accepted", "running"].includes(execution.status)) {\n'
            "  await new Promise((resolve) => setTimeout(resolve, 1000));\n"
            f'  const status = {json.dumps(endpoint.status_url)}.replace("{{execution_id}}", execution.execution_id);\n'
            "  execution = await (await fetch(status, { headers })).json();\n"
            "}\n"
        )
        typescript = (
            f"const headers = {{ {headers} }};\n"
            f"const response = await fetch({json.dumps(endpoint.url)}, {{\n"
            f"  method: {json.dumps(endpoint.method)},\n  headers,\n"
            f"  body: JSON.stringify({json.dumps(request)}),\n}});\n"
            f"let execution = await response.json();\n{following or ''}"
            'if (execution.status !== "completed") throw new Error(JSON.stringify(execution));\n'
            "console.log(execution.output);"
        )
        snippets.append(Snippet("typescript", "TypeScript", typescript, "in TypeScript"))
    if has_mcp:
        server = f"claude mcp add --transport http {name} {address}/mcp"
        call = {"name": "call_skill", "arguments": {"name": name, "arguments": inputs}}
        snippets.append(Snippet("mcp", "MCP", server, "that adds the MCP server"))
        snippets.append(Snippet("mcp-call", "MCP tool call", _json_text(call, indent=2), "by MCP"))
    return snippets


def _pair(name: str, value: object, texts: frozenset[str]) -> str:
    """Return an input as ``skillwire call`` reads it."""
    if name in texts and isinstance(value, str) and value.isprintable() and not value.startswith("@"):
        return f"{name}={value}"
    return f"{name}{':' if name in texts else ''}={_json_text(value)}"


def _json_text(value: object, indent: int | None = None) -> str:
    """Return readable JSON, all of it ASCII where a character would not be printed as it is."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    is_safe = all(one.isprintable() or one == "\n" for one in text)
    return text if is_safe else json.dumps(value, indent=indent)


def about_input(parameter: ParameterDefinition) -> str:
    """Return the description of an input with its default."""
    if not parameter.has_default:
        return parameter.description
    default = shorten(_json_text(parameter.default), _DEFAULT_LENGTH)
    return f"{as_sentence(parameter.description)} Default: {default}.".lstrip()


def form_of_inputs(parameters: Iterable[ParameterDefinition]) -> tuple[Field, ...]:
    """Return the fields of a form for these inputs."""
    properties, required = {}, []
    for one in parameters:
        default = {"default": one.default} if one.has_default else {}
        properties[one.name] = {"description": about_input(one), **default, **input_schema(one)}
        required += [one.name] if one.required and not default else []
    return form_of({"type": "object", "properties": properties, "required": required}) if properties else ()


def typed_values(fields: Sequence[Field], inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each field for ``inputs``; a missing input has its default."""
    typed = {}
    for field in fields:
        value: Any = inputs
        for key in field.path:
            value = value.get(key, UNSET) if isinstance(value, dict) else UNSET
        if value is UNSET:
            text = field.default or ""
        elif field.kind == "lines" and isinstance(value, list):
            text = "\n".join(map(str, value))
        else:
            text = json.dumps(value, ensure_ascii=False) if field.kind == "json" else text_of(value)
        typed[field.name] = text
    return typed


def read_inputs(
    fields: Sequence[Field], typed: Mapping[str, str], rules: InputRules
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the inputs of a form, and every error with its path below ``/output``, as forms have it."""
    inputs: Any = {}
    errors: list[dict[str, Any]] = []
    good = list(fields)
    try:
        inputs = read_form(fields, typed)
    except ValidationError as error:
        errors = list(error.details["errors"])  # type: ignore[call-overload]  # see field_mismatch
        wrong = {one["path"] for one in errors}
        good = [field for field in fields if field.pointer not in wrong]
        inputs = read_form(good, {field.name: typed.get(field.name, "") for field in good})
    if not isinstance(inputs, dict):
        return {}, [{"path": f"/{WHOLE}", "message": "must be an object"}]
    try:
        rules.check(inputs)
    except ValidationError as error:
        reported = {str(one["path"]) for one in errors}
        for one in error.details["errors"]:  # type: ignore[attr-defined]  # see callable_skill
            path = f"/{WHOLE}{str(one['path']).removeprefix(_INPUTS_PATH)}"
            errors += [] if path in reported else [{**one, "path": path}]
    return inputs, errors


class ShownCall(NamedTuple):
    """What the page of a callable skill shows beside its snippets.

    ``form`` has its fields, unless there is a ``refusal``; ``problem`` is why a call was not accepted, ``general`` are
    errors of no field. ``run`` is the rendered execution, whose changes are at ``live``. ``needs_login``: signing in
    helps.
    """

    form: Sequence[Mapping[str, Any]] = ()
    refusal: str = ""
    needs_login: bool = False
    problem: str = ""
    general: Sequence[str] = ()
    run: str = ""
    live: str = ""
