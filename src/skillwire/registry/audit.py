"""The audit log: every change of a registry, each entry chained to the one before by its digest.

A changed, removed or inserted entry breaks the chain there. The digest of the last entry, kept elsewhere, also
shows entries that were cut off at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from skillwire.errors import TrustError, ValidationError
from skillwire.model.package import AuditEntry, Change

#: What the first entry is chained to.
FIRST_DIGEST: Final = "0" * 64
_TEXTS: Final = ("account", "action", "target", "address", "request_id")


def chain_digest(previous: str, number: int, change: Change) -> str:
    """Return the digest of an entry: the SHA-256, in hexadecimal, of the previous digest and the entry's JSON."""
    text = json.dumps([previous, number, *change[:-1]], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_entries(rows: Iterable[Mapping[str, Any]]) -> Iterator[AuditEntry]:
    """Yield the entries that the API answered. Raises ValidationError (``REGISTRY_ANSWER``) for another form."""
    for row in rows:
        try:
            account, action, target, address, request = (str(row[key]) for key in _TEXTS)
            change = Change(float(row["at"]), account, action, target, dict(row["details"]), address, request)
            yield AuditEntry(int(row["number"]), change, str(row["digest"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValidationError("REGISTRY_ANSWER", "an entry of the audit log has another form") from error


def verify_entries(entries: Iterable[AuditEntry], previous: AuditEntry | None = None) -> AuditEntry | None:
    """Return the last of ``entries``, or ``previous``, the one before them. Raises TrustError (``AUDIT_BROKEN``)."""
    for entry in entries:
        number, digest = (previous.number, previous.digest) if previous else (0, FIRST_DIGEST)
        if entry.number != number + 1:
            message = f"entry {number + 1} is missing; {entry.number} follows {number}"
            raise TrustError("AUDIT_BROKEN", message, details={"number": number + 1})
        if entry.digest != chain_digest(digest, entry.number, entry.change):
            message = f"entry {entry.number} is not what was written"
            raise TrustError("AUDIT_BROKEN", message, details={"number": entry.number})
        previous = entry
    return previous
