"""``skillwire trust``: the origins that you trust for installing skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import GroupWithDefaultList, dry_run_option, open_client
from skillwire.cli.output import Output, bold, dim, output_options, success

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.cli.documents import TrustedOrigin
    from skillwire.model.ref import OriginRecord


@click.group(cls=GroupWithDefaultList)
def command() -> None:
    """List and revoke the origins that you trust for installing skills. Without a command it lists.

    add and update ask before they install from a new origin. Origins in the setting trusted_origins need no consent,
    and are not listed.
    """


@command.command(name="list")
@output_options
def list_(*, output: Output) -> None:
    """List the trusted origins."""
    with open_client(output) as client:
        trusted = client.trusted_origins()
    _print_trust(output, trusted)
    output.table([bold(base), dim(f"known since {row.first_seen}")] for base, row in trusted.items())
    if not trusted:
        output.note("you have not trusted an origin yet")


@command.command(name="revoke")
@click.argument("origins", metavar="ORIGIN...", nargs=-1, required=True)
@dry_run_option
@output_options
def revoke(*, output: Output, origins: tuple[str, ...], dry_run: bool) -> None:
    """Withdraw the consent to each ORIGIN.

    The next add or update from it asks again. Installed skills stay, and so does the record that an origin publishes
    digests.
    """
    with open_client(output) as client:
        trusted = client.trusted_origins()
        revoked = [base for text in origins for base in client.revoke_trust(text, dry_run=dry_run)]
    _print_trust(output, {base: trusted[base] for base in revoked}, is_revoked=True, dry_run=dry_run)
    for base in revoked:
        output.line(success("would revoke " if dry_run else "revoked "), bold(base))


def _print_trust(
    output: Output, origins: Mapping[str, OriginRecord], *, is_revoked: bool = False, dry_run: bool = False
) -> None:
    rows: list[TrustedOrigin] = [
        {"origin": base, "first_seen": row.first_seen, "revoked": is_revoked} for base, row in origins.items()
    ]
    output.document({"schema": "skillwire/trust/1", "dry_run": dry_run, "origins": rows})
