"""JSON Schemas (2020-12) of ``skill.toml`` and of SKILL.md's frontmatter, for editors and other checkers.

They are made from the constants with which :mod:`skillwire.folder.manifest` and :mod:`skillwire.folder.frontmatter`
read, and their descriptions are the tables of ``docs/reference/skill-folder.md``. A schema accepts every document that
the strict check accepts; it lacks the rules that compare two values or look at other files. Tests hold both together.
A frontmatter without a description, which is the Skills Protocol's own, has no schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from skillwire import limits
from skillwire.folder import executors, fields, manifest
from skillwire.model import skill

Schema = dict[str, Any]
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_FLAG: Final[Schema] = {"type": "boolean"}
_TABLE: Final[Schema] = {"type": "object"}
_STRING: Final[Schema] = {"type": "string"}
_FILLED: Final[Schema] = {"type": "string", "minLength": 1}


def _text(most: int) -> Schema:
    return {"type": "string", "pattern": r"\S", "maxLength": int(most)}


def _pattern(form: re.Pattern[str], most: int | None = None) -> Schema:
    return {"type": "string", "pattern": f"^(?:{form.pattern})$", **({"maxLength": int(most)} if most else {})}


def _list(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, **({"maxItems": int(most)} if most else {})}


def _choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def _number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _open(**properties: tuple[Schema, str]) -> Schema:
    """Return the schema of a table from the fields that have a form, each with its description."""
    return {
        "type": "object",
        "properties": {name: {**one, "description": text} for name, (one, text) in properties.items()},
    }


def _closed(**properties: tuple[Schema, str]) -> Schema:
    """Return the schema of a table that has no other fields."""
    return {**_open(**properties), "additionalProperties": False}


_DESCRIPTION: Final = _text(limits.DESCRIPTION_LENGTH)
_DOTTED: Final = _pattern(fields.DOTTED, fields.MATCHED_LENGTH)
_IDENTIFIER: Final = _pattern(fields.IDENTIFIER)
_EXPORT: Final = _pattern(fields.EXPORT)
_ENTRYPOINT: Final[Schema] = {"type": "string", "pattern": r"^[^-/].*\.py$"}
_VERSION: Final[Schema] = {
    "type": "string", "pattern": skill.SEMVER_PATTERN.removesuffix(r"\Z") + "$", "maxLength": skill.VERSION_LENGTH,
}  # fmt: skip
_SECRETS: Final = _list({"type": "string", "pattern": f"^(?!(?:{fields.ORDERS.pattern})$){fields.SECRET.pattern}$"})

# A row: the field, its form, its meaning.
# fmt: off
_RUNTIME: Final = _closed(
    language=(_choice("python"), "Default: `python`."),
    entrypoint=(_ENTRYPOINT, "A `.py` file of the folder."),
    export=(_EXPORT, "Its function `def main(args)`. Default: `main`."),
)
_PERMISSIONS: Final = _closed(
    network=(_list(_pattern(fields.NETWORK)), ("https origins: `https://host`, `https://host:8443`, `https://*.host`; "
        "no shared hosts (`*.com`, `*.github.io`), addresses or local names.")),
    secrets=(_SECRETS, ("Environment variables in capitals; none that control programs (`PATH`, `LD_PRELOAD`, "
        "`PYTHONPATH`).")),
)
_INPUT: Final[Schema] = {
    **_closed(
        type=(_choice(*manifest.INPUT_TYPES), "Default: `string`."),
        description=(_DESCRIPTION, "What to give."),
        required=(_FLAG, "It must be given. Default: `false`."),
        default=({}, "Its value otherwise."),
        example=({}, "A value to try, for the skill's page; `examples` of its schema."),
        schema=(_TABLE, "A JSON Schema without outside references, for the descriptor."),
    ),
    "not": {"properties": {"required": {"const": True}}, "required": ["required", "default"]},
}
_HTTP: Final = _closed(
    kind=({"const": "http"}, "The call becomes a request to an API."),
    url=({"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]://"}, "Its https URL, with inputs such as `{order_id}`."),
    method=(_choice(*executors.METHODS), "Default: `POST`."),
    headers=({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        "Header fields; a secret is written `${EXAMPLE_API_KEY}`."),
    body=(_choice(*executors.BODIES), "Form of the inputs that are not in the URL. Default: `json`."),
    result=(_pattern(executors.POINTER), "JSON Pointer to the output in the answer. Default: the whole answer."),
)
#: Those that a folder can name: it holds no function of a running program.
_EXECUTOR_KINDS: Final = [kind for kind in manifest.EXECUTORS if kind not in {"http", "function"}]
_EXECUTOR: Final[Schema] = {"anyOf": [
    _open(
        kind=(_choice(*_EXECUTOR_KINDS), "What runs an action: `[runtime]`, or a person. Default: `python`."),
        title=({**_text(executors.TITLE_LENGTH), "pattern": r"^(?:[^{}]|\{[A-Za-z0-9_-]{1,64}\})+$"},
            "With `human`: the title of a task, with inputs such as `{order}`. Default: the skill's name."),
    ),
    {**_HTTP, "required": ["kind", "url"]},
]}
_ENDPOINT: Final = _closed(
    timeout_ms=(_number(1, manifest.LONGEST_TIMEOUT_MS), "Time for a call, up to seven days. Default: the server's."),
    retry=(_closed(
        max_attempts=(_number(1, manifest.MOST_ATTEMPTS), "How often a call is tried."),
        backoff_ms=(_number(1, manifest.LONGEST_PAUSE_MS), "The pause before the next try."),
    ), f"`max_attempts` (up to {manifest.MOST_ATTEMPTS}) and `backoff_ms`."),
)
_HEALTH: Final = _closed(
    entrypoint=(_ENTRYPOINT, "With `[runtime]`: the file of the health function. Default: that of `[runtime]`."),
    export=(_EXPORT, "With `[runtime]`: the health function. Default: `health`."),
    url=(_STRING, "With an `http` executor: the health URL."),
    interval=(_number(executors.LEAST_INTERVAL, executors.MOST_INTERVAL), ("Seconds between checks, "
        f"{executors.LEAST_INTERVAL} to {executors.MOST_INTERVAL}. Default: `{executors.INTERVAL}`.")),
    timeout=(_number(1, executors.MOST_TIMEOUT),
        f"Seconds for one check, up to {executors.MOST_TIMEOUT}. Default: `{executors.TIMEOUT}`."),
)
_MANIFEST: Final = _closed(
    name=(_DOTTED, ("Dotted name in the Skills Protocol: lower-case letters, digits, dots; begins with `namespace` if "
        "given. Default: `namespace`, dot, name with dots for hyphens.")),
    version=(_VERSION, "Semantic Versioning. Default: `metadata.version` of SKILL.md, else `0.1.0`."),
    description=(_DESCRIPTION, f"1-{limits.DESCRIPTION_LENGTH:,} characters. Default: SKILL.md's."),
    kind=(_choice(*manifest.SKILL_KINDS), ("Read or run; an action needs `[runtime]` or an `http` or `human` executor. "
        "Default: `action` with `[runtime]`, else `instruction`.")),
    namespace=(_DOTTED, "Dotted name of a group. Default: the publisher's name with dots for hyphens."),
    tags=(_list({"type": "string", "minLength": 1, "maxLength": fields.TEXT_LENGTH}), "Words for search."),
    access=(_choice(*manifest.ACCESS), "Who may use the skill. Default: `public`."),
    capability_type=(_choice(*manifest.CAPABILITY_TYPES), ("In Skill Sharing. Default: `knowledge` for an instruction, "
        "else `api`.")),
    id=(_pattern(skill.SHARING_ID, skill.SHARING_ID_LENGTH), ("Id in Skill Sharing: `provider/skill` or "
        "`com.example.skill-v1`. Default: `descriptor.json`'s, else publisher, `/`, name.")),
    skill_id=(_IDENTIFIER, "Id in Skill Discovery: `A-Z a-z 0-9 . _ -`. Default: the name."),
    skill_type=(_choice(*manifest.SKILL_TYPES), "In Skill Discovery. Default: `tool-skill`."),
    capabilities=(_list(_IDENTIFIER), "Capability ids for Skill Discovery."),
    scenes=(_list(_IDENTIFIER), "Scenes that it serves."),
    requires=(_list(_STRING, limits.REQUIREMENTS), (f"At most {limits.REQUIREMENTS} requirements: skills and "
        "capabilities.")),
    idempotent=(_FLAG, "It may run again after a crash. Default: `false`."),
    runtime=(_RUNTIME, "How an action runs."),
    permissions=(_PERMISSIONS, "What an action may reach."),
    inputs=({"type": "object", "additionalProperties": _INPUT}, "The named inputs of an action."),
    executor=(_EXECUTOR, "What runs an action."),
    auth=(_open(type=(_choice(*manifest.AUTH_TYPES), "Skill Sharing's AuthConfig. Default: `none`.")),
        "What descriptors recommend to callers."),
    output=(_TABLE, "Skill Sharing's OutputDefinition."),
    endpoint=(_ENDPOINT, "Time and retries of a call."),
    health=(_HEALTH, "How an action's health is checked."),
)
_FRONTMATTER: Final = _closed(**{
    "name": ({**_pattern(skill.SKILL_NAME, limits.NAME_LENGTH), "not": {"enum": sorted(skill.DEVICE_NAMES)}},
        f"Required. 1-{limits.NAME_LENGTH} of `a-z`, `0-9` and single hyphens; equal to the folder's name."),
    "description": (_DESCRIPTION, (f"Required. 1-{limits.DESCRIPTION_LENGTH:,} characters: what the skill does, and "
        "when to use it.")),
    "license": (_FILLED, "A licence's name, or its file in the folder."),
    "compatibility": ({**_FILLED, "maxLength": int(limits.COMPATIBILITY_LENGTH)},
        f"1-{limits.COMPATIBILITY_LENGTH} characters: required programs, system, network."),
    "allowed-tools": (_FILLED, "Tools that the skill may use without asking, separated by spaces."),
    "metadata": ({"type": "object", "minProperties": 1, "additionalProperties": _STRING},
        "A map from text to text; `version` is read."),
})
# fmt: on


def _with(key: str, *values: str) -> Schema:
    return {"required": [key], "properties": {key: {"enum": list(values)}}}


_IS_RUN: Final[Schema] = {
    "anyOf": [
        {"required": ["runtime"]},
        {"required": ["executor"], "properties": {"executor": _with("kind", "http", "human")}},
    ]
}
#: File → its schema, published as :func:`schema_file`.
SCHEMAS: Final[Mapping[str, Schema]] = {
    skill.SKILL_TOML: {
        "$schema": _DIALECT,
        "title": skill.SKILL_TOML,
        "description": "The manifest of a skill, beside its SKILL.md. Every field is optional.",
        **_MANIFEST,
        "allOf": [
            {"if": _with("kind", "action"), "then": _IS_RUN},
            {"not": {**_with("kind", "instruction"), "required": ["kind", "runtime"]}},
        ],
    },
    skill.SKILL_MD: {
        "$schema": _DIALECT,
        "title": skill.SKILL_MD,
        "description": "The frontmatter of a SKILL.md. Every value is text.",
        **_FRONTMATTER,
        "required": ["name", "description"],
    },
}


def schema_file(name: str) -> str:
    """Return the file name of the schema of ``name``: ``skill-toml.json`` for ``skill.toml``."""
    return f"{name.lower().replace('.', '-')}.json"
