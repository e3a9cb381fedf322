"""Write the schema of Skill Sharing: ``schema/draft/schema.json``, ``schema.ts`` and ``schema.mdx``.

With ``--check`` nothing is written, and the exit code says whether what is there is up to date. With
``--release DATE`` the draft is copied to ``schema/DATE/``, which is never changed again. Spec: SSP §6.5.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillwire.protocols.skill_sharing.messages import CONDITIONS
from skillwire.protocols.skill_sharing.validation import json_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent / "schema"
DRAFT: Final = ROOT / "draft"
_TYPESCRIPT_HEAD: Final = "// Skill Sharing Protocol: the types of its schema. Generated; see schema.json beside it."
_MDX_HEAD: Final = """{/* Generated; see schema.json beside it. */}

# Skill Sharing Protocol: schema

Each definition with its fields. A field that is not required may be absent, and is never `null`."""

Schema = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Do what the arguments ask for; return the exit code."""
    definitions: dict[str, Schema] = json_schema()["$defs"]
    files = {
        "schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        "schema.ts": "\n\n".join([_TYPESCRIPT_HEAD, *map(_export, definitions, definitions.values())]) + "\n",
        "schema.mdx": "\n\n".join([_MDX_HEAD, *map(_section, definitions, definitions.values())]) + "\n",
    }
    if arguments == ["--check"]:
        stale = [name for name, text in files.items() if (DRAFT / name).read_text("utf-8") != text]
        for name in stale:
            print(f"schema/draft/{name} is out of date; fix: just schema", file=sys.stderr)
        return 1 if stale else 0
    DRAFT.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (DRAFT / name).write_text(text, encoding="utf-8")
    return _release(arguments[1]) if arguments[:1] == ["--release"] else 0


def _release(date: str) -> int:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) or (ROOT / date).exists():
        print(f"not a date, or released already: {date}", file=sys.stderr)
        return 1
    shutil.copytree(DRAFT, ROOT / date)
    return 0


def _section(name: str, schema: Schema) -> str:
    """Return the section of a definition in MDX."""
    parts = [f"## {name}", schema["description"]]
    if "properties" in schema:
        parts.append("\n".join(["| field | type | required | meaning |", "| --- | --- | --- | --- |", *_rows(schema)]))
    elif "enum" in schema:
        parts.append("One of " + ", ".join(f'`"{value}"`' for value in schema["enum"]) + ".")
    return "\n\n".join(parts + _conditions(name))


def _rows(schema: Schema, prefix: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        required = "yes" if name in schema["required"] else "no"
        meaning = field["description"].replace("{", r"\{")
        yield f"| `{prefix}{name}` | {_mdx_type(field)} | {required} | {meaning} |"
        if "properties" in field:
            yield from _rows(field, f"{prefix}{name}.")


def _mdx_type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f'`"{value}"`' for value in schema["enum"])
    if "items" in schema:
        return f"list of {_mdx_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of string to {_mdx_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _export(name: str, schema: Schema) -> str:
    """Return the exported type of a definition in TypeScript."""
    comment = "\n".join(["/**", *(f" * {line}" for line in [schema["description"], *_conditions(name)]), " */"])
    if "properties" in schema:
        return f"{comment}\nexport interface {name} {_typescript_type(schema)}"
    return f"{comment}\nexport type {name} = {_typescript_type(schema)};"


def _typescript_type(schema: Schema, indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "items" in schema:
        return f"{_typescript_type(schema['items'], indent)}[]"
    if "additionalProperties" in schema:
        return f"Record<string, {_typescript_type(schema['additionalProperties'], indent)}>"
    if "properties" not in schema:
        return str(schema.get("type", "unknown"))
    lines = ["{"]
    for name, field in schema["properties"].items():
        mark = "" if name in schema["required"] else "?"
        lines.append(f"{indent}  /** {field['description']} */")
        lines.append(f"{indent}  {name}{mark}: {_typescript_type(field, indent + '  ')};")
    return "\n".join([*lines, indent + "}"])


def _conditions(name: str) -> list[str]:
    return [
        f"`{rule.demanded}` is required when `{rule.field}` is `{rule.value}`." for rule in CONDITIONS.get(name, ())
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
