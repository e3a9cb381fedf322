"""Cursors of ``list_skills``: after which name the next page begins, and in which namespace.

A cursor says a name, not a number, so that pages neither repeat nor pass over a skill when others are published or
removed between them; the name itself may be gone. It holds ``namespace/name``; one that somebody made up leads to a
page that may be asked for without it.

Spec: SKP ``list_skills``, "Pagination cursor from a previous response". Trust: a cursor is a stranger's.
"""

from __future__ import annotations

from typing import Final

from skillwire import limits
from skillwire.errors import Place, UsageError
from skillwire.model.cursor import seal, unseal

_FIX: Final = "Ask again without cursor, and go on with the next_cursor of that answer; keep the namespace."


def encode_cursor(namespace: str | None, last: str) -> str:
    """Return the cursor behind the skill ``last`` of a list of ``namespace``, or of all when that is None."""
    return seal(f"{namespace or ''}/{last}".encode())


def decode_cursor(cursor: str, namespace: str | None) -> str:
    """Return the name behind which the page begins.

    Args:
        cursor: as a client gave it.
        namespace: that of the list that it asks for.

    Raises:
        UsageError: ``CURSOR`` for what is none, or one of another namespace.
    """
    try:
        of, slash, last = unseal(cursor, limits.RPC_CURSOR_LENGTH).decode().partition("/")
    except UnicodeDecodeError:
        slash = ""
    if not slash:
        raise _refused("it is no cursor of list_skills")
    if of != (namespace or ""):
        raise _refused("it is of another namespace")
    return last


def _refused(why: str) -> UsageError:
    return UsageError("CURSOR", f"the cursor cannot be used: {why}", place=Place("/params/cursor"), fix=_FIX)
