"""``skillwire auth``: log in to origins, log out, and show logins. No secret is ever printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from skillwire.adapters.files.atomic import cache_directory
from skillwire.adapters.files.client_cache import FileResponseCache
from skillwire.adapters.files.credentials import open_store
from skillwire.adapters.files.settings_file import load_settings
from skillwire.adapters.http.sync import SyncDriver
from skillwire.cli.options import CommandGroup, dry_run_option, utc_time
from skillwire.cli.output import Output, bold, dim, output_options, success, warning
from skillwire.errors import NotFoundError, SkillwireError, UsageError
from skillwire.model.url import parse_url
from skillwire.resolver.references import parse_source
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from skillwire.cli.auth_login import LoginPlan
    from skillwire.cli.documents_run import LoginObject, LogoutObject
    from skillwire.model.credential import Credential


_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_KIND_NAMES: Final = {"api_key": "API key", "oauth2": "OAuth 2.0", "custom": "signing key"}


def _origin_of(text: str) -> str:
    return str(parse_url(parse_source(text).url).origin)


def _login_object(credential: Credential, *, in_keyring: bool) -> LoginObject:
    grant = credential.grant
    return {
        "origin": credential.origin,
        "kind": credential.kind,
        "header": credential.header,
        "expires_at": None if credential.expires_at is None else utc_time(credential.expires_at),
        "renewable": credential.renewable,
        "server": str(parse_url(grant.token_url).origin) if grant else None,
        "scope": grant.scope if grant else None,
        "stored_in": "keyring" if in_keyring else "file",
    }


def _until(credential: Credential) -> str:
    if credential.renewable:
        return ", renewed automatically"
    return "" if credential.expires_at is None else f", until {utc_time(credential.expires_at)}"


@click.group(cls=CommandGroup)
def command() -> None:
    """Log in to origins, log out, and show logins."""


@command.command()
@output_options
def status(*, output: Output) -> None:
    """Show every login: origin, kind and expiry, never a secret."""
    logins = open_store().logins()
    objects = [_login_object(login.credential, in_keyring=login.in_keyring) for login in logins]
    output.document({"schema": "skillwire/auth-status/1", "logins": objects})
    output.table(
        [
            bold(login.credential.origin),
            _KIND_NAMES[login.credential.kind],
            dim(_until(login.credential).removeprefix(", ") + (", in the keyring" if login.in_keyring else "")),
        ]
        for login in logins
    )
    if not logins:
        output.note("there are no logins")


@command.command()
@click.argument("origin", metavar="[ORIGIN]", required=False)
@click.option("--registry", metavar="URL", help="Log in to this registry instead: approve the login on its page.")
@click.option(
    "--flow",
    type=click.Choice(["auto", "code", "device", "client-credentials"]),
    default="auto",
    help="OAuth 2.0 flow: in the browser, on another device, or as a program.",
)
@click.option("--client-id", metavar="ID", help="Client ID registered at the authorization server.")
@click.option(
    "--scope", metavar="SCOPE", multiple=True, help="Scope to request; by default all scopes that the origin lists."
)
@click.option(
    "--resource", metavar="URL", help="What the token is for, if the origin does not name it (RFC 8707 resource)."
)
@click.option("--issuer", metavar="URL", help="The authorization server, if the origin does not name it.")
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@click.option("--header", metavar="NAME", help="Header field for an API key, if the origin does not name it.")
@click.option("--key-id", metavar="ID", help="Key ID, for an origin that requires signed requests.")
@click.option("--token-stdin", is_flag=True, help="Read an API key or token from standard input.")
@click.option("--api-key-env", metavar="NAME", help="Read it from this environment variable.")
@click.option("--client-secret-stdin", is_flag=True, help="Read the client's secret from standard input.")
@click.option("--client-secret-env", metavar="NAME", help="Read it from this environment variable.")
@click.option("-y", "--yes", is_flag=True, help="Accept logging in at the host that the origin names.")
@click.option("--dry-run", is_flag=True, help="Print what would be requested, contacted and stored; store nothing.")
@output_options
def login(*, output: Output, origin: str | None, registry: str | None, **options: object) -> None:
    """Log in to an origin, and store the credential.

    The origin names its authentication: an API key, which is prompted for, or OAuth 2.0, in the browser or on another
    device. The credential is sent only to this origin. Tokens are renewed automatically as long as the server allows.

    With --registry, a person who is signed in to the registry approves the login on its page, and narrows the token:
    by default it reads and publishes; --scope requests read, publish, admin or namespace:NAME.
    """
    if (origin is None) is (registry is None):
        raise UsageError("USAGE", "name an origin, or pass --registry URL")
    from skillwire.cli.auth_login import LoginOptions, LoginPlan, log_in  # noqa: PLC0415  # brings cryptography

    settings = load_settings(Path.cwd(), os.environ)
    in_keyring = settings.credential_store == "keyring"
    wanted = LoginOptions(**options)  # type: ignore[arg-type]  # as click has read them
    if registry is not None:
        url = parse_url(registry)
        wanted, origin = wanted.for_registry(str(url)), str(url)
    place = parse_url(parse_source(origin or "").base)
    if place.scheme == "http" and place.host not in _LOOPBACK:
        output.note(warning("not encrypted: "), f"others on the network can read the token for {place.host}")
    result = log_in(str(place), wanted, settings.allow, output)
    if isinstance(result, LoginPlan):
        _print_plan(result, "keyring" if in_keyring else "file", output)
        return
    credential, failed = result
    open_store().keep(credential, in_keyring=in_keyring)
    stored = _login_object(credential, in_keyring=in_keyring)
    output.document({"schema": "skillwire/auth-login/1", **stored, "verified": failed is None})
    done = success("logged in to ") if failed is None else warning("stored, not verified: ")
    output.line(done, bold(credential.origin), dim(f"  {_KIND_NAMES[credential.kind]}{_until(credential)}"))
    if failed is not None:
        output.note(f"{credential.origin} answered with status {failed}; once it works, log in again to verify it")


def _print_plan(plan: LoginPlan, store: Literal["file", "keyring"], output: Output) -> None:
    fields = {"hosts": list(plan.hosts), "scopes": list(plan.scopes), "stored_in": store}
    document = {"schema": "skillwire/auth-login-plan/1", **plan._asdict(), **fields}
    output.document(document)
    carried = f"  sent as {plan.header}" if plan.header else ""
    output.line("would log in to ", bold(plan.origin), dim(f"  {_KIND_NAMES[plan.kind]}{carried}"))
    for host in plan.hosts:
        output.line("would contact ", bold(host), dim(f"  for {', '.join(plan.scopes) or 'no scope'}"))
    output.line(f"would store it in the {store}")


@command.command()
@click.argument("origin", metavar="[ORIGIN]", required=False)
@click.option("--all", "everywhere", is_flag=True, help="Log out everywhere.")
@dry_run_option
@output_options
def logout(*, output: Output, origin: str | None, everywhere: bool, dry_run: bool) -> None:
    """Log out of an origin: revoke the token if the server supports it, and delete the credential.

    Cached responses for that credential are deleted too. If the server does not respond, the credential is deleted
    anyway, and a note is printed.
    """
    if (origin is None) != everywhere:
        raise UsageError("USAGE", "name an origin, or pass --all")
    store = open_store()
    marks = {login.credential.origin: login.credential.mark for login in store.logins()}
    known = list(marks)
    meant = known if origin is None else [_origin_of(origin)]
    if origin is not None and meant[0] not in known:
        raise NotFoundError("LOGIN_MISSING", f"there is no login for {meant[0]}")
    done: list[LogoutObject] = []
    for place in meant:
        credential = None if dry_run else store.find(place)
        revoked = credential is not None and _revoke(credential, output)
        if not dry_run:
            store.remove(place)
            FileResponseCache(cache_directory() / "responses").forget(marks[place])
        done.append({"origin": place, "revoked": revoked})
    output.document({"schema": "skillwire/auth-logout/1", "dry_run": dry_run, "logouts": done})
    for row in done:
        how = dim("  revoked") if row["revoked"] else ""
        output.line(success("would log out of " if dry_run else "logged out of "), bold(row["origin"]), how)
    if not done:
        output.note("there are no logins")


def _revoke(credential: Credential, output: Output) -> bool:
    from skillwire.client.login import end_grant  # noqa: PLC0415  # as above

    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    # The user agreed to this server by logging in there.
    addresses = AddressPolicy(allow=load_settings(Path.cwd(), os.environ).allow)
    addresses = addresses.naming(parse_url(credential.grant.revocation_url))
    try:
        with SyncDriver(addresses) as driver:
            revoked = driver.run(end_grant(credential, addresses))
    except SkillwireError as error:
        output.note(warning("not revoked: "), error.message)
        return False
    if not revoked:
        output.note(warning("not revoked: "), "the server refused")
    return revoked
