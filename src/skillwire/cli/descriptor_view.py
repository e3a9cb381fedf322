"""What the terminal shows of a Skill Descriptor or a manifest, such as its inputs.

Both are untrusted: each part of a line is neutralised on output, and long lists are cut.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.options import shortened
from skillwire.cli.output import Output, Part, bold, dim, warning
from skillwire.errors import first_of, in_seconds
from skillwire.model.skill import capability_text
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skillwire.protocols.skill_sharing.messages import AuthConfig, ParameterDefinition, SkillDescriptor


MAX_FIELDS: Final = 40  # inputs, scopes, hosts or tags; an untrusted document may have thousands
_MAX_VALUES: Final = 20
LONG: Final = 100  # columns for a value
_WIDTH: Final = 500
_MAX_ARGUMENTS: Final = 8  # inputs in a command; more are read from a file


def print_inputs(output: Output, inputs: Sequence[ParameterDefinition] | None, *, err: bool = False) -> None:
    """Print the table of inputs; with ``err`` as notes."""
    show = output.note if err else output.line
    if not err:
        show()
    show(bold("inputs"), "  unknown" if inputs is None else "" if inputs else "  none")
    inputs = inputs or ()
    rows: list[list[Part]] = []
    for one in inputs[:MAX_FIELDS]:
        default = f"default {shortened(json.dumps(one.default), LONG)}" if one.has_default else ""
        allowed = (one.schema or {}).get("enum")
        values = [json.dumps(value) for value in allowed] if isinstance(allowed, list) else []
        listed = shortened(f"one of {first_of(values, _MAX_VALUES)}", LONG) if values else ""
        rule = dim("; ".join(filter(None, ("required" if one.required else default, listed))))
        rows.append([f"  {shortened(one.name, LONG)}", dim(one.type), rule, shortened(one.description, _WIDTH)])
    output.table(rows, err=err)
    if len(inputs) > MAX_FIELDS:
        show(dim(f"  and {len(inputs) - MAX_FIELDS} more; --json has them all"))


def print_descriptor(output: Output, descriptor: SkillDescriptor, *, is_whole: bool) -> None:
    """Print a descriptor: its facts, inputs and output; without ``is_whole`` its inputs alone."""
    if not is_whole:
        print_inputs(output, descriptor.inputs)
        return
    output.line()
    output.table([dim(label), value] for label, value in _descriptor_facts(descriptor))
    print_inputs(output, descriptor.inputs)
    output.line()
    output.line(bold("output"), f"  {descriptor.output.content_type}")
    if descriptor.output.description:
        output.line(f"  {shortened(descriptor.output.description, _WIDTH)}")
    if descriptor.output.schema:
        output.line(f"  {shortened(json.dumps(descriptor.output.schema), _WIDTH)}")


def _descriptor_facts(descriptor: SkillDescriptor) -> Iterator[tuple[str, Part]]:
    provider = descriptor.provider
    yield "id", descriptor.id
    yield "title", descriptor.name
    yield "capability", capability_text(kind_of(descriptor), descriptor.capability_type)
    yield "access", str(descriptor.access)
    yield "provider", "  ".join(str(part) for part in (provider.name, provider.url, provider.contact) if part)
    yield "protocol", f"Skill Sharing {descriptor.protocol.version}"
    if descriptor.tags:
        yield "tags", ", ".join(descriptor.tags[:MAX_FIELDS])
    if descriptor.documentation_url:
        yield "read more", descriptor.documentation_url
    endpoint = descriptor.endpoint
    yield "endpoint", f"{endpoint.method} {endpoint.url}"
    if endpoint.content_type:
        yield "takes", endpoint.content_type
    if endpoint.status_url:
        yield "status", endpoint.status_url
    if endpoint.result_url:
        yield "result", endpoint.result_url
    if endpoint.timeout_ms:
        yield "time limit", f"{in_seconds(endpoint.timeout_ms / 1000)}"
    if endpoint.retry:
        yield (
            "retry",
            f"{endpoint.retry.max_attempts} times, {in_seconds(endpoint.retry.backoff_ms / 1000)} apart at first",
        )
    yield from _auth(descriptor.auth, endpoint.url)


def kind_of(descriptor: SkillDescriptor) -> str:
    """Return ``instruction`` for a descriptor that is only read, else ``action``."""
    return "instruction" if descriptor.endpoint.method == "GET" else "action"


def _auth(auth: AuthConfig, url: str) -> Iterator[tuple[str, Part]]:
    if auth.type == "none":
        yield "auth", "none"
        return
    what = {"api_key": "an API key", "oauth2": "OAuth 2.0", "custom": "a way of its own"}[str(auth.type)]
    header = f" in {auth.header}" if auth.header else ""
    yield "auth", warning(f"{what}{header}")
    if auth.description:
        yield "", shortened(auth.description, _WIDTH)
    if auth.oauth2:
        yield "", f"tokens from {auth.oauth2.token_url}, authorized at {auth.oauth2.authorization_url}"
        for scope, meaning in list(auth.oauth2.scopes.items())[:MAX_FIELDS]:
            yield "scope", f"{scope}  {shortened(meaning, LONG)}"
    if auth.custom:
        yield "", shortened(auth.custom.instructions, _WIDTH)
        for parameter in auth.custom.parameters[:MAX_FIELDS]:
            yield "needs", f"{parameter.name}  {shortened(parameter.description, LONG)}"
        return
    yield "log in", f"skillwire auth login {parse_url(url).origin}"


def print_manifest(output: Output, manifest: Mapping[str, Any], source: str) -> None:
    """Print a skill's metadata, permissions and inputs; ``source`` is the URL of the endpoint."""
    output.line()
    output.table([dim(label), value] for label, value in _manifest_facts(manifest))
    print_inputs(output, inputs_at_endpoint(manifest, source))


def inputs_of(manifest: Mapping[str, Any], source: str) -> str:
    """Return the required inputs as arguments for ``call``, with quoted names."""
    return arguments_for(inputs_at_endpoint(manifest, source, required=True) or [])


def arguments_for(inputs: Sequence[ParameterDefinition]) -> str:
    """Return all required ones of ``inputs`` as arguments for ``call``, with quoted names; many as a file."""
    required = [one for one in inputs if one.required]
    if len(required) > _MAX_ARGUMENTS:
        return " --inputs FILE"
    return "".join(f" {shlex.quote(one.name)}={'@FILE' if one.type == 'blob' else '...'}" for one in required)


def inputs_at_endpoint(
    manifest: Mapping[str, Any], source: str, *, required: bool = False
) -> list[ParameterDefinition] | None:
    """Return the inputs that a manifest declares, or the required ones; None without a table of them."""
    from skillwire.client.endpoint_calls import (  # noqa: PLC0415  # few skills are at an endpoint
        parameters_of,
        required_parameters,
    )

    return (required_parameters if required else parameters_of)(manifest, source)


def _manifest_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    for label in ("kind", "namespace", "license", "access"):
        if value := _short_text(manifest.get(label)):
            yield label, value
    if tags := _listed(manifest.get("tags")):
        yield "tags", tags
    runtime = _table(manifest.get("runtime"))
    if runtime:
        texts = (_short_text(runtime.get(key)) for key in ("language", "entrypoint", "export"))
        yield "runs", " ".join(text for text in texts if text)
    if health := _table(manifest.get("health")):
        texts = (_short_text(health.get(key)) for key in ("url", "entrypoint", "export"))
        yield "health", " ".join(text for text in texts if text) or "by a function"
    permissions = _table(manifest.get("permissions"))
    if network := _listed(permissions.get("network")):
        yield "network", warning(network)
    if secrets := _listed(permissions.get("secrets")):
        yield "secrets", warning(secrets)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _short_text(value: object) -> str:
    return shortened(value, LONG) if isinstance(value, str) else ""


def _listed(value: object) -> str:
    values = [text for one in value[:MAX_FIELDS] if (text := _short_text(one))] if isinstance(value, list) else []
    return ", ".join(values)
