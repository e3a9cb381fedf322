"""``skillwire find``: search the indexes of origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.client_options import (
    network_options,
    open_client,
    open_progress,
    ref_object,
    refresh_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import faint, output_options, strong
from skillwire.errors import UsageError
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.model.ref import SkillRef

_ROOM: Final = 24  # columns that a description needs to say anything


@click.command()
@click.argument("query", nargs=-1)
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Where to search; may be repeated.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Hits at the most.")
@click.option(
    "--type",
    "capability_type",
    type=click.Choice(["api", "plugin", "knowledge", "task"]),
    help="Only what Skill Sharing lists as such.",
)
@click.option("--lan", is_flag=True, help="Search the local network, and nothing else.")
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
    token: str | None,
    offline: bool | None,
    refresh: bool,
) -> None:
    """Search for skills by QUERY; without one, list them all.

    Searches the origins given with --from, or the configured sources, by Agent Skills Discovery and by Skill Sharing;
    and endpoints of the Skills Protocol, https://example.com/rpc, or https://example.com/rpc#ns. for one namespace.

    With --lan, asks the local network for skills by their name, capability or scene. How each is, and whether somebody
    certified it, stands in its row.
    """
    words = " ".join(query)
    if lan:
        if origins or capability_type is not None or token is not None:
            fix = "Leave them out: skills of the local network are of many places."
            raise UsageError("USAGE", "--lan excludes --from, --type and --token", fix=fix)
        from skillwire.cli.find_lan import find_lan  # noqa: PLC0415  # few searches are of the local network

        find_lan(output, words, limit, offline=offline, refresh=refresh)
        return
    progress = open_progress(output)
    with (
        open_client(
            output, references=origins, token=token, offline=offline, refresh=refresh, progress=progress
        ) as client,
        progress.during("reading"),
    ):
        hits = client.find(words, origins, capability_type=capability_type)
    shown = hits[:limit]
    output.document(
        "find/1",
        {
            "query": words,
            "total": len(hits),
            "hits": [{**ref_object(skill.ref), "score": round(score, 3)} for skill, score in shown],
        },
    )
    _print(output, [skill.ref for skill, _ in shown])
    if len(hits) > limit:
        output.note(faint(f"{len(hits) - limit} more; see them with --limit {len(hits)}"))
    if shown:
        output.hint("look at one:", f"skillwire show {reference_to(shown[0][0].ref)}")
    else:
        output.note(f"no skill matches {words!r}" if words else "no skills are published there")


def _print(output: Output, refs: Sequence[SkillRef]) -> None:
    """Print a table; where it would leave no room for a description, a line for that below each name."""
    facts = [[ref.version or "-"] for ref in refs]
    if any(ref.shared or ref.rpc for ref in refs):
        facts = [[version, _told(ref)] for (version,), ref in zip(facts, refs, strict=True)]
    rows = [[ref.name, *cells] for ref, cells in zip(refs, facts, strict=True)]
    room = terminal_width() - sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
    if room >= _ROOM:
        output.table(
            [strong(name), *map(faint, cells), shortened(ref.description, room)]
            for ref, (name, *cells) in zip(refs, rows, strict=True)
        )
        return
    for ref, cells in zip(refs, facts, strict=True):
        output.line(strong(ref.name), faint("".join(f"  {cell}" for cell in cells if cell != "-")))
        output.line("  ", shortened(ref.description, terminal_width() - 2))


def _told(ref: SkillRef) -> str:
    """Return what Skill Sharing, or an endpoint, says of a skill in a word or two."""
    if ref.rpc is not None:
        return ref.rpc.kind or "-"
    if ref.shared is None:
        return "-"
    access = "" if ref.shared.access == "public" else f" {ref.shared.access}"
    return ref.shared.capability_type + access
