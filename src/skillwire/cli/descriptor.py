"""How ``show`` prints a Skill Descriptor: what a caller has to know, and what has to be done before.

A descriptor is a stranger's text; each part of a line is made harmless on its way out, and a long list is cut.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.client_options import shortened
from skillwire.cli.output import doubtful, faint, strong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.cli.output import Output, Part
    from skillwire.protocols.skill_sharing.messages import AuthConfig, InvocationEndpoint, SkillDescriptor

_SHOWN: Final = 40  # inputs or scopes; a descriptor may hold thousands
_LONG: Final = 100  # columns for a value
_WIDTH: Final = 500


def descriptor_object(descriptor: SkillDescriptor) -> dict[str, Any]:
    """Return a descriptor for ``--json``, as the protocol writes it."""
    from skillwire.protocols.skill_sharing.validation import serialize  # noqa: PLC0415  # most skills have no descriptor

    document: dict[str, Any] = json.loads(serialize(descriptor))
    return document


def print_descriptor(output: Output, descriptor: SkillDescriptor) -> None:
    """Print what the skill is, how it is called and by whom, what it takes and gives."""
    output.line()
    output.table([faint(label), value] for label, value in _facts(descriptor))
    output.line()
    output.line(strong("inputs"), "" if descriptor.inputs else "  none")
    output.table(
        [
            f"  {one.name}",
            faint(one.type),
            faint("required" if one.required else _default(one.default)),
            shortened(one.description, _WIDTH),
        ]
        for one in descriptor.inputs[:_SHOWN]
    )
    if len(descriptor.inputs) > _SHOWN:
        output.line(faint(f"  and {len(descriptor.inputs) - _SHOWN} more; --json has them all"))
    output.line()
    output.line(strong("output"), f"  {descriptor.output.content_type}")
    if descriptor.output.description:
        output.line(f"  {shortened(descriptor.output.description, _WIDTH)}")
    if descriptor.output.schema:
        output.line(f"  {shortened(json.dumps(descriptor.output.schema), _WIDTH)}")


def _facts(descriptor: SkillDescriptor) -> Iterator[tuple[str, Part]]:
    provider = descriptor.provider
    yield "id", descriptor.id
    yield "title", descriptor.name
    yield "capability", str(descriptor.capability_type)
    yield "access", str(descriptor.access)
    yield "provider", "  ".join(str(part) for part in (provider.name, provider.url, provider.contact) if part)
    yield "protocol", f"Skill Sharing {descriptor.protocol.version}"
    if descriptor.tags:
        yield "tags", ", ".join(descriptor.tags[:_SHOWN])
    if descriptor.documentation_url:
        yield "read more", descriptor.documentation_url
    yield from _endpoint(descriptor.endpoint)
    yield from _auth(descriptor.auth, descriptor.endpoint.url)


def _endpoint(endpoint: InvocationEndpoint) -> Iterator[tuple[str, Part]]:
    yield "endpoint", f"{endpoint.method} {endpoint.url}"
    if endpoint.content_type:
        yield "takes", endpoint.content_type
    if endpoint.status_url:
        yield "status", endpoint.status_url
    if endpoint.result_url:
        yield "result", endpoint.result_url
    if endpoint.timeout_ms:
        yield "time limit", f"{endpoint.timeout_ms / 1000:g} s"
    if endpoint.retry:
        yield "retry", f"{endpoint.retry.max_attempts} times, {endpoint.retry.backoff_ms / 1000:g} s apart at first"


def _auth(auth: AuthConfig, url: str) -> Iterator[tuple[str, Part]]:
    if auth.type == "none":
        yield "auth", "none"
        return
    what = {"api_key": "an API key", "oauth2": "OAuth 2.0", "custom": "a way of its own"}[str(auth.type)]
    header = f" in {auth.header}" if auth.header else ""
    yield "auth", doubtful(f"{what}{header}")
    if auth.description:
        yield "", shortened(auth.description, _WIDTH)
    if auth.oauth2:
        yield "", f"tokens from {auth.oauth2.token_url}, authorized at {auth.oauth2.authorization_url}"
        for scope, meaning in list(auth.oauth2.scopes.items())[:_SHOWN]:
            yield "scope", f"{scope}  {shortened(meaning, _LONG)}"
    if auth.custom:
        yield "", shortened(auth.custom.instructions, _WIDTH)
        for parameter in auth.custom.parameters[:_SHOWN]:
            yield "needs", f"{parameter.name}  {shortened(parameter.description, _LONG)}"
        return
    yield "log in", f"skillwire login {_origin(url)}"


def _origin(url: str) -> str:
    from skillwire.model.url import parse_url  # noqa: PLC0415  # only here

    return parse_url(url).origin


def _default(value: object) -> str:
    from msgspec import UNSET  # noqa: PLC0415  # a descriptor was read, so it is loaded

    return "" if value is UNSET else f"default {shortened(json.dumps(value), _LONG)}"
