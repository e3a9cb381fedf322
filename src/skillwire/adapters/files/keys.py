"""Files of keys and certificates: PEM or DER, P-256 only; secret files must be readable by their owner only.

An agent's files are in the folder ``lan`` of the state directory: ``agent.key`` (PEM, PKCS 8), ``agent.pem`` (its
certificate), ``agent-id`` and ``revocations.pem`` (the last valid lists). A missing key or name is made;
:mod:`~skillwire.adapters.files.lan_trust` decides how they are used. A server's key is a file of 32 random bytes.
Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.atomic import (
    locked,
    make_folder,
    read_bounded,
    state_directory,
    storage_errors,
    write_atomically,
)
from skillwire.errors import SkillwireError, SourceLocation, StorageError, TrustError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.protocols.skill_discovery.settings import LanSettings

_SECRET_BYTES: Final = 16
_KEY_BYTES: Final = 16 * 1024
_SERVER_KEY_BYTES: Final = 32
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


def read_certificates(files: Sequence[Path | str]) -> list[bytes]:
    """Return the certificates in PEM or DER files, P-256 only, as DER. Raises ValidationError (``LAN_TRUST``)."""
    from cryptography import x509  # noqa: PLC0415 - loads cryptography
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - same
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - same

    from skillwire.trust.ecdsa import key_of  # noqa: PLC0415 - same

    certificates = []
    for path in map(Path, files):
        data, place = read_trust_file(path, limits.LAN_TRUST_FILE_BYTES), SourceLocation(str(path))
        try:
            found = x509.load_pem_x509_certificates(data) if _BEGIN in data else [x509.load_der_x509_certificate(data)]
            is_p256 = all(key_of(one) for one in found)
        except (ValueError, UnsupportedAlgorithm) as error:
            message = "the file is no certificate, neither PEM nor DER"
            raise ValidationError("LAN_TRUST", message, place=place) from error
        if not is_p256:
            raise ValidationError("LAN_TRUST", "the certificate's key is not P-256", place=place)
        certificates += [one.public_bytes(Encoding.DER) for one in found]
    return certificates


def read_trust_file(path: Path, most: int) -> bytes:
    """Return the bytes of a trust file of at most ``most`` bytes. Raises ValidationError (``LAN_TRUST``)."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        message = f"it cannot be read: {error.strerror or error}"
        raise ValidationError("LAN_TRUST", message, place=SourceLocation(str(path))) from error
    if len(data) > most:
        raise ValidationError("LAN_TRUST", f"it has more than {most:,} bytes", place=SourceLocation(str(path)))
    return data


def read_group_key(path: Path) -> bytes:
    """Return the group key in a file, stripped. Raises StorageError (``LAN_KEYS``) when public or too short."""
    secret = _read_secret(path).strip()
    if len(secret) < _SECRET_BYTES:
        message = f"a secret of {len(secret)} bytes is too short"
        fix = f"Make one: head -c 32 /dev/urandom | base64 > {path}"
        raise StorageError("LAN_KEYS", message, place=SourceLocation(str(path)), fix=fix)
    return secret


def read_private_key(path: Path, passphrase: bytes | None = None, *, fix: str | None = None) -> EllipticCurvePrivateKey:
    """Return the key in a PEM file that only its owner may read; ``fix`` replaces the usual advice.

    Raises StorageError (``LAN_KEYS``, ``STORAGE``), TrustError (``CA_PASSPHRASE``) for a wrong passphrase.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - loads cryptography
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - same

    data = _read_secret(path)
    is_encrypted = b"BEGIN ENCRYPTED" in data
    try:
        found = load_pem_private_key(data, passphrase if is_encrypted else None)
    except (ValueError, TypeError) as error:
        if is_encrypted:
            raise TrustError("CA_PASSPHRASE", "the key does not open", place=SourceLocation(str(path))) from error
        raise StorageError("LAN_KEYS", "it holds no key", place=SourceLocation(str(path)), fix=fix) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
        message = "it holds a key of another kind than P-256"
        raise StorageError("LAN_KEYS", message, place=SourceLocation(str(path)), fix=fix)
    return found


def _read_secret(path: Path) -> bytes:
    data = read_bounded(path, _KEY_BYTES, owner_only_code="LAN_KEYS")
    if data is None:
        raise StorageError("STORAGE", "the file does not exist", place=SourceLocation(str(path)))
    return data


def read_server_key(path: Path) -> bytes:
    """Return the key in ``path``, made if absent. Raises StorageError (``SERVER_KEY``, ``STORAGE``)."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            # Written beside its place and linked there: no process reads half of a key, and the first of several wins.
            new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
            write_atomically(new, secrets.token_bytes(_SERVER_KEY_BYTES), mode=0o600, durable=True)
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
            new.unlink()
    key = read_bounded(path, _SERVER_KEY_BYTES + 1, owner_only_code="SERVER_KEY") or b""
    if len(key) != _SERVER_KEY_BYTES:
        raise StorageError("SERVER_KEY", f"{len(key)} bytes are no key", place=SourceLocation(str(path)))
    return key


class LanKeys:
    """The folder of an agent's key and certificate; in the state directory by default."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = state_directory() / "lan" if folder is None else folder
        self.key_file = self.folder / "agent.key"
        self.certificate_file = self.folder / "agent.pem"
        self.revocations_file = self.folder / "revocations.pem"
        self._id_file = self.folder / "agent-id"

    def known_id(self) -> str | None:
        """Return the agent's name, or None before one was made."""
        found = read_bounded(self._id_file, limits.LAN_IDENTIFIER_LENGTH) or b""
        return found.decode("ascii", "replace").strip() or None

    def agent_id(self) -> str:
        """Return the agent's name, made once of the machine's name and random characters."""
        found = self.known_id()
        if found is None:
            with self._locked():
                found = self.known_id()  # another process may have made one
                if found is None:
                    host = _NOT_IN_NAMES.sub("-", socket.gethostname().partition(".")[0].lower()).strip("-")[:40]
                    found = f"{host or 'agent'}-{secrets.token_hex(3)}"
                    self.keep_id(found)
        return found

    def keep_id(self, agent_id: str) -> None:
        """Store the agent's name."""
        self._write(self._id_file, agent_id.encode("ascii"))

    def key(self) -> EllipticCurvePrivateKey:
        """Return the agent's key, making one if there is none. Raises StorageError (``LAN_KEYS``, ``STORAGE``)."""
        from skillwire.trust.ecdsa import new_key  # noqa: PLC0415 - loads cryptography

        if not self.key_file.exists():
            with self._locked():
                if not self.key_file.exists():
                    self.keep_key(new_key())
        return read_private_key(self.key_file)

    def keep_key(self, key: EllipticCurvePrivateKey) -> None:
        """Store a key and remove the certificate of the previous one."""
        from skillwire.trust.certificates import private_pem  # noqa: PLC0415  # loads cryptography

        self.certificate_file.unlink(missing_ok=True)
        self._write(self.key_file, private_pem(key))

    def certificate(self) -> bytes | None:
        """Return the agent's certificate, DER, or None. Raises ValidationError (``LAN_TRUST``)."""
        return read_certificates([self.certificate_file])[0] if self.certificate_file.exists() else None

    def keep_certificate(self, certificate: bytes) -> None:
        """Store a certificate, DER."""
        from skillwire.trust.certificates import certificate_pem  # noqa: PLC0415  # loads cryptography

        self._write(self.certificate_file, certificate_pem(certificate))

    def revocations(self) -> bytes:
        """Return the stored lists, PEM; empty without any."""
        return read_bounded(self.revocations_file, limits.LAN_REVOCATIONS_BYTES) or b""

    def keep_revocations(self, pem: bytes) -> None:
        """Store the lists that are in force."""
        self._write(self.revocations_file, pem)

    def forget_revocations(self) -> None:
        """Remove the stored lists."""
        with storage_errors(self.revocations_file):
            self.revocations_file.unlink(missing_ok=True)

    def installed_at(self) -> tuple[int, int] | None:
        """Return a value that changes when the certificate file is replaced; None when there is none."""
        try:
            found = self.certificate_file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _write(self, path: Path, content: bytes) -> None:
        with storage_errors(self.folder):
            make_folder(self.folder, mode=0o700)
        write_atomically(path, content, mode=0o600, durable=True)

    def _locked(self) -> AbstractContextManager[None]:
        with storage_errors(self.folder):
            make_folder(self.folder, mode=0o700)
        return locked(self.folder / ".lock")


def local_authority_folder(settings: LanSettings) -> Path | None:
    """Return the folder of the authority that the settings name, if it is on this machine."""
    name = settings.authority or settings.renew_from
    return Path(name) if name and "://" not in name else None


def trust_digest(settings: LanSettings, *, folder: Path | None = None) -> str:
    """Return a hexadecimal digest of everything that these settings trust; an unreadable file counts as empty."""
    digest = hashlib.sha256()
    names = [*settings.roots, *settings.intermediates, *settings.revocations]
    if authority := local_authority_folder(settings):
        names += [str(authority / name) for name in ("root.pem", "center.pem", "revocations.pem")]
    names.append(str(LanKeys(folder).revocations_file))
    for name in names:
        content = b""
        if "://" not in name:
            with contextlib.suppress(SkillwireError):
                content = read_trust_file(Path(name), limits.LAN_REVOCATIONS_BYTES)
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    digest.update(settings.group_key_file.encode())
    if settings.group_key_file:
        with contextlib.suppress(OSError):  # not its content: the digest must reveal nothing of a secret
            found = Path(settings.group_key_file).stat()
            digest.update(f"\0{found.st_mtime_ns}\0{found.st_size}".encode())
    return digest.hexdigest()
