"""The JSON documents that commands print with ``--json``: one schema for each name, JSON Schema 2020-12.

A document names its schema in the field ``schema``, as ``skillwire/NAME/N``. Within a number N a field is never taken
away, never renamed and never given another meaning or type; fields may be added, and values to a list of allowed ones.
Anything else makes N+1. The schemas say what this version prints, to the letter: tests hold every document that
any test makes the commands print against them, so an undocumented field fails.
"""

from __future__ import annotations

from typing import Final

from skillwire.cli import document_access, document_calls, document_lan, document_publishing, document_skills
from skillwire.cli.document_parts import (
    ERROR,
    FINDING,
    Schema,
    anything,
    fields,
    flag,
    number,
    or_null,
    some,
    text,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_CONFIG_VALUE: Final = {
    "value": anything("The value: a text, true or false, or a list of texts"),
    "from": text("Where it comes from"),
}

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
_CONTENTS: Final[dict[str, Schema]] = {
    **document_publishing.DOCUMENTS,
    **document_skills.DOCUMENTS,
    **document_calls.DOCUMENTS,
    **document_access.DOCUMENTS,
    **document_lan.DOCUMENTS,
    "error/1": fields("Any command that fails.", error=ERROR),
    "doctor/1": fields(
        "What doctor looked at.",
        checks=some(
            "Each check",
            fields(
                "A check",
                section=text("The subject"),
                severity=text("The verdict", "ok", "warning", "problem"),
                what=text("What is so"),
                why=text("Why that matters; empty when all is well"),
                fix=text("What to do; empty when all is well"),
            ),
        ),
        counts={
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "How many checks have each verdict",
        },
    ),
    "explain/1": fields(
        "What codes mean.",
        codes=some(
            "The codes",
            fields(
                "A code",
                code=text("The code"),
                kind=text("What it is a code of"),
                group=text("The group it is listed under"),
                summary=text("What it means"),
                cause=text("What usually causes it"),
                fix=text("What to do"),
                retryable=flag("Whether trying again may help"),
                exit_code=or_null(number("The exit code of a command that ends with it"), "when none does"),
                documentation=text("The page and anchor of the documentation"),
                strict=or_null(text("What check does with it when strict"), "when it is not applied, or no lint rule"),
                lenient=or_null(text("What check does with it when lenient"), "as above"),
                example=or_null(text("An example"), "where there is none"),
            ),
        ),
    ),
    "config-show/1": fields(
        "The settings in force.",
        settings=some(
            "The settings",
            fields(
                "A setting",
                setting=text("Its key"),
                **_CONFIG_VALUE,
                hides=some("Values of lower places that it hides", fields("A value", **_CONFIG_VALUE)),
            ),
        ),
        credentials=some(
            "For whom there are credentials; never the credentials themselves",
            fields("A credential", **{"origin": text("For whom"), "from": text("Where it stands")}),
        ),
    ),
    "config-path/1": fields(
        "The settings files.",
        project=or_null(text("The project's"), "when it has none"),
        user=text("The user's own"),
        user_exists=flag("Whether that exists"),
    ),
}
#: Documents that are printed one object a line: who prints them, and their events.
_STREAMS: Final = {
    "serve/1": ("serve", document_publishing.SERVE_EVENTS),
    "lan/1": ("lan", document_lan.LAN_EVENTS),
    "scene-event/1": ("scene join and request, with --follow,", document_lan.SCENE_EVENTS),
}


def schema_of(name: str) -> Schema:
    """Return the schema of the document ``name``, such as ``find/1``.

    Raises:
        KeyError: there is no such document.
    """
    head = {"$schema": DIALECT, "title": f"skillwire/{name}"}
    named = {"schema": {"const": f"skillwire/{name}", "description": "The name of this document"}}
    if name in _STREAMS:
        printed_by, events = _STREAMS[name]
        lines = [
            _with(content, {**named, "event": {"const": event, "description": "What happened"}})
            for event, content in events.items()
        ]
        return {**head, "description": f"What {printed_by} prints, one object a line.", "oneOf": lines}
    finding = FINDING
    if name == "check/1":  # a report for publishers tells the cause, too
        finding = _with(FINDING, {"cause": text("Why it matters")})
    findings = {"findings": some("What was skipped or is doubtful", finding)}
    return {**head, **_with(_with(_CONTENTS[name], named), {}, findings)}


def names() -> list[str]:
    """Return the name of every document, by alphabet."""
    return sorted([*_CONTENTS, *_STREAMS])


def _with(schema: Schema, before: Schema, after: Schema | None = None) -> Schema:
    after = after or {}
    return {
        **schema,
        "properties": {**before, **schema["properties"], **after},
        "required": [*before, *schema["required"], *after],
    }
