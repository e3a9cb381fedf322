"""The calls made from here, in ``calls.json`` of the state directory.

A call is recorded twice: with its idempotency key before it is sent, and with the provider's execution id before the
caller learns it. So a process may end at any moment: either nothing was sent, or an id or a key remains with which the
call can be followed or repeated without a second execution.

Equal calls are recognised by a fingerprint, keyed with random bytes of this file and dropped with the answer. The same
bytes derive a different caller name for each origin. While a call is sent, its process holds a lock, so no other
process resumes it. Inputs, outputs and credentials are not stored.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from skillwire import limits
from skillwire.adapters.files.atomic import damaged, locked, read_state, release_lock, take_lock, write_atomically
from skillwire.errors import ConflictError
from skillwire.model.remote_execution import CallRecord

_CALLER_DIGITS: Final = 24
_REQUIRED: Final = {"key": str, "reference": str, "skill_id": str, "url": str, "created": (int, float)}
_OPTIONAL: Final = {
    "origins": list, "header": str, "is_lent": bool, "fingerprint": str, "context": dict, "execution_id": str,
    "status_url": str, "result_url": str,
}  # fmt: skip


class FileCalls:
    """The record of calls in one small JSON file; locks lie in a folder beside it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._held: dict[str, int] = {}

    def caller_id(self, origin: str) -> str:
        """Return the caller name for ``origin``; each origin gets another one."""
        with self._changing() as (key, _):
            return "skillwire-" + _digest(key, "caller", origin.encode())[:_CALLER_DIGITS]

    def begin(self, record: CallRecord, sameness: bytes, *, may_take_up: bool) -> CallRecord:
        """Record a call before it is sent and lock it; return it, or the equal call of a moment ago.

        ``sameness`` is stored as a fingerprint. ``may_take_up`` resumes an equal unlocked call without an answer.
        """
        with self._changing() as (key, records):
            fingerprint = _digest(key, "call", sameness)
            oldest = self._clock() - limits.CALL_TAKE_UP_SECONDS
            for known in records[::-1] if may_take_up else ():
                if known.fingerprint == fingerprint and known.created >= oldest and self._hold(known.key):
                    return known
            self._hold(record.key)
            record = record._replace(fingerprint=fingerprint)
            _replace(records, record, record)
            return record

    def answered(self, record: CallRecord) -> None:
        """Store the provider's execution id, and drop what served to recognise the call."""
        with self._changing() as (_, records):
            _replace(records, record, record._replace(fingerprint=None, context={}))

    def drop(self, record: CallRecord) -> None:
        """Remove a call that was refused, or answered at once."""
        with self._changing() as (_, records):
            _replace(records, record)

    def release(self, record: CallRecord) -> None:
        """Unlock a call that is no longer being sent."""
        if (handle := self._held.pop(record.key, None)) is not None:
            release_lock(handle, self._lock_path(record.key))

    def find(self, text: str) -> list[CallRecord]:
        """Return the calls with this execution id or status URL, newest first."""
        return [known for known in self.recent() if text in {known.execution_id, known.status_url}]

    def recent(self) -> list[CallRecord]:
        """Return the answered calls, newest first. Raises DecodeError (``STATE_FORM``) when the file is damaged."""
        return [known for known in self._read()[1][::-1] if known.execution_id is not None]

    def _hold(self, key: str) -> bool:
        if key in self._held:
            return False
        try:
            self._held[key] = take_lock(self._lock_path(key), wait=False)
        except ConflictError:
            return False
        return True

    def _lock_path(self, key: str) -> Path:
        return self._path.with_suffix("") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock"

    @contextmanager
    def _changing(self) -> Iterator[tuple[bytes, list[CallRecord]]]:
        """Yield the key and the calls under a lock; write them if the block changed them."""
        with locked(self._path.with_suffix(".lock")):
            key, records = self._read()
            before, new_key = list(records), key or secrets.token_bytes(32)
            yield new_key, records
            if not key or records != before:
                now, lasts = self._clock(), {True: limits.CALLS_KEPT_SECONDS, False: limits.CALL_TAKE_UP_SECONDS}
                kept = [one for one in records if now - one.created <= lasts[one.execution_id is not None]]
                kept = kept[-limits.CALLS_KEPT :]
                while len(content := _encode(new_key, kept)) > limits.STATE_FILE_BYTES:
                    kept = kept[len(kept) // 2 :]
                write_atomically(self._path, content, mode=0o600)
                for dropped in records:
                    if dropped not in kept and dropped.key not in self._held:
                        self._lock_path(dropped.key).unlink(missing_ok=True)

    def _read(self) -> tuple[bytes, list[CallRecord]]:
        if not self._path.exists():
            return b"", []
        fields = read_state(self._path)
        try:
            return bytes.fromhex(fields["caller"]), [_decode(row) for row in fields["calls"]]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self._path) from error


def _replace(records: list[CallRecord], record: CallRecord, *new: CallRecord) -> None:
    records[:] = [*(known for known in records if (known.key, known.url) != (record.key, record.url)), *new]


def _digest(key: bytes, what: str, data: bytes) -> str:
    return hmac.digest(key, what.encode() + b"\n" + data, "sha256").hex()


def _encode(key: bytes, records: list[CallRecord]) -> bytes:
    rows = [
        {name: value for name, value in record._asdict().items() if value is not None and value is not False}
        | {"context": dict(record.context)}
        for record in records
    ]
    return json.dumps({"caller": key.hex(), "calls": rows}, indent=1).encode()


def _decode(row: dict[str, Any]) -> CallRecord:
    fields = {name: row[name] for name in _REQUIRED} | {name: row[name] for name in _OPTIONAL if name in row}
    for name, value in fields.items():
        if not isinstance(value, (_REQUIRED | _OPTIONAL)[name]):  # type: ignore[arg-type]  # each is a class or a tuple
            raise TypeError(name)
    return CallRecord(**{**fields, "origins": tuple(map(str, fields.get("origins", ())))})
