"""What the schemas of ``--json`` are made of: a few builders, and the shapes that several documents share.

Every field has a description, every object is closed: a field that no schema names is a defect, and so is one that is
missing. See :mod:`skillwire.cli.documents`.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]


def text(meaning: str, *allowed: str) -> Schema:
    """Return a text, or one of ``allowed``."""
    return {"type": "string", "description": meaning} | ({"enum": list(allowed)} if allowed else {})


def number(meaning: str) -> Schema:
    """Return a whole number that is not negative."""
    return {"type": "integer", "minimum": 0, "description": meaning}


def decimal(meaning: str) -> Schema:
    """Return a number that need not be whole."""
    return {"type": "number", "description": meaning}


def flag(meaning: str) -> Schema:
    """Return true or false."""
    return {"type": "boolean", "description": meaning}


def some(meaning: str, items: Schema) -> Schema:
    """Return a list of ``items``."""
    return {"type": "array", "items": items, "description": meaning}


def texts(meaning: str) -> Schema:
    """Return a list of texts."""
    return some(meaning, {"type": "string"})


def fields(meaning: str, /, **named: Schema) -> Schema:
    """Return a closed object that always has all of ``named``."""
    return {
        "type": "object",
        "description": meaning,
        "properties": named,
        "required": list(named),
        "additionalProperties": False,
    }


def may_lack(schema: Schema, *names: str) -> Schema:
    """Return an object's ``schema`` in which these fields need not be there."""
    return {**schema, "required": [name for name in schema["required"] if name not in names]}


def or_null(schema: Schema, when: str) -> Schema:
    """Return ``schema`` or null; ``when`` says what null means."""
    meaning = f"{schema['description']}; null {when}"
    return {"anyOf": [schema, {"type": "null"}], "description": meaning}


def anything(meaning: str) -> Schema:
    """Return any JSON value."""
    return {"description": meaning}


PLACE: Final = fields(
    "Where it is",
    source=text("A file or a URL"),
    line=or_null(number("Line, from 1"), "where there is none"),
    column=or_null(number("Column in characters, from 1"), "where there is none"),
    end_column=or_null(number("Column after the last one"), "where there is none"),
    excerpt=or_null(text("The line"), "where there is none"),
)
FINDING: Final = fields(
    "One thing that was skipped or is doubtful",
    code=text("A code; skillwire explain CODE says more"),
    level=text("How grave it is", "error", "warning", "note"),
    message=text("What is the matter"),
    place=or_null(PLACE, "where there is no place"),
    fix=text("What to do"),
)
ERROR: Final = fields(
    "What went wrong",
    code=text("A code; skillwire explain CODE says more"),
    message=text("What happened in this case"),
    cause=text("What usually causes it"),
    place=or_null(PLACE, "where there is no place"),
    fix=text("What to do"),
    retryable=flag("Whether the same call may succeed later"),
    documentation=text("The page and anchor of the documentation"),
    details={
        "type": "object",
        "additionalProperties": True,
        "description": "Facts for machines, by the code; not part of the promise",
    },
)
FOLDERS: Final = {
    "folders": texts("The folders of skills that hold the files, relative to the root"),
    "links": texts("The folders of skills that hold a link to the first of them"),
}
_DIGEST: Final = or_null(text("sha256: and 64 hexadecimal digits"), "where the origin gives none")
_VERSION: Final = or_null(text("The version"), "where there is none")
REF_FIELDS: Final = {
    "name": text("The name"),
    "reference": text("What to type to mean it"),
    "origin": text("The publisher's place: a URL without the well-known part, an endpoint, or path: and a folder"),
    "description": text("What it does and when to use it"),
    "version": _VERSION,
    "digest": _DIGEST,
    "found_via": text("Which sources named it"),
    "shared": or_null(
        fields(
            "What Skill Sharing says of it",
            id=text("Its id there"),
            title=text("Its name for people"),
            capability_type=text("What kind of capability it is", "plugin", "api", "knowledge", "task"),
            access=text("Who may see and invoke it", "public", "restricted", "private"),
            provider=or_null(text("Who publishes it"), "where a registry does not say"),
            descriptor_url=text("Where its descriptor is"),
        ),
        "where that was not asked, or does not list it",
    ),
    "rpc": or_null(
        fields(
            "What an endpoint of the Skills Protocol says of it",
            endpoint=text("Its URL"),
            namespace=text("Which it belongs to; empty when it does not say"),
            kind=text("What it is; empty when it does not say", "action", "instruction", ""),
        ),
        "where it was not found at one",
    ),
}
REF: Final = fields("A skill that was found", **REF_FIELDS)
LOCKED: Final = fields(
    "An installed skill",
    name=text("The name"),
    origin=text("The publisher's place"),
    version=_VERSION,
    digest=_DIGEST,
    first_seen=text("When this digest was first installed here, RFC 3339 in UTC"),
    agents=texts("The agents that it is installed for"),
    **FOLDERS,
    files=number("How many files it has"),
)
COMPARISON: Final = fields(
    "An installed skill beside what its origin has",
    name=text("The name"),
    state=text("How they compare", "current", "changed", "unverifiable", "gone", "unreachable"),
    installed=fields("What is installed", version=_VERSION, digest=_DIGEST),
    latest=or_null(fields("What the origin has", version=_VERSION, digest=_DIGEST), "when that is not known"),
    error=or_null(text("The code of the error"), "when the origin was read"),
)
DRY_RUN: Final = flag("Whether nothing was changed, because of --dry-run")
REPORT: Final = {
    "root": text("The folder that places are relative to"),
    "installed": some("What was put in place", LOCKED),
    "updated": texts("Those of the installed that replaced an earlier version"),
    "unchanged": texts("What stood there already"),
    "failed": {"type": "object", "additionalProperties": ERROR, "description": "By name, what failed and why"},
}
