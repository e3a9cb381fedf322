"""How logins are told of: as lines and as JSON, never with a secret."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.files.credentials import open_store
from skillwire.cli.output import bold, dim
from skillwire.model.url import parse_url
from skillwire.resolver.references import source_location

if TYPE_CHECKING:
    from skillwire.cli.output import Output
    from skillwire.model.credential import Credential

KIND_NAMES: Final = {"api_key": "API key", "oauth2": "OAuth 2.0", "custom": "signing key"}


def origin_of(text: str) -> str:
    """Return the origin that ``text`` means: a host, or a URL."""
    return str(parse_url(source_location(text).url).origin)


def list_logins(output: Output) -> None:
    """Show every login: its origin, its kind, when it ends. Never a secret."""
    logins = open_store().logins()
    objects = [login_object(login.credential, in_keyring=login.in_keyring) for login in logins]
    output.document("logins/1", {"logins": objects})
    output.table(
        [
            bold(login.credential.origin),
            KIND_NAMES[login.credential.kind],
            dim(until(login.credential).removeprefix(", ") + (", in the keyring" if login.in_keyring else "")),
        ]
        for login in logins
    )
    if not logins:
        output.note("you are logged in nowhere")


def login_object(credential: Credential, *, in_keyring: bool) -> dict[str, Any]:
    """Return a login for ``--json``: nothing in it is secret."""
    grant = credential.grant
    return {
        "origin": credential.origin,
        "kind": credential.kind,
        "header": credential.header,
        "expires_at": _moment(credential.expires_at),
        "renewable": credential.renewable,
        "server": str(parse_url(grant.token_url).origin) if grant else None,
        "scope": grant.scope if grant else None,
        "stored_in": "keyring" if in_keyring else "file",
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def until(credential: Credential) -> str:
    """Return how long a login lasts, to be put behind its kind."""
    if credential.renewable:
        return ", renewed by itself"
    return "" if credential.expires_at is None else f", until {_moment(credential.expires_at)}"
