"""Blobs: bytes that somebody hands in for a run, or that a run hands out. Spec: specs §4.

A blob is known by what is in it: ``blob:`` and the SHA-256 in hexadecimal. It belongs to whoever made it; to everybody
else it is not there, whatever they know of its content.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from skillwire.errors import NotFoundError, ValidationError
from skillwire.model.digest import Digest

PREFIX: Final = "blob:"
#: What every id fits, as JSON Schema writes patterns.
PATTERN: Final = f"^{PREFIX}[0-9a-f]{{64}}$"
_ID: Final = re.compile(f"{PREFIX}([0-9a-f]{{64}})", re.ASCII)
_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_KIND: Final = re.compile(rf'{_WORD}/{_WORD}(?:; ?{_WORD}=(?:{_WORD}|"[A-Za-z0-9 !#$&^_.+:/-]*"))*', re.ASCII)
_KIND_LENGTH: Final = 255
_SHOWN: Final = 80


class RunBlob(NamedTuple):
    """A blob of somebody: its digest, its media type, its size in bytes, and when it is forgotten.

    ``expires`` is in seconds since the epoch.
    """

    digest: Digest
    kind: str
    size: int
    expires: float

    @property
    def blob_id(self) -> str:
        """The id by which its owner knows it."""
        return PREFIX + self.digest.hex


def is_blob_id(value: object) -> bool:
    """Whether ``value`` is written as the ids of blobs are."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def digest_of(blob_id: str) -> Digest:
    """Return the digest in the id of a blob.

    Raises:
        NotFoundError: ``BLOB_NOT_FOUND`` for what can be no id of ours.
    """
    found = _ID.fullmatch(blob_id)
    if found is None:
        raise no_blob(blob_id)
    return Digest(f"sha256:{found[1]}")


def no_blob(blob_id: str) -> NotFoundError:
    """Return the error that says that somebody has no such blob."""
    return NotFoundError("BLOB_NOT_FOUND", f"you have no blob {blob_id[:_SHOWN]!a}")


def check_kind(kind: str) -> str:
    """Return the media type of a blob, if it is one; it becomes a header field.

    Raises:
        ValidationError: ``BLOB_KIND``.
    """
    if len(kind) > _KIND_LENGTH or not _KIND.fullmatch(kind):
        raise ValidationError("BLOB_KIND", f"{kind[:_SHOWN]!a} is no media type")
    return kind
