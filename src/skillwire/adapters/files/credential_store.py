"""Credentials that ``skillwire login`` has stored: ``credentials.json`` in the state directory, for its owner alone.

The file says for each origin what kind of credential there is, how it is renewed, and holds its secrets, unless the
user wanted those in the system's keyring (:mod:`skillwire.adapters.files.keyring_secrets`); then it says so, and
everything else stays in the file, which is why a list of logins asks for no password. Where a credential lies is
decided when it is stored; renewing leaves it there.

A file that others can read is refused and not repaired: what it holds may be known to others by then. It is written
beside itself and renamed, under a lock, so no reader sees half of it and no writer loses what another one wrote.
A second lock, one for each origin, is held by whoever renews a token: see :mod:`skillwire.client.renewal`.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.locks import locked, release_lock, take_lock
from skillwire.errors import DecodeError, Place, StorageError
from skillwire.limits import STATE_FILE_BYTES
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skillwire.adapters.files.keyring_secrets import KeyringSecrets
    from skillwire.model.credential import Credential

Fields = dict[str, Any]
_FOR_OTHERS: Final = 0o077
_OF_GRANT: Final = ("client_secret", "refresh_token")


class StoredLogin(NamedTuple):
    """A credential without its secrets, and whether those are in the keyring."""

    credential: Credential
    in_keyring: bool


def open_store() -> CredentialStore:
    """Return the user's store."""
    return CredentialStore(state_directory() / "credentials.json")


class CredentialStore:
    """The stored credentials, read anew at each use: another process may have renewed one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, origin: str) -> Credential | None:
        """Return the credential of ``origin``.

        Raises:
            StorageError: ``CREDENTIALS_OPEN``, ``KEYRING``, ``STORAGE``. DecodeError: ``STATE_FORM``.
        """
        fields = self._read().get(origin)
        if fields is None:
            return None
        secrets = self._load_from_keyring(origin) if fields.get("in_keyring") else fields.get("secrets")
        return self._decode(origin, fields, secrets)

    def logins(self) -> list[StoredLogin]:
        """Return every login, by origin, without its secrets."""
        return [
            StoredLogin(self._decode(origin, fields, {"secret": ""}), bool(fields.get("in_keyring")))
            for origin, fields in sorted(self._read().items())
        ]

    def keep(self, credential: Credential, *, in_keyring: bool | None = None) -> None:
        """Store ``credential`` in place of the one of its origin.

        Args:
            credential: what to store.
            in_keyring: where its secrets go; None leaves them where those of its predecessor are.
        """
        with self._changing() as stored:
            was_in_keyring = bool(stored.get(credential.origin, {}).get("in_keyring"))
            fields, secrets = _encode(credential)
            if was_in_keyring if in_keyring is None else in_keyring:
                self._keyring().keep(credential.origin, json.dumps(secrets))
                stored[credential.origin] = {**fields, "in_keyring": True}
                return
            if was_in_keyring:
                self._keyring().forget(credential.origin)
            stored[credential.origin] = {**fields, "secrets": secrets}

    def remove(self, origin: str) -> bool:
        """Forget the credential of ``origin``; return whether there was one."""
        with self._changing() as stored:
            fields = stored.pop(origin, None)
            if fields is not None and fields.get("in_keyring"):
                self._keyring().forget(origin)
        return fields is not None

    def lock_renewal(self, origin: str) -> int:
        """Become the one process that renews the token of ``origin``; return the handle.

        Raises:
            ConflictError: ``FOLDER_BUSY`` while another one is.
        """
        return take_lock(self._renewal_lock(origin), wait=False)

    def unlock_renewal(self, origin: str, handle: int) -> None:
        """Let others renew the token of ``origin``."""
        release_lock(handle, self._renewal_lock(origin))

    def _renewal_lock(self, origin: str) -> Path:
        return self.path.with_name(f"credentials-{hashlib.sha256(origin.encode()).hexdigest()[:16]}.lock")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Fields]]:
        with locked(self.path.with_suffix(".lock")):
            stored = self._read()
            yield stored
            write_atomically(self.path, json.dumps(stored, indent=2, sort_keys=True).encode(), mode=0o600)

    def _read(self) -> dict[str, Fields]:
        with storage_errors(self.path):
            try:
                with self.path.open("rb") as file:
                    mode = os.fstat(file.fileno()).st_mode
                    content = file.read(STATE_FILE_BYTES + 1)
            except FileNotFoundError:
                return {}
        if os.name == "posix" and mode & _FOR_OTHERS:
            message = f"others may read or change it ({mode & 0o777:04o})"
            fix = f"chmod 600 {self.path}; whoever may have read it has your credentials: renew them."
            raise StorageError("CREDENTIALS_OPEN", message, place=Place(str(self.path)), fix=fix)
        stored = load_json(content, max_bytes=STATE_FILE_BYTES, source=str(self.path))
        if not isinstance(stored, dict) or not all(isinstance(fields, dict) for fields in stored.values()):
            raise self._damaged()
        return cast("dict[str, Fields]", stored)

    def _decode(self, origin: str, fields: Fields, secrets: object) -> Credential:
        from skillwire.model.credential import Credential, Grant  # noqa: PLC0415  # most users have stored none

        try:
            known = {key: value for key, value in fields.items() if key not in {"in_keyring", "secrets", "grant"}}
            own: dict[str, Any] = dict(cast("dict[str, str]", secrets))
            secret = own.pop("secret")
            grant = Grant(**fields["grant"], **own) if fields.get("grant") else None
            return Credential(origin=origin, secret=secret, grant=grant, **known)
        except (KeyError, TypeError, ValueError):  # the cause may show a secret
            raise self._damaged() from None

    def _damaged(self) -> DecodeError:
        fix = f"Remove {self.path} and log in again."
        return DecodeError(
            "STATE_FORM", "the file of stored credentials is damaged", place=Place(str(self.path)), fix=fix
        )

    def _load_from_keyring(self, origin: str) -> object:
        text = self._keyring().load(origin)
        return load_json(text.encode(), max_bytes=STATE_FILE_BYTES, source="the keyring") if text else None

    @staticmethod
    def _keyring() -> KeyringSecrets:
        from skillwire.adapters.files.keyring_secrets import KeyringSecrets  # noqa: PLC0415  # an extra

        return KeyringSecrets()


def _encode(credential: Credential) -> tuple[Fields, dict[str, str]]:
    """Return what may be shown and what may not."""
    from dataclasses import asdict  # noqa: PLC0415  # most users store none

    fields = {key: value for key, value in asdict(credential).items() if value is not None and key != "origin"}
    secrets: dict[str, str] = {"secret": fields.pop("secret")}
    grant = fields.get("grant") or {}
    secrets |= {key: grant[key] for key in _OF_GRANT if grant.get(key)}
    if grant:
        fields["grant"] = {key: value for key, value in grant.items() if key not in _OF_GRANT and value is not None}
    return fields, secrets
