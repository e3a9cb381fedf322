"""``skillwire find``: search origins, or the local network with ``--lan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import click

from skillwire.cli.lan_view import lan_object, status_text, trust_text
from skillwire.cli.options import (
    network_options,
    open_client,
    open_progress,
    ref_object,
    refresh_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import bold, dim, output_options
from skillwire.errors import SkillwireError, UsageError
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources.lan import describe_lan_skill, ref_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from skillwire.cli.documents import FindHit
    from skillwire.cli.options import NetworkOptions
    from skillwire.cli.output import Output, Part
    from skillwire.model.lan import LanSkill
    from skillwire.model.ref import SkillRef


_ROOM: Final = 24  # columns that a description or a list of capabilities needs


@click.command()
@click.argument("query", nargs=-1)
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Origin to search; repeatable.")
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Maximum number of results."
)
@click.option(
    "--type",
    "capability_type",
    type=click.Choice(["api", "plugin", "knowledge", "task"]),
    help="Only skills that Skill Sharing lists with this type.",
)
@click.option("--lan", is_flag=True, help="Search only the local network.")
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    query: tuple[str, ...],
    origins: tuple[str, ...],
    limit: int,
    capability_type: str | None,
    lan: bool,
    **network: Unpack[NetworkOptions],
) -> None:
    """Search for skills by QUERY; without one, list all skills.

    Searches the origins given with --from, or the configured sources, with Agent Skills Discovery and Skill Sharing;
    and Skills Protocol endpoints, https://example.com/rpc, or https://example.com/rpc#ns. for one namespace.

    With --lan, searches the local network by name, capability or scene. Each row shows the skill's health and trust.
    """
    words = " ".join(query)
    if lan:
        if origins or capability_type is not None or network["token"] is not None:
            fix = "Leave them out: a local network search has no single origin."
            raise UsageError("USAGE", "--lan excludes --from, --type and --token", fix=fix)
        _find_lan(output, words, limit, **network)
        return
    progress = open_progress(output)
    with (
        open_client(output, references=origins, progress=progress, **network) as client,
        progress.during("reading"),
    ):
        hits = client.find(words, origins, capability_type=capability_type)
    shown = hits[:limit]
    found = [_hit(skill.ref, score) for skill, score in shown]
    output.document({"schema": "skillwire/find/1", "query": words, "total": len(hits), "hits": found})
    _print_hits(output, [skill.ref for skill, _ in shown])
    _count_others(output, len(hits), limit)
    if shown:
        output.hint("show details:", f"skillwire show {reference_to(shown[0][0].ref)}")
    else:
        output.note(f"no skill matches {words!r}" if words else "the origin publishes no skills")


def _count_others(output: Output, number: int, limit: int) -> None:
    if number > limit:
        output.note(dim(f"{number - limit} more; see them with --limit {number}"))


def _print_hits(output: Output, refs: Sequence[SkillRef]) -> None:
    """Print a table; where it would leave no room for a description, a line for that below each name."""
    has_types = any(ref.shared or ref.rpc for ref in refs)
    facts = [[ref.version or "-", *([_type_and_access(ref)] if has_types else [])] for ref in refs]
    rows = [[ref.name, *cells] for ref, cells in zip(refs, facts, strict=True)]
    room = terminal_width() - sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
    if room >= _ROOM:
        output.table(
            [bold(name), *map(dim, cells), shortened(ref.description, room)]
            for ref, (name, *cells) in zip(refs, rows, strict=True)
        )
        return
    for ref, cells in zip(refs, facts, strict=True):
        output.line(bold(ref.name), dim("".join(f"  {cell}" for cell in cells if cell != "-")))
        output.line("  ", shortened(ref.description, terminal_width() - 2))


def _type_and_access(ref: SkillRef) -> str:
    """Return a skill's type and access, as published by Skill Sharing or an endpoint."""
    if ref.rpc is not None:
        return ref.rpc.kind or "-"
    if ref.shared is None:
        return "-"
    access = "" if ref.shared.access == "public" else f" {ref.shared.access}"
    return ref.shared.capability_type + access


def _find_lan(output: Output, words: str, limit: int, **network: Unpack[NetworkOptions]) -> None:
    progress = open_progress(output)
    with (
        open_client(output, progress=progress, **network) as client,
        progress.waiting("asking the local network"),
    ):
        found = client.lan.discover(words, refresh=network["refresh"])
        may_use = client.lan.settings.use_unverified
    referred = {skill: reference for skill in found if (reference := _reference(output, skill))}
    found = list(referred)
    shown = found[:limit]
    hits: list[FindHit] = [{**_hit(ref_of(skill), 0.0), "lan": lan_object(skill)} for skill in shown]
    output.document({"schema": "skillwire/find/1", "query": words, "total": len(found), "hits": hits})
    _print_lan_hits(output, shown)
    _count_others(output, len(found), limit)
    if not found:
        no_match = f"no skill on the local network matches {words!r}"
        output.note(no_match if words else "no agent on the local network offers skills")
        output.hint("list all agents:", "skillwire lan")
        return
    output.hint("show details:", f"skillwire show {referred[shown[0]]}")
    usable = [skill for skill in shown if skill.is_usable]
    able = next((skill for skill in usable if skill.capabilities), next(iter(usable), None))
    if able is not None:
        flag = "" if able.is_verified or may_use else " --unverified"
        output.hint("call one:    ", f"skillwire call lan:{next(iter(able.capabilities), able.skill_id)}{flag}")


def _reference(output: Output, skill: LanSkill) -> str:
    """Return the reference of a skill; report a skill without a typable address, and return an empty text."""
    try:
        return reference_to(ref_of(skill))
    except SkillwireError as error:
        output.note(dim("left out "), f"{skill.skill_id} {skill.publisher_label}: {error.message}")
        return ""


def _print_lan_hits(output: Output, skills: Sequence[LanSkill]) -> None:
    rows: list[list[Part]] = []
    for skill in skills:
        health = (status_text(skill), trust_text(skill), dim(str(skill.found_via)))
        rows.append([bold(skill.skill_id), dim(skill.version), *health, dim(skill.endpoint)])
    widths = [max(len(cell.text) for cell in column) + 2 for column in zip(*rows, strict=True)]
    room = max(terminal_width() - sum(widths), _ROOM)
    output.table([*row, shortened(describe_lan_skill(skill), room)] for row, skill in zip(rows, skills, strict=True))


def _hit(ref: SkillRef, score: float) -> FindHit:
    return cast("FindHit", {**ref_object(ref), "score": round(score, 3)})
