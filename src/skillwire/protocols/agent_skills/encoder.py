"""Entries of an index to bytes. The library that encodes is not loaded by the client, which only decodes.

Spec: ASD Discovery Index; specs §1.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from skillwire.protocols.agent_skills.messages import (
    SCHEMA_URI,
    IndexEntry,
    VersionEntry,
    VersionList,
)

#: Prefix of the URLs of an index that is encoded once for several places.
UNPLACED: Final = "\0"
_ENTRIES_PER_CALL: Final = 64  # so that only their objects are in memory at once
#: What stands before the entries of an index of each generation, and what behind them.
INDEX_HEAD: Final = msgspec.json.encode({"$schema": SCHEMA_URI})[:-1] + b',"skills":['
OLD_INDEX_HEAD: Final = b'{"skills":['
INDEX_END: Final = b"]}"


def encode_index(entries: Iterable[IndexEntry]) -> bytes:
    """Return a 0.2.0 index: the protocol's fields, and ``version`` and ``files`` for older clients.

    Tags, capabilities, scenes, requirements and a state other than active are added **[extension]**; other clients
    ignore them.
    """
    return INDEX_HEAD + encode_entries(entries) + INDEX_END


def encode_old_index(entries: Iterable[IndexEntry]) -> bytes:
    """Return a 0.1.0 index: names, descriptions and files, nothing else."""
    return OLD_INDEX_HEAD + encode_old_entries(entries) + INDEX_END


def encode_entries(entries: Iterable[IndexEntry]) -> bytes:
    """Return the entries of a 0.2.0 index, between its :data:`INDEX_HEAD` and its :data:`INDEX_END`."""
    return _encode(map(_entry_object, entries))


def encode_old_entries(entries: Iterable[IndexEntry]) -> bytes:
    """Return the entries of a 0.1.0 index."""
    return _encode(
        {"name": entry.name, "description": entry.description, "files": [file.path for file in entry.files]}
        for entry in entries
    )


def encode_versions(found: VersionList) -> bytes:
    """Return the list of a skill's versions; what is empty is left out."""
    head = {"publisher": found.publisher, "name": found.name, "latest": found.latest, "status": _state(found)}
    versions = [
        {
            "version": one.version,
            "type": one.artifact_type,
            "description": one.description,
            "url": one.url,
            "digest": str(one.digest),
            "size": one.size,
            "status": _state(one),
            **({"published": one.published, "published_by": one.published_by} if one.published is not None else {}),
            **_names_object(one),
        }
        for one in found.versions
    ]
    return msgspec.json.encode({**head, "versions": versions})


def _names_object(entry: IndexEntry | VersionEntry) -> dict[str, Any]:
    named = {"capabilities": entry.capabilities, "scenes": entry.scenes, "requires": entry.requires}
    return {key: names for key, names in named.items() if names}


def _state(one: IndexEntry | VersionEntry | VersionList) -> dict[str, str]:
    told = {"status": one.status, "reason": one.reason, "successor": one.successor}
    return {key: text for key, text in told.items() if text}


def _entry_object(entry: IndexEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": entry.name,
        "type": entry.artifact_type,
        "description": entry.description,
        "url": entry.url,
        "digest": str(entry.digest),
    }
    if entry.version is not None:
        fields["version"] = entry.version
    if entry.tags:
        fields["tags"] = entry.tags
    fields |= _names_object(entry)
    if entry.status != "active":
        fields["status"] = _state(entry)
    if entry.files:
        fields["files"] = [file.path for file in entry.files]
    return fields


def _encode(entries: Iterable[dict[str, Any]]) -> bytes:
    written = io.BytesIO()
    separator = b""
    rest = iter(entries)
    while some := list(islice(rest, _ENTRIES_PER_CALL)):
        written.write(separator + msgspec.json.encode(some)[1:-1])
        separator = b","
    return written.getvalue()


def place_urls(index: bytes, artifacts: str) -> bytes:
    """Return an encoded index with ``artifacts`` in place of each :data:`UNPLACED` that begins a URL.

    JSON escapes each quote within a text, so no description can contain the searched bytes.
    """
    unplaced, placed = ((b'"url":' + msgspec.json.encode(start))[:-1] for start in (UNPLACED, artifacts))
    return index.replace(unplaced, placed)
