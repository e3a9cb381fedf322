"""The header fields that every answer of a kind carries, on the live server and on static hosts alike.

A skill's files come from whoever wrote the skill and are read under our origin: ``nosniff`` and a sandbox
without permissions keep a browser from running what is in them. Everything that anyone may read is open to
scripts of other origins, without credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Fields = list[tuple[bytes, bytes]]

#: On every answer.
OPEN_FIELDS: Final[dict[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Accept-Ranges, Content-Range",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
#: On what comes out of a skill.
CONTENT_FIELDS: Final[dict[str, str]] = {"Content-Security-Policy": "default-src 'none'; sandbox"}
#: On the answer to a preflight.
PREFLIGHT_FIELDS: Final[dict[str, str]] = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "86400",
}


def encode_fields(*groups: dict[str, str] | Iterable[tuple[str, str]]) -> Fields:
    """Return header fields as ASGI wants them: names in lower case, bytes."""
    return [
        (name.lower().encode("ascii"), value.encode("latin-1"))
        for group in groups
        for name, value in (group.items() if isinstance(group, dict) else group)
    ]


def read_fields(fields: Iterable[tuple[bytes, bytes]], *wanted: bytes) -> dict[bytes, str]:
    """Return the ``wanted`` fields of a request; repeated ones are joined, as RFC 9110 §5.3 defines."""
    found: dict[bytes, str] = {}
    for name, value in fields:
        if name in wanted:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found
