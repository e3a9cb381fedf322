"""``skillwire show``: look at a skill, one level of loading at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.client_options import network_options, open_client, open_progress, ref_object, refresh_option
from skillwire.cli.descriptor import descriptor_object, print_descriptor
from skillwire.cli.output import faint, output_options, strong
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from skillwire.cli.output import Output
    from skillwire.client.synchronous import RemoteSkill

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

    Level 1, the default, is what the index says and fetches nothing else. With --body or --files the artifact is
    fetched, verified against its digest, and shown; nothing is installed. Of a skill that Skill Sharing alone lists,
    and with --descriptor of every other, the Skill Descriptor is fetched and validated first.
    """
    progress = open_progress(output)
    with open_client(
        output, references=[reference], token=token, offline=offline, refresh=refresh, progress=progress
    ) as client:
        with progress.during("reading"):
            skill = client.skill(reference)
            if body or files:
                skill.files()
            is_described = descriptor or skill.ref.is_only_described
            described = skill.descriptor() if is_described else None
        content: dict[str, Any] = {"skill": ref_object(skill.ref), "type": skill.artifact_type}
        if described is not None:
            content["descriptor"] = descriptor_object(described)
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
        if not body and not files:
            _print_next_steps(output, skill)


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
        ("type", skill.artifact_type),
        ("url", skill.url),
        ("digest", skill.digest or _without_digest(skill)),
        ("found via", skill.ref.found_via),
    ]
    output.table([faint(label), value] for label, value in rows)


def _without_digest(skill: RemoteSkill) -> str:
    return "none: it is called, not installed" if skill.ref.is_only_described else _UNVERIFIED


def _print_next_steps(output: Output, skill: RemoteSkill) -> None:
    if skill.ref.is_only_described:
        return
    reference = reference_to(skill.ref)
    output.hint("read it:", f"skillwire show {reference} --body")
    output.hint("add it: ", f"skillwire add {reference}")
