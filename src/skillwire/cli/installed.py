"""``skillwire list``, ``remove``, ``verify`` and ``trust``: installed skills, and the origins trusted for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import (
    GroupWithDefaultList,
    confirm,
    dry_run_option,
    locked_object,
    open_client,
    open_progress,
    plural,
    scope_option,
)
from skillwire.cli.output import Output, bold, dim, failure, output_options, success, warning
from skillwire.errors import ConflictError, TrustError
from skillwire.model.ref import Lock, LockedSkill
from skillwire.resolver.lockfile import requiring

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.cli.documents import TrustedOrigin
    from skillwire.model.ref import OriginRecord


@click.command()
@scope_option
@output_options
def list_command(*, output: Output, for_user: bool) -> None:
    """List installed skills."""
    with open_client(output, for_user=for_user) as client:
        installed = client.installed()
    skills = [locked_object(locked) for locked in installed]
    output.document({"schema": "skillwire/list/1", "root": str(client.root), "skills": skills})
    output.table(
        [bold(locked.name), locked.version or "-", locked.origin, dim(_places(locked))] for locked in installed
    )
    if not installed:
        output.note("no skills are installed")


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Remove a skill even if its files were changed, or it is required.")
@dry_run_option
@scope_option
@output_options
def remove_command(*, output: Output, names: tuple[str, ...], overwrite: bool, dry_run: bool, for_user: bool) -> None:
    """Remove installed skills, and their entries in skills.lock.

    A skill with changed files, or one that another skill requires, is kept unless you confirm.
    """
    with open_client(output, for_user=for_user) as client:
        skills, deviations = client.verify(*names)
        changed = sorted({row.name for row in deviations if row.problem != "missing"})
        needed = requiring(Lock({one.name: one for one in client.installed()}), names)
        if not dry_run:
            for requirer, requirement in {} if overwrite else needed.items():
                message = f"{requirer} requires {requirement}"
                if not confirm(f"{message}. Remove it anyway?"):
                    raise ConflictError("DEPENDENCY_NEEDED", message)
            message = f"{', '.join(changed)}: its files were changed"
            if changed and not (overwrite or confirm(f"{message}. Remove it anyway?")):
                raise ConflictError("SKILL_CONFLICT", message, fix="Keep a copy, or pass --overwrite.")
            skills = client.remove(*names, overwrite=True)
    removed = [locked_object(locked) for locked in skills]
    output.document(
        {
            "schema": "skillwire/remove/1",
            "dry_run": dry_run,
            "skills": removed,
            "changed": changed,
            "required_by": needed,
        }
    )
    for requirer, requirement in needed.items():
        output.note(warning(f"{requirer} requires "), requirement)
    verb = success("would remove " if dry_run else "removed ")
    for locked in skills:
        if dry_run and locked.name in changed and not overwrite:
            output.line(warning("would ask about "), bold(locked.name), dim("  its files were changed"))
        else:
            output.line(verb, bold(locked.name), dim(f"  {_places(locked)}"))


def _places(locked: LockedSkill) -> str:
    return ", ".join([*locked.placement.folders, *locked.placement.links])


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@scope_option
@output_options
def verify_command(*, output: Output, names: tuple[str, ...], for_user: bool) -> None:
    """Compare installed skills, these or all, with skills.lock, byte for byte.

    Works offline. Exits with 4 when a file is missing, changed or added.
    """
    with open_client(output, for_user=for_user) as client, open_progress(output).during("verifying"):
        skills, deviations = client.verify(*names)
    if output.as_json and not deviations:
        intact = [locked.name for locked in skills]
        output.document({"schema": "skillwire/verify/1", "skills": intact, "deviations": []})
    broken = {row.name for row in deviations}
    for locked in skills:
        if locked.name not in broken:
            output.line(success("ok "), bold(locked.name), dim(f"  {plural(len(locked.files), 'file')}"))
    for row in deviations:
        output.line(failure(f"{row.problem} "), bold(row.name), f"  {row.path}")
    if deviations:
        details = {"deviations": list(deviations)}
        message = f"{plural(len(deviations), 'file')} of {plural(len(broken), 'skill')}: they do not match the lock"
        raise TrustError("VERIFY_FAILED", message, details=details)
    if not skills:
        lock = client.lock_path
        output.note("no skills are installed", "" if lock.exists() else f": there is no {lock.absolute()}")


@click.group(cls=GroupWithDefaultList)
def trust_command() -> None:
    """List and revoke the origins that you trust for installing skills. Without a command it lists.

    add and update ask before they install from a new origin. Origins in the setting trusted_origins need no consent,
    and are not listed.
    """


@trust_command.command(name="list")
@output_options
def list_trust(*, output: Output) -> None:
    """List the trusted origins."""
    with open_client(output) as client:
        trusted = client.trusted_origins()
    _print_trust(output, trusted)
    output.table([bold(base), dim(f"known since {row.first_seen}")] for base, row in trusted.items())
    if not trusted:
        output.note("you have not trusted an origin yet")


@trust_command.command(name="revoke")
@click.argument("origins", metavar="ORIGIN...", nargs=-1, required=True)
@dry_run_option
@output_options
def revoke_trust(*, output: Output, origins: tuple[str, ...], dry_run: bool) -> None:
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
