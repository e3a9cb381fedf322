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
from typing import Final, Literal, NamedTuple

import click

from skillwire import limits
from skillwire.adapters.files.credentials import bearer
from skillwire.adapters.http.loopback import RedirectListener
from skillwire.adapters.http.sync import SyncDriver
from skillwire.cli.options import confirm, has_terminal
from skillwire.cli.output import Output, dim, one_line, warning
from skillwire.client.login import (
    AuthRequirements,
    FlowName,
    choose_flow,
    choose_scope,
    discover_auth,
    find_server,
    find_site,
    hosts_of,
    identify,
    new_key,
    new_token,
    scopes_refused,
    try_out,
)
from skillwire.errors import FetchError, SourceLocation, TrustError, UsageError
from skillwire.model.credential import Credential
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.client import (
    ClientIdentity,
    ServerMetadata,
    Tokens,
    ask_for_code,
    await_device,
    begin_device,
    read_answer,
    redeem_code,
    use_client_credentials,
)
from skillwire.resolver.context import as_finding
from skillwire.trust.address import AddressPolicy

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
    kind: Literal["api_key", "oauth2", "custom"]
    header: str | None
    hosts: tuple[str, ...]
    scopes: tuple[str, ...]


class Login(NamedTuple):
    """A credential, and the status of the server that failed where the credential was tried."""

    credential: Credential
    failed: int | None


def log_in(url: str, options: LoginOptions, allow: tuple[str, ...], output: Output) -> Login | LoginPlan:
    """Log in to the origin of ``url`` and return the login; with ``--dry-run`` return the plan.

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
            site = driver.run(find_site(site))
        required = AuthRequirements("oauth2") if options.is_registry else driver.run(discover_auth(site, addresses))
        for doubt in required.doubts:
            output.finding(as_finding(doubt))
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

    def run(self) -> Login:
        """Return the credential, tried."""
        kind = self._kind()
        credential = self._oauth() if kind == "oauth2" else self._key(kind)
        return Login(credential, self._driver.run(try_out(credential, self._site, self._required.refused_at)))

    def plan(self) -> LoginPlan:
        """Return the plan of :meth:`run`."""
        kind = self._kind()
        header = self._header() if kind == "api_key" else None
        if kind != "oauth2":
            return LoginPlan(self._origin, kind, header, (), ())
        scopes = self._options.scope or self._required.scopes
        return LoginPlan(self._origin, kind, header, tuple(sorted(self._hosts)), tuple(scopes))

    def _kind(self) -> Literal["api_key", "oauth2", "custom"]:
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
        """Return an API key or a signing key."""
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
            return new_key(self._origin, secret, header=header)
        return new_key(self._origin, secret, key_id=options.key_id)

    def _oauth(self) -> Credential:
        options, run = self._options, self._driver.run
        if options.client_id is None:
            fix = "Register a client at the authorization server; allow http://127.0.0.1/callback as redirect."
            raise UsageError("LOGIN_FORM", "a login with OAuth 2.0 needs --client-id", fix=fix)
        for host in self._hosts:
            self._agree(host)
        server = run(find_server(self._required, self._driver.policy))
        for host in hosts_of(server):
            self._agree(host)
        secret = None
        if options.client_secret_env is not None or options.client_secret_stdin:
            secret = self._secret("Client secret", options.client_secret_env, options.client_secret_stdin)
        client = identify(options.client_id, secret, server)
        flow = choose_flow(options.flow, server, client, has_browser=not options.no_browser and _has_browser())
        scope = choose_scope(options.scope, self._required, server, flow)
        resource = options.resource or self._required.resource
        try:
            tokens = self._tokens(flow, server, client, scope, resource)
        except FetchError as error:
            if options.resource or resource is None or error.details.get("error") != "invalid_target":
                raise
            resource = None  # the server does not know the origin's name, and may have one resource only
            tokens = self._tokens(flow, server, client, scope, resource)
        if refused := scopes_refused(scope, tokens):
            self._output.note(warning("not granted: "), ", ".join(refused))
        return new_token(self._origin, tokens, server, client, scope=scope, resource=resource, now=time.time())

    def _tokens(
        self, flow: FlowName, server: ServerMetadata, client: ClientIdentity, scope: str, resource: str | None
    ) -> Tokens:
        run = self._driver.run
        if flow == "client-credentials":
            return run(use_client_credentials(server.token_url, client, scope, resource=resource))
        if flow == "device":
            device = run(begin_device(str(server.device_url), client, scope, resource=resource))
            click.echo(f"On any device, open {one_line(device.verification_url)}", err=True)
            click.echo(f"and enter the code {one_line(device.user_code)}", err=True)
            return run(await_device(server.token_url, client, device, resource=resource))
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
            question = ask_for_code(server, client.client_id, listener.url, scope, resource=resource)
            click.echo(f"Open this address to log in:\n  {one_line(question.url)}", err=True)
            if not self._options.no_browser:
                # A browser in the terminal blocks its caller until it ends, and this command must answer it before.
                threading.Thread(target=webbrowser.open, args=(question.url,), daemon=True).start()
            code = read_answer(listener.wait(question.state), question)
        return self._driver.run(redeem_code(question, code, client))

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
