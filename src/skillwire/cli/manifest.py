"""How ``show`` prints the manifest of a skill at an endpoint, and what to type for its inputs.

A manifest is a stranger's JSON of any shape. What is printed of it is what a caller needs; each part of a line is made
harmless on its way out, and a long list is cut.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.client_options import shortened
from skillwire.cli.output import doubtful, faint, strong

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.cli.output import Output, Part
    from skillwire.protocols.skill_sharing.messages import ParameterDefinition

_SHOWN: Final = 40  # inputs, hosts or tags; a manifest may hold thousands
_TYPED: Final = 8  # inputs in a command; more are read from a file
_LONG: Final = 100  # columns for a value
_WIDTH: Final = 500


def print_manifest(output: Output, manifest: Mapping[str, Any], source: str) -> None:
    """Print what the skill is, what it asks for, and what it takes; ``source`` is the URL of the endpoint."""
    output.line()
    output.table([faint(label), value] for label, value in _facts(manifest))
    output.line()
    parameters = _parameters(manifest, source)
    if parameters is None:
        output.line(strong("inputs"), "  it does not say")
        return
    output.line(strong("inputs"), "" if parameters else "  none")
    output.table(
        [
            f"  {shortened(one.name, _LONG)}",
            faint(one.type),
            faint("required" if one.required else _default(one.default)),
            shortened(one.description, _WIDTH),
        ]
        for one in parameters[:_SHOWN]
    )
    if len(parameters) > _SHOWN:
        output.line(faint(f"  and {len(parameters) - _SHOWN} more; --json has them all"))


def inputs_of(manifest: Mapping[str, Any], source: str) -> str:
    """Return what to type for the inputs of a skill; their names are a stranger's, and are quoted.

    Where nothing says which of them have to be given, as the protocol has it, all of them are named.
    """
    from msgspec import UNSET  # noqa: PLC0415  # an answer was read, so it is loaded

    parameters = _parameters(manifest, source) or []
    required = [one for one in parameters if one.required] or [one for one in parameters if one.default is UNSET]
    return "".join(f" {shlex.quote(one.name)}={'@FILE' if one.type == 'blob' else '...'}" for one in required[:_TYPED])


def _parameters(manifest: Mapping[str, Any], source: str) -> list[ParameterDefinition] | None:
    from skillwire.client.endpoint_calls import parameters_of  # noqa: PLC0415  # --help does without

    return parameters_of(manifest, source)


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    for label in ("kind", "namespace", "license", "access"):
        if value := _told(manifest.get(label)):
            yield label, value
    if tags := _listed(manifest.get("tags")):
        yield "tags", tags
    runtime = _table(manifest.get("runtime"))
    if runtime:
        told = (_told(runtime.get(key)) for key in ("language", "entrypoint", "export"))
        yield "runs", " ".join(part for part in told if part)
    if health := _table(manifest.get("health")):
        told = (_told(health.get(key)) for key in ("url", "entrypoint", "export"))
        yield "health", " ".join(part for part in told if part) or "by a function"
    permissions = _table(manifest.get("permissions"))
    if network := _listed(permissions.get("network")):
        yield "network", doubtful(network)
    if secrets := _listed(permissions.get("secrets")):
        yield "secrets", doubtful(secrets)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _told(value: object) -> str:
    return shortened(value, _LONG) if isinstance(value, str) else ""


def _listed(value: object) -> str:
    values = [told for one in value[:_SHOWN] if (told := _told(one))] if isinstance(value, list) else []
    return ", ".join(values)


def _default(value: object) -> str:
    from msgspec import UNSET  # noqa: PLC0415  # an answer was read, so it is loaded

    return "" if value is UNSET else f"default {shortened(json.dumps(value), _LONG)}"
