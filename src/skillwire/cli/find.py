"""``skillwire find``: search the indexes of origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.client_options import (
    network_options,
    open_client,
    ref_object,
    refresh_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import faint, output_options, strong
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("query", nargs=-1)
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Where to search; may be repeated.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Hits at the most.")
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    query: tuple[str, ...],
    origins: tuple[str, ...],
    limit: int,
    token: str | None,
    offline: bool | None,
    refresh: bool,
) -> None:
    """Search for skills by QUERY; without one, list them all.

    Searches the origins given with --from, or the configured sources.
    """
    words = " ".join(query)
    with open_client(output, references=origins, token=token, offline=offline, refresh=refresh) as client:
        hits = client.run(client.search(words, origins))
    shown = hits[:limit]
    output.document(
        "find/1",
        {
            "query": words,
            "total": len(hits),
            "hits": [{**ref_object(skill.ref), "score": round(score, 3)} for skill, score in shown],
        },
    )
    width = max((len(skill.ref.name) for skill, _ in shown), default=0)
    room = terminal_width() - width - 12
    output.table(
        [strong(skill.ref.name), faint(skill.ref.version or "-"), shortened(skill.ref.description, room)]
        for skill, _ in shown
    )
    if len(hits) > limit:
        output.note(faint(f"{len(hits) - limit} more; see them with --limit {len(hits)}"))
    if shown:
        output.note(faint(f"look at one: skillwire show {reference_to(shown[0][0].ref)}"))
    else:
        output.note(f"no skill matches {words!r}" if words else "no skills are published there")
