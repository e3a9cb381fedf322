"""The folder of an agent's key on the local network: what it signs with, its name, and what it has learned.

They lie in the folder ``lan`` of the state directory, for their owner alone: ``agent.key`` (PEM, PKCS 8),
``agent.pem`` (its certificate), ``agent-id`` and ``revocations.pem`` (the last good lists). A key and a name are made
when they are needed; what becomes of them is :mod:`~skillwire.adapters.files.lan_trust`'s. Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import re
import secrets
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.adapters.files.directories import make_folder, state_directory
from skillwire.adapters.files.locks import locked
from skillwire.adapters.files.trust_files import certificate_pem, private_pem, read_certificates, read_private_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


class LanKeys:
    """The folder of an agent's key and certificate.

    Args:
        folder: that they lie in; the one of the state directory unless given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = state_directory() / "lan" if folder is None else folder
        self.key_file = self.folder / "agent.key"
        self.certificate_file = self.folder / "agent.pem"
        self.revocations_file = self.folder / "revocations.pem"
        self._id_file = self.folder / "agent-id"

    def known_id(self) -> str | None:
        """Return the name that the agent has; None when none was made yet."""
        return _read(self._id_file, limits.LAN_IDENTIFIER_LENGTH).decode("ascii", "replace").strip() or None

    def agent_id(self) -> str:
        """Return the agent's name, which is made of the machine's and some random characters, once."""
        found = self.known_id()
        if found is None:
            with self._alone():
                found = self.known_id()
                if found is None:
                    host = _NOT_IN_NAMES.sub("-", socket.gethostname().partition(".")[0].lower()).strip("-")[:40]
                    found = f"{host or 'agent'}-{secrets.token_hex(3)}"
                    self.keep_id(found)
        return found

    def keep_id(self, agent_id: str) -> None:
        """Keep a name for the agent."""
        self._write(self._id_file, agent_id.encode("ascii"))

    def key(self) -> EllipticCurvePrivateKey:
        """Return the agent's key, which is made when there is none.

        Raises:
            StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        from skillwire.trust.ecdsa import new_key  # noqa: PLC0415 - who only reads the name needs no cryptography

        if not self.key_file.exists():
            with self._alone():
                if not self.key_file.exists():
                    self.keep_key(new_key())
        return read_private_key(self.key_file)

    def keep_key(self, key: EllipticCurvePrivateKey) -> None:
        """Keep a key; the certificate of the one before is worth nothing any more, and goes."""
        self.certificate_file.unlink(missing_ok=True)
        self._write(self.key_file, private_pem(key))

    def certificate(self) -> bytes | None:
        """Return the agent's certificate, DER; None when there is none.

        Raises:
            ValidationError: ``LAN_TRUST``.
        """
        return read_certificates([self.certificate_file])[0] if self.certificate_file.exists() else None

    def keep_certificate(self, certificate: bytes) -> None:
        """Keep a certificate, DER."""
        self._write(self.certificate_file, certificate_pem(certificate))

    def revocations(self) -> bytes:
        """Return the lists that were kept, PEM; nothing when there are none."""
        return _read(self.revocations_file, limits.LAN_REVOCATIONS_BYTES)

    def keep_revocations(self, pem: bytes) -> None:
        """Keep the lists that are in force."""
        self._write(self.revocations_file, pem)

    def forget_revocations(self) -> None:
        """Forget the lists that were kept."""
        with storage_errors(self.revocations_file):
            self.revocations_file.unlink(missing_ok=True)

    def installed_at(self) -> tuple[int, int] | None:
        """Return what tells the file of the certificate from one that is written later; None when there is none."""
        try:
            found = self.certificate_file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _write(self, path: Path, content: bytes) -> None:
        self._make()
        write_atomically(path, content, mode=0o600, durable=True)

    def _make(self) -> None:
        with storage_errors(self.folder):
            make_folder(self.folder, mode=0o700)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from making the same a moment later."""
        self._make()
        with locked(self.folder / ".lock"):
            yield


def _read(path: Path, most: int) -> bytes:
    """Return what a file of ours holds; nothing when it is not there."""
    with storage_errors(path):
        try:
            with path.open("rb") as file:
                return file.read(most)
        except FileNotFoundError:
            return b""
