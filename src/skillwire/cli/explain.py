"""``skillwire explain``: what a code means, without the network, without the docs' pages, in a moment.

Two tables are explained: the error codes (:data:`skillwire.codes.CODES`) and the lint rules
(:data:`skillwire.folder.rules.RULES`). Both are one list to the user, who has seen a code and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from skillwire.cli.output import bad, doubtful, faint, output_options, strong
from skillwire.codes import CODES, DOCS_PAGE
from skillwire.errors import UsageError
from skillwire.folder.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.cli.output import Output, Part

#: First code of a group → its title; the groups are the sections of the two tables, in their order.
ERROR_GROUPS: Final = {
    "USAGE": "The call",
    "JSON_SYNTAX": "Decoding: JSON",
    "LIMIT_SIZE": "Decoding: any document",
    "YAML_SYNTAX": "Decoding: YAML and TOML",
    "FRONTMATTER": "The skill folder",
    "INDEX_SHAPE": "Decoding: Agent Skills Discovery",
    "PATH_TRAVERSAL": "Paths of files",
    "ARCHIVE_MALFORMED": "Archives",
    "URL": "Addresses",
    "HEADER": "The network",
    "LOCK_FORM": "Resolving and installing",
    "QUERY": "Searching",
    "FOLDER_MISSING": "Publishing",
    "NOT_FOUND": "Answers of the server",
}
RULE_GROUPS: Final = {
    "NAME_FOLDER": "SKILL.md",
    "MANIFEST_UNKNOWN": "skill.toml and descriptor.json",
    "FILE_EXCLUDED": "Files",
    "LINK_BROKEN": "Links",
    "HIDDEN_CHARACTERS": "What is hidden or dangerous",
    "INDEX_SCHEMA": "A built site, an index",
}
_RULES_PAGE: Final = "docs/reference/lint-rules.md"
_CHECK_FAILED: Final = 1  # what check exits with when a finding is an error


class Explanation(NamedTuple):
    """Everything that is known of one code. The last three are of lint rules; a level None means not applied."""

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
@output_options
def command(*, output: Output, codes: tuple[str, ...]) -> None:
    """Say what error codes and lint rules mean: the cause, what to do, whether trying again helps.

    Without a CODE every one is listed. Capitals do not matter.
    """
    known = explanations()
    chosen = [known[_find(code, known)] for code in codes] or list(known.values())
    output.document("explain/1", {"codes": [explanation._asdict() for explanation in chosen]})
    if not codes:
        _list(output, chosen)
        return
    for number, explanation in enumerate(chosen):
        if number:
            output.line()
        _tell(output, explanation)


def explanations() -> dict[str, Explanation]:
    """Return every code, in the order of the tables."""
    from skillwire.folder.rule_examples import EXAMPLES  # noqa: PLC0415  # --help does without

    errors = {
        code: Explanation(code, "error", group, *CODES[code][:5], f"{DOCS_PAGE}#{code.lower()}")
        for code, group in _grouped(CODES, ERROR_GROUPS)
    }
    rules = {
        code: Explanation(
            code, "lint rule", group, row.summary, row.cause, row.fix,
            retryable=False,
            exit_code=_CHECK_FAILED if "error" in {row.level_strict, row.level_lenient} else None,
            documentation=f"{_RULES_PAGE}#{code.lower()}",
            strict=row.level_strict,
            lenient=row.level_lenient,
            example=EXAMPLES.get(code),
        )
        for code, group in _grouped(RULES, RULE_GROUPS)
        for row in [RULES[code]]
    }  # fmt: skip
    return errors | rules


def _grouped(table: Mapping[str, object], groups: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    title = ""
    for code in table:
        title = groups.get(code, title)
        yield code, title


def _find(text: str, known: Mapping[str, Explanation]) -> str:
    code = text.strip("[]").replace("-", "_").upper()
    if code in known:
        return code
    from skillwire.cli.suggest import closest, did_you_mean  # noqa: PLC0415  # only an error needs it

    fix = did_you_mean(closest(code, known)) or "skillwire explain lists every code."
    raise UsageError("USAGE", f"there is no code {ascii(text)[:60]}", fix=fix)


def _list(output: Output, chosen: list[Explanation]) -> None:
    groups: dict[tuple[str, str], list[Explanation]] = {}
    for row in chosen:
        groups.setdefault((row.kind, row.group), []).append(row)
    width = max(len(row.code) for row in chosen)
    for number, ((kind, group), rows) in enumerate(groups.items()):
        if number:
            output.line()
        output.line(strong(group), faint(f"  {kind}s"))
        for row in rows:
            output.line(f"  {row.code.ljust(width)}  ", faint(row.summary))
    output.note()
    output.note(faint("more about one: skillwire explain CODE"))


def _tell(output: Output, row: Explanation) -> None:
    output.line(strong(row.code), faint(f"  {row.kind}: {row.group}"))
    output.line(f"{row.summary}.")
    output.line()
    rows: list[tuple[str, Part]] = [("cause", row.cause), ("fix", row.fix)]
    if row.kind == "error":
        rows.append(("try again", "can help, unchanged" if row.retryable else "does not help, unchanged"))
        rows.append(("exit code", "none: it never ends a command" if row.exit_code is None else str(row.exit_code)))
    else:
        rows += [("strict", _level(row.strict)), ("lenient", _level(row.lenient))]
        rows.append(("exit code", "1 of check, where it is an error" if row.exit_code else "none: it is advice"))
    rows.append(("page", row.documentation))
    output.table([faint(label), value] for label, value in rows)
    if row.example:
        output.line()
        output.line(faint("for example"))
        output.text("\n".join(f"  {line}" for line in row.example.split("\n")))


def _level(level: str | None) -> Part:
    if level is None:
        return faint("not applied")
    return {"error": bad, "warning": doubtful}.get(level, faint)(level)
