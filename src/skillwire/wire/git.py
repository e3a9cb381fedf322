"""Git's protocol version 2 without IO: what a client asks ``git-upload-pack``, and how its answers are read.

The same bytes go to a server over HTTP and to ``git upload-pack --stateless-rpc`` for a repository of this machine. A
client names no haves, so each answer stands alone: references, or one pack. Spec: gitprotocol-v2, gitprotocol-common.

Trust: answers are hostile; their size is bounded before they come here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, FetchError

VERSION: Final = "version=2"
_FLUSH, _DELIMITER = b"0000", b"0001"
_LENGTH: Final = re.compile(rb"[0-9a-f]{4}")
_REF: Final = re.compile(r"([0-9a-f]{40}) (\S{1,500})((?: \S+)*)", re.ASCII)
_PEELED: Final = re.compile(r" peeled:([0-9a-f]{40})(?: |\Z)", re.ASCII)
_DATA, _FATAL = 1, 3
_SHOWN: Final = 200


class Ref(NamedTuple):
    """A reference and its object; for an annotated tag what the tag leads to."""

    name: str
    commit: str


def ask_refs(prefixes: Iterable[str]) -> bytes:
    """Return the request for the references that begin with ``prefixes``."""
    return _request("ls-refs", ["peel", *(f"ref-prefix {prefix}" for prefix in prefixes)])


def ask_objects(wanted: Iterable[str], *, depth: bool = False, filtered: str = "") -> bytes:
    """Return the request for objects; with ``depth`` for commits with their trees and files, but no history.

    The filter ``filtered`` leaves files out: ``blob:none`` all, ``blob:limit=BYTES`` large ones.
    """
    options = ["no-progress", *(["deepen 1"] if depth else []), *([f"filter {filtered}"] if filtered else [])]
    return _request("fetch", [*options, *(f"want {name}" for name in wanted), "done"])


def _request(command: str, lines: Iterable[str]) -> bytes:
    return b"".join((_packet(f"command={command}"), _DELIMITER, *map(_packet, lines), _FLUSH))


def _packet(line: str) -> bytes:
    data = line.encode() + b"\n"
    return b"%04x%s" % (len(data) + 4, data)


def read_capabilities(answer: bytes) -> frozenset[str]:
    """Return the features of ``fetch`` that a server offers. Raises DecodeError (``GIT_ANSWER``)."""
    lines = [line.rstrip(b"\n") for line in _packets(answer) if line]
    if lines and lines[0].startswith(b"# service="):
        del lines[0]
    if not lines or lines[0] != b"version 2":
        raise DecodeError("GIT_ANSWER", "the server does not speak version 2 of Git's protocol")
    if any(line.startswith(b"object-format=") and line != b"object-format=sha1" for line in lines):
        raise DecodeError("GIT_ANSWER", "the repository names its objects by another hash than SHA-1")
    fetch = next((line for line in lines if line.startswith(b"fetch=")), b"")
    return frozenset(fetch.removeprefix(b"fetch=").decode(errors="replace").split())


def read_refs(answer: bytes) -> dict[str, Ref]:
    """Return references by name. Raises DecodeError (``GIT_ANSWER``), FetchError (``GIT_REFUSED``)."""
    found: dict[str, Ref] = {}
    lines = list(_packets(answer))
    if not lines or lines[-1]:  # also an empty repository ends its answer
        raise DecodeError("GIT_ANSWER", "the list of references has no end: the server failed, or knows no version 2")
    for line in lines:
        match = _REF.fullmatch(line.decode(errors="replace").rstrip("\n")) if line else None
        if match is not None:
            peeled = _PEELED.search(match[3])
            found[match[2]] = Ref(match[2], peeled[1] if peeled else match[1])
            if len(found) > limits.GIT_REFS:
                raise DecodeError("GIT_ANSWER", f"there are over {limits.GIT_REFS} references")
    return found


def read_objects(answer: bytes) -> bytes:
    """Return the pack of an answer. Raises DecodeError (``GIT_ANSWER``), FetchError (``GIT_REFUSED``)."""
    lines = _packets(answer)
    for line in lines:
        if line == b"packfile\n":
            break
    pieces = []
    for line in lines:
        band, data = line[:1], line[1:]
        if band == bytes([_FATAL]):
            raise _refused(data)
        if band == bytes([_DATA]):
            pieces.append(data)
    return b"".join(pieces)


def _packets(answer: bytes) -> Iterator[bytes]:
    """Yield the lines of an answer; an empty one for each separator."""
    position = 0
    while position < len(answer):
        head = answer[position : position + 4]
        size = int(head, 16) if _LENGTH.fullmatch(head) else 3
        if size == 3 or position + max(size, 4) > len(answer):  # noqa: PLR2004  # no packet has this length
            raise DecodeError("GIT_ANSWER", "the answer is not in Git's protocol")
        line = answer[position + 4 : position + size]
        if line.startswith(b"ERR "):
            raise _refused(line[4:])
        yield line
        position += max(size, 4)


def _refused(reason: bytes) -> FetchError:
    text = ascii(reason[:_SHOWN].decode(errors="replace").strip())[1:-1]
    return FetchError("GIT_REFUSED", f"the repository's server refuses: {text}")
