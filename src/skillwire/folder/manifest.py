"""``skill.toml``: what a skill states beyond SKILL.md, and JSON Schemas for editors. Every field is optional.

It is the Skills Protocol's manifest (name, version, kind, runtime, permissions, inputs) plus our tables for the other
protocols (specs §0). :func:`read_manifest` returns the manifest and every broken rule, so ``check`` can report all at
once; :func:`parse_manifest` raises the first. A broken manifest has no lenient reading: permissions must be clear to be
granted. The lint rules judge unknown fields.

``[executor]``, ``[auth]``, ``[output]`` and ``[endpoint]`` are kept as read. An executor of kind ``http`` and
``[health]`` are checked in full (:mod:`skillwire.folder.executors`), the others by Skill Sharing's schema.

:data:`SCHEMAS` (2020-12), also of SKILL.md's frontmatter, are made from the constants by which files are read; their
descriptions are the tables of ``docs/reference/skill-folder.md``. A schema accepts every document that the strict check
accepts; it lacks the rules that compare two values or look at other files. A frontmatter without a description, which
is the Skills Protocol's own, has no schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.folder.executors import (
    BODIES,
    INTERVAL,
    LEAST_INTERVAL,
    METHODS,
    MOST_INTERVAL,
    MOST_TIMEOUT,
    POINTER,
    SCALARS,
    TIMEOUT,
    TITLE_LENGTH,
    check_header_name,
    check_header_value,
    check_result,
    check_title,
    check_upstream_url,
    placeholders,
    read_health,
    secret_names,
    upstream_origin,
)
from skillwire.folder.fields import (
    DOTTED,
    EXPORT,
    IDENTIFIER,
    MATCHED_LENGTH,
    NETWORK,
    ORDERS,
    SECRET,
    TEXT_LENGTH,
    Fields,
    check_entrypoint,
    check_export,
    check_network,
    check_secret,
)
from skillwire.model import skill
from skillwire.model.access import Access
from skillwire.model.package import parse_requirement
from skillwire.model.skill import Action, ExecutorKind, HealthCheck, Kind, Permissions
from skillwire.model.url import parse_url
from skillwire.trust.guarded_toml import load_toml

ACCESS: Final = tuple(access.value for access in Access)
KINDS: Final = ("instruction", "action")
CAPABILITY_TYPES: Final = ("plugin", "api", "knowledge", "task")
SKILL_TYPES: Final = ("enterprise-skill", "tool-skill", "integration-skill", "infrastructure-skill")
EXECUTORS: Final = ("python", "http", "human", "function")
INPUT_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "blob")
AUTH_TYPES: Final = ("none", "api_key", "oauth2", "custom")
LONGEST_PAUSE_MS: Final = 24 * 3600 * 1000
LONGEST_TIMEOUT_MS: Final = 7 * LONGEST_PAUSE_MS
MOST_ATTEMPTS: Final = 20
_HEALTH_EXPORT: Final = "health"


@dataclass(frozen=True, slots=True)
class Runtime:
    """How an action runs: ``def export(args)`` in the file ``entrypoint``. Spec: SKP ``[runtime]``."""

    entrypoint: str
    export: str


@dataclass(frozen=True, slots=True)
class Input:
    """One named input of an action; beyond type and description, its fields are ours."""

    input_type: str
    description: str = ""
    required: bool = False
    default: object = None
    schema: Mapping[str, Any] | None = None
    example: object = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a ``skill.toml``; None or empty for absent fields."""

    name: str | None = None  # SKP's dotted one
    version: str | None = None
    description: str | None = None
    kind: Kind | None = None
    namespace: str | None = None  # SKP's
    tags: tuple[str, ...] = ()
    runtime: Runtime | None = None
    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    inputs: Mapping[str, Input] = field(default_factory=dict)
    access: Access = Access.PUBLIC
    capability_type: str | None = None
    sharing_id: str | None = None  # SSP's id
    discovery_id: str | None = None  # SDP's skillId
    skill_type: str | None = None
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()  # other skills and capabilities
    idempotent: bool = False
    executor: Mapping[str, Any] | None = None
    auth: Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None
    health: HealthCheck | None = None
    document: Mapping[str, Any] = field(default_factory=dict)  # the whole file as read
    unknown: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)  # path → fields known beside it


def parse_manifest(data: bytes, *, source: str = "skill.toml") -> Manifest:
    """Return the contents of a skill.toml. Spec: SKP manifest; specs §0. Trust: hostile; the size is bounded.

    Raises DecodeError (``LIMIT_SIZE``, ``ENCODING``, a ``TOML_...`` code), ValidationError for the first broken rule.
    """
    manifest, flaws = read_manifest(data, source=source)
    if flaws:
        raise flaws[0]
    return manifest


def read_manifest(data: bytes, *, source: str = "skill.toml") -> tuple[Manifest, list[ValidationError]]:
    """Return the manifest, without fields that break a rule, and every broken rule. Raises DecodeError."""
    document = load_toml(data, source=source)
    fields = Fields(document, data.decode("utf-8"), source)
    permissions, auth = fields.table("permissions"), fields.table("auth")
    auth.choice("type", AUTH_TYPES)
    manifest = Manifest(
        name=fields.dotted("name"),
        version=fields.version("version"),
        description=fields.text("description", most=limits.DESCRIPTION_LENGTH),
        kind=cast("Kind | None", fields.choice("kind", KINDS)),
        namespace=fields.dotted("namespace"),
        tags=fields.texts("tags"),
        runtime=_runtime(fields.table("runtime")),
        network=permissions.checked_texts("network", check_network),
        secrets=permissions.checked_texts("secrets", check_secret),
        inputs={key: _input(table) for key, table in fields.table("inputs").tables()},
        access=Access(fields.choice("access", ACCESS) or Access.PUBLIC),
        capability_type=fields.choice("capability_type", CAPABILITY_TYPES),
        sharing_id=fields.sharing_id("id"),
        discovery_id=fields.identifier("skill_id"),
        skill_type=fields.choice("skill_type", SKILL_TYPES),
        capabilities=fields.identifiers("capabilities"),
        scenes=fields.identifiers("scenes"),
        requires=fields.checked_texts("requires", lambda text: parse_requirement(text).text),
        idempotent=fields.flag("idempotent"),
        executor=_executor(fields.table("executor")),
        auth=auth.keep(),
        output=fields.table("output").keep(),
        endpoint=_endpoint(fields.table("endpoint")),
        health=read_health(fields),
        document=document,
        unknown=dict(fields.unknown()),
    )
    name, namespace = manifest.name, manifest.namespace
    if name and namespace and not name.startswith(f"{namespace}."):
        fields.refuse("FIELD", f"name {name} does not begin with the namespace {namespace}.", "name")
    kind = (manifest.executor or {}).get("kind")
    if manifest.kind == "action" and "runtime" not in manifest.document and kind not in {"http", "human", "function"}:
        fields.refuse("FIELD", "an action needs [runtime], or an [executor] of kind http or human", "kind")
    if isinstance(runtime := document.get("runtime"), dict) and "entrypoint" not in runtime:
        how = 'Name the file that runs: entrypoint = "scripts/main.py".'
        fields.refuse("FIELD", "[runtime] has no entrypoint", "runtime", fix=how)
    if len(manifest.requires) > limits.REQUIREMENTS:
        fields.refuse("FIELD", f"requires has more than {limits.REQUIREMENTS} rows", "requires")
    if kind == "http":
        _check_upstream(manifest, fields)
    else:
        for name in dict.fromkeys(placeholders(str((manifest.executor or {}).get("title", "")))):
            if name not in manifest.inputs:
                fix = f"Name one of the inputs: {', '.join(manifest.inputs)}." if manifest.inputs else None
                fields.table("executor").refuse("FIELD", f"{{{name}}} in title is no input", "title", fix=fix)
    if manifest.kind == "instruction" and "runtime" in manifest.document:
        fields.refuse("FIELD", "an instruction has no [runtime]; with one it is an action", "kind")
    _check_health(manifest, fields)
    return manifest, fields.flaws


def _runtime(table: Fields) -> Runtime | None:
    if not table:
        return None
    table.choice("language", ("python",))
    entrypoint = table.checked("entrypoint", check_entrypoint)
    export = table.checked("export", check_export)
    return Runtime(entrypoint, export or "main") if entrypoint else None


def _input(table: Fields) -> Input:
    input_type = table.choice("type", INPUT_TYPES) or "string"
    description = table.text("description", most=limits.DESCRIPTION_LENGTH) or ""
    required = table.flag("required")
    default = table.value("default")
    if required and default is not None:
        table.refuse("FIELD", "what has a default is not required", "default")
    return Input(input_type, description, required, default, table.table("schema").keep(), table.value("example"))


def _executor(table: Fields) -> Mapping[str, Any] | None:
    kind = table.choice("kind", EXECUTORS)
    if kind != "http":
        is_titled = "title" not in table.values or table.checked("title", check_title) is not None
        return {key: value for key, value in (table.keep() or {}).items() if is_titled or key != "title"} or None
    if table.checked("url", check_upstream_url) is None and "url" not in table.values:
        table.refuse("FIELD", "an executor of kind http has a url", "kind")
    table.choice("method", METHODS)
    table.choice("body", BODIES)
    table.checked("result", check_result)
    headers = table.table("headers")
    for name in headers.values:
        headers.checked(name, check_header_value)
        try:
            check_header_name(name)
        except ValidationError as error:
            headers.refuse(error.code, error.message, name)
    return table.values


def _check_upstream(manifest: Manifest, fields: Fields) -> None:
    """Check the inputs and permissions that an executor of kind ``http`` needs."""
    table = fields.table("executor")
    url, headers = table.values.get("url"), table.table("headers")
    path = url.partition("?")[0] if isinstance(url, str) else ""
    for name in dict.fromkeys(placeholders(url) if isinstance(url, str) else ()):
        one = manifest.inputs.get(name)
        if one is None or one.input_type not in SCALARS:
            table.refuse("FIELD", f"{{{name}}} in url is no input that is a text, a number or a boolean", "url")
        elif f"{{{name}}}" in path and not one.required and one.default is None:
            message = f"{{{name}}} is in the path of url; make the input required or give it a default"
            table.refuse("FIELD", message, "url")
    for header, value in headers.values.items():
        for secret in secret_names(value) if isinstance(value, str) else ():
            if secret not in manifest.secrets:
                headers.refuse("FIELD", f"{secret} is not among the secrets of [permissions]", header)


def _endpoint(table: Fields) -> Mapping[str, Any] | None:
    table.number("timeout_ms", most=LONGEST_TIMEOUT_MS)
    retry = table.table("retry")
    retry.number("max_attempts", most=MOST_ATTEMPTS)
    retry.number("backoff_ms", most=LONGEST_PAUSE_MS)
    return table.values or None


def _check_health(manifest: Manifest, fields: Fields) -> None:
    if manifest.health is None or not isinstance(manifest.document["health"], dict):
        return
    table = fields.table("health")
    executor = (manifest.executor or {}).get("kind", "python")
    is_code = executor == "python" and "runtime" in manifest.document
    is_action = manifest.kind == "action" or (manifest.kind is None and "runtime" in manifest.document)
    if not is_action or not (is_code or executor == "http"):
        message = "[health] is for an action with [runtime], or with an [executor] of kind http"
        fields.refuse("FIELD", message, "health", fix="Leave [health] out: nothing of this skill runs here.")
    elif is_code and "url" in table.values:
        message = "url is for an executor of kind http; code of the folder has a function"
        table.refuse("FIELD", message, "url", fix='Name the function instead: export = "health".')
    elif executor == "http":
        fix = 'Write the address to ask: url = "/healthz".'
        for name in [name for name in ("entrypoint", "export") if name in table.values]:
            message = f"{name} is for code of the folder; an executor of kind http is asked at a url"
            table.refuse("FIELD", message, name, fix=fix)
        if "url" not in table.values:
            fields.refuse("FIELD", "an executor of kind http is asked at a url", "health", fix=fix)


class EntryPoint(NamedTuple):
    """A function of the folder that is run: the table that names it, its file, its name."""

    table: str
    path: str
    export: str


def _health_of(manifest: Manifest) -> HealthCheck | None:
    """Return the health check of a valid manifest with its defaults, or None."""
    health, runtime = manifest.health, manifest.runtime
    if health is None:
        return None
    if health.url:
        base = upstream_origin((manifest.executor or {})["url"]) if health.url.startswith("/") else ""
        return health._replace(url=str(parse_url(base + health.url)))
    entrypoint = health.entrypoint or (runtime.entrypoint if runtime else "")
    return health._replace(entrypoint=entrypoint, export=health.export or _HEALTH_EXPORT)


def entry_points(manifest: Manifest) -> Iterator[EntryPoint]:
    """Yield the functions of the folder that are run: the action's and the health check's."""
    runtime, health = manifest.runtime, manifest.health
    if runtime is not None:
        yield EntryPoint("runtime", runtime.entrypoint, runtime.export)
        if health is not None and not health.url:
            yield EntryPoint("health", health.entrypoint or runtime.entrypoint, health.export or _HEALTH_EXPORT)


def load_action(manifest: Manifest) -> Action:
    """Return the manifest's action; its executor is ``python`` unless ``[executor]`` names another. Spec: specs §0."""
    settings = dict(manifest.executor or {})
    executor: ExecutorKind = settings.pop("kind", "python")
    runtime, network, health = manifest.runtime, manifest.network, _health_of(manifest)
    if executor == "http":  # where it calls is a permission, too: a grant names it
        asked = (str(parse_url(health.url).origin),) if health else ()
        network = tuple(dict.fromkeys((upstream_origin(settings["url"]), *asked, *network)))
    return Action(
        executor=executor,
        entrypoint=runtime.entrypoint if runtime else "",
        export=runtime.export if runtime else "main",
        permissions=Permissions(network, manifest.secrets),
        settings=settings,
        idempotent=manifest.idempotent,
        health=health,
    )


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
_DOTTED: Final = _pattern(DOTTED, MATCHED_LENGTH)
_IDENTIFIER: Final = _pattern(IDENTIFIER)
_EXPORT: Final = _pattern(EXPORT)
_ENTRYPOINT: Final[Schema] = {"type": "string", "pattern": r"^[^-/].*\.py$"}
_VERSION: Final[Schema] = {
    "type": "string", "pattern": skill.SEMVER_PATTERN.removesuffix(r"\Z") + "$", "maxLength": skill.VERSION_LENGTH,
}  # fmt: skip
_SECRETS: Final = _list({"type": "string", "pattern": f"^(?!(?:{ORDERS.pattern})$){SECRET.pattern}$"})

# A row: the field, its form, its meaning.
# fmt: off
_RUNTIME: Final = _closed(
    language=(_choice("python"), "Default: `python`."),
    entrypoint=(_ENTRYPOINT, "A `.py` file of the folder."),
    export=(_EXPORT, "Its function `def main(args)`. Default: `main`."),
)
_PERMISSIONS: Final = _closed(
    network=(_list(_pattern(NETWORK)), ("https origins: `https://host`, `https://host:8443`, `https://*.host`; "
        "no shared hosts (`*.com`, `*.github.io`), addresses or local names.")),
    secrets=(_SECRETS, ("Environment variables in capitals; none that control programs (`PATH`, `LD_PRELOAD`, "
        "`PYTHONPATH`).")),
)
_INPUT: Final[Schema] = {
    **_closed(
        type=(_choice(*INPUT_TYPES), "Default: `string`."),
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
    method=(_choice(*METHODS), "Default: `POST`."),
    headers=({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        "Header fields; a secret is written `${EXAMPLE_API_KEY}`."),
    body=(_choice(*BODIES), "Form of the inputs that are not in the URL. Default: `json`."),
    result=(_pattern(POINTER), "JSON Pointer to the output in the answer. Default: the whole answer."),
)
#: Those that a folder can name: it holds no function of a running program.
_KINDS: Final = [kind for kind in EXECUTORS if kind not in {"http", "function"}]
_EXECUTOR: Final[Schema] = {"anyOf": [
    _open(
        kind=(_choice(*_KINDS), "What runs an action: `[runtime]`, or a person. Default: `python`."),
        title=({**_text(TITLE_LENGTH), "pattern": r"^(?:[^{}]|\{[A-Za-z0-9_-]{1,64}\})+$"},
            "With `human`: the title of a task, with inputs such as `{order}`. Default: the skill's name."),
    ),
    {**_HTTP, "required": ["kind", "url"]},
]}
_ENDPOINT: Final = _closed(
    timeout_ms=(_number(1, LONGEST_TIMEOUT_MS), "Time for a call, up to seven days. Default: the server's."),
    retry=(_closed(
        max_attempts=(_number(1, MOST_ATTEMPTS), "How often a call is tried."),
        backoff_ms=(_number(1, LONGEST_PAUSE_MS), "The pause before the next try."),
    ), f"`max_attempts` (up to {MOST_ATTEMPTS}) and `backoff_ms`."),
)
_HEALTH: Final = _closed(
    entrypoint=(_ENTRYPOINT, "With `[runtime]`: the file of the health function. Default: that of `[runtime]`."),
    export=(_EXPORT, "With `[runtime]`: the health function. Default: `health`."),
    url=(_STRING, "With an `http` executor: the health URL."),
    interval=(_number(LEAST_INTERVAL, MOST_INTERVAL), ("Seconds between checks, "
        f"{LEAST_INTERVAL} to {MOST_INTERVAL}. Default: `{INTERVAL}`.")),
    timeout=(_number(1, MOST_TIMEOUT),
        f"Seconds for one check, up to {MOST_TIMEOUT}. Default: `{TIMEOUT}`."),
)
_MANIFEST: Final = _closed(
    name=(_DOTTED, ("Dotted name in the Skills Protocol: lower-case letters, digits, dots; begins with `namespace` if "
        "given. Default: `namespace`, dot, name with dots for hyphens.")),
    version=(_VERSION, "Semantic Versioning. Default: `metadata.version` of SKILL.md, else `0.1.0`."),
    description=(_DESCRIPTION, f"1-{limits.DESCRIPTION_LENGTH:,} characters. Default: SKILL.md's."),
    kind=(_choice(*KINDS), ("Read or run; an action needs `[runtime]` or an `http` or `human` executor. "
        "Default: `action` with `[runtime]`, else `instruction`.")),
    namespace=(_DOTTED, "Dotted name of a group. Default: the publisher's name with dots for hyphens."),
    tags=(_list({"type": "string", "minLength": 1, "maxLength": TEXT_LENGTH}), "Words for search."),
    access=(_choice(*ACCESS), "Who may use the skill. Default: `public`."),
    capability_type=(_choice(*CAPABILITY_TYPES), ("In Skill Sharing. Default: `knowledge` for an instruction, "
        "else `api`.")),
    id=(_pattern(skill.SHARING_ID, skill.SHARING_ID_LENGTH), ("Id in Skill Sharing: `provider/skill` or "
        "`com.example.skill-v1`. Default: `descriptor.json`'s, else publisher, `/`, name.")),
    skill_id=(_IDENTIFIER, "Id in Skill Discovery: `A-Z a-z 0-9 . _ -`. Default: the name."),
    skill_type=(_choice(*SKILL_TYPES), "In Skill Discovery. Default: `tool-skill`."),
    capabilities=(_list(_IDENTIFIER), "Capability ids for Skill Discovery."),
    scenes=(_list(_IDENTIFIER), "Scenes that it serves."),
    requires=(_list(_STRING, limits.REQUIREMENTS), (f"At most {limits.REQUIREMENTS} requirements: skills and "
        "capabilities.")),
    idempotent=(_FLAG, "It may run again after a crash. Default: `false`."),
    runtime=(_RUNTIME, "How an action runs."),
    permissions=(_PERMISSIONS, "What an action may reach."),
    inputs=({"type": "object", "additionalProperties": _INPUT}, "The named inputs of an action."),
    executor=(_EXECUTOR, "What runs an action."),
    auth=(_open(type=(_choice(*AUTH_TYPES), "Skill Sharing's AuthConfig. Default: `none`.")),
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
