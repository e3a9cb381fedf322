"""``skillwire logout``: revoke what was granted, and forget the credential."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillwire.cli.output import bold, dim, doubtful, good, output_options
from skillwire.errors import NotFoundError, SkillwireError, UsageError

if TYPE_CHECKING:
    from skillwire.cli.output import Output
    from skillwire.model.credential import Credential


@click.command()
@click.argument("origin", metavar="[ORIGIN]", required=False)
@click.option("--all", "everywhere", is_flag=True, help="Log out everywhere.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
@output_options
def command(*, output: Output, origin: str | None, everywhere: bool, dry_run: bool) -> None:
    """Log out of an origin: revoke the token where the server offers that, and forget the credential.

    What the origin has answered to that credential is removed from the cache.

    What cannot be revoked, because the server does not answer, is forgotten all the same, and said.
    """
    from skillwire.adapters.files.atomic import cache_directory  # noqa: PLC0415  # as above
    from skillwire.adapters.files.client_cache import FileResponseCache  # noqa: PLC0415  # as above
    from skillwire.adapters.files.credentials import open_store  # noqa: PLC0415  # --help does without
    from skillwire.cli.logins import origin_of  # noqa: PLC0415  # as above

    if (origin is None) != everywhere:
        raise UsageError("USAGE", "name an origin, or say --all")
    store = open_store()
    marks = {login.credential.origin: login.credential.mark for login in store.logins()}
    known = list(marks)
    meant = known if origin is None else [origin_of(origin)]
    if origin is not None and meant[0] not in known:
        raise NotFoundError("LOGIN_MISSING", f"nobody is logged in to {meant[0]}")
    done = []
    for place in meant:
        credential = None if dry_run else store.find(place)
        revoked = credential is not None and _revoke(credential, output)
        if not dry_run:
            store.remove(place)
            FileResponseCache(cache_directory() / "responses").forget(marks[place])
        done.append({"origin": place, "revoked": revoked})
    output.document("logout/1", {"dry_run": dry_run, "logouts": done})
    for row in done:
        how = dim("  revoked") if row["revoked"] else ""
        output.line(good("would log out of " if dry_run else "logged out of "), bold(row["origin"]), how)
    if not done:
        output.note("you are logged in nowhere")


def _revoke(credential: Credential, output: Output) -> bool:
    from skillwire.adapters.files.settings_file import load_settings  # noqa: PLC0415  # --help does without
    from skillwire.adapters.http.sync import SyncDriver  # noqa: PLC0415  # as above
    from skillwire.client.login import end_grant  # noqa: PLC0415  # as above
    from skillwire.model.url import parse_url  # noqa: PLC0415  # as above
    from skillwire.trust.address import AddressPolicy  # noqa: PLC0415  # as above

    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    # Whoever logged in there has agreed to this server.
    addresses = AddressPolicy(allow=load_settings(Path.cwd(), os.environ).allow)
    addresses = addresses.naming(parse_url(credential.grant.revocation_url))
    try:
        with SyncDriver(addresses) as driver:
            revoked = driver.run(end_grant(credential, addresses))
    except SkillwireError as error:
        output.note(doubtful("not revoked: "), error.message)
        return False
    if not revoked:
        output.note(doubtful("not revoked: "), "the server refused")
    return revoked
