"""The folder of a certificate authority: ``root.pem``, ``root.key``, ``center.pem``, ``center.key``, and its book.

The root certifies the SkillCenter CA and is not needed after that: ``root.key`` may be put away, off the machine. The
SkillCenter CA issues to agents and skills. ``issued.json`` says what it has issued and taken back, and
``revocations.pem`` is the signed list of that, to be given to anybody, as both certificates are. Keys are for their
owner alone, and encrypted when ``SKILLWIRE_CA_PASSPHRASE`` is set. Spec: SDP §10.2; specs §3.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.adapters.files.agent_certificates import life_of, serial_of
from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.adapters.files.locks import release_lock, take_lock
from skillwire.adapters.files.trust_files import certificate_pem, private_pem, read_certificates, read_private_key
from skillwire.errors import ConflictError, NotFoundError, Place, StorageError, TrustError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    from skillwire.trust.authority import CertificateAuthority
    from skillwire.trust.certificate_requests import Names
    from skillwire.trust.certificates import Chain

PASSPHRASE: Final = "SKILLWIRE_CA_PASSPHRASE"  # noqa: S105 - the name of the variable
#: Seconds that a certificate stays in the book after its end; nobody has to be told of it any more.
_KEPT: Final = 30 * 86_400.0
_LIST_KEPT: Final = 86_400.0  # that a list is given out before the next one is signed
_SHORTEST_PASSPHRASE: Final = 8


class IssuedRow(NamedTuple):
    """One certificate that was issued. Moments are seconds since the epoch.

    Args:
        serial: its number, in hexadecimal.
        agents: that it is for.
        skills: that it is for.
        hosts: that its holder may announce.
        issued: when.
        ends: when.
        revoked: when it was taken back; None when it was not.
        renews: the serial number of the certificate that asked for it; empty when a person did.
    """

    serial: str
    agents: tuple[str, ...]
    skills: tuple[str, ...]
    hosts: tuple[str, ...]
    issued: float
    ends: float
    revoked: float | None = None
    renews: str = ""


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
        self._book_file = folder / "issued.json"
        if not self.center_file.is_file() or not self.root_file.is_file():
            raise _missing(folder)
        self.root, self.center = read_certificates([self.root_file, self.center_file])
        self._authority: CertificateAuthority | None = None

    @classmethod
    def create(cls, folder: Path, name: str, now: float) -> AuthorityFolder:
        """Make a root and a SkillCenter CA below it, in a folder that has none.

        Raises:
            ConflictError: ``CA_EXISTS``.
            StorageError: ``STORAGE``. UsageError: ``USAGE`` for a passphrase that is too short.
            ValidationError: ``CERTIFICATE_REQUEST`` for a name that it cannot have.
        """
        from skillwire.trust.authority import CertificateAuthority, new_root  # noqa: PLC0415 - loads cryptography
        from skillwire.trust.ecdsa import new_key  # noqa: PLC0415 - same

        secret = passphrase()
        root_key, center_key = new_key(), new_key()
        root = new_root(f"{name} Root CA", root_key, now)
        center = CertificateAuthority(
            center_key, root.issue_authority(f"{name} SkillCenter CA", center_key.public_key(), now)
        )
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(folder):
            there = [one for one in ("root.pem", "root.key", "center.pem", "center.key") if (folder / one).exists()]
            if there:
                raise ConflictError("CA_EXISTS", f"it holds {' and '.join(there)}", place=Place(str(folder)))
            _keep(folder / "root.key", private_pem(root_key, secret), mode=0o600)
            _keep(folder / "center.key", private_pem(center_key, secret), mode=0o600)
            _keep(folder / "root.pem", certificate_pem(root.certificate))
            _keep(folder / "revocations.pem", center.revocations({}, now, number=1))
            _keep(folder / "issued.json", _encode([], 1), mode=0o600)
            _keep(folder / "center.pem", certificate_pem(center.certificate))
        return cls(folder)

    def issue(
        self, names: Names, key: EllipticCurvePublicKey, now: float, *, days: float | None = None, renews: str = ""
    ) -> bytes:
        """Issue a certificate, DER, and note it in the book first, so that whatever is out can be taken back.

        Raises:
            NotFoundError: ``CA_FOLDER`` when the key was put away. TrustError: ``CA_PASSPHRASE``.
            StorageError: ``LAN_KEYS``, ``STORAGE``.
            TrustError: ``CERTIFICATE_REFUSED`` when the certificate that asks was taken back meanwhile.
            ValidationError: ``CERTIFICATE_REQUEST``.
        """
        from skillwire.trust.authority import LEAF_DAYS  # noqa: PLC0415 - same

        names = names.check()
        leaf = self._signer().issue(names, key, now, days=LEAF_DAYS if days is None else days)
        row = IssuedRow(serial_of(leaf), *names, now, life_of(leaf)[1], renews=renews)
        with _alone(self.folder):
            rows, number = self._read()
            if any(one.serial == renews and one.revoked for one in rows):
                raise TrustError("CERTIFICATE_REFUSED", "the certificate that asks for it was taken back")
            kept = [one for one in rows if one.ends > now - _KEPT]
            _keep(self._book_file, _encode([*kept, row], number), mode=0o600)
        return leaf

    def certify(self, agent_id: str, names: Names, key: EllipticCurvePublicKey, now: float) -> bytes:
        """Issue what an agent asks for by itself, on this machine; see :meth:`issue`.

        Raises:
            TrustError: ``CERTIFICATE_REFUSED`` when its last one was taken back: then a person has to issue another.
        """
        rows = [row for row in self.all() if agent_id in row.agents]
        if rows and rows[-1].revoked:
            raise TrustError("CERTIFICATE_REFUSED", f"the certificate of {agent_id} was taken back")
        return self.issue(names, key, now, renews=rows[-1].serial if rows else "")

    def all(self) -> Sequence[IssuedRow]:
        """Return what was issued, oldest first."""
        return self._read()[0]

    def find(self, which: str, now: float) -> list[IssuedRow]:
        """Return the certificates with a serial number, or those of an agent or a skill that are good at ``now``.

        Those that are good and were renewed from them are among them: whoever held the one has them, too.

        Raises:
            NotFoundError: ``CERTIFICATE_NOT_FOUND``.
        """
        return self._find(self.all(), which, now)

    def _find(self, rows: Sequence[IssuedRow], which: str, now: float) -> list[IssuedRow]:
        wanted = which.lower().replace(":", "")
        found = [row for row in rows if row.serial == wanted]
        if not found:
            found = [row for row in rows if which in (*row.agents, *row.skills) and row.ends > now and not row.revoked]
        if not found:
            message = f"none that is good has the serial number or name {ascii(which)[:80]}"
            raise NotFoundError("CERTIFICATE_NOT_FOUND", message, place=Place(str(self.folder)))
        return _with_renewed(rows, found, now)

    def revoke(self, which: str, now: float) -> list[IssuedRow]:
        """Take certificates back, see :meth:`find`, and sign the list that says so.

        Raises:
            NotFoundError: ``CERTIFICATE_NOT_FOUND``, ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``.
            StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        self.find(which, now)
        self._signer()
        with _alone(self.folder):
            rows, number = self._read()
            serials = {row.serial for row in self._find(rows, which, now)}  # with what was renewed a moment ago
            rows = [row._replace(revoked=now) if row.serial in serials and not row.revoked else row for row in rows]
            self._sign_list(rows, number + 1, now)
        return [row for row in rows if row.serial in serials]

    def revocations(self, now: float) -> bytes:
        """Return the signed list, PEM, which is signed anew each day.

        Raises:
            NotFoundError: ``CA_FOLDER``. TrustError: ``CA_PASSPHRASE``. StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        from skillwire.trust.revocations import signed_at  # noqa: PLC0415 - loads cryptography

        with storage_errors(self.revocations_file):
            found = self.revocations_file.read_bytes()
        if abs(now - signed_at(found)) <= _LIST_KEPT:
            return found
        self._signer()
        with _alone(self.folder):
            rows, number = self._read()
            self._sign_list(rows, number + 1, now)
        with storage_errors(self.revocations_file):
            return self.revocations_file.read_bytes()

    def chain(self) -> Chain:
        """Return what certificates of this authority are held against, with all that is taken back by now."""
        from skillwire.trust.certificates import Chain  # noqa: PLC0415 - loads cryptography

        revoked = {row.serial for row in self.all() if row.revoked}
        return Chain(
            [self.root],
            [self.center],
            is_revoked=lambda one: f"{one.serial_number:x}" in revoked,
            takes_strangers=False,
        )

    def _sign_list(self, rows: list[IssuedRow], number: int, now: float) -> None:
        serials = {int(row.serial, 16): row.revoked for row in rows if row.revoked and row.ends > now - _KEPT}
        signed = self._signer().revocations(serials, now, number=number)
        _keep(self._book_file, _encode(rows, number), mode=0o600)  # first: what is revoked stays so, signed or not yet
        _keep(self.revocations_file, signed)

    def _signer(self) -> CertificateAuthority:
        from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - loads cryptography

        if self._authority is None:
            path = self.folder / "center.key"
            if not path.exists():
                raise _missing(path)
            self._authority = CertificateAuthority(read_private_key(path, passphrase()), self.center)
        return self._authority

    def _read(self) -> tuple[list[IssuedRow], int]:
        with storage_errors(self._book_file):
            data = self._book_file.read_bytes()
        try:
            document = json.loads(data)
            return [_row(one) for one in document["certificates"]], int(document["number"])
        except (ValueError, KeyError, TypeError) as error:
            place = Place(str(self._book_file))
            raise StorageError("STORAGE", "it is damaged; restore it from a copy", place=place) from error


def is_authority(folder: Path) -> bool:
    """Whether there is an authority in a folder."""
    return (folder / "center.pem").is_file() and (folder / "root.pem").is_file()


def passphrase() -> bytes | None:
    """Return the passphrase of the authority's keys; None when there is none.

    Raises:
        UsageError: ``USAGE`` when it is too short to be one.
    """
    text = os.environ.get(PASSPHRASE, "")
    if text and len(text) < _SHORTEST_PASSPHRASE:
        fix = f"Give at least {_SHORTEST_PASSPHRASE} characters, or unset it."
        raise UsageError("USAGE", f"{PASSPHRASE} is too short for a passphrase", fix=fix)
    return text.encode() or None


def _with_renewed(rows: Sequence[IssuedRow], found: Sequence[IssuedRow], now: float) -> list[IssuedRow]:
    """Return what was found, and what is good at ``now`` of all that was renewed from it, oldest first."""
    wanted = {row.serial for row in found}
    line = set(wanted)
    for row in rows:  # what renews stands behind what it renews
        if row.renews in line:
            line.add(row.serial)
            if row.ends > now and not row.revoked:
                wanted.add(row.serial)
    return [row for row in rows if row.serial in wanted]


def _missing(path: Path) -> NotFoundError:
    return NotFoundError("CA_FOLDER", "there is no certificate authority", place=Place(str(path)))


def _keep(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    write_atomically(path, content, mode=mode, durable=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the book meanwhile."""
    lock = folder / ".lock"
    handle = take_lock(lock, wait=True)
    try:
        yield
    finally:
        release_lock(handle, lock)


def _encode(rows: list[IssuedRow], number: int) -> bytes:
    document = {"number": number, "certificates": [row._asdict() for row in rows]}
    return json.dumps(document, indent=1).encode() + b"\n"


def _row(one: dict[str, Any]) -> IssuedRow:
    lists = {name: tuple(one[name]) for name in ("agents", "skills", "hosts")}
    return IssuedRow(**{**one, **lists})
