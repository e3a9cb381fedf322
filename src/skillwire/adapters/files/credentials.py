"""Credentials for private origins. Each belongs to one origin.

They come, in this order, from the environment, from ``skillwire login``, and from ``~/.netrc``; what a command line
names itself wins over all. A stored credential is handed out by :mod:`skillwire.client.renewal` alone, which renews
it; here only its place is told.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.errors import Place, UsageError
from skillwire.model.url import is_ipv4, parse_url
from skillwire.trust.address import is_localhost
from skillwire.trust.ranges import Reach, classify, read_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.adapters.files.credential_store import StoredLogin
    from skillwire.model.credential import Credential
    from skillwire.model.url import Url


def find_token(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return the ``Authorization`` value that ``SKILLWIRE_TOKENS`` has for the origin of ``url``, or None.

    It holds ``origin=token`` pairs, separated by white space.
    """
    return _from_environment(url, environment.get("SKILLWIRE_TOKENS", ""))


def find_password(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return the ``Authorization`` value that ``~/.netrc`` has for the origin of ``url``, or None.

    It, or the file that ``NETRC`` names, holds a user name and password for a host, which stand for its https origin on
    the usual port and, where nobody is on the way, for any port of this machine.
    """
    return _from_netrc(url, environment)


def find_stored(url: Url) -> Credential | None:
    """Return the credential that ``skillwire login`` has stored for the origin of ``url``, without its secrets."""
    return next((login.credential for login in _stored_logins() if login.credential.origin == url.origin), None)


def credential_place(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return where the credential for the origin of ``url`` stands, or None; never the credential itself."""
    if _from_environment(url, environment.get("SKILLWIRE_TOKENS", "")):
        return "SKILLWIRE_TOKENS"
    for login in _stored_logins():
        if login.credential.origin == url.origin:
            return _stored_place(login)
    return str(netrc_file(environment)) if _from_netrc(url, environment) else None


def credential_places(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each origin, or host of ``~/.netrc``, that has a credential, and where that stands.

    Raises:
        UsageError: ``SETTING_FORM`` for what cannot be read.
        StorageError, DecodeError: as :class:`~skillwire.adapters.files.credential_store.CredentialStore` says.
    """
    pairs = [pair.partition("=") for pair in environment.get("SKILLWIRE_TOKENS", "").split()]
    # Text without a separator may be a token, so it is never shown as an origin.
    found = [(_token_origin(origin), "SKILLWIRE_TOKENS") for origin, separator, _ in pairs if separator]
    found += [(login.credential.origin, _stored_place(login)) for login in _stored_logins()]
    path = netrc_file(environment)
    return found + [(host, str(path)) for host in _read_netrc(path)]


def netrc_file(environment: Mapping[str, str]) -> Path:
    """Return where user names and passwords for hosts are, or would be."""
    return Path(environment.get("NETRC") or Path.home() / ".netrc")


def bearer(token: str) -> str:
    """Return the ``Authorization`` value for a token.

    Raises:
        UsageError: the token holds what no header may hold; it is not shown.
    """
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise UsageError("USAGE", "the token is empty or holds characters that no header may hold")
    return f"Bearer {token}"


def _stored_logins() -> list[StoredLogin]:
    from skillwire.adapters.files.credential_store import open_store  # noqa: PLC0415  # only what tells of places asks

    return open_store().logins()


def _stored_place(login: StoredLogin) -> str:
    where = "the keyring" if login.in_keyring else "credentials.json"
    return f"skillwire login, in {where}"


def _from_environment(url: Url, tokens: str) -> str | None:
    for pair in tokens.split():
        origin, separator, token = pair.partition("=")
        if not separator:
            raise UsageError("SETTING_FORM", "must be origin=token pairs", place=Place("SKILLWIRE_TOKENS"))
        if _token_origin(origin) == url.origin:
            return bearer(token)
    return None


def _token_origin(text: str) -> str:
    return str(parse_url(text if "://" in text else f"https://{text}").origin)


def _is_this_machine(host: str) -> bool:
    if ":" in host or is_ipv4(host):
        return classify(read_address(host)) is Reach.LOOPBACK
    return is_localhost(host)


def _from_netrc(url: Url, environment: Mapping[str, str]) -> str | None:
    if url.origin != f"https://{url.host}" and not _is_this_machine(url.host):
        return None
    entry = _read_netrc(netrc_file(environment)).get(url.host)
    if entry is None:
        return None
    login, _, password = entry
    import base64  # noqa: PLC0415  # only a password of ~/.netrc needs it

    return "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()


def _read_netrc(path: Path) -> Mapping[str, tuple[str, str, str]]:
    """Return host → login, account, password; nothing where there is no such file that we may read."""
    if not os.access(path, os.R_OK) or not path.is_file():
        return {}
    import netrc  # noqa: PLC0415  # most users have no such file

    try:
        return netrc.netrc(str(path)).hosts
    except netrc.NetrcParseError as error:
        raise UsageError("SETTING_FORM", error.msg, place=Place(str(path), error.lineno)) from error
    except (OSError, UnicodeError) as error:
        raise UsageError("SETTING_FORM", f"cannot be read: {error}", place=Place(str(path))) from error
