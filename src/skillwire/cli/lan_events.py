"""What ``lan --json`` prints: one JSON object a line, written out at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.lan_parts import lan_object, scene_object
from skillwire.cli.output import encode_document

if TYPE_CHECKING:
    from skillwire.model.lan import LanChange, LanSnapshot

_SCHEMA: Final = "skillwire/lan/1"


def snapshot_document(snapshot: LanSnapshot) -> dict[str, Any]:
    """Return all that is known."""
    return {
        "schema": _SCHEMA,
        "event": "snapshot",
        "at": snapshot.at,
        "agent_id": snapshot.agent_id,
        "network_suspected": snapshot.is_suspected,
        "skills": [{**lan_object(skill), "version": skill.version} for skill in snapshot.skills],
        "scenes": [scene_object(scene) for scene in snapshot.scenes],
    }


def change_document(change: LanChange) -> dict[str, Any]:
    """Return one change."""
    document: dict[str, Any] = {"schema": _SCHEMA, "event": change.kind, "at": change.at}
    if change.skill is not None:
        document["skill"] = {**lan_object(change.skill), "version": change.skill.version}
    if change.reason:
        document["reason"] = change.reason
    if change.scene is not None:
        document["scene"] = scene_object(change.scene)
    return document


def print_event(document: dict[str, Any]) -> None:
    """Print a document in one line, and let it be seen at once."""
    click.echo(encode_document(document, indent=None))
