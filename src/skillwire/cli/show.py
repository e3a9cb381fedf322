"""``skillwire show``: look at a skill, one level of loading at a time."""

from __future__ import annotations

import os
import shlex
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.client_options import network_options, open_client, open_progress, ref_object, refresh_option
from skillwire.cli.descriptor import descriptor_object, print_descriptor
from skillwire.cli.output import faint, output_options, strong
from skillwire.model.url import parse_url
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from skillwire.cli.output import Output
    from skillwire.client.synchronous import RemoteSkill
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor

_SHOWN: Final = 8  # inputs in a command; more are read from a file
_UNVERIFIED: Final = "none: what is downloaded cannot be verified"


@click.command()
@click.argument("reference", metavar="REF")
@click.option("--body", is_flag=True, help="Level 2: the instructions, SKILL.md without its frontmatter.")
@click.option("--files", is_flag=True, help="Level 3: list the files; print one with skillwire cat.")
@click.option("--descriptor", is_flag=True, help="Its Skill Descriptor: how it is called, what it takes and gives.")
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    reference: str,
    body: bool,
    files: bool,
    descriptor: bool,
    token: str | None,
    offline: bool | None,
    refresh: bool,
) -> None:
    """Look at the skill REF before loading it.

    Level 1, the default, is what the indexes of its origin say and fetches nothing else. With --body or --files the
    artifact is fetched, verified against its digest, and shown; nothing is installed. Of a skill that Skill Sharing
    alone lists, and with --descriptor of every other, the Skill Descriptor is fetched and validated first; of a skill
    at an endpoint of the Skills Protocol, https://example.com/rpc#ns.domain.action, its manifest is shown.
    """
    progress = open_progress(output)
    with open_client(
        output, references=[reference], token=token, offline=offline, refresh=refresh, progress=progress
    ) as client:
        with progress.during("reading"):
            skill = client.skill(reference, both=not (body or files))
            if files or (body and skill.rpc is None):
                skill.files()
            is_described = skill.rpc is None and (descriptor or skill.ref.is_only_described)
            described = skill.descriptor() if is_described else None
            at_endpoint = skill.described() if skill.rpc is not None else None
        content: dict[str, Any] = {"skill": ref_object(skill.ref), "type": skill.artifact_type}
        if described is not None:
            content["descriptor"] = descriptor_object(described)
        if at_endpoint is not None:
            content |= {"manifest": at_endpoint.manifest, "frontmatter": at_endpoint.frontmatter}
        if body:
            content["body"] = skill.body()
        if files:
            content["files"] = [
                {"path": file.path, "size": len(file.content), "executable": file.executable} for file in skill.files()
            ]
        output.document("show/1", content)
        _print(output, skill, body=body, files=files)
        if described is not None:
            print_descriptor(output, described)
        if at_endpoint is not None and not body:
            from skillwire.cli.manifest import print_manifest  # noqa: PLC0415  # few skills are at an endpoint

            print_manifest(output, at_endpoint.manifest, skill.url)
        if not body and not files:
            if _is_closed(skill, token):
                output.hint("log in first:", f"skillwire login {parse_url(skill.url).origin}")
            _print_next_steps(output, skill, described)


def _print(output: Output, skill: RemoteSkill, *, body: bool, files: bool) -> None:
    if body:
        output.text(skill.body())
    if files:
        output.table(
            [file.path, f"{len(file.content):,} bytes", "executable" if file.executable else ""]
            for file in skill.files()
        )
    if not body and not files:
        _print_entry(output, skill)


def _print_entry(output: Output, skill: RemoteSkill) -> None:
    output.line(strong(skill.name), f" {skill.version}" if skill.version else "")
    output.line(skill.description, indent=0)
    output.line()
    rows = [
        ("origin", skill.ref.origin),
        # At an endpoint there is no artifact, and its address is the origin.
        *([("type", skill.artifact_type), ("url", skill.url)] if skill.rpc is None else []),
        ("digest", skill.digest or _without_digest(skill)),
        ("found via", skill.ref.found_via),
    ]
    output.table([faint(label), value] for label, value in rows)


def _is_closed(skill: RemoteSkill, token: str | None) -> bool:
    """Whether a skill at an endpoint is not for everybody, and nothing says who asks."""
    if skill.rpc is None or token is not None or skill.described().manifest.get("access", "public") == "public":
        return False
    from skillwire.adapters.files.credentials import credential_place  # noqa: PLC0415  # few skills are closed

    return credential_place(parse_url(skill.url), os.environ) is None


def _without_digest(skill: RemoteSkill) -> str:
    if skill.rpc is not None:
        return "none: it is read and called at its endpoint, not installed"
    return "none: it is called, not installed" if skill.ref.is_only_described else _UNVERIFIED


def _print_next_steps(output: Output, skill: RemoteSkill, described: SkillDescriptor | None) -> None:
    reference = reference_to(skill.ref)
    if skill.rpc is not None and skill.rpc.kind != "instruction":
        from skillwire.cli.manifest import inputs_of  # noqa: PLC0415  # few skills are at an endpoint

        output.hint("call it:", f"skillwire call {reference}{inputs_of(skill.described().manifest, skill.url)}")
    if described is not None and str(described.endpoint.method) != "GET":
        output.hint("call it:", f"skillwire call {reference}{_inputs_of(described)}")
    elif described is None and skill.ref.shared is not None and skill.ref.shared.capability_type != "knowledge":
        output.hint("call it:", f"skillwire call {reference}")
        output.hint("what it takes:", f"skillwire show {reference} --descriptor")
    if skill.ref.is_only_described:
        return
    output.hint("read it:", f"skillwire show {reference} --body")
    if skill.rpc is not None:
        return
    output.hint("add it: ", f"skillwire add {reference}")


def _inputs_of(described: SkillDescriptor) -> str:
    """Return what to type for the inputs that have to be given; their names are a stranger's, and are quoted."""
    required = (one.name for one in described.inputs if one.required)
    return "".join(f" {shlex.quote(name)}=..." for name in islice(required, _SHOWN))
