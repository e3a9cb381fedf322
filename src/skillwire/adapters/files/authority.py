"""The folder of a certificate authority: its root, its SkillCenter CA, and its book of issued certificates.

``root.pem`` and ``root.key`` are the root, which certifies the SkillCenter CA (``center.pem``, ``center.key``). The
root's key is needed again only to renew or revoke that CA, so ``root.key`` may be moved off the machine. The
SkillCenter CA issues to agents and skills. Renewing it makes a new key under the same name: ``center.pem`` holds both
certificates while both are valid, the old key is deleted, and the new CA's list also covers what the old one issued.

``issued.json`` is the book. It keeps expired certificates for a month and revoked ones for a year, as long as their
keys and names stay on the list. It is written before a certificate is handed out, so every certificate in circulation
can be revoked, and revoked ones stay revoked. ``revocations.pem`` is public: the signed lists, and the valid
SkillCenter CA certificates. Key files are readable by their owner only, and encrypted when
``SKILLWIRE_CA_PASSPHRASE`` is set. Spec: SDP §10.2; specs §3; docs/decisions/0013.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from skillwire import limits
from skillwire.adapters.files.atomic import locked, storage_errors, write_atomically
from skillwire.adapters.files.keys import read_certificates, read_private_key
from skillwire.errors import ConflictError, NotFoundError, SourceLocation, StorageError, TrustError, UsageError
from skillwire.trust import certificates
from skillwire.trust.authority import LEAF_DAYS, ROOT_DAYS, CertificateAuthority, new_root
from skillwire.trust.certificates import RequestedNames, VerifiedCertificate, certificate_pem, life_of, serial_of
from skillwire.trust.ecdsa import digest_of, new_key
from skillwire.trust.revocations import CertificateHolder, RevokedCertificate, signed_at

#: Seconds that a certificate stays in the book after its end, and after its revocation.
_KEPT: Final = 30 * 86_400.0
_REVOKED_KEPT: Final = 365 * 86_400.0


class IssuedRow(NamedTuple):
    """One issued certificate; times are seconds since the epoch.

    Args:
        serial: in hexadecimal.
        key: SHA-256 of the holder's key, as ``SubjectPublicKeyInfo``, in hexadecimal.
        issuer: serial of the SkillCenter CA; empty when the root issued it.
        authority: name of a SkillCenter CA; empty for agents and skills.
        renews: serial of the certificate that requested it; empty when a person did.
    """

    serial: str
    agents: tuple[str, ...]
    skills: tuple[str, ...]
    hosts: tuple[str, ...]
    issued: float
    ends: float
    key: str
    issuer: str = ""
    authority: str = ""
    revoked: float | None = None
    renews: str = ""


class IssuedBook(NamedTuple):
    """The issued certificates, oldest first, and the numbers of the last lists; 0 and empty without a root's list."""

    rows: tuple[IssuedRow, ...] = ()
    number: int = 0
    root_number: int = 0
    root_list: str = ""

    def row(self, serial: str) -> IssuedRow | None:
        """Return the certificate with this serial."""
        return next((row for row in self.rows if row.serial == serial), None)

    def revoked_at(self, row: IssuedRow) -> float | None:
        """Return when a certificate, or the SkillCenter CA that issued it, was revoked."""
        above = self.row(row.issuer) if row.issuer else None
        return min((one.revoked for one in (row, above) if one is not None and one.revoked is not None), default=None)

    def is_valid(self, row: IssuedRow, now: float) -> bool:
        """Whether a certificate is neither expired nor revoked at ``now``."""
        return row.ends > now and self.revoked_at(row) is None

    def find(self, which: str, now: float) -> list[IssuedRow]:
        """Return a certificate by serial, or a name's valid ones; and valid ones of their keys or renewed from them."""
        serial = which.lower().replace(":", "")
        found = [row for row in self.rows if row.serial == serial]
        if not found:
            found = [row for row in self.rows if which in (*row.agents, *row.skills) and self.is_valid(row, now)]
        line, keys = {row.serial for row in found}, {row.key for row in found}
        for row in self.rows:  # a renewal comes after what it renews
            if row.renews in line or row.key in keys:
                line.add(row.serial)
        return [row for row in self.rows if row in found or (row.serial in line and self.is_valid(row, now))]

    def adding(self, row: IssuedRow, now: float) -> IssuedBook:
        """Return the book with one more row, and without rows that are no longer kept."""
        return self._replace(rows=(*(one for one in self.rows if _is_kept(one, now)), row))

    def revoking(self, serials: Container[str], now: float) -> IssuedBook:
        """Return the book with these revoked."""
        return self._replace(
            rows=tuple(
                row._replace(revoked=now) if row.serial in serials and row.revoked is None else row for row in self.rows
            )
        )

    def revoked_certificates(self, now: float, *, authorities: bool) -> list[RevokedCertificate]:
        """Return the entries for a revocation list: of SkillCenter CAs, or the newest of agents and skills."""
        found = [
            RevokedCertificate(
                int(row.serial, 16), row.revoked, CertificateHolder(bytes.fromhex(row.key), frozenset(row.agents))
            )
            for row in self.rows
            if row.revoked is not None and bool(row.authority) is authorities and _is_kept(row, now)
        ]
        return sorted(found, key=lambda one: one.at)[-limits.LAN_REVOKED :]

    def write(self, folder: Path) -> None:
        """Write the book into the authority's folder. Raises StorageError (``STORAGE``)."""
        document = self._asdict() | {"rows": [row._asdict() for row in self.rows]}
        _keep(folder / "issued.json", json.dumps(document, indent=1).encode() + b"\n", mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> IssuedBook:
        """Return the book in the authority's folder. Raises StorageError (``STORAGE``)."""
        path = folder / "issued.json"
        with storage_errors(path):
            data = path.read_bytes()
        try:
            document = json.loads(data)
            lists = ("agents", "skills", "hosts")
            rows = tuple(IssuedRow(**{**one, **{name: tuple(one[name]) for name in lists}}) for one in document["rows"])
            return cls(rows, int(document["number"]), int(document["root_number"]), str(document["root_list"]))
        except (ValueError, KeyError, TypeError) as error:
            message = "it is damaged; restore it from a copy"
            raise StorageError("STORAGE", message, place=SourceLocation(str(path))) from error


def _is_kept(row: IssuedRow, now: float) -> bool:
    return row.ends > now - _KEPT or (row.revoked is not None and row.revoked > now - _REVOKED_KEPT)


def _keep(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    write_atomically(path, content, mode=mode, durable=True)


PASSPHRASE: Final = "SKILLWIRE_CA_PASSPHRASE"  # noqa: S105 - the name of the variable
SHORTEST_PASSPHRASE: Final = 8  # characters


def passphrase() -> bytes | None:
    """Return the passphrase of the authority's keys, or None. Raises UsageError (``USAGE``) when it is too short."""
    text = os.environ.get(PASSPHRASE, "")
    if text and len(text) < SHORTEST_PASSPHRASE:
        fix = f"Give at least {SHORTEST_PASSPHRASE} characters, or unset it."
        raise UsageError("USAGE", f"{PASSPHRASE} is too short for a passphrase", fix=fix)
    return text.encode() or None


def _add_center(
    folder: Path, root: CertificateAuthority, name: str, book: IssuedBook, now: float, *, older: Sequence[bytes] = ()
) -> IssuedRow:
    """Make a new SkillCenter CA, which issues from now on; ``older`` are valid certificates (DER) of earlier ones.

    An interrupted call can be repeated: it does not need the previous CA's key.
    """
    key = new_key()
    center = CertificateAuthority(key, root.issue_authority(name, key.public_key(), now))
    ends, digest = life_of(center.certificate)[1], digest_of(key.public_key()).hex()
    row = IssuedRow(serial_of(center.certificate), (), (), (), now, ends, digest, authority=name)
    book = book.adding(row, now)
    book.write(folder)
    _keep(folder / "center.key", certificates.private_pem(key, passphrase()), mode=0o600)
    _keep(folder / "center.pem", b"".join(map(certificate_pem, [center.certificate, *older])))
    _publish(folder, center, book, [center.certificate, *older], now)
    return row


def _publish(
    folder: Path, center: CertificateAuthority, book: IssuedBook, centers: Sequence[bytes], now: float
) -> None:
    """Sign a SkillCenter CA's list; publish it with the root's list and the valid ``centers``."""
    book = book._replace(number=book.number + 1)
    signed = center.revocations(book.revoked_certificates(now, authorities=False), now, number=book.number)
    book.write(folder)  # first: a revocation lasts, signed or not yet
    bundle = [signed, book.root_list.encode("ascii"), *map(certificate_pem, centers)]
    _keep(folder / "revocations.pem", b"".join(bundle))


def _root_signer(folder: Path, certificate: bytes, file: Path | None) -> CertificateAuthority:
    """Return the root for signing, its key read from ``file``. Raises NotFoundError (``CA_FOLDER``), StorageError."""
    path = folder / "root.key" if file is None else file
    if not path.exists():
        fix = "Bring the root's key back for this, and put it away again: --root-key FILE."
        raise NotFoundError("CA_FOLDER", "the root's key is not there", place=SourceLocation(str(path)), fix=fix)
    fix = "Name the root's key, which skillwire ca init has written to root.key: --root-key FILE."
    key = read_private_key(path, passphrase(), fix=fix)
    if not certificates.belongs(certificate, key):
        raise StorageError("LAN_KEYS", "it is not the key of root.pem", place=SourceLocation(str(path)), fix=fix)
    return CertificateAuthority(key, certificate)


_LIST_KEPT: Final = 86_400.0  # that a list is given out before the next one is signed


class AuthorityFolder:
    """A certificate authority in a folder that :meth:`create` made. Raises NotFoundError (``CA_FOLDER``)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root_file, self.center_file = folder / "root.pem", folder / "center.pem"
        self.revocations_file = folder / "revocations.pem"
        self._lock = folder / ".lock"
        self._center_key = folder / "center.key"
        if not self.center_file.is_file() or not self.root_file.is_file():
            raise _missing(folder)
        self.root = read_certificates([self.root_file])[0]
        self._signer_of: tuple[object, CertificateAuthority] | None = None

    @property
    def centers(self) -> Sequence[bytes]:
        """The certificates of the valid SkillCenter CAs, DER; the issuing one comes first."""
        return read_certificates([self.center_file])

    @classmethod
    def create(cls, folder: Path, name: str, now: float) -> AuthorityFolder:
        """Make a root and a SkillCenter CA in a folder that has none. Raises ConflictError (``CA_EXISTS``)."""
        secret, root_key = passphrase(), new_key()
        root = new_root(f"{name} Root CA", root_key, now)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(folder / ".lock"):
            check_new(folder)
            _keep(folder / "root.key", certificates.private_pem(root_key, secret), mode=0o600)
            _keep(folder / "root.pem", certificate_pem(root.certificate))
            _add_center(folder, root, f"{name} SkillCenter CA", IssuedBook(), now)
        return cls(folder)

    def issue(
        self,
        names: RequestedNames,
        key: EllipticCurvePublicKey,
        now: float,
        *,
        days: float | None = None,
        renews: str = "",
    ) -> bytes:
        """Write a new certificate into the book, then return it, DER.

        Raises TrustError (``CERTIFICATE_REFUSED``) for a revoked key or requesting certificate, and as :meth:`renew`.
        """
        names, digest = names.check(), digest_of(key).hex()
        self._signer()
        with locked(self._lock):
            signer, book = self._signer(), self.book()
            requesting = book.row(renews)
            if requesting is not None and requesting.revoked is not None:
                raise TrustError("CERTIFICATE_REFUSED", "the requesting certificate was revoked")
            if any(row.key == digest and row.revoked is not None for row in book.rows):
                fix = "Have the agent make another one: skillwire key new --replace."
                raise TrustError("CERTIFICATE_REFUSED", "a certificate of this key was revoked", fix=fix)
            leaf = signer.issue(names, key, now, days=LEAF_DAYS if days is None else days)
            issuer = serial_of(signer.certificate)
            row = IssuedRow(serial_of(leaf), *names, now, life_of(leaf)[1], digest, issuer, renews=renews)
            book.adding(row, now).write(self.folder)
        return leaf

    def certify(self, agent_id: str, names: RequestedNames, key: EllipticCurvePublicKey, now: float) -> bytes:
        """Issue the certificate that an agent on this machine requests, as :meth:`issue` does.

        Raises TrustError (``CERTIFICATE_REFUSED``) when the agent's last one was revoked: a person must issue the next.
        """
        rows = [row for row in self.book().rows if agent_id in row.agents]
        if rows and rows[-1].revoked:
            raise TrustError("CERTIFICATE_REFUSED", f"the certificate of {agent_id} was revoked")
        return self.issue(names, key, now, renews=rows[-1].serial if rows else "")

    def find(self, which: str, now: float) -> list[IssuedRow]:
        """Return what :meth:`revoke` would revoke. Raises NotFoundError, ConflictError (``CA_IN_USE``)."""
        return self._find(self.book(), which, now)

    def revoke(self, which: str, now: float, *, root_key: Path | None = None) -> list[IssuedRow]:
        """Revoke a serial number, or an agent's or skill's valid certificates, and sign the new list; return the rows.

        Revoking a SkillCenter CA needs the root's key and also invalidates what it issued; its row comes first.
        Raises as :meth:`find` and :meth:`renew`.
        """
        first = self.find(which, now)[0]
        self._signer()
        root = _root_signer(self.folder, self.root, root_key) if first.authority else None
        with locked(self._lock):
            book = self.book()
            rows = self._find(book, which, now)  # with what was renewed a moment ago
            serials = {row.serial for row in rows}
            book = book.revoking(serials if root is None else {first.serial}, now)
            if root is not None:  # its list is good as long as the root, whose key is put away in between
                entries, number = book.revoked_certificates(now, authorities=True), book.root_number + 1
                signed = root.revocations(entries, now, number=number, days=ROOT_DAYS)
                book = book._replace(root_number=number, root_list=signed.decode("ascii"))
            self._sign_list(book, now)
            if root is not None:
                _keep(self.center_file, b"".join(map(certificate_pem, self._valid_centers(book, now))))
        return [row for row in book.rows if row.serial in serials]

    def renew(self, now: float, *, root_key: Path | None = None) -> IssuedRow:
        """Make a new SkillCenter CA of the same name, which issues from now on; return its row.

        The previous one's certificates stay valid until they end or it is revoked. Raises NotFoundError
        (``CA_FOLDER``), TrustError (``CA_PASSPHRASE``), StorageError, and ValidationError when the root has expired.
        """
        root = _root_signer(self.folder, self.root, root_key)
        with locked(self._lock):
            book, name = self.book(), certificates.name_of(self.centers[0])
            return _add_center(self.folder, root, name, book, now, older=self._valid_centers(book, now))

    def check_root_key(self, root_key: Path | None = None) -> None:
        """Check that the root's key can be read; raises as :meth:`renew` does."""
        _root_signer(self.folder, self.root, root_key)

    def revocations(self, now: float) -> bytes:
        """Return the signed lists, PEM; the SkillCenter CA's is signed again each day. Raises as :meth:`renew` does."""
        with storage_errors(self.revocations_file):
            found = self.revocations_file.read_bytes()
        if abs(now - signed_at(found)) <= _LIST_KEPT:
            return found
        self._signer()
        with locked(self._lock):
            self._sign_list(self.book(), now)
        with storage_errors(self.revocations_file):
            return self.revocations_file.read_bytes()

    def judge(self, certificate: bytes, now: float) -> VerifiedCertificate | None:
        """Return the contents of a valid, unrevoked certificate that this authority issued, else None.

        The book decides, not the chain: others may hold the key of a revoked SkillCenter CA. Trust: hostile.
        """
        key = certificates.read_key(certificate)
        row = None if key is None else self.book().row(serial_of(certificate))
        if key is None or row is None or row.key != key.digest.hex():
            return None
        if row.authority or row.revoked is not None or row.ends <= now:
            return None
        names = frozenset(row.agents), frozenset(row.skills), frozenset(row.hosts)
        return VerifiedCertificate(key, True, *names, row.ends)

    def is_orphan(self, certificate: bytes) -> bool:
        """Whether the SkillCenter CA that issued a certificate was revoked."""
        book = self.book()
        row = book.row(serial_of(certificate))
        return row is not None and row.revoked is None and book.revoked_at(row) is not None

    def book(self) -> IssuedBook:
        """Return the issued and revoked certificates. Raises StorageError (``STORAGE``)."""
        return IssuedBook.read(self.folder)

    def _find(self, book: IssuedBook, which: str, now: float) -> list[IssuedRow]:
        found = book.find(which, now)
        if not found:
            message = f"none that is good has the serial number or name {ascii(which)[:80]}"
            raise NotFoundError("CERTIFICATE_NOT_FOUND", message, place=SourceLocation(str(self.folder)))
        if not found[0].authority:
            return found
        if found[0].serial == serial_of(self.centers[0]):
            fix = f"Make the next one first: skillwire ca renew {self.folder}"
            place = SourceLocation(str(self.center_file))
            raise ConflictError("CA_IN_USE", "it is the one that issues", place=place, fix=fix)
        return [found[0], *(row for row in book.rows if row.issuer == found[0].serial and book.is_valid(row, now))]

    def _sign_list(self, book: IssuedBook, now: float) -> None:
        _publish(self.folder, self._signer(), book, self._valid_centers(book, now), now)

    def _valid_centers(self, book: IssuedBook, now: float) -> list[bytes]:
        rows = [(center, book.row(serial_of(center))) for center in self.centers]
        return [center for center, row in rows if row is not None and book.is_valid(row, now)]

    def _signer(self) -> CertificateAuthority:
        """Return the SkillCenter CA that issues; it may have been renewed since the last time."""
        if not self._center_key.exists():
            raise _missing(self._center_key)
        stamps = [(found.st_mtime_ns, found.st_ino) for found in (self._center_key.stat(), self.center_file.stat())]
        if self._signer_of is None or self._signer_of[0] != stamps:
            fix = f"Restore it from a copy, or make the next one: skillwire ca renew {self.folder} --root-key FILE"
            key, center = read_private_key(self._center_key, passphrase(), fix=fix), self.centers[0]
            if not certificates.belongs(center, key):
                fix = f"A renewal was broken off; do it once more: skillwire ca renew {self.folder}"
                message = "it is not the key of center.pem"
                raise StorageError("LAN_KEYS", message, place=SourceLocation(str(self._center_key)), fix=fix)
            self._signer_of = stamps, CertificateAuthority(key, center)
        return self._signer_of[1]


def check_new(folder: Path) -> None:
    """Refuse a folder that holds an authority or a part of one. Raises ConflictError (``CA_EXISTS``)."""
    there = [one for one in ("root.pem", "root.key", "center.pem", "center.key") if (folder / one).exists()]
    if not there:
        return
    if {"root.pem", "center.pem"} <= {*there}:
        message = "there is an authority in this folder already"
        fix = f"Use it: skillwire ca issue {folder} --agent ID -o TARGET. To make another, name another folder."
    else:
        message = f"this folder holds a part of an authority: {', '.join(there)}"
        fix = "Name another folder. If no certificate made with these files is still in use, remove them first."
    raise ConflictError("CA_EXISTS", message, place=SourceLocation(str(folder)), fix=fix)


def _missing(path: Path) -> NotFoundError:
    return NotFoundError("CA_FOLDER", "there is no certificate authority", place=SourceLocation(str(path)))
