"""``skillwire cat``: print one file of a skill."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from skillwire.cli.options import network_options, open_client, open_progress, refresh_option
from skillwire.cli.output import output_options
from skillwire.errors import TrustError, UsageError

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("reference", metavar="REF")
@click.argument("path")
@network_options
@refresh_option
@output_options
def command(
    *, output: Output, reference: str, path: str, token: str | None, offline: bool | None, refresh: bool
) -> None:
    """Print the file PATH of the skill REF.

    Of a skill at an endpoint of the Skills Protocol (https://example.com/rpc#ns.domain.action) PATH may be the id of a
    blob, such as skillwire call names.

    In a pipe the bytes come as they are. On a terminal hidden characters are shown as escapes, and a binary file
    is refused.
    """
    _check(path)
    progress = open_progress(output)
    with (
        open_client(
            output, references=[reference], token=token, offline=offline, refresh=refresh, progress=progress
        ) as client,
        progress.during("reading"),
    ):
        content = client.skill(reference).open(path)
    if output.as_json:
        _print_document(output, reference, path, content)
    elif sys.stdout.isatty():
        _print_text(output, path, content)
    else:
        sys.stdout.buffer.write(content)


def _check(path: str) -> None:
    """Refuse a path that names no file of a skill before anything is asked; who typed it has published nothing."""
    from skillwire.resolver.sources.skills_rpc import BLOB  # noqa: PLC0415  # --help does without
    from skillwire.trust.paths import check_path  # noqa: PLC0415  # same

    if path.startswith(BLOB):
        return
    try:
        check_path(path)
    except TrustError as error:
        error.fix = "Name a file of the skill as seen from its SKILL.md, such as references/table.md."
        raise


def _print_document(output: Output, reference: str, path: str, content: bytes) -> None:
    import base64  # noqa: PLC0415  # only --json needs it

    try:
        fields = {"encoding": "text", "content": content.decode()}
    except UnicodeDecodeError:
        fields = {"encoding": "base64", "content": base64.b64encode(content).decode()}
    output.document("cat/1", {"reference": reference, "path": path, "size": len(content), **fields})


def _print_text(output: Output, path: str, content: bytes) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        fix = f"Write it to a file: skillwire cat ... > {path.rpartition('/')[2]}"
        raise UsageError("USAGE", f"{path} is not text", fix=fix) from error
    output.text(text)
