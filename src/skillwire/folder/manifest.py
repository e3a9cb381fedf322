"""``skill.toml``: what a skill states beyond SKILL.md. Every field is optional.

It is the Skills Protocol's manifest (name, version, kind, runtime, permissions, inputs) plus our tables for the other
protocols (specs §0). :func:`read_manifest` returns the manifest and every broken rule, so ``check`` can report all at
once; :func:`parse_manifest` raises the first. A broken manifest has no lenient reading: permissions must be clear to be
granted. The lint rules judge unknown fields.

``[executor]``, ``[auth]``, ``[output]`` and ``[endpoint]`` are kept as read. An executor of kind ``http`` and
``[health]`` are checked in full (:mod:`skillwire.folder.executors`), the others by Skill Sharing's schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from skillwire import limits
from skillwire.errors import SkillwireError, ValidationError
from skillwire.folder.executors import (
    BODIES,
    METHODS,
    SCALARS,
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
from skillwire.folder.fields import Fields, check_entrypoint, check_export, check_network, check_secret
from skillwire.model.access import Access
from skillwire.model.package import parse_requirement, required_packages
from skillwire.model.skill import SKILL_TOML, Action, ExecutorKind, HealthCheck, Kind, Permissions
from skillwire.model.url import parse_url
from skillwire.trust.guarded_toml import load_toml

ACCESS: Final = tuple(access.value for access in Access)
SKILL_KINDS: Final = ("instruction", "action")
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
        kind=cast("Kind | None", fields.choice("kind", SKILL_KINDS)),
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


def dependency_levels(folders: Iterable[Path]) -> list[list[Path]]:
    """Return skill folders in levels that require only skills of earlier levels, except in a circle."""
    named: dict[str, set[Path]] = {}
    left = dict.fromkeys(folders)
    for folder in left:
        named.setdefault(folder.absolute().name, set()).add(folder)
    needs = {one: {path for name in _required_names(one) for path in named.get(name, ())} - {one} for one in left}
    levels: list[list[Path]] = []
    while left:
        level = [one for one in left if needs[one].isdisjoint(left)] or list(left)
        done = set(level)
        left = dict.fromkeys(one for one in left if one not in done)
        levels.append(level)
    return levels


def _required_names(folder: Path) -> set[str]:
    """Return the names of the packages that ``skill.toml`` requires; empty if it cannot be read."""
    path, names = folder / SKILL_TOML, set[str]()
    with suppress(OSError, SkillwireError):
        rows = load_toml(path.read_bytes()).get("requires") if path.is_file() else None
        for text in rows if isinstance(rows, list) else ():
            names |= {one.name for one in required_packages([str(text)], "local")}
    return names


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
