"""Files of keys and certificates: PEM or DER, P-256 only; secret files must be readable by their owner only.

An agent's files are in the folder ``lan`` of the state directory: ``agent.key`` (PEM, PKCS 8), ``agent.pem`` (its
certificate), ``agent-id``, ``revocations.pem`` (the last valid lists), and ``trusted-keys.json`` (keys of other
agents). A missing key or name is made; :mod:`~skillwire.adapters.files.lan_trust` decides how they are used.
Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from skillwire import limits
from skillwire.adapters.files.atomic import (
    damaged,
    locked,
    make_folder,
    read_bounded,
    read_state,
    read_trust_file,
    state_directory,
    storage_errors,
    write_atomically,
)
from skillwire.errors import SkillwireError, SourceLocation, StorageError, TrustError, ValidationError
from skillwire.trust.certificates import certificate_pem, private_pem
from skillwire.trust.ecdsa import key_of, new_key

#: Seconds between two checks of an agent for an installed certificate, and for trusted keys.
INSTALLED_SECONDS: Final = 5.0
_SECRET_BYTES: Final = 16
_KEY_BYTES: Final = 16 * 1024
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


def read_certificates(files: Sequence[Path | str]) -> list[bytes]:
    """Return the certificates in PEM or DER files, P-256 only, as DER. Raises ValidationError (``LAN_TRUST``)."""
    certificates = []
    for path in map(Path, files):
        data, place = read_trust_file(path, limits.LAN_TRUST_FILE_BYTES), SourceLocation(str(path))
        certificates += [one.public_bytes(Encoding.DER) for one in _certificates_in(data, place)]
    return certificates


def _certificates_in(data: bytes, place: SourceLocation) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(data) if _BEGIN in data else [x509.load_der_x509_certificate(data)]
        is_p256 = all(key_of(one) for one in found)
    except (ValueError, UnsupportedAlgorithm) as error:
        message = "the file is no certificate, neither PEM nor DER"
        raise ValidationError("LAN_TRUST", message, place=place) from error
    if not is_p256:
        raise ValidationError("LAN_TRUST", "the certificate's key is not P-256", place=place)
    return found


def read_group_key(path: Path) -> bytes:
    """Return the group key in a file, stripped. Raises StorageError (``LAN_KEYS``) when public or too short."""
    secret = _read_secret(path).strip()
    if len(secret) < _SECRET_BYTES:
        message = f"a secret of {len(secret)} bytes is too short"
        fix = f"Make one: (umask 077; head -c 32 /dev/urandom | base64 > {path})"
        raise StorageError("LAN_KEYS", message, place=SourceLocation(str(path)), fix=fix)
    return secret


def read_private_key(path: Path, passphrase: bytes | None = None, *, fix: str | None = None) -> EllipticCurvePrivateKey:
    """Return the key in a PEM file that only its owner may read; ``fix`` replaces the usual advice.

    Raises StorageError (``LAN_KEYS``, ``STORAGE``), TrustError (``CA_PASSPHRASE``) for a wrong passphrase.
    """
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


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return a value that changes when a file is written or replaced; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


class LanKeys:
    """The folder of an agent's key and certificate; in the state directory by default.

    An agent that only asks, and cannot write its folder, ``keeps`` nothing: what is not there is made for its process.
    """

    def __init__(self, folder: Path | None = None, *, keeps: bool = True) -> None:
        self.folder = state_directory() / "lan" if folder is None else folder
        self.key_file = self.folder / "agent.key"
        self.certificate_file = self.folder / "agent.pem"
        self.revocations_file = self.folder / "revocations.pem"
        self.trusted_file = self.folder / "trusted-keys.json"
        self._id_file = self.folder / "agent-id"
        self._keeps = keeps
        self._trusted: dict[str, bytes] = {}
        self._next_look = 0.0  # at the trusted keys, by the steady clock

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
        if not self.key_file.exists():
            with self._locked():
                if not self.key_file.exists():
                    key = new_key()
                    self.keep_key(key)
                    return key
        return read_private_key(self.key_file)

    def numbered(self) -> list[LanKeys]:
        """Return the folders of further agents of this machine, NAME-2 and so on, which have keys of their own."""
        return [LanKeys(file.parent) for file in sorted(self.folder.glob("agents/*/agent.key"))]

    def of_agent(self, agent_id: str) -> LanKeys:
        """Return the folder of the further agent with this name, or this one if there is none."""
        return next((one for one in self.numbered() if one.folder.name == agent_id), self)

    def keep_key(self, key: EllipticCurvePrivateKey) -> None:
        """Store a key and remove the certificate of the previous one."""
        self._remove(self.certificate_file)
        self._write(self.key_file, private_pem(key))

    def certificate(self) -> bytes | None:
        """Return the agent's certificate, DER, or None. Raises ValidationError (``LAN_TRUST``)."""
        return read_certificates([self.certificate_file])[0] if self.certificate_file.exists() else None

    def keep_certificate(self, certificate: bytes) -> None:
        """Store a certificate, DER."""
        self._write(self.certificate_file, certificate_pem(certificate))

    def keep_authority(self, chain: bytes, source: str) -> tuple[Path, Path]:
        """Store the roots and the SkillCenter CAs of an authority, PEM; return the two files.

        Raises ValidationError (``LAN_TRUST``) if ``source`` gave something else.
        """
        found = _certificates_in(chain, SourceLocation(source))
        files = self.folder / "authority-roots.pem", self.folder / "authority-centers.pem"
        for file, is_root in zip(files, (True, False), strict=True):
            chosen = [one.public_bytes(Encoding.PEM) for one in found if (one.issuer == one.subject) is is_root]
            self._write(file, b"".join(chosen))
        return files

    def trusted(self) -> dict[str, bytes]:
        """Return the SHA-256 of each key that the user trusts, by agent. Raises DecodeError when it is damaged."""
        try:
            return {agent: bytes.fromhex(digest) for agent, digest in read_state(self.trusted_file).items()}
        except (TypeError, ValueError) as error:
            raise damaged(self.trusted_file) from error

    def check_trusted(self) -> None:
        """Check the file of trusted keys. Raises DecodeError when it is damaged."""
        self.trusted()

    def trusted_key(self, agent: str) -> bytes | None:
        """Return the SHA-256 of an agent's key that the user trusts, as of the last seconds; None without one."""
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + INSTALLED_SECONDS
            with suppress(SkillwireError):  # until it is repaired, its last content counts
                self._trusted = self.trusted()
        return self._trusted.get(agent)

    def keep_trusted(self, agent: str, digest: bytes | None) -> None:
        """Store that the user trusts the key of an agent, and None that the user does not."""
        with self._locked():  # another process may store one at the same time
            trusted = self.trusted() | {agent: digest}
            document = {name: key.hex() for name, key in sorted(trusted.items()) if key is not None}
            self._write(self.trusted_file, json.dumps(document, indent=2).encode())

    def revocations(self) -> bytes:
        """Return the stored lists, PEM; empty without any."""
        return read_bounded(self.revocations_file, limits.LAN_REVOCATIONS_BYTES) or b""

    def keep_revocations(self, pem: bytes) -> None:
        """Store the lists that are in force."""
        self._write(self.revocations_file, pem)

    def forget_revocations(self) -> None:
        """Remove the stored lists."""
        self._remove(self.revocations_file)

    def _remove(self, path: Path) -> None:
        if self._keeps:
            with storage_errors(path):
                path.unlink(missing_ok=True)

    def _write(self, path: Path, content: bytes) -> None:
        if self._keeps:
            self._make_folder()
            write_atomically(path, content, mode=0o600, durable=True)

    def _locked(self) -> AbstractContextManager[None]:
        if not self._keeps:
            return nullcontext()
        self._make_folder()
        return locked(self.folder / ".lock")

    def _make_folder(self) -> None:
        with storage_errors(self.folder):
            make_folder(self.folder, mode=0o700)
