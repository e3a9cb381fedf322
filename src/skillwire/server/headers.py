"""Header fields as ASGI carries them, and as they go over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.fields import IDENTITY_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Fields = list[tuple[bytes, bytes]]

#: The fields that say who asks, by the names under which ASGI carries them.
IDENTITY_NAMES: Final = tuple(name.encode("ascii") for name in IDENTITY_FIELDS.lower().split(", "))
#: The ``Vary`` of what comes in codings, and is another for who may see more.
VARY: Final = f"Accept-Encoding, {IDENTITY_FIELDS}"


def encode_fields(*groups: Mapping[str, str]) -> Fields:
    """Return header fields with their names in lower case, as bytes."""
    return [
        (name.lower().encode("ascii"), value.encode("latin-1")) for group in groups for name, value in group.items()
    ]


def join_fields(fields: Fields) -> bytes:
    """Return ``fields`` as lines of a head."""
    return b"".join([b"%s: %s\r\n" % field for field in fields])


def read_fields(fields: Iterable[tuple[bytes, bytes]], *wanted: bytes) -> dict[bytes, str]:
    """Return the ``wanted`` fields of a request; repeated ones are joined, as RFC 9110 §5.3 defines."""
    found: dict[bytes, str] = {}
    for name, value in fields:
        if name in wanted:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found
