"""``[health]`` of ``skill.toml``: how it is found out how a skill is, where it is announced on a local network.

What is looked at is what the action stands on: an API behind a skill is asked at a URL, and code of the folder has a
function, named as that of ``[runtime]``. Neither is more than what somebody grants with the skill: the function runs
in the same sandbox with the same permissions, and the origin of the URL counts as one of them. Ours; what is told of
it is Skill Discovery's (SDP §8.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import ValidationError
from skillwire.folder.permissions import check_entrypoint, check_export
from skillwire.folder.upstream import upstream_origin
from skillwire.model.action import HealthCheck
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.fields import Fields
    from skillwire.folder.manifest import Manifest

#: Of checks that say nothing else, in seconds.
INTERVAL: Final = 30
TIMEOUT: Final = 5
#: A beat's usual pause: more often, the network would not hear it.
_LEAST_INTERVAL: Final = 5
_MOST_INTERVAL: Final = 3600
_MOST_TIMEOUT: Final = 30
_EXPORT: Final = "health"
_PATH: Final = "https://example.com"  # stands before a path, to read it by the rules of URLs


class EntryPoint(NamedTuple):
    """A function of the folder that is run: the table that names it, its file, its name."""

    table: str
    path: str
    export: str


def check_health_url(url: str) -> str:
    """Return ``url`` when it is https, or a path where the API is.

    Raises:
        ValidationError: ``FIELD``, or ``URL``.
    """
    is_path = url.startswith("/")
    if url.startswith("//") or "#" in url or not (is_path or url.lower().startswith("https:")):
        raise ValidationError("FIELD", "url is https, or a path such as /healthz, without a fragment")
    read = parse_url(_PATH + url if is_path else url)
    if is_path and read.target != url:
        raise ValidationError("FIELD", "url has dots that lead elsewhere")
    return url


def read_health(fields: Fields) -> HealthCheck | None:
    """Return what the table says, as it says it: what it leaves out is for :func:`health_of` to fill in."""
    table = fields.table("health")
    if "health" not in fields.values:
        return None
    return HealthCheck(
        url=table.checked("url", check_health_url) or "",
        entrypoint=table.checked("entrypoint", check_entrypoint) or "",
        export=table.checked("export", check_export) or "",
        interval=table.number("interval", least=_LEAST_INTERVAL, most=_MOST_INTERVAL) or INTERVAL,
        timeout=table.number("timeout", most=_MOST_TIMEOUT) or TIMEOUT,
    )


def check_health(manifest: Manifest, fields: Fields) -> None:
    """Check what ``[health]`` demands of the action."""
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
        for name in ("entrypoint", "export"):
            if name in table.values:
                message = f"{name} is for code of the folder; an executor of kind http is asked at a url"
                table.refuse("FIELD", message, name, fix='Write where it is asked: url = "/healthz".')
        if "url" not in table.values:
            message = "an executor of kind http is asked at a url"
            fields.refuse("FIELD", message, "health", fix='Write where it is asked: url = "/healthz".')


def health_of(manifest: Manifest) -> HealthCheck | None:
    """Return how it is found out how the skill of a sound manifest is; None where it does not say."""
    said = manifest.health
    if said is None:
        return None
    if said.url:
        base = upstream_origin((manifest.executor or {})["url"]) if said.url.startswith("/") else ""
        return said._replace(url=str(parse_url(base + said.url)))
    entrypoint = said.entrypoint or (manifest.runtime.entrypoint if manifest.runtime else "")
    return said._replace(entrypoint=entrypoint, export=said.export or _EXPORT)


def entry_points(manifest: Manifest) -> Iterator[EntryPoint]:
    """Yield the functions of the folder that are run: the action's, and the one that says how it is."""
    runtime = manifest.runtime
    if runtime is not None:
        yield EntryPoint("runtime", runtime.entrypoint, runtime.export)
        said = manifest.health
        if said is not None and not said.url:
            yield EntryPoint("health", said.entrypoint or runtime.entrypoint, said.export or _EXPORT)
