"""Secrets for skills: where their values come from, and how they stay out of everything that is shown.

A skill names the secrets that it needs in ``permissions.secrets``, and a grant shows these names. Their values come
from the operator's file, or else from the server's environment. They travel through a pipe into the skill's
environment, never over a command line, and are removed from everything shown of what the skill printed or raised.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, StorageError
from skillwire.folder.fields import check_secret
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


_OWN_SECRETS: Final = "SKILLWIRE_"  # our own settings and tokens are nobody else's secrets
_FOR_OTHERS: Final = 0o077
_HIDDEN: Final = "[secret]"


class Secrets:
    """The secrets of this server: its environment, and a file whose names win.

    The file is TOML (``*.toml``) or lines of ``NAME=value``, and read for each skill, so a secret can change.
    """

    def __init__(self, environment: Mapping[str, str], file: Path | None = None) -> None:
        self._environment = environment
        self._file = file

    def find(self, names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Return the values of ``names``, and those that have none. Raises StorageError (``SECRETS_FILE``)."""
        wanted = [name for name in dict.fromkeys(names) if not name.startswith(_OWN_SECRETS)]
        refused = [name for name in dict.fromkeys(names) if name.startswith(_OWN_SECRETS)]
        if not wanted:
            return {}, refused
        known = {**self._environment, **self.load()}
        found = {name: known[name] for name in wanted if known.get(name)}
        return found, refused + [name for name in wanted if name not in found]

    def value(self, name: str) -> str | None:
        """Return the value of one secret, None when it is not set. Raises StorageError (``SECRETS_FILE``)."""
        return self.find([name])[0].get(name)

    def load(self) -> dict[str, str]:
        """Return the file's secrets. Raises StorageError (``SECRETS_FILE``), which never contains file content."""
        if self._file is None:
            return {}
        data = self._read(self._file)
        try:
            rows = _read_rows(data, is_toml=self._file.suffix == ".toml")
        except (ValueError, SkillwireError):
            raise self._unusable("it is neither TOML of names and texts nor lines of NAME=value") from None
        for name, value in rows.items():
            try:
                check_secret(name)
            except SkillwireError:  # what stands there may be a part of a secret
                raise self._unusable("a name in it is none that a secret may have, such as EXAMPLE_API_KEY") from None
            if len(value.encode()) > limits.SECRET_BYTES or "\0" in value:
                raise self._unusable(f"{name} has more than {limits.SECRET_BYTES} bytes, or a NUL in it")
        return rows

    def _read(self, file: Path) -> bytes:
        try:
            with file.open("rb") as stream:
                found = os.fstat(stream.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_mode & _FOR_OTHERS:
                    fix = f"Take that away: chmod 600 {file}"
                    raise self._unusable(f"others may read or change it (mode {found.st_mode & 0o777:04o})", fix)
                data = stream.read(limits.SECRETS_FILE_BYTES + 1)
        except FileNotFoundError as error:
            fix = "Write it with lines like NAME=value and chmod 600, or correct secrets_file in the configuration."
            raise self._unusable("there is no such file", fix) from error
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        if len(data) > limits.SECRETS_FILE_BYTES:
            raise self._unusable(f"it has more than {limits.SECRETS_FILE_BYTES} bytes")
        return data

    def _unusable(self, why: str, fix: str | None = None) -> StorageError:
        return StorageError("SECRETS_FILE", why, place=SourceLocation(str(self._file)), fix=fix)


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` without ``secrets``, also where they stand as JSON, in a URL, or in base64."""
    forms = {form for secret in secrets for form in _forms(secret) if form}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _HIDDEN)
    return text


def longest(secrets: Iterable[str]) -> int:
    """Return how many characters the longest form of a secret has; a cut text may begin or end within one."""
    return max((len(form) for secret in secrets for form in _forms(secret)), default=0)


def _forms(secret: str) -> tuple[str, ...]:
    escaped = json.dumps(secret)[1:-1]
    encoded = base64.b64encode(secret.encode()).decode()
    return secret, escaped, repr(secret)[1:-1], quote(secret, safe=""), encoded, encoded.rstrip("=")


def _read_rows(data: bytes, *, is_toml: bool) -> dict[str, str]:
    if is_toml:
        document = load_toml(data)
        if not all(isinstance(value, str) for value in document.values()):
            raise ValueError("not a text")
        return {str(name): str(value) for name, value in document.items()}
    rows: dict[str, str] = {}
    for line in data.decode().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ValueError("no name")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        rows[name.strip()] = value[1:-1] if quoted else value
    return rows
