"""The folder of a certificate authority: ``root.pem``, ``root.key``, ``center.pem``, ``center.key``, and its book.

The root certifies the SkillCenter CA, and its key is needed again only to renew that one or to take it back:
``root.key`` may be put away, off the machine. The SkillCenter CA issues to agents and skills; when it is renewed the
new one has its name and another key, ``center.pem`` holds both as long as both are good, and the old key is gone. So
the new one's list stands for what the old one has issued. ``revocations.pem`` is for everybody, as both certificates
are: the signed lists of what was taken back, and the certificates of the SkillCenter CAs that are good. Keys are for
their owner alone, and encrypted when ``SKILLWIRE_CA_PASSPHRASE`` is set. Spec: SDP §10.2; specs §3;
docs/decisions/0036.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.agent_certificates import belongs, life_of, name_of, serial_of
from skillwire.adapters.files.atomic import storage_errors
from skillwire.adapters.files.authority_book import Book, IssuedRow, read_book
from skillwire.adapters.files.authority_writing import (
    add_center,
    is_in_force,
    keep,
    passphrase,
    publish,
    root_signer,
    taking_back,
)
from skillwire.adapters.files.locks import locked
from skillwire.adapters.files.trust_files import certificate_pem, private_pem, read_certificates, read_private_key
from skillwire.errors import ConflictError, NotFoundError, Place, StorageError, TrustError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    from skillwire.trust.authority import CertificateAuthority
    from skillwire.trust.certificate_requests import Names
    from skillwire.trust.certificates import Certified

_LIST_KEPT: Final = 86_400.0  # that a list is given out before the next one is signed


class AuthorityFolder:
    """A certificate authority in a folder.

    Args:
        folder: that was made by :meth:`create`.

    Raises:
        NotFoundError: ``CA_FOLDER``.
        ValidationError: ``LAN_TRUST`` when a certificate is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root_file, self.center_file = folder / "root.pem", folder / "center.pem"
        self.revocations_file = folder / "revocations.pem"
        self._lock = folder / ".lock"
        self._center_key, self._book_file = folder / "center.key", folder / "issued.json"
        if not self.center_file.is_file() or not self.root_file.is_file():
            raise _missing(folder)
        self.root = read_certificates([self.root_file])[0]
        self._signer_of: tuple[object, CertificateAuthority] | None = None

    @property
    def centers(self) -> Sequence[bytes]:
        """The certificates of the SkillCenter CAs that are good, DER; the one that issues comes first."""
        return read_certificates([self.center_file])

    @classmethod
    def create(cls, folder: Path, name: str, now: float) -> AuthorityFolder:
        """Make a root and a SkillCenter CA below it, in a folder that has none.

        Raises:
            ConflictError: ``CA_EXISTS``.
            StorageError: ``STORAGE``. UsageError: ``USAGE`` for a passphrase that is too short.
            ValidationError: ``CERTIFICATE_REQUEST`` for a name that it cannot have.
        """
        from skillwire.trust.authority import new_root  # noqa: PLC0415 - loads cryptography
        from skillwire.trust.ecdsa import new_key  # noqa: PLC0415 - same

        secret, root_key = passphrase(), new_key()
        root = new_root(f"{name} Root CA", root_key, now)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(folder / ".lock"):
            check_new(folder)
            keep(folder / "root.key", private_pem(root_key, secret), mode=0o600)
            keep(folder / "root.pem", certificate_pem(root.certificate))
            add_center(folder, root, f"{name} SkillCenter CA", Book(), now)
        return cls(folder)

    def issue(
        self, names: Names, key: EllipticCurvePublicKey, now: float, *, days: float | None = None, renews: str = ""
    ) -> bytes:
        """Issue a certificate, DER, and note it in the book first, so that whatever is out can be taken back.

        Raises:
            NotFoundError: ``CA_FOLDER`` when the key was put away. TrustError: ``CA_PASSPHRASE``.
            StorageError: ``LAN_KEYS``, ``STORAGE``.
            TrustError: ``CERTIFICATE_REFUSED`` when the key, or the certificate that asks, was taken back.
            ValidationError: ``CERTIFICATE_REQUEST``.
        """
        from skillwire.trust.authority import LEAF_DAYS  # noqa: PLC0415 - only to issue
        from skillwire.trust.ecdsa import digest_of  # noqa: PLC0415 - same

        names, digest = names.check(), digest_of(key).hex()
        self._signer()
        with locked(self._lock):
            signer, book = self._signer(), self.book()
            asks = book.row(renews)
            if asks is not None and asks.revoked is not None:
                raise TrustError("CERTIFICATE_REFUSED", "the certificate that asks for it was taken back")
            if book.is_key_revoked(digest):
                fix = "Have the agent make another one: skillwire key new --replace."
                raise TrustError("CERTIFICATE_REFUSED", "a certificate of this key was taken back", fix=fix)
            leaf = signer.issue(names, key, now, days=LEAF_DAYS if days is None else days)
            issuer = serial_of(signer.certificate)
            row = IssuedRow(serial_of(leaf), *names, now, life_of(leaf)[1], digest, issuer, renews=renews)
            keep(self._book_file, book.adding(row, now).encode(), mode=0o600)
        return leaf

    def certify(self, agent_id: str, names: Names, key: EllipticCurvePublicKey, now: float) -> bytes:
        """Issue what an agent asks for by itself, on this machine; see :meth:`issue`.

        Raises:
            TrustError: ``CERTIFICATE_REFUSED`` when its last one was taken back: then a person has to issue another.
        """
        rows = [row for row in self.book().rows if agent_id in row.agents]
        if rows and rows[-1].revoked:
            raise TrustError("CERTIFICATE_REFUSED", f"the certificate of {agent_id} was taken back")
        return self.issue(names, key, now, renews=rows[-1].serial if rows else "")

    def find(self, which: str, now: float) -> list[IssuedRow]:
        """Return what :meth:`revoke` takes back.

        Raises:
            NotFoundError: ``CERTIFICATE_NOT_FOUND``. ConflictError: ``CA_IN_USE``. StorageError: ``STORAGE``.
        """
        return self._find(self.book(), which, now)

    def revoke(self, which: str, now: float, *, root_key: Path | None = None) -> list[IssuedRow]:
        """Take certificates back, and sign the list that says so.

        Args:
            which: the serial number of a certificate, or an agent or a skill, of which all that are good are meant;
                with them go those of the same key, and those that were renewed from them. Of a SkillCenter CA what it
                has issued counts no more; its row comes first.
            now: seconds since the epoch.
            root_key: file of the root's key, for a SkillCenter CA; ``root.key`` of the folder unless given.

        Raises:
            NotFoundError: ``CERTIFICATE_NOT_FOUND``, ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``.
            ConflictError: ``CA_IN_USE`` for the SkillCenter CA that issues: it has to be renewed first.
            StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        first = self.find(which, now)[0]
        self._signer()
        root = root_signer(self.folder, self.root, root_key) if first.authority else None
        with locked(self._lock):
            book = self.book()
            rows = self._find(book, which, now)  # with what was renewed a moment ago
            if root is None:
                book = book.revoking((row.serial for row in rows), now)
            else:
                book = taking_back(book.revoking([first.serial], now), root, now)
            self._sign_list(book, now)
            if root is not None:
                good = [one for one in self.centers if is_in_force(one, book, now)]
                keep(self.center_file, b"".join(map(certificate_pem, good)))
        serials = {row.serial for row in rows}
        return [row for row in book.rows if row.serial in serials]

    def renew(self, now: float, *, root_key: Path | None = None) -> IssuedRow:
        """Make another SkillCenter CA of the same name under the same root; it issues from now on. Return its row.

        What the one before has issued stays good until it ends, or that one is taken back.

        Args:
            now: seconds since the epoch.
            root_key: file of the root's key; ``root.key`` of the folder unless given.

        Raises:
            NotFoundError: ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``. StorageError: ``LAN_KEYS``, ``STORAGE``.
            ValidationError: ``CERTIFICATE_REQUEST`` when the root has ended.
        """
        root = root_signer(self.folder, self.root, root_key)
        with locked(self._lock):
            book = self.book()
            centers = self.centers
            older = [one for one in centers if is_in_force(one, book, now)]
            return add_center(self.folder, root, name_of(centers[0]), book, now, older=older)

    def check_root_key(self, root_key: Path | None = None) -> None:
        """Make sure that the root's key is at hand, as :meth:`renew` and :meth:`revoke` do.

        Raises:
            NotFoundError: ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``. StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        root_signer(self.folder, self.root, root_key)

    def revocations(self, now: float) -> bytes:
        """Return the signed lists, PEM, of which that of the SkillCenter CA is signed anew each day.

        Raises:
            NotFoundError: ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``. StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        from skillwire.trust.revocations import signed_at  # noqa: PLC0415 - loads cryptography

        with storage_errors(self.revocations_file):
            found = self.revocations_file.read_bytes()
        if abs(now - signed_at(found)) <= _LIST_KEPT:
            return found
        self._signer()
        with locked(self._lock):
            self._sign_list(self.book(), now)
        with storage_errors(self.revocations_file):
            return self.revocations_file.read_bytes()

    def judge(self, certificate: bytes, now: float) -> Certified | None:
        """Return whom a certificate is for that this authority has issued, that is good and was not taken back.

        The book says so, not the chain: of a SkillCenter CA that was taken back somebody else may have the key, and
        what is in the book counts for a new certificate all the same. None is for all others. Trust: it is a
        stranger's.

        Raises:
            StorageError: ``STORAGE``.
        """
        from skillwire.trust.certificates import Certified, read_leaf  # noqa: PLC0415 - loads cryptography

        leaf = read_leaf(certificate)
        row = None if leaf is None else self.book().row(serial_of(certificate))
        if leaf is None or row is None or row.key != leaf.key.digest.hex():
            return None
        if row.authority or row.revoked is not None or row.ends <= now:
            return None
        names = frozenset(row.agents), frozenset(row.skills), frozenset(row.hosts)
        return Certified(leaf.key, True, *names, row.ends)

    def is_orphan(self, certificate: bytes) -> bool:
        """Whether the SkillCenter CA that has issued a certificate was taken back, so that it counts nowhere."""
        book = self.book()
        row = book.row(serial_of(certificate))
        return row is not None and row.revoked is None and book.revoked_at(row) is not None

    def book(self) -> Book:
        """Return what was issued and taken back.

        Raises:
            StorageError: ``STORAGE``.
        """
        return read_book(self._book_file)

    def _find(self, book: Book, which: str, now: float) -> list[IssuedRow]:
        found = book.find(which, now)
        if not found:
            message = f"none that is good has the serial number or name {ascii(which)[:80]}"
            raise NotFoundError("CERTIFICATE_NOT_FOUND", message, place=Place(str(self.folder)))
        if not found[0].authority:
            return found
        if found[0].serial == serial_of(self.centers[0]):
            place, fix = Place(str(self.center_file)), f"Make the next one first: skillwire ca renew {self.folder}"
            raise ConflictError("CA_IN_USE", "it is the one that issues", place=place, fix=fix)
        return [found[0], *book.of_issuer(found[0].serial, now)]

    def _sign_list(self, book: Book, now: float) -> None:
        good = [one for one in self.centers if is_in_force(one, book, now)]
        publish(self.folder, self._signer(), book, good, now)

    def _signer(self) -> CertificateAuthority:
        """Return the SkillCenter CA that issues; it may have been renewed since the last time."""
        from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - loads cryptography

        if not self._center_key.exists():
            raise _missing(self._center_key)
        stamps = [(found.st_mtime_ns, found.st_ino) for found in (self._center_key.stat(), self.center_file.stat())]
        if self._signer_of is None or self._signer_of[0] != stamps:
            fix = f"Restore it from a copy, or make the next one: skillwire ca renew {self.folder} --root-key FILE"
            key, center = read_private_key(self._center_key, passphrase(), fix=fix), self.centers[0]
            if not belongs(center, key):
                fix = f"A renewal was broken off; do it once more: skillwire ca renew {self.folder}"
                message = "it is not the key of center.pem"
                raise StorageError("LAN_KEYS", message, place=Place(str(self._center_key)), fix=fix)
            self._signer_of = stamps, CertificateAuthority(key, center)
        return self._signer_of[1]


def check_new(folder: Path) -> None:
    """Refuse a folder that holds an authority, or a part of one, for another.

    Raises:
        ConflictError: ``CA_EXISTS``.
    """
    there = [one for one in ("root.pem", "root.key", "center.pem", "center.key") if (folder / one).exists()]
    if not there:
        return
    if {"root.pem", "center.pem"} <= {*there}:
        message = "there is an authority in this folder already"
        fix = f"Use it: skillwire ca issue {folder} --agent ID -o TARGET. To make another, name another folder."
    else:
        message = f"this folder holds a part of an authority: {', '.join(there)}"
        fix = "Name another folder. If nothing that was made with these files is of use to anybody, remove them first."
    raise ConflictError("CA_EXISTS", message, place=Place(str(folder)), fix=fix)


def _missing(path: Path) -> NotFoundError:
    return NotFoundError("CA_FOLDER", "there is no certificate authority", place=Place(str(path)))
