"""What a certificate authority writes to its folder: a SkillCenter CA that is new, and lists of what was taken back.

The book is written first, so that whatever is out can be taken back, and what was revoked stays so. Spec: SDP §10.2.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.agent_certificates import belongs, life_of, serial_of
from skillwire.adapters.files.atomic import write_atomically
from skillwire.adapters.files.authority_book import Book, IssuedRow
from skillwire.adapters.files.trust_files import certificate_pem, private_pem, read_private_key
from skillwire.errors import NotFoundError, Place, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skillwire.trust.authority import CertificateAuthority

PASSPHRASE: Final = "SKILLWIRE_CA_PASSPHRASE"  # noqa: S105 - the name of the variable
SHORTEST_PASSPHRASE: Final = 8  # characters


def passphrase() -> bytes | None:
    """Return the passphrase of the authority's keys; None when there is none.

    Raises:
        UsageError: ``USAGE`` when it is too short to be one.
    """
    text = os.environ.get(PASSPHRASE, "")
    if text and len(text) < SHORTEST_PASSPHRASE:
        fix = f"Give at least {SHORTEST_PASSPHRASE} characters, or unset it."
        raise UsageError("USAGE", f"{PASSPHRASE} is too short for a passphrase", fix=fix)
    return text.encode() or None


def add_center(
    folder: Path, root: CertificateAuthority, name: str, book: Book, now: float, *, older: Sequence[bytes] = ()
) -> IssuedRow:
    """Have the root make a SkillCenter CA, which issues from now on, and return its row.

    What is broken off in between is mended by doing it once more: the key of the one before is not needed for it.

    Args:
        folder: of the authority.
        root: that signs.
        name: of the SkillCenter CA.
        book: as it was.
        now: seconds since the epoch.
        older: certificates of those before that are good, DER.
    """
    from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - loads cryptography
    from skillwire.trust.ecdsa import digest_of, new_key  # noqa: PLC0415 - same

    key = new_key()
    center = CertificateAuthority(key, root.issue_authority(name, key.public_key(), now))
    ends, digest = life_of(center.certificate)[1], digest_of(key.public_key()).hex()
    row = IssuedRow(serial_of(center.certificate), (), (), (), now, ends, digest, authority=name)
    book = book.adding(row, now)
    keep(folder / "issued.json", book.encode(), mode=0o600)
    keep(folder / "center.key", private_pem(key, passphrase()), mode=0o600)
    keep(folder / "center.pem", b"".join(map(certificate_pem, [center.certificate, *older])))
    publish(folder, center, book, [center.certificate, *older], now)
    return row


def publish(folder: Path, center: CertificateAuthority, book: Book, centers: Sequence[bytes], now: float) -> None:
    """Sign the list of a SkillCenter CA, and lay it out with the root's and the certificates of those that are good."""
    book = book._replace(number=book.number + 1)
    signed = center.revocations(book.taken_back(now, authorities=False), now, number=book.number)
    keep(folder / "issued.json", book.encode(), mode=0o600)  # first: what is revoked stays so, signed or not yet
    bundle = [signed, book.root_list.encode("ascii"), *map(certificate_pem, centers)]
    keep(folder / "revocations.pem", b"".join(bundle))


def taking_back(book: Book, root: CertificateAuthority, now: float) -> Book:
    """Return the book with a list of the root, which is good as long as the root: its key is put away meanwhile."""
    from skillwire.trust.authority import ROOT_DAYS  # noqa: PLC0415 - loads cryptography

    number = book.root_number + 1
    signed = root.revocations(book.taken_back(now, authorities=True), now, number=number, days=ROOT_DAYS)
    return book._replace(root_number=number, root_list=signed.decode("ascii"))


def is_in_force(center: bytes, book: Book, now: float) -> bool:
    """Whether a SkillCenter CA, by its certificate, DER, is good at ``now``."""
    row = book.row(serial_of(center))
    return row is not None and book.is_good(row, now)


def keep(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file of the authority."""
    write_atomically(path, content, mode=mode, durable=True)


def root_signer(folder: Path, certificate: bytes, file: Path | None) -> CertificateAuthority:
    """Return the root, which signs only to renew a SkillCenter CA or to take it back.

    Args:
        folder: of the authority.
        certificate: the root's, DER.
        file: of its key, where that was put away; None for the one in the folder.

    Raises:
        NotFoundError: ``CA_FOLDER`` when the key is not there. StorageError: ``LAN_KEYS`` when it is another.
    """
    from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - loads cryptography

    path = folder / "root.key" if file is None else file
    if not path.exists():
        fix = "Bring the root's key back for this, and put it away again: --root-key FILE."
        raise NotFoundError("CA_FOLDER", "the root's key is not there", place=Place(str(path)), fix=fix)
    fix = "Name the root's key, which skillwire ca init has written to root.key: --root-key FILE."
    key = read_private_key(path, passphrase(), fix=fix)
    if not belongs(certificate, key):
        raise StorageError("LAN_KEYS", "it is not the key of root.pem", place=Place(str(path)), fix=fix)
    return CertificateAuthority(key, certificate)
