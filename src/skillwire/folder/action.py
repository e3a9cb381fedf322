"""How a folder says its skill is executed: ``[runtime]``, ``[executor]``, ``[permissions]``, ``[health]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.folder.health import health_of
from skillwire.folder.upstream import upstream_origin
from skillwire.model.action import Action, Permissions
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from skillwire.folder.manifest import Manifest
    from skillwire.model.action import ExecutorKind


def action_of(manifest: Manifest) -> Action:
    """Return how a manifest's action is executed; ``python`` unless ``[executor]`` says otherwise. Spec: specs §0."""
    settings = dict(manifest.executor or {})
    executor: ExecutorKind = settings.pop("kind", "python")
    runtime, network, health = manifest.runtime, manifest.network, health_of(manifest)
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
