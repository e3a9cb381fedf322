"""The steps of ``skillwire auth login``: query the origin, ask the user, log in, and store the credential.

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
from skillwire.adapters.files.credentials import bearer, open_store
from skillwire.adapters.files.settings_file import load_settings
from skillwire.adapters.http.loopback import RedirectListener
from skillwire.adapters.http.sync import SyncDriver
from skillwire.cli.auth import KIND_NAMES, login_object, origin_of, until
from skillwire.cli.options import confirm
from skillwire.cli.output import bold, dim, one_line, success
from skillwire.client.login import (
    AuthRequirements,
    choose_flow,
    choose_scope,
    discover_auth,
    find_server,
    hosts_of,
    identify,
    new_key,
    new_token,
    try_out,
)
from skillwire.errors import SourceLocation, TrustError, UsageError
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.client import (
    ask_for_code,
    await_device,
    begin_device,
    read_answer,
    redeem_code,
    use_client_credentials,
)
from skillwire.resolver.context import as_finding
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from skillwire.cli.documents_run import AuthLoginPlanDocument
    from skillwire.cli.output import Output
    from skillwire.model.credential import Credential
    from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata, Tokens


_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", re.ASCII)
#: What can stand before the first colon of a signature.
_KEY_ID: Final = re.compile(r"[!-9;-~]{1,128}", re.ASCII)


class LoginOptions(NamedTuple):
    """The options of the command."""

    flow: str
    client_id: str | None
    scope: tuple[str, ...]
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

    @property
    def has_key(self) -> bool:
        """Whether a key or token is handed over."""
        return self.token_stdin or self.api_key_env is not None


def log_in(text: str, options: LoginOptions, output: Output) -> None:
    """Log in to the origin ``text``.

    Raises:
        UsageError: ``LOGIN_FORM``. TrustError: ``LOGIN_NOT_AGREED``, ``LOGIN_STATE``; what the exchanges raise.
    """
    _check_options(options)
    origin = origin_of(text)
    settings = load_settings(Path.cwd(), os.environ)
    addresses = AddressPolicy(allow=settings.allow).naming(parse_url(origin))
    if options.issuer is not None:
        addresses = addresses.naming(parse_url(options.issuer))
    with SyncDriver(addresses) as driver:
        wanted = driver.run(discover_auth(origin, addresses))
        for doubt in wanted.doubts:
            output.finding(as_finding(doubt))
        login = _Login(origin, wanted, options, driver, output)
        if options.dry_run:
            _print_plan(login.plan("keyring" if settings.credential_store == "keyring" else "file"), output)
            return
        credential = login.run()
    in_keyring = settings.credential_store == "keyring"
    open_store().keep(credential, in_keyring=in_keyring)
    output.document({"schema": "skillwire/auth-login/1", **login_object(credential, in_keyring=in_keyring)})
    output.line(success("logged in to "), bold(origin), dim(f"  {KIND_NAMES[credential.kind]}{until(credential)}"))


def _check_options(options: LoginOptions) -> None:
    if options.token_stdin + options.client_secret_stdin + (options.api_key_env is not None) > 1:
        raise UsageError("LOGIN_FORM", "the secret has two sources")
    if options.client_secret_stdin and options.client_secret_env is not None:
        raise UsageError("LOGIN_FORM", "the client secret has two sources")


class _Login:
    """One login."""

    def __init__(
        self, origin: str, wanted: AuthRequirements, options: LoginOptions, driver: SyncDriver, output: Output
    ) -> None:
        self._origin = origin
        self._options = options
        self._driver = driver
        self._output = output
        self._wanted = wanted if options.issuer is None else _asked_at(options.issuer, wanted)
        self._agreed = {origin}
        if options.issuer is not None:  # typing it is agreeing to it
            self._agreed.add(str(parse_url(options.issuer).origin))

    def run(self) -> Credential:
        """Return the credential."""
        make = {"custom": self._signing_key, "api_key": self._api_key, "oauth2": self._oauth}[self._kind()]
        return make()

    def plan(self, store: Literal["file", "keyring"]) -> AuthLoginPlanDocument:
        """Return the plan of :meth:`run`, as far as the origin describes it."""
        wanted, kind = self._wanted, self._kind()
        named = [url for url in (wanted.issuer, wanted.authorization_url, wanted.token_url) if url is not None]
        return {
            "schema": "skillwire/auth-login-plan/1",
            "origin": self._origin,
            "kind": kind,
            "header": self._header() if kind == "api_key" else None,
            "hosts": sorted({str(parse_url(url).origin) for url in named}) if kind == "oauth2" else [],
            "scopes": list(self._options.scope or wanted.scopes) if kind == "oauth2" else [],
            "stored_in": store,
        }

    def _kind(self) -> Literal["api_key", "oauth2", "custom"]:
        """Return the kind of credential, and print the origin's advice."""
        wanted, options = self._wanted, self._options
        if wanted.advice:
            self._output.note(dim(f"{self._origin} says: "), wanted.advice)
        if wanted.kind == "custom" or options.key_id is not None:
            return "custom"
        if options.has_key or wanted.kind == "api_key":
            return "api_key"
        if wanted.kind == "oauth2":
            return "oauth2"
        if wanted.kind == "none":
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
        return self._options.header or (self._wanted.header if self._wanted.kind == "api_key" else "Authorization")

    def _api_key(self) -> Credential:
        header = self._header()
        if not _FIELD_NAME.fullmatch(header):
            raise UsageError("LOGIN_FORM", f"{ascii(header)[:60]} is not a valid header name")
        secret = self._secret(
            f"Key for {self._origin} ({header})", self._options.api_key_env, self._options.token_stdin
        )
        credential = new_key(self._origin, secret, header=header)
        if self._wanted.refused_at is not None:
            self._driver.run(try_out(credential, self._wanted.refused_at))
        return credential

    def _signing_key(self) -> Credential:
        if self._options.key_id is None:
            fix = "Use the ID that the provider gave you with the key; without one, pass --key-id default."
            raise UsageError("LOGIN_FORM", "signed requests need --key-id", fix=fix)
        if not _KEY_ID.fullmatch(self._options.key_id):
            raise UsageError("LOGIN_FORM", f"{ascii(self._options.key_id)[:60]} is not a valid key ID")
        secret = self._secret(f"Signing key for {self._origin}", self._options.api_key_env, self._options.token_stdin)
        credential = new_key(self._origin, secret, key_id=self._options.key_id)
        if self._wanted.refused_at is not None:
            self._driver.run(try_out(credential, self._wanted.refused_at))
        return credential

    def _oauth(self) -> Credential:
        options, wanted = self._options, self._wanted
        if options.client_id is None:
            fix = "Register a client at the authorization server; allow http://127.0.0.1/callback as redirect."
            raise UsageError("LOGIN_FORM", "a login with OAuth 2.0 needs --client-id", fix=fix)
        named = [url for url in (wanted.issuer, wanted.authorization_url, wanted.token_url) if url is not None]
        for url in named:
            self._agree(str(parse_url(url).origin))
        server = self._driver.run(find_server(wanted, self._driver.policy))
        for host in hosts_of(server):
            self._agree(host)
        client = identify(options.client_id, self._client_secret(), server)
        flow = choose_flow(options.flow, server, client, has_browser=not options.no_browser and _has_browser())
        scope = choose_scope(options.scope, wanted, server, flow)
        if flow == "client-credentials":
            tokens = self._driver.run(use_client_credentials(server.token_url, client, scope))
        elif flow == "device":
            tokens = self._on_another_device(server, client, scope)
        else:
            tokens = self._in_browser(server, client, scope)
        return new_token(self._origin, tokens, server, client, scope=scope, now=time.time())

    def _agree(self, host: str) -> None:
        """Say that ``host`` will be contacted, and go on only when the user agrees, once for each."""
        if host in self._agreed:
            return
        about = f"{self._origin} names {host} as its authorization server, and receives the granted token"
        scopes = self._options.scope or self._wanted.scopes
        about += f"; requested scopes: {', '.join(scopes)}" if scopes else "; no scope is requested"
        if self._options.yes:
            self._output.note(about)
        elif not confirm(f"Log in at {host}?", about=about):
            raise TrustError("LOGIN_NOT_AGREED", f"{about}; not confirmed", place=SourceLocation(self._wanted.said_by))
        self._agreed.add(host)

    def _in_browser(self, server: ServerMetadata, client: ClientIdentity, scope: str) -> Tokens:
        with RedirectListener() as listener:
            question = ask_for_code(server, client.client_id, listener.url, scope)
            _show(f"Open this address to log in:\n  {one_line(question.url)}")
            if not self._options.no_browser:
                _open_browser(question.url)
            code = read_answer(listener.wait(question.state), question)
        return self._driver.run(redeem_code(question, code, client))

    def _on_another_device(self, server: ServerMetadata, client: ClientIdentity, scope: str) -> Tokens:
        device = self._driver.run(begin_device(str(server.device_url), client, scope))
        _show(
            f"On any device, open {one_line(device.verification_url)}\nand enter the code {one_line(device.user_code)}"
        )
        return self._driver.run(await_device(server.token_url, client, device))

    def _client_secret(self) -> str | None:
        options = self._options
        if options.client_secret_env is None and not options.client_secret_stdin:
            return None
        return self._secret("Client secret", options.client_secret_env, options.client_secret_stdin)

    def _secret(self, prompt: str, variable: str | None, from_stdin: bool) -> str:
        """Return a secret that a header field can hold."""
        if variable is not None:
            secret = os.environ.get(variable, "")
        elif from_stdin:
            secret = sys.stdin.readline(limits.OAUTH_TOKEN_LENGTH + 2).strip()
        elif sys.stdin.isatty() and sys.stderr.isatty():
            secret = click.prompt(one_line(prompt), hide_input=True, err=True).strip()
        else:
            fix = "Pass it with --token-stdin or --api-key-env."
            raise UsageError("LOGIN_FORM", "a key is required, and there is no terminal to ask on", fix=fix)
        bearer(secret)  # raises for what no header can hold
        return secret


def _print_plan(plan: AuthLoginPlanDocument, output: Output) -> None:
    output.document(plan)
    carried = f"  sent as {plan['header']}" if plan["header"] else ""
    output.line("would log in to ", bold(plan["origin"]), dim(f"  {KIND_NAMES[plan['kind']]}{carried}"))
    for host in plan["hosts"]:
        scopes = ", ".join(plan["scopes"]) or "no scope"
        output.line("would contact ", bold(host), dim(f"  for {scopes}"))
    output.line(f"would store it in the {plan['stored_in']}")


def _asked_at(issuer: str, wanted: AuthRequirements) -> AuthRequirements:
    """Return what is wanted when the user names the authorization server: its metadata alone is believed."""
    return replace(wanted, kind="oauth2", issuer=issuer, authorization_url=None, token_url=None)


def _show(text: str) -> None:
    click.echo(text, err=True)


def _has_browser() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _open_browser(url: str) -> None:
    """Open ``url``; a browser of the terminal holds its caller until it ends, and we have to answer it before."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
