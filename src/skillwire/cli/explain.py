"""``skillwire explain``: the meaning of a code, offline and without the documentation pages.

It covers the error codes (:data:`skillwire.codes.CODES`) and the lint rules (:data:`skillwire.folder.rules.RULES`) in
one list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import click

from skillwire.cli.advice import closest, did_you_mean
from skillwire.cli.output import Output, Part, bold, dim, encode_document, failure, output_options, warning
from skillwire.codes import CODES, DOCS_PAGE
from skillwire.errors import UsageError, documentation_link
from skillwire.folder.rules import RULES
from skillwire.folder.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from skillwire.cli.documents import CodeObject

#: Sections and examples, written by ``tools/generate_docs.py`` from the tables' sections and the docs' pages.
_GENERATED: Final = Path(__file__).with_name("explanations.json")
_RULES_PAGE: Final = "docs/reference/lint-rules.md"
_CHECK_FAILED: Final = 1  # what check exits with when a finding is an error


class Explanation(NamedTuple):
    """One code. The last three fields apply to lint rules; a level None means that the rule is not applied."""

    code: str
    kind: str
    group: str
    summary: str
    cause: str
    fix: str
    retryable: bool
    exit_code: int | None
    documentation: str
    strict: str | None = None
    lenient: str | None = None
    example: str | None = None


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
        click.echo(encode_document(_schema(schema)))
        return
    known = explanations()
    chosen = [known[_find(code, known)] for code in codes] or list(known.values())
    rows = [cast("CodeObject", explanation._asdict()) for explanation in chosen]
    output.document({"schema": "skillwire/explain/1", "codes": rows})
    if not codes:
        _list(output, chosen)
        return
    for number, explanation in enumerate(chosen):
        if number:
            output.line()
        _print_explanation(output, explanation)


def explanations() -> dict[str, Explanation]:
    """Return every code, in the order of the tables."""
    generated = json.loads(_GENERATED.read_bytes())
    sections, examples = generated["sections"], generated["examples"]
    errors = {
        code: Explanation(
            code, "error", sections.get(code, ""), *row, documentation_link(f"{DOCS_PAGE}#{code.lower()}")
        )
        for code, row in CODES.items()
    }
    rules = {
        code: Explanation(
            code, "lint rule", sections.get(code, ""), row.summary, row.cause, row.fix,
            retryable=False,
            exit_code=_CHECK_FAILED if "error" in {row.level_strict, row.level_lenient} else None,
            documentation=documentation_link(f"{_RULES_PAGE}#{code.lower()}"),
            strict=row.level_strict,
            lenient=row.level_lenient,
            example=examples.get(code),
        )
        for code, row in RULES.items()
    }  # fmt: skip
    return errors | rules


def _find(text: str, known: Mapping[str, Explanation]) -> str:
    code = text.strip("[]").replace("-", "_").upper()
    if code in known:
        return code
    fix = did_you_mean(closest(code, known)) or "skillwire explain lists every code."
    raise UsageError("USAGE", f"there is no code {ascii(text)[:60]}", fix=fix)


def _schema(name: str) -> dict[str, Any]:
    from skillwire.cli.schemas import names, schema_of  # noqa: PLC0415  # the codes need neither

    if name in SCHEMAS:
        return SCHEMAS[name]
    known = names()
    if name not in known:
        fix = did_you_mean(closest(name, [*SCHEMAS, *known])) or f"Write {', '.join(SCHEMAS)} or {known[0]}."
        raise UsageError("USAGE", f"there is no schema {ascii(name)[:60]}", fix=fix)
    return schema_of(name)


def _list(output: Output, chosen: list[Explanation]) -> None:
    groups: dict[tuple[str, str], list[Explanation]] = {}
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


def _print_explanation(output: Output, row: Explanation) -> None:
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
    if "://" in row.documentation:  # the pages are built, so a path leads nowhere in a checkout
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
