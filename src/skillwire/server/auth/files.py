"""The configuration and the secret that it points to, read from the disk and the environment."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote_plus

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import DecodeError, Place, StorageError, UsageError
from skillwire.server.auth.configuration import ServerConfiguration, read_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRET_BYTES: Final = 4096


class Credentials(NamedTuple):
    """Who we are to the issuer. The secret is in no text that is made of this."""

    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.client_id!r}, ...)"

    def header(self) -> str:
        """Return the value of ``Authorization``. Spec: RFC 6749 §2.3.1."""
        userinfo = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        return "Basic " + base64.b64encode(userinfo.encode()).decode("ascii")


def load_configuration(path: Path) -> ServerConfiguration:
    """Return what the configuration file says.

    Its executions are a queue named by the path of the file. A relative ``secrets_file`` lies beside it.

    Raises:
        StorageError: ``STORAGE`` when the file cannot be read.
        DecodeError, UsageError: as :func:`~skillwire.server.auth.configuration.read_configuration`.
    """
    configuration = read_configuration(_read(path, limits.TOML_BYTES), str(path))
    executions = replace(configuration.executions, queue=os.path.abspath(path))  # noqa: PTH100  # a link keeps its name
    if executions.secrets_file is not None:
        executions = replace(executions, secrets_file=str(path.parent / executions.secrets_file))
    return replace(configuration, executions=executions)


def load_credentials(configuration: ServerConfiguration, environment: Mapping[str, str]) -> Credentials | None:
    """Return this server's credentials at the issuer; None when the configuration names none.

    A relative ``client_secret_file`` lies beside the configuration file.

    Raises:
        UsageError: ``SERVER_CONFIGURATION`` when there is no secret where the configuration says.
        StorageError: ``STORAGE``; ``SERVER_CONFIGURATION`` when others may read the file.
    """
    settings = configuration.oauth2
    if settings is None or settings.client_id is None:
        return None
    if settings.client_secret_file is not None:
        path = Path(configuration.source).parent / settings.client_secret_file
        where, secret = str(path), _read_secret(path)
    else:
        where = settings.client_secret_env or ""
        secret = environment.get(where, "")
    if not secret or not secret.isprintable():
        raise UsageError("SERVER_CONFIGURATION", "there is no secret of one line", place=Place(where))
    return Credentials(settings.client_id, secret)


def _read_secret(path: Path) -> str:
    data = _read(path, _SECRET_BYTES, is_secret=True)
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise UsageError("SERVER_CONFIGURATION", "the secret is not text", place=Place(str(path))) from None


def _read(path: Path, max_bytes: int, *, is_secret: bool = False) -> bytes:
    with storage_errors(path), path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(max_bytes + 1)
    if is_secret and os.name == "posix" and mode & 0o077:
        fix = f"Take that away: chmod 600 {path}"
        raise StorageError("SERVER_CONFIGURATION", "others may read the secret", place=Place(str(path)), fix=fix)
    if len(data) > max_bytes:
        message = f"more than {max_bytes} bytes"
        raise DecodeError("LIMIT_SIZE", message, place=Place(str(path)))
    return data
