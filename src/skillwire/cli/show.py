"""``skillwire show`` and ``skillwire cat``: inspect a skill, one level of loading at a time.

A Skill Descriptor or a manifest is untrusted: each part of a line is neutralised on output, and long lists are cut.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final, Unpack

import click

from skillwire.adapters.files.credentials import credential_place
from skillwire.cli.options import (
    NetworkOptions,
    network_options,
    open_client,
    ref_object,
    refresh_option,
    shortened,
    utc_time,
)
from skillwire.cli.output import Output, Part, bold, dim, output_options, warning
from skillwire.errors import NotFoundError, SkillwireError, TrustError, UsageError, first_of, in_seconds
from skillwire.model.ref import BLOB_PREFIX, Release, SkillRef
from skillwire.model.skill import capability_text, is_callable
from skillwire.model.url import parse_url
from skillwire.resolver.context import as_finding
from skillwire.resolver.references import at_version, parse_reference, reference_to
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skillwire.cli.documents import ReleaseObject, ShowDocument
    from skillwire.client.skill import RemoteSkill
    from skillwire.protocols.skill_sharing.messages import AuthConfig, ParameterDefinition, SkillDescriptor


_UNVERIFIED: Final = "none: the download cannot be verified"


@click.command()
@click.argument("reference", metavar="REF")
@click.option("--body", is_flag=True, help="Level 2: print the instructions, SKILL.md without its frontmatter.")
@click.option("--versions", "lists_versions", is_flag=True, help="List the versions only.")
@click.option("--files", is_flag=True, help="Level 3: list the files; print one with skillwire cat.")
@click.option(
    "--descriptor", is_flag=True, help="Print its Skill Descriptor: endpoint, inputs, output, authentication."
)
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    reference: str,
    body: bool,
    lists_versions: bool,
    files: bool,
    descriptor: bool,
    **network: Unpack[NetworkOptions],
) -> None:
    """Inspect the skill REF before loading it.

    Level 1, the default, reads the indexes of its origin, and the inputs of a callable skill from its Skill Descriptor.
    --body and --files fetch the artifact and verify its digest; nothing is installed. For a skill listed only by Skill
    Sharing, and with --descriptor for every other, all of the descriptor is shown; for a skill at a Skills Protocol
    endpoint, https://example.com/rpc#ns.domain.action, its manifest.
    """
    is_level_1 = not (body or files or lists_versions)
    with open_client(output, references=[reference], **network) as client:
        with output.progress.during("reading"):
            skill = client.show(reference, both=not (body or files))
            if files or (body and skill.rpc is None):
                skill.files()
            is_whole = descriptor or skill.ref.is_only_described
            described = _find_descriptor(output, skill, is_whole=is_whole) if is_whole or is_level_1 else None
            at_endpoint = skill.described() if skill.rpc is not None else None
            versions = [] if body or files else _versions(skill, are_required=lists_versions)
        content: ShowDocument = {
            "schema": "skillwire/show/1",
            "skill": ref_object(skill.ref),
            "type": skill.artifact_type,
            "rungs": client.rungs,
        }
        # With --json only the document is printed, and otherwise everything else.
        if body:
            content["body"] = skill.body()
            output.text(content["body"])
        if files:
            content["files"] = [
                {"path": file.path, "size": len(file.content), "executable": file.executable} for file in skill.files()
            ]
            output.table(
                [file["path"], f"{file['size']:,} bytes", "executable" if file["executable"] else ""]
                for file in content["files"]
            )
        if is_level_1:
            _print_entry(output, skill)
        if versions:
            content["versions"] = [_release_object(one) for one in versions]
            _print_versions(output, content["versions"], is_all=lists_versions)
        if described is not None:
            from skillwire.protocols.skill_sharing.validation import serialize  # noqa: PLC0415  # few have a descriptor

            content["descriptor"] = json.loads(serialize(described))
            print_descriptor(output, described, is_whole=is_whole)
        if at_endpoint is not None:
            content["manifest"], content["frontmatter"] = dict(at_endpoint.manifest), at_endpoint.frontmatter
            if not body:
                print_manifest(output, at_endpoint.manifest, skill.url)
        output.document(content)
        if is_level_1:
            _print_next_steps(output, skill, described, network["token"], parse_reference(reference).version)


def _find_descriptor(output: Output, skill: RemoteSkill, *, is_whole: bool) -> SkillDescriptor | None:
    """Return the descriptor, without ``is_whole`` only of a callable skill; then a failure is reported."""
    if skill.rpc is not None:
        return None
    if is_whole:
        return skill.descriptor()
    if skill.ref.shared is None or not is_callable(None, skill.ref.shared.capability_type):
        return None
    try:
        return skill.descriptor()
    except SkillwireError as error:
        output.finding(as_finding(error)._replace(level="warning"))
        return None


def _versions(skill: RemoteSkill, *, are_required: bool) -> list[SkillRef]:
    found = skill.versions()
    if are_required and not found:
        fix = "An origin lists them in versions.json, a repository has tags such as v1.2.0."
        raise NotFoundError("VERSION_NOT_FOUND", f"{reference_to(skill.ref)} lists no versions", fix=fix)
    return found


def _print_entry(output: Output, skill: RemoteSkill) -> None:
    output.line(bold(skill.name), f" {skill.version}" if skill.version else "")
    output.line(skill.description, indent=0)
    output.line()
    rows = [
        ("origin", skill.ref.origin),
        # At an endpoint there is no artifact, and its address is the origin.
        *([("type", skill.artifact_type), ("url", skill.url)] if skill.rpc is None else []),
        *([("path", git.path or "."), ("commit", git.commit)] if (git := skill.ref.git) else []),
        ("digest", skill.digest or _without_digest(skill)),
        ("found via", skill.ref.found_via),
        *(
            [("status", f"{state.status}  {state.reason}".rstrip())]
            if (state := skill.ref.release) and state.status != "active"
            else []
        ),
        *([("freshness", str(skill.ref.freshness))] if skill.ref.freshness == "stale" else []),
        *([("requires", ", ".join(skill.ref.requires[:MAX_FIELDS]))] if skill.ref.requires else []),
    ]
    output.table([dim(label), value] for label, value in rows)


def _release_object(skill: SkillRef) -> ReleaseObject:
    release = skill.release or Release()
    return {
        "version": skill.version,
        "digest": skill.digest,
        "status": release.status,
        "reason": release.reason,
        "successor": release.successor,
        "published_at": None if release.published is None else utc_time(release.published),
        "published_by": release.published_by,
    }


def _print_versions(output: Output, versions: Sequence[ReleaseObject], *, is_all: bool) -> None:
    """Print the versions of a registry; a folder has one, which says nothing more. ``is_all``: they were asked for."""
    if not is_all and len(versions) == 1 and versions[0]["published_at"] is None and versions[0]["status"] == "active":
        return
    if not is_all:
        output.line()
    output.line(bold("versions"))
    rows: list[list[Part]] = []
    most = len(versions) if is_all else MAX_FIELDS
    for one in versions[:most]:
        status = "" if one["status"] == "active" else one["status"]
        why = [one["reason"], f"use {one['successor']}" if one["successor"] else ""]
        day, by = (one["published_at"] or "").partition("T")[0], one["published_by"]
        rows.append(
            [f"  {one['version']}", day, by, warning(status), dim(shortened("; ".join(filter(None, why)), LONG))]
        )
    output.table(rows)
    if len(versions) > most:
        output.line(dim(f"  and {len(versions) - most} more; --versions has them all"))


def _hides_files(skill: RemoteSkill) -> bool:
    """Whether these are instructions that Skill Sharing alone lists, since others are not allowed to read them."""
    shared = skill.shared
    if shared is None or not skill.ref.is_only_described:
        return False
    return shared.access != "public" and not is_callable(None, shared.capability_type)


def _needs_login(skill: RemoteSkill, token: str | None) -> bool:
    """Whether the files of a skill, or a skill at an endpoint, are not public, and there is no credential."""
    is_public = skill.rpc is None or skill.described().manifest.get("access", "public") == "public"
    if token is not None or (is_public and not _hides_files(skill)):
        return False
    return credential_place(parse_url(skill.url), os.environ) is None


def _without_digest(skill: RemoteSkill) -> str:
    if skill.rpc is not None:
        return "none: the skill is used at its endpoint, not installed"
    if skill.ref.git is not None:
        return "none yet: add packs the files of the commit and locks their digest"
    if _hides_files(skill):
        return "none: shown after a login that may read the skill"
    return "none: the skill is called, not installed" if skill.ref.is_only_described else _UNVERIFIED


def _print_next_steps(
    output: Output, skill: RemoteSkill, described: SkillDescriptor | None, token: str | None, version: str
) -> None:
    if skill.ref.release is not None and skill.ref.release.status == "quarantined":
        output.hint("read more:", "skillwire explain QUARANTINED")
        return
    if _needs_login(skill, token):
        output.hint("log in first:", f"skillwire auth login {parse_url(skill.url).origin}")
    reference = reference_to(skill.ref)
    if skill.rpc is not None and skill.rpc.kind != "instruction":
        output.hint("call it:", f"skillwire call {reference}{inputs_of(skill.described().manifest, skill.url)}")
    if described is not None and is_callable(kind_of(described), described.capability_type):
        output.hint("call it:", f"skillwire call {reference}{arguments_for(described.inputs)}")
    if skill.ref.is_only_described:
        return
    reference = shlex.quote(at_version(reference, version)) if version else reference
    output.hint("read it:", f"skillwire show {reference} --body")
    if skill.rpc is None and (skill.ref.release is None or skill.ref.release.is_usable):
        output.hint("add it: ", f"skillwire add {reference}")


@click.command()
@click.argument("reference", metavar="REF")
@click.argument("path")
@network_options
@refresh_option
@output_options
def cat_command(*, output: Output, reference: str, path: str, **network: Unpack[NetworkOptions]) -> None:
    """Print the file PATH of the skill REF.

    For a skill at a Skills Protocol endpoint (https://example.com/rpc#ns.domain.action), PATH may be the ID of a blob.

    In a pipe the bytes are written unchanged. On a terminal invisible characters are shown as escapes, and binary files
    are refused.
    """
    _check_path(path)
    reading = output.progress.during("reading")
    with open_client(output, references=[reference], **network) as client, reading:
        content = client.show(reference).open(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    if output.as_json:
        output.document({
            "schema": "skillwire/cat/1", "reference": reference, "path": path, "size": len(content),
            "encoding": "base64" if text is None else "text",
            "content": base64.b64encode(content).decode() if text is None else text,
        })  # fmt: skip
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(content)
    elif text is None:
        fix = f"Write it to a file: skillwire cat ... > {path.rpartition('/')[2]}"
        raise UsageError("USAGE", f"{path} is not text", fix=fix)
    else:
        output.text(text)


def _check_path(path: str) -> None:
    """Reject an invalid path before any request is made."""
    if path.startswith(BLOB_PREFIX):
        return
    try:
        check_path(path)
    except TrustError as error:
        error.fix = "Name a file relative to SKILL.md, such as references/table.md."
        raise


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
