"""Credentials for private origins; each belongs to one origin.

They come, in this order, from ``SKILLWIRE_TOKENS``, from ``skillwire auth login``, and from ``~/.netrc``; a
command-line option wins over all. :mod:`skillwire.client.credentials` reads and renews stored credentials; this module
finds where they are.

``credentials.json`` in the state directory holds the logins, with their secrets unless the user chose the system's
keyring (the extra ``keyring``, one entry per origin). Everything else stays in the file, so listing logins needs no
keyring password. The place is chosen at login and kept on renewal. A file that others can read is refused and not
repaired, because its secrets may be known already. It is written atomically under a lock; a second lock per origin
belongs to the process that renews a token.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from skillwire.adapters.files import atomic
from skillwire.adapters.files.atomic import damaged, locked, read_state, write_atomically
from skillwire.errors import SourceLocation, StorageError, UsageError
from skillwire.limits import STATE_FILE_BYTES
from skillwire.model.url import Url, is_ipv4, parse_url
from skillwire.trust.address import AddressScope, classify, is_localhost, read_address, scheme_of
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from skillwire.model.credential import Credential

_SERVICE: Final = "skillwire"


class KeyringSecrets:
    """The keyring that the package ``keyring`` finds. Every method raises StorageError (``KEYRING``) when it fails."""

    def __init__(self) -> None:
        try:
            import keyring  # noqa: PLC0415  # an extra, and slow: it looks for a keyring when it is imported
        except ImportError as error:
            fix = "Install skillwire with the extra keyring, or set credential_store to file."
            raise StorageError("KEYRING", "the extra keyring is not installed", fix=fix) from error
        self._keyring = keyring

    def load(self, origin: str) -> str | None:
        """Return the secrets of ``origin``, as :meth:`keep` stored them."""
        with _refusals(self._keyring):
            return self._keyring.get_password(_SERVICE, origin)

    def keep(self, origin: str, secrets: str) -> None:
        """Store the secrets of ``origin``."""
        with _refusals(self._keyring):
            self._keyring.set_password(_SERVICE, origin, secrets)

    def forget(self, origin: str) -> None:
        """Remove the secrets of ``origin``, if there are any."""
        with _refusals(self._keyring):
            if self._keyring.get_password(_SERVICE, origin) is not None:
                self._keyring.delete_password(_SERVICE, origin)


@contextmanager
def _refusals(keyring: ModuleType) -> Iterator[None]:
    try:
        yield
    except keyring.errors.KeyringError as error:  # its text may be anything; its type is enough
        raise StorageError("KEYRING", f"the system's keyring refused: {type(error).__name__}") from None


Fields = dict[str, Any]
_OF_GRANT: Final = ("client_secret", "refresh_token")


class StoredLogin(NamedTuple):
    """A credential without its secrets, and whether those are in the keyring."""

    credential: Credential
    in_keyring: bool


def open_store() -> CredentialStore:
    """Return the user's store."""
    return CredentialStore(atomic.state_directory() / "credentials.json")


class CredentialStore:
    """The stored credentials, read anew at each use: another process may have renewed one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fix = f"Remove {path} and log in again."

    def find(self, origin: str) -> Credential | None:
        """Return the credential of ``origin``. Raises StorageError (``CREDENTIALS_OPEN``, ``KEYRING``), DecodeError."""
        fields = self._read().get(origin)
        if fields is None:
            return None
        secrets = fields.get("secrets")
        if fields.get("in_keyring"):
            text = KeyringSecrets().load(origin)
            secrets = load_json(text.encode(), max_bytes=STATE_FILE_BYTES, source="the keyring") if text else None
        return self._decode(origin, fields, secrets)

    def logins(self) -> list[StoredLogin]:
        """Return every login, by origin, without its secrets."""
        return [
            StoredLogin(self._decode(origin, fields, {"secret": ""}), bool(fields.get("in_keyring")))
            for origin, fields in sorted(self._read().items())
        ]

    def keep(self, credential: Credential, *, in_keyring: bool | None = None) -> None:
        """Store ``credential`` as its origin's only one; ``in_keyring`` None keeps secrets where they were."""
        with self._changing() as stored:
            was_in_keyring = bool(stored.get(credential.origin, {}).get("in_keyring"))
            fields = {
                key: value for key, value in credential.as_fields().items() if value is not None and key != "origin"
            }
            secrets: dict[str, str] = {"secret": fields.pop("secret")}
            grant = fields.get("grant") or {}
            secrets |= {key: grant[key] for key in _OF_GRANT if grant.get(key)}
            if grant:
                fields["grant"] = {
                    key: value for key, value in grant.items() if key not in _OF_GRANT and value is not None
                }
            if was_in_keyring if in_keyring is None else in_keyring:
                KeyringSecrets().keep(credential.origin, json.dumps(secrets))
                stored[credential.origin] = {**fields, "in_keyring": True}
                return
            if was_in_keyring:
                KeyringSecrets().forget(credential.origin)
            stored[credential.origin] = {**fields, "secrets": secrets}

    def remove(self, origin: str) -> bool:
        """Remove the credential of ``origin``; return whether there was one."""
        with self._changing() as stored:
            fields = stored.pop(origin, None)
            if fields is not None and fields.get("in_keyring"):
                KeyringSecrets().forget(origin)
        return fields is not None

    def lock_renewal(self, origin: str) -> int:
        """Lock the renewal of ``origin``'s token; return the handle. Raises ConflictError (``FOLDER_BUSY``)."""
        return atomic.take_lock(self._renewal_lock(origin), wait=False)

    def unlock_renewal(self, origin: str, handle: int) -> None:
        """Release the lock of :meth:`lock_renewal`."""
        atomic.release_lock(handle, self._renewal_lock(origin))

    def _renewal_lock(self, origin: str) -> Path:
        return self.path.with_name(f"credentials-{hashlib.sha256(origin.encode()).hexdigest()[:16]}.lock")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Fields]]:
        with locked(self.path.with_suffix(".lock")):
            stored = self._read()
            yield stored
            write_atomically(self.path, json.dumps(stored, indent=2, sort_keys=True).encode(), mode=0o600)

    def _read(self) -> dict[str, Fields]:
        fix = f"chmod 600 {self.path}; then renew the credentials, which others may have read."
        stored = read_state(self.path, owner_only_code="CREDENTIALS_OPEN", fix=fix)
        if not all(isinstance(fields, dict) for fields in stored.values()):
            raise damaged(self.path, self._fix)
        return stored

    def _decode(self, origin: str, fields: Fields, secrets: object) -> Credential:
        from skillwire.model.credential import Credential, TokenRenewal  # noqa: PLC0415  # most users have stored none

        try:
            known = {key: value for key, value in fields.items() if key not in {"in_keyring", "secrets", "grant"}}
            own: dict[str, Any] = dict(cast("dict[str, str]", secrets))
            secret = own.pop("secret")
            grant = TokenRenewal(**fields["grant"], **own) if fields.get("grant") else None
            return Credential(origin=origin, secret=secret, grant=grant, **known)
        except (KeyError, TypeError, ValueError):  # the cause may show a secret
            raise damaged(self.path, self._fix) from None


def find_token(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return the ``Authorization`` value that ``SKILLWIRE_TOKENS`` (``origin=token ...``) has for ``url``, or None."""
    for pair in environment.get("SKILLWIRE_TOKENS", "").split():
        origin, separator, token = pair.partition("=")
        if not separator:
            raise UsageError("SETTING_FORM", "must be origin=token pairs", place=SourceLocation("SKILLWIRE_TOKENS"))
        if _token_origin(origin) == url.origin:
            return bearer(token)
    return None


def find_password(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return the ``Authorization`` value for ``url`` in ``~/.netrc`` or the file ``NETRC``, or None.

    An entry applies to the host's https origin on the usual port, and to any port of this machine.
    """
    if url.origin != f"https://{url.host}":
        is_address = ":" in url.host or is_ipv4(url.host)
        is_ours = classify(read_address(url.host)) is AddressScope.LOOPBACK if is_address else is_localhost(url.host)
        if not is_ours:
            return None
    entry = _read_netrc(netrc_file(environment)).get(url.host)
    if entry is None:
        return None
    login, _, password = entry
    return "Basic " + binascii.b2a_base64(f"{login}:{password}".encode(), newline=False).decode()


def find_stored(url: Url) -> Credential | None:
    """Return the credential that ``skillwire auth login`` has stored for the origin of ``url``, without its secrets."""
    return next((login.credential for login in open_store().logins() if login.credential.origin == url.origin), None)


def credential_place(url: Url, environment: Mapping[str, str]) -> str | None:
    """Return where the credential for the origin of ``url`` is stored, or None; never the credential itself."""
    if find_token(url, environment):
        return "SKILLWIRE_TOKENS"
    for login in open_store().logins():
        if login.credential.origin == url.origin:
            return _stored_place(login)
    return str(netrc_file(environment)) if find_password(url, environment) else None


def credential_places(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each origin, or ``~/.netrc`` host, that has a credential, and where it is stored."""
    pairs = [pair.partition("=") for pair in environment.get("SKILLWIRE_TOKENS", "").split()]
    # Text without a separator may be a token, so it is never shown as an origin.
    found = [(_token_origin(origin), "SKILLWIRE_TOKENS") for origin, separator, _ in pairs if separator]
    found += [(login.credential.origin, _stored_place(login)) for login in open_store().logins()]
    path = netrc_file(environment)
    return found + [(host, str(path)) for host in _read_netrc(path)]


def netrc_file(environment: Mapping[str, str]) -> Path:
    """Return the file of user names and passwords for hosts, which may not exist."""
    return Path(environment.get("NETRC") or atomic.home_directory() / ".netrc")


def bearer(token: str) -> str:
    """Return the ``Authorization`` value for a token. Raises UsageError, which never shows the token."""
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        fix = "Pass the token alone, on one line."
        raise UsageError("USAGE", "the token is empty or holds characters that no header may hold", fix=fix)
    return f"Bearer {token}"


def _stored_place(login: StoredLogin) -> str:
    return f"skillwire auth login, in {'the keyring' if login.in_keyring else 'credentials.json'}"


def _token_origin(text: str) -> str:
    return str(parse_url(text if "://" in text else f"{scheme_of(text)}://{text}").origin)


def _read_netrc(path: Path) -> Mapping[str, tuple[str, str, str]]:
    if not os.access(path, os.R_OK) or not path.is_file():
        return {}
    import netrc  # noqa: PLC0415  # most users have no such file

    try:
        return netrc.netrc(str(path)).hosts
    except netrc.NetrcParseError as error:
        words = [line.split() for line in path.read_text(errors="replace").split("\n")]
        line = error.lineno
        if line and line > 1 and words[line - 2] and repr(words[line - 2][-1]) in error.msg:
            line -= 1  # netrc has read the end of the line of this word
        raise UsageError("SETTING_FORM", error.msg, place=SourceLocation(str(path), line)) from error
    except (OSError, UnicodeError) as error:
        raise UsageError("SETTING_FORM", f"cannot be read: {error}", place=SourceLocation(str(path))) from error
