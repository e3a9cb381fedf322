"""``skillwire explain``: codes, offline and without the documentation pages, and schemas of JSON documents.

It covers the error codes (:data:`skillwire.codes.CODES`) and the lint rules (:data:`skillwire.folder.rules.RULES`) in
one list.

A JSON Schema (2020-12) of each document that commands print with ``--json`` is made from the document's type. These
types are typed dictionaries and named tuples: importing msgspec takes longer than a whole ``list --json``. Only what a
server answers is a ``Struct``, whose fields with a default may be absent. A document names its schema in the field
``schema``, as ``skillwire/NAME/N``. Within a number N a field is never removed, renamed or given another meaning or
type; fields may be added, and values to a list of allowed ones. Anything else makes N+1. Tests validate every document
that a test makes a command print.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Never,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import click

from skillwire.cli.advice import closest, did_you_mean
from skillwire.cli.documents import CodeObject, WithFindings
from skillwire.cli.options import LazyModule
from skillwire.cli.output import Output, Part, bold, dim, encode_document, failure, output_options, warning
from skillwire.codes import CODES, DOCS_PAGE
from skillwire.errors import UsageError, documentation_link
from skillwire.folder.rules import RULES
from skillwire.folder.schemas import SCHEMAS

if TYPE_CHECKING:
    from skillwire.cli import documents_run
else:  # load msgspec
    documents_run = LazyModule("cli.documents_run")


#: Sections and examples, written by ``tools/generate_docs.py`` from the tables' sections and the docs' pages.
_GENERATED: Final = Path(__file__).with_name("explanations.json")
_RULES_PAGE: Final = "docs/reference/lint-rules.md"
_CHECK_FAILED: Final = 1  # what check exits with when a finding is an error


@click.command()
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@click.option(
    "--schema", metavar="NAME", help="Print the JSON Schema of skill.toml, SKILL.md or a JSON document such as find/1."
)
@output_options
def command(*, output: Output, codes: tuple[str, ...], schema: str | None) -> None:
    """Explain error codes and lint rules: cause, fix, and whether a retry may help.

    Without a CODE, all codes are listed. Case does not matter.
    """
    if schema is not None:
        if codes:
            raise UsageError("USAGE", "--schema goes without a CODE")
        click.echo(encode_document(_find_schema(schema)))
        return
    known = explanations()
    chosen = [known[_find(code, known)] for code in codes] or list(known.values())
    output.document({"schema": "skillwire/explain/1", "codes": chosen})
    if not codes:
        _list(output, chosen)
        return
    for number, explanation in enumerate(chosen):
        if number:
            output.line()
        _print_explanation(output, explanation)


def explanations() -> dict[str, CodeObject]:
    """Return every code, in the order of the tables."""
    generated = json.loads(_GENERATED.read_bytes())
    sections, examples = generated["sections"], generated["examples"]
    errors = {
        code: CodeObject(
            code=code,
            kind="error",
            group=sections.get(code, ""),
            documentation=documentation_link(f"{DOCS_PAGE}#{code.lower()}"),
            **row._asdict(),
        )
        for code, row in CODES.items()
    }
    rules = {
        code: CodeObject(
            code=code,
            kind="lint rule",
            group=sections.get(code, ""),
            summary=row.summary,
            cause=row.cause,
            fix=row.fix,
            retryable=False,
            exit_code=_CHECK_FAILED if "error" in {row.level_strict, row.level_lenient} else None,
            documentation=documentation_link(f"{_RULES_PAGE}#{code.lower()}"),
            strict=row.level_strict,
            lenient=row.level_lenient,
            example=examples.get(code),
        )
        for code, row in RULES.items()
    }
    return errors | rules


def _find(text: str, known: Mapping[str, CodeObject]) -> str:
    code = text.strip("[]").replace("-", "_").upper()
    if code in known:
        return code
    fix = did_you_mean(closest(code, known)) or "skillwire explain lists every code."
    raise UsageError("USAGE", f"there is no code {ascii(text)[:60]}", fix=fix)


def _find_schema(name: str) -> dict[str, Any]:
    if name in SCHEMAS:
        return SCHEMAS[name]
    known = document_names()
    if name not in known:
        fix = did_you_mean(closest(name, [*SCHEMAS, *known])) or f"Write {', '.join(SCHEMAS)} or {known[0]}."
        raise UsageError("USAGE", f"there is no schema {ascii(name)[:60]}", fix=fix)
    return schema_of(name)


def _list(output: Output, chosen: list[CodeObject]) -> None:
    groups: dict[tuple[str, str], list[CodeObject]] = {}
    for row in chosen:
        groups.setdefault((row.kind, row.group), []).append(row)
    width = max(len(row.code) for row in chosen)
    for number, ((kind, group), rows) in enumerate(groups.items()):
        if number:
            output.line()
        title = group if group.startswith(("SKILL", "skill")) else group[:1].upper() + group[1:]
        output.line(bold(title), dim(f"  {kind}s"))
        for row in rows:
            output.line(f"  {row.code.ljust(width)}  ", dim(row.summary), indent=width + 4)
    output.note()
    output.hint("details:", "skillwire explain CODE")


def _print_explanation(output: Output, row: CodeObject) -> None:
    output.line(bold(row.code), dim(f"  {row.kind}: {row.group}"))
    output.line(f"{row.summary}.", indent=0)
    output.line()
    rows: list[tuple[str, Part]] = [("cause", row.cause), ("fix", row.fix)]
    if row.kind == "error":
        rows.append(("try again", "may help" if row.retryable else "does not help"))
        no_code = "none: it is a finding or a server response"
        rows.append(("exit code", no_code if row.exit_code is None else str(row.exit_code)))
    else:
        rows += [("strict", _level(row.strict)), ("lenient", _level(row.lenient))]
        rows.append(("exit code", "1 from check, when it is an error" if row.exit_code else "none: it is advice"))
    if row.documentation:
        rows.append(("page", row.documentation))
    output.table([dim(label), value] for label, value in rows)
    if row.example:
        output.line()
        output.line(dim("for example"))
        output.text("\n".join(f"  {line}" for line in row.example.split("\n")))


def _level(level: str | None) -> Part:
    if level is None:
        return dim("not applied")
    return {"error": failure, "warning": warning}.get(level, dim)(level)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
_MEANINGS: Final = {"schema": {"description": "Name of this document"}, "event": {"description": "What happened"}}
#: Documents that are printed one object a line.
_STREAMS: Final = {"serve/1": "serve", "lan/1": "lan", "scene-event/1": "scene join and request, with --follow,"}
_SIMPLE: Final[dict[object, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},  # every whole number in a document is a count
    float: {"type": "number"},
    bool: {"type": "boolean"},
    object: {},
    Any: {},
    NoneType: {"type": "null"},
}


def document_names() -> list[str]:
    """Return the names of all documents, sorted."""
    return sorted(_documents())


def schema_of(name: str) -> Schema:
    """Return the schema of the document ``name``, such as ``find/1``.

    Raises:
        KeyError: there is no such document.
    """
    head = {"$schema": DIALECT, "title": f"skillwire/{name}"}
    kinds = _documents()[name]
    if name in _STREAMS:
        meaning = f"Output of {_STREAMS[name]} one object a line."
        return {**head, "description": meaning, "oneOf": [_object(kind) for kind in kinds]}
    schema = _object(kinds[0])
    if "findings" not in schema["properties"]:  # check has its own, with the cause
        schema["properties"] |= _object(WithFindings)["properties"]
        schema["required"].append("findings")
    return {**head, **schema}


@cache
def _documents() -> dict[str, list[type]]:
    """Return name → the types of a document; a stream has one for each kind of line."""
    found: dict[str, list[type]] = {}
    for kind in (*get_args(documents_run.Document), *get_args(documents_run.Event)):
        name = get_args(get_type_hints(_parts(kind)[0])["schema"])[0]
        found.setdefault(name.removeprefix("skillwire/"), []).append(kind)
    return found


def _parts(kind: type) -> tuple[type, ...]:
    """Return the types whose fields an object has: a tuple of types stands for one object."""
    return get_args(kind) or (kind,)


def _object(kind: type) -> Schema:
    hints = {name: hint for part in _parts(kind) for name, hint in get_type_hints(part, include_extras=True).items()}
    fields = {name: hints[name] for name in (*(name for name in _MEANINGS if name in hints), *hints)}
    named = next((hints[name] for name in reversed(_MEANINGS) if name in hints), None)
    has_default = getattr(kind, "__struct_fields__", ())[len(fields) - len(getattr(kind, "__struct_defaults__", ())) :]
    return {
        "type": "object",
        **({} if named is None else {"description": get_args(named)[1]}),
        "properties": {name: {**_schema(hint), **_MEANINGS.get(name, {})} for name, hint in fields.items()},
        "required": [
            name for name in fields if get_origin(fields[name]) is not NotRequired and name not in has_default
        ],
        "additionalProperties": False,
    }


def _schema(hint: Any) -> Schema:  # noqa: PLR0911  # one return for each form of type
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if origin is NotRequired:
        return _schema(arguments[0])
    if origin is Annotated:
        values = next((note for note in arguments if get_origin(note) is Literal), arguments[0])
        about = next((note for note in arguments if isinstance(note, str)), None)
        return _schema(values) | ({} if about is None else {"description": about})
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"type": "string", "enum": list(arguments)}
    if origin in {Union, UnionType}:
        parts = [_schema(part) for part in arguments if part is not documents_run.ABSENT]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin in {list, tuple}:
        return {"type": "array", **({"maxItems": 0} if arguments[0] is Never else {"items": _schema(arguments[0])})}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": _schema(arguments[1]) or True}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": list(hint)}
    return _object(hint)
