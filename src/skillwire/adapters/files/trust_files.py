"""Files of keys and certificates: PEM or DER, P-256 alone, and secrets that nobody but their owner may read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import Place, StorageError, TrustError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_SECRET_BYTES: Final = 16
_KEY_BYTES: Final = 16 * 1024
_OTHERS: Final = 0o077
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


def read_certificates(files: Sequence[Path | str]) -> list[bytes]:
    """Return the certificates in files, PEM or DER, as DER.

    Raises:
        ValidationError: ``LAN_TRUST`` with the file; also for keys that are not P-256.
    """
    return [one for name in files for one in _certificates_in(Path(name))]


def _certificates_in(path: Path) -> list[bytes]:
    from cryptography import x509  # noqa: PLC0415 - who is asked for no key needs none
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - same
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - same

    from skillwire.trust.ecdsa import key_of  # noqa: PLC0415 - same

    data = read_trust_file(path, limits.LAN_TRUST_FILE_BYTES)
    try:
        found = x509.load_pem_x509_certificates(data) if _BEGIN in data else [x509.load_der_x509_certificate(data)]
        is_ours = all(key_of(one) for one in found)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValidationError(
            "LAN_TRUST", "this is no certificate, neither PEM nor DER", place=Place(str(path))
        ) from error
    if not is_ours:
        raise ValidationError("LAN_TRUST", "its key is not P-256, as all here have to be", place=Place(str(path)))
    return [one.public_bytes(Encoding.DER) for one in found]


def read_trust_file(path: Path, most: int) -> bytes:
    """Return a file with what others are held against, of at most so many bytes.

    Raises:
        ValidationError: ``LAN_TRUST``.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        message = f"it cannot be read: {error.strerror or error}"
        raise ValidationError("LAN_TRUST", message, place=Place(str(path))) from error
    if len(data) > most:
        raise ValidationError("LAN_TRUST", f"it has more than {most:,} bytes", place=Place(str(path)))
    return data


def read_group_key(path: Path) -> bytes:
    """Return the secret that all agents share, without white space around it.

    Raises:
        StorageError: ``LAN_KEYS`` when others may read it, or it is too short; ``STORAGE``.
    """
    secret = _read_secret(path).strip()
    if len(secret) < _SECRET_BYTES:
        message = f"a secret of {len(secret)} bytes is too short"
        fix = f"Make one: head -c 32 /dev/urandom | base64 > {path}"
        raise StorageError("LAN_KEYS", message, place=Place(str(path)), fix=fix)
    return secret


def read_private_key(path: Path, passphrase: bytes | None = None, *, fix: str | None = None) -> EllipticCurvePrivateKey:
    """Return the key in a file that only its owner may read.

    Args:
        path: of the file, PEM.
        passphrase: that it is encrypted with, if it is.
        fix: what to do where it holds another key, or none; what is done about an agent's unless given.

    Raises:
        StorageError: ``LAN_KEYS``, ``STORAGE``.
        TrustError: ``CA_PASSPHRASE`` when it is encrypted otherwise.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - who is asked for no key needs none
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - same

    data = _read_secret(path)
    is_encrypted = b"BEGIN ENCRYPTED" in data
    try:
        found = load_pem_private_key(data, passphrase if is_encrypted else None)
    except (ValueError, TypeError) as error:
        if is_encrypted:
            raise TrustError("CA_PASSPHRASE", "the key does not open", place=Place(str(path))) from error
        raise StorageError("LAN_KEYS", "it holds no key", place=Place(str(path)), fix=fix) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
        message = "it holds a key of another kind than P-256"
        raise StorageError("LAN_KEYS", message, place=Place(str(path)), fix=fix)
    return found


def private_pem(key: EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    """Return a private key as PEM, encrypted when there is a passphrase."""
    from cryptography.hazmat.primitives import serialization as s  # noqa: PLC0415 - who is asked for no key needs none

    cipher = s.BestAvailableEncryption(passphrase) if passphrase else s.NoEncryption()
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, cipher)


def certificate_pem(certificate: bytes) -> bytes:
    """Return a certificate, DER, as PEM."""
    from cryptography import x509  # noqa: PLC0415 - who is asked for no key needs none
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - same

    return x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM)


def _read_secret(path: Path) -> bytes:
    with storage_errors(path), path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(_KEY_BYTES)
    if os.name == "posix" and mode & _OTHERS:
        message, fix = "others may read it", f"Take that away: chmod 600 {path}"
        raise StorageError("LAN_KEYS", message, place=Place(str(path)), fix=fix)
    return data
