"""The book of a certificate authority: what it has issued and taken back, and the lists that were signed of it.

It is ``issued.json`` in the authority's folder. What has ended stays in it for a month, what was taken back for a year:
so long its key and its names are on the list. Every SkillCenter CA has a row, too, which the root has issued.
Spec: SDP §10.2; docs/decisions/0036.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import Place, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skillwire.trust.taken_back import TakenBack

#: Seconds that a certificate stays in the book after its end, and after it was taken back.
_KEPT: Final = 30 * 86_400.0
_REVOKED_KEPT: Final = 365 * 86_400.0


class IssuedRow(NamedTuple):
    """One certificate that was issued. Moments are seconds since the epoch.

    Args:
        serial: its number, in hexadecimal.
        agents: that it is for.
        skills: that it is for.
        hosts: that its holder may announce.
        issued: when.
        ends: when.
        key: SHA-256 of its holder's key, as ``SubjectPublicKeyInfo``, in hexadecimal.
        issuer: the serial number of the SkillCenter CA that has issued it; empty when the root did.
        authority: the name of a SkillCenter CA; empty for agents and skills.
        revoked: when it was taken back; None when it was not.
        renews: the serial number of the certificate that asked for it; empty when a person did.
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


class Book(NamedTuple):
    """What stands in the book.

    Args:
        rows: what was issued, oldest first.
        number: of the last list of the SkillCenter CA.
        root_number: of the last list of the root; 0 when it has signed none.
        root_list: that list, PEM.
    """

    rows: tuple[IssuedRow, ...] = ()
    number: int = 0
    root_number: int = 0
    root_list: str = ""

    def row(self, serial: str) -> IssuedRow | None:
        """Return what was issued under a number."""
        return next((row for row in self.rows if row.serial == serial), None)

    def revoked_at(self, row: IssuedRow) -> float | None:
        """Return when a certificate, or the SkillCenter CA that has issued it, was taken back."""
        above = self.row(row.issuer) if row.issuer else None
        moments = [one.revoked for one in (row, above) if one is not None and one.revoked is not None]
        return min(moments, default=None)

    def is_good(self, row: IssuedRow, now: float) -> bool:
        """Whether a certificate counts at ``now``."""
        return row.ends > now and self.revoked_at(row) is None

    def find(self, which: str, now: float) -> list[IssuedRow]:
        """Return the certificate with a number, or those of an agent or a skill that are good; none is no error.

        With them come those that are good and have the same key, or were renewed from them: whoever held the one has
        them, too.
        """
        wanted = which.lower().replace(":", "")
        found = [row for row in self.rows if row.serial == wanted]
        if not found:
            found = [row for row in self.rows if which in (*row.agents, *row.skills) and self.is_good(row, now)]
        line, keys = {row.serial for row in found}, {row.key for row in found}
        for row in self.rows:  # what renews stands behind what it renews
            if row.renews in line or row.key in keys:
                line.add(row.serial)
        return [row for row in self.rows if row in found or (row.serial in line and self.is_good(row, now))]

    def of_issuer(self, serial: str, now: float) -> list[IssuedRow]:
        """Return what a SkillCenter CA has issued that is good."""
        return [row for row in self.rows if row.issuer == serial and self.is_good(row, now)]

    def is_key_revoked(self, key: str) -> bool:
        """Whether a certificate of a key was taken back."""
        return any(row.key == key and row.revoked is not None for row in self.rows)

    def adding(self, row: IssuedRow, now: float) -> Book:
        """Return the book with one more row, and without those of long ago."""
        return self._replace(rows=(*(one for one in self.rows if _is_kept(one, now)), row))

    def revoking(self, serials: Iterable[str], now: float) -> Book:
        """Return the book with these taken back."""
        wanted = {*serials}
        rows = (row._replace(revoked=now) if row.serial in wanted and row.revoked is None else row for row in self.rows)
        return self._replace(rows=tuple(rows))

    def taken_back(self, now: float, *, authorities: bool) -> list[TakenBack]:
        """Return what is to stand on a list: of SkillCenter CAs, or of agents and skills, the newest."""
        from skillwire.trust.taken_back import Holder, TakenBack  # noqa: PLC0415 - loads cryptography

        found = [
            TakenBack(int(row.serial, 16), row.revoked, Holder(bytes.fromhex(row.key), frozenset(row.agents)))
            for row in self.rows
            if row.revoked is not None and bool(row.authority) is authorities and _is_kept(row, now)
        ]
        return sorted(found, key=lambda one: one.at)[-limits.LAN_REVOKED :]

    def encode(self) -> bytes:
        """Return the book as it lies on the disk."""
        document = self._asdict() | {"rows": [row._asdict() for row in self.rows]}
        return json.dumps(document, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Book:
        """Return the book that lies on the disk.

        Raises:
            ValueError, KeyError, TypeError: it is damaged.
        """
        document = json.loads(data)
        rows = tuple(_row(one) for one in document["rows"])
        return cls(rows, int(document["number"]), int(document["root_number"]), str(document["root_list"]))


def read_book(path: Path) -> Book:
    """Return the book that a file holds.

    Raises:
        StorageError: ``STORAGE``.
    """
    with storage_errors(path):
        data = path.read_bytes()
    try:
        return Book.decode(data)
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError("STORAGE", "it is damaged; restore it from a copy", place=Place(str(path))) from error


def _is_kept(row: IssuedRow, now: float) -> bool:
    return row.ends > now - _KEPT or (row.revoked is not None and row.revoked > now - _REVOKED_KEPT)


def _row(one: dict[str, Any]) -> IssuedRow:
    lists = {name: tuple(one[name]) for name in ("agents", "skills", "hosts")}
    return IssuedRow(**{**one, **lists})
