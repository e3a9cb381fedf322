"""``skillwire grants``: what people agreed to have executed here, and how to take that back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.grant import SHORT
from skillwire.cli.options import PartsOrList
from skillwire.cli.output import bold, dim, good, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.model.execution import Grant


@click.group(cls=PartsOrList)
def command() -> None:
    """List what may be run here, and take it back. Without a command it lists.

    Each grant is for one artifact with the permissions that it asked for; skillwire grant makes them.
    """


@command.command(name="list")
@output_options
def list_(*, output: Output) -> None:
    """List every grant: the skill, its digest, what it may reach, who agreed and when."""
    from skillwire.adapters.sqlite.open import has_database, open_grants  # noqa: PLC0415  # --help does without

    grants = open_grants().all() if has_database() else ()
    _document(output, grants)
    output.table(
        [
            bold(grant.skill),
            grant.version,
            grant.digest[:SHORT],
            dim(f"{grant.by}, {_moment(grant.at)[:10]}")._replace(is_whole=True),
            _asked(grant),
        ]
        for grant in grants
    )
    if not grants:
        output.note("nothing was granted yet; agree to a skill: skillwire grant FOLDER")


@command.command()
@click.argument("which", metavar="NAME|DIGEST...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
@output_options
def revoke(*, output: Output, which: tuple[str, ...], dry_run: bool) -> None:
    """Take back every grant of a skill, or of one digest; nothing of it is begun from then on."""
    from skillwire.adapters.sqlite.open import has_database, open_grants  # noqa: PLC0415  # as above
    from skillwire.errors import NotFoundError  # noqa: PLC0415  # same

    if not has_database():
        raise NotFoundError("GRANT_NOT_FOUND", f"nothing was granted of {ascii(which[0])[:80]}")
    grants = open_grants()
    found = list(dict.fromkeys(grant.digest for name in which for grant in grants.find(name)))
    taken = [grant for grant in grants.all() if grant.digest in found]
    if not dry_run:
        for digest in found:
            grants.take_back(digest)
    _document(output, taken, is_revoked=True, dry_run=dry_run)
    verb = good("would revoke " if dry_run else "revoked ")
    for grant in taken:
        output.line(verb, bold(grant.skill), f" {grant.version}", dim(f"  {grant.digest[:SHORT]}"))


def _document(output: Output, grants: Sequence[Grant], *, is_revoked: bool = False, dry_run: bool = False) -> None:
    rows = [_object(grant, is_revoked=is_revoked) for grant in grants]
    output.document("grants/1", {"dry_run": dry_run, "grants": rows})


def _object(grant: Grant, *, is_revoked: bool) -> dict[str, Any]:
    return {
        "name": grant.skill,
        "version": grant.version,
        "digest": grant.digest,
        "network": list(grant.permissions.network),
        "secrets": list(grant.permissions.secrets),
        "by": grant.by,
        "at": _moment(grant.at),
        "revoked": is_revoked,
    }


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  # --help does without

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _asked(grant: Grant) -> str:
    """Return what a grant lets a skill reach."""
    network, secrets = grant.permissions
    return ", ".join([*network, *secrets]) or "no network, no secrets"
