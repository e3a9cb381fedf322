"""Cursors of lists: opaque to clients, and nothing that their holder does not know, so they are not signed.

A cursor is bytes in base64url without padding, in the one form in which we write it. Trust: it is a stranger's.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def seal(data: bytes) -> str:
    """Return the cursor that holds ``data``."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unseal(cursor: str, max_length: int) -> bytes:
    """Return what is in a cursor of at most so many characters; nothing for what is none of ours."""
    if len(cursor) > max_length or not _FORM.fullmatch(cursor):
        return b""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        return b""
    return data if seal(data) == cursor else b""
