"""``skillwire auth``: log in to origins, log out, and show logins. No secret is ever printed.

A secret comes from a prompt without echo, from standard input or from the environment, never from an argument, which
other users of the machine can read. An origin may name any authorization server, so every host other than the origin
needs the user's confirmation before the first request.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import click

from skillwire import limits
from skillwire.adapters.files.atomic import cache_directory
from skillwire.adapters.files.client_cache import FileResponseCache
from skillwire.adapters.files.credentials import bearer, open_store
from skillwire.adapters.files.settings_file import load_settings
from skillwire.adapters.http.loopback import RedirectListener
from skillwire.adapters.http.sync import SyncDriver
from skillwire.cli.options import CommandGroup, LazyModule, confirm, dry_run_option, has_terminal, utc_time
from skillwire.cli.output import Output, bold, dim, one_line, output_options, success, warning
from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.url import parse_url
from skillwire.resolver.context import as_finding
from skillwire.resolver.references import parse_source, registry_address
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from skillwire.cli.documents_run import LoginObject, LogoutObject
    from skillwire.client import login as client_login
    from skillwire.client.login import AuthRequirements, FlowName
    from skillwire.model.credential import Credential, CredentialKind
    from skillwire.protocols.oauth import client as oauth
    from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata, Tokens
else:  # load msgspec
    client_login = LazyModule("client.login")
    oauth = LazyModule("protocols.oauth.client")


_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_KIND_NAMES: Final = {"api_key": "API key", "oauth2": "OAuth 2.0", "custom": "signing key"}


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

    settings = load_settings(Path.cwd(), os.environ)
    in_keyring = settings.credential_store == "keyring"
    wanted = LoginOptions(**options)  # type: ignore[arg-type]  # as click has read them
    if registry is not None:
        origin = registry_address(registry)
        wanted = wanted.for_registry(origin)
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
    output.document({
        "schema": "skillwire/auth-login-plan/1", "origin": plan.origin, "kind": plan.kind, "header": plan.header,
        "hosts": list(plan.hosts), "scopes": list(plan.scopes), "stored_in": store,
    })  # fmt: skip
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
    meant = list(marks) if origin is None else [str(parse_url(parse_source(origin).url).origin)]
    if origin is not None and meant[0] not in marks:
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
    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    # The user agreed to this server by logging in there.
    addresses = AddressPolicy(allow=load_settings(Path.cwd(), os.environ).allow)
    addresses = addresses.naming(parse_url(credential.grant.revocation_url))
    try:
        with SyncDriver(addresses) as driver:
            revoked = driver.run(client_login.end_grant(credential, addresses))
    except SkillwireError as error:
        output.note(warning("not revoked: "), error.message)
        return False
    if not revoked:
        output.note(warning("not revoked: "), "the server refused")
    return revoked


_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", re.ASCII)
#: Our name at registries, and the scopes that are requested there.
_CLIENT: Final = "skillwire"
_SCOPES: Final = ("read", "publish")
#: What can stand before the first colon of a signature.
_KEY_ID: Final = re.compile(r"[!-9;-~]{1,128}", re.ASCII)


class LoginOptions(NamedTuple):
    """The options of the command."""

    flow: str
    client_id: str | None
    scope: tuple[str, ...]
    resource: str | None
    issuer: str | None
    no_browser: bool
    header: str | None
    key_id: str | None
    token_stdin: bool
    api_key_env: str | None
    client_secret_stdin: bool
    client_secret_env: str | None
    yes: bool
    dry_run: bool
    is_registry: bool = False

    def for_registry(self, url: str) -> LoginOptions:
        """Return the options of a login at the registry ``url``, which is its own authorization server."""
        if self.issuer or self.flow not in {"auto", "device"}:
            raise UsageError("LOGIN_FORM", "--registry conflicts with --issuer and --flow")
        client, scope = self.client_id or _CLIENT, self.scope or _SCOPES
        return self._replace(client_id=client, scope=scope, issuer=url.rstrip("/"), flow="device", is_registry=True)


class LoginPlan(NamedTuple):
    """What a login would do, as far as the origin describes it; ``header`` is None except for an API key."""

    origin: str
    kind: CredentialKind
    header: str | None
    hosts: tuple[str, ...]
    scopes: tuple[str, ...]


def log_in(
    url: str, options: LoginOptions, allow: tuple[str, ...], output: Output
) -> tuple[Credential, int | None] | LoginPlan:
    """Log in to the origin of ``url``; return the credential, and the status of a server that failed with it.

    With ``--dry-run`` return the plan.

    A site below the path of ``url`` describes the login and tries the credential, as the origin does where none is.

    Raises:
        UsageError: ``LOGIN_FORM``. TrustError: ``LOGIN_NOT_AGREED``, ``LOGIN_STATE``; what the exchanges raise.
    """
    if options.token_stdin + options.client_secret_stdin + (options.api_key_env is not None) > 1:
        raise UsageError("LOGIN_FORM", "the secret has two sources")
    if options.client_secret_stdin and options.client_secret_env is not None:
        raise UsageError("LOGIN_FORM", "the client secret has two sources")
    site, origin = url.rstrip("/"), str(parse_url(url).origin)
    addresses = AddressPolicy(allow=allow).naming(parse_url(origin))
    if options.issuer is not None:
        addresses = addresses.naming(parse_url(options.issuer))
    with SyncDriver(addresses) as driver:
        if site != origin and not options.is_registry:
            site = driver.run(client_login.find_site(site))
        if options.is_registry:
            required = client_login.AuthRequirements("oauth2")
        else:
            required = driver.run(client_login.discover_auth(site, addresses))
        for error in required.errors:
            output.finding(as_finding(error))
        login = _Login(site, required, options, driver, output)
        return login.plan() if options.dry_run else login.run()


class _Login:
    def __init__(
        self, site: str, required: AuthRequirements, options: LoginOptions, driver: SyncDriver, output: Output
    ) -> None:
        self._site = site
        self._origin = origin = str(parse_url(site).origin)
        self._options = options
        self._driver = driver
        self._output = output
        self._agreed = {origin}
        if options.issuer is not None:  # the user typed it, which is consent; its metadata alone is used
            self._agreed.add(str(parse_url(options.issuer).origin))
            required = replace(required, kind="oauth2", issuer=options.issuer, authorization_url=None, token_url=None)
        self._required = required
        urls = (required.issuer, required.authorization_url, required.token_url)
        self._hosts = list(dict.fromkeys(str(parse_url(url).origin) for url in urls if url is not None))

    def run(self) -> tuple[Credential, int | None]:
        """Return the credential, tried, and the status of a server that failed with it."""
        kind = self._kind()
        credential = self._oauth() if kind == "oauth2" else self._key(kind)
        tried = client_login.try_out(credential, self._site, self._required.refused_at)
        return credential, self._driver.run(tried)

    def plan(self) -> LoginPlan:
        """Return the plan of :meth:`run`."""
        kind = self._kind()
        header = self._header() if kind == "api_key" else None
        if kind != "oauth2":
            return LoginPlan(self._origin, kind, header, (), ())
        scopes = self._options.scope or self._required.scopes
        return LoginPlan(self._origin, kind, header, tuple(sorted(self._hosts)), tuple(scopes))

    def _kind(self) -> CredentialKind:
        """Return the kind of credential, and print the origin's advice."""
        required, options = self._required, self._options
        if required.advice:
            self._output.note(dim(f"{self._origin} says: "), required.advice)
        if required.kind == "custom" or options.key_id is not None:
            return "custom"
        if options.token_stdin or options.api_key_env is not None or required.kind == "api_key":
            return "api_key"
        if required.kind == "oauth2":
            return "oauth2"
        if required.kind == "none":
            fix = "If you have a key anyway, pass it with --token-stdin."
            raise UsageError("LOGIN_FORM", f"{self._origin} does not require a login", fix=fix)
        if options.client_id is not None:
            fix = "Name it with --issuer."
            raise UsageError("LOGIN_FORM", f"{self._origin} does not name its authorization server", fix=fix)
        self._output.note(
            f"{self._origin} does not describe its authentication; the token is sent as Authorization: Bearer"
        )
        return "api_key"

    def _header(self) -> str:
        return self._options.header or (self._required.header if self._required.kind == "api_key" else "Authorization")

    def _key(self, kind: Literal["api_key", "custom"]) -> Credential:
        options, header = self._options, self._header()
        if kind == "api_key" and not _FIELD_NAME.fullmatch(header):
            raise UsageError("LOGIN_FORM", f"{ascii(header)[:60]} is not a valid header name")
        if kind == "custom" and options.key_id is None:
            fix = "Use the ID that the provider gave you with the key; without one, pass --key-id default."
            raise UsageError("LOGIN_FORM", "signed requests need --key-id", fix=fix)
        if options.key_id is not None and not _KEY_ID.fullmatch(options.key_id):
            raise UsageError("LOGIN_FORM", f"{ascii(options.key_id)[:60]} is not a valid key ID")
        prompt = f"Key for {self._origin} ({header})" if kind == "api_key" else f"Signing key for {self._origin}"
        secret = self._secret(prompt, options.api_key_env, options.token_stdin)
        if kind == "api_key":
            return client_login.new_key(self._origin, secret, header=header)
        return client_login.new_key(self._origin, secret, key_id=options.key_id)

    def _oauth(self) -> Credential:
        options, run = self._options, self._driver.run
        if options.client_id is None:
            fix = "Register a client at the authorization server; allow http://127.0.0.1/callback as redirect."
            raise UsageError("LOGIN_FORM", "a login with OAuth 2.0 needs --client-id", fix=fix)
        for host in self._hosts:
            self._agree(host)
        server = run(client_login.find_server(self._required, self._driver.policy))
        for host in client_login.hosts_of(server):
            self._agree(host)
        secret = None
        if options.client_secret_env is not None or options.client_secret_stdin:
            secret = self._secret("Client secret", options.client_secret_env, options.client_secret_stdin)
        client = client_login.identify(options.client_id, secret, server)
        flow = client_login.choose_flow(
            options.flow, server, client, has_browser=not options.no_browser and _has_browser()
        )
        scope = client_login.choose_scope(options.scope, self._required, server, flow)
        resource = options.resource or self._required.resource
        try:
            tokens = self._tokens(flow, server, client, scope, resource)
        except FetchError as error:
            if options.resource or resource is None or error.details.get("error") != "invalid_target":
                raise
            resource = None  # the server does not know the origin's name, and may have one resource only
            tokens = self._tokens(flow, server, client, scope, resource)
        if refused := client_login.scopes_refused(scope, tokens):
            self._output.note(warning("not granted: "), ", ".join(refused))
        return client_login.new_token(
            self._origin, tokens, server, client, scope=scope, resource=resource, now=time.time()
        )

    def _tokens(
        self, flow: FlowName, server: ServerMetadata, client: ClientIdentity, scope: str, resource: str | None
    ) -> Tokens:
        run = self._driver.run
        if flow == "client-credentials":
            return run(oauth.use_client_credentials(server.token_url, client, scope, resource=resource))
        if flow == "device":
            device = run(oauth.begin_device(str(server.device_url), client, scope, resource=resource))
            click.echo(f"On any device, open {one_line(device.verification_url)}", err=True)
            click.echo(f"and enter the code {one_line(device.user_code)}", err=True)
            if device.complete_url:
                click.echo(f"or open {one_line(device.complete_url)}", err=True)
            return run(oauth.await_device(server.token_url, client, device, resource=resource))
        return self._in_browser(server, client, scope, resource)

    def _agree(self, host: str) -> None:
        """Announce that ``host`` will be contacted, and get the user's consent once.

        Raises:
            TrustError: ``LOGIN_NOT_AGREED``.
        """
        if host in self._agreed:
            return
        scopes = self._options.scope or self._required.scopes
        requested = f"requested scopes: {', '.join(scopes)}" if scopes else "no scope is requested"
        about = f"{self._origin} names {host} as its authorization server, and receives the granted token; {requested}"
        if self._options.yes:
            self._output.note(about)
        elif not confirm(f"Log in at {host}?", about=about):
            place = SourceLocation(self._required.said_by)
            raise TrustError("LOGIN_NOT_AGREED", f"{about}; not confirmed", place=place)
        self._agreed.add(host)

    def _in_browser(self, server: ServerMetadata, client: ClientIdentity, scope: str, resource: str | None) -> Tokens:
        with RedirectListener() as listener:
            question = oauth.ask_for_code(server, client.client_id, listener.url, scope, resource=resource)
            click.echo(f"Open this address to log in:\n  {one_line(question.url)}", err=True)
            if not self._options.no_browser:
                # A browser in the terminal blocks its caller until it ends, and this command must answer it before.
                threading.Thread(target=webbrowser.open, args=(question.url,), daemon=True).start()
            code = oauth.read_answer(listener.wait(question.state), question)
        return self._driver.run(oauth.redeem_code(question, code, client))

    def _secret(self, prompt: str, variable: str | None, from_stdin: bool) -> str:
        """Return a secret that a header field can hold."""
        if variable is not None:
            secret = os.environ.get(variable, "")
        elif from_stdin:
            secret = sys.stdin.readline(limits.OAUTH_TOKEN_LENGTH + 2).strip()
        elif has_terminal():
            secret = click.prompt(one_line(prompt), hide_input=True, err=True).strip()
        else:
            fix = "Pass it with --token-stdin or --api-key-env."
            raise UsageError("LOGIN_FORM", "a key is required, and there is no terminal to ask on", fix=fix)
        bearer(secret)  # raises for what no header can hold
        return secret


def _has_browser() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
