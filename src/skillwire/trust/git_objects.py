"""The objects of a Git repository, from a pack or an archive to files, without a checkout.

Each object is named by the hash of its content, and read by that name alone: whatever a pack holds, a commit's name
leads to the files of this commit. No filter, attribute, hook or submodule is obeyed, and a link is data. The files
of a skill go through the rules for archives (:mod:`skillwire.trust.archive.plan`).

Trust: packs are hostile. :mod:`skillwire.limits` bounds the number of objects, their bytes once inflated, and the files
of a tree, which may contain the same folder any number of times. Spec: gitformat-pack.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast

from skillwire import limits
from skillwire.errors import DecodeError, TrustError
from skillwire.model.ref import GitFile
from skillwire.trust.archive.gzip import read_gzip
from skillwire.trust.archive.plan import ArchivePlan, Entry, check_file_size, plan_entries
from skillwire.trust.archive.tar import read_tar
from skillwire.trust.paths import check_path, show

_KINDS: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_DELTA: Final = 7
_ID_BYTES: Final = 20
_PIECE: Final = 4096
_SIZE_BITS: Final = 64
_TREE_OF_COMMIT: Final = re.compile(rb"tree ([0-9a-f]{40})\n")
_FILE, _EXECUTABLE, _LINK, _FOLDER, _SUBMODULE = b"100644", b"100755", b"120000", b"40000", b"160000"
_MODES: Final = {_FILE, _EXECUTABLE, _LINK, _FOLDER, _SUBMODULE, b"100664"}
_NUMBER: Final = re.compile(rb"[\x80-\xff]{0,8}[\x00-\x7f]", re.DOTALL)
_PATH_BYTES: Final = 4096
_ARCHIVED_COMMIT: Final = re.compile(rb"52 comment=([0-9a-f]{40})\n\0")


class Tree(NamedTuple):
    """The files below a folder, and the names of all folders' trees by path; the root's is empty."""

    files: tuple[GitFile, ...]
    folders: Mapping[str, str]


def object_id(kind: str, content: bytes | memoryview) -> str:
    """Return the name of an object."""
    head = b"%s %d\0" % (kind.encode(), len(content))
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def read_pack(pack: bytes) -> dict[str, bytes]:
    """Return the content of each object by its name. Raises DecodeError (``GIT_ANSWER``), TrustError (``GIT_SIZE``)."""
    if len(pack) < 12 + _ID_BYTES or pack[:4] != b"PACK" or pack[4:8] != b"\0\0\0\2":
        raise _malformed("there is no pack of version 2")
    (count,) = struct.unpack_from(">I", pack, 8)
    if count > limits.GIT_OBJECTS:
        raise TrustError("GIT_SIZE", f"the pack has {count} objects, at most {limits.GIT_OBJECTS}")
    reader = _PackReader(pack)
    for _ in range(count):
        reader.read()
    return reader.finish()


class _PackReader:
    def __init__(self, pack: bytes) -> None:
        self._view = memoryview(pack)[:-_ID_BYTES]
        self._position = 12
        self._left = int(limits.GIT_OBJECT_BYTES)
        self._kinds: dict[str, str] = {}
        self._objects: dict[str, bytes] = {}
        self._deltas: dict[str, list[bytes]] = {}

    def read(self) -> None:
        """Read the next object; a difference waits for its base."""
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80 and shift < _SIZE_BITS:  # adding to a number of any length costs the square of it
            byte = self._byte()
            size |= (byte & 0x7F) << shift
            shift += 7
        self._spend(size)
        if kind == _DELTA:
            base = bytes(self._view[self._position : self._position + _ID_BYTES]).hex()
            self._position += _ID_BYTES
            self._deltas.setdefault(base, []).append(self._inflate(size))
        elif kind in _KINDS:
            self._add(_KINDS[kind], self._inflate(size))
        else:
            raise _malformed(f"an object is of type {kind}")

    def finish(self) -> dict[str, bytes]:
        """Return all objects, differences applied."""
        ready = [name for name in self._objects if name in self._deltas]
        while ready:
            base = ready.pop()
            for delta in self._deltas.pop(base, ()):
                name = self._add(self._kinds[base], self._apply(self._objects[base], delta))
                if name in self._deltas:
                    ready.append(name)
        if self._deltas:
            raise _malformed("a difference has no base in the pack")
        return self._objects

    def _add(self, kind: str, content: bytes) -> str:
        name = object_id(kind, content)
        self._kinds[name], self._objects[name] = kind, content
        return name

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TrustError("GIT_SIZE", f"the objects have over {limits.GIT_OBJECT_BYTES} bytes")

    def _byte(self) -> int:
        if self._position >= len(self._view):
            raise _malformed("the pack is cut off")
        self._position += 1
        return self._view[self._position - 1]

    def _inflate(self, size: int) -> bytes:
        engine, result = zlib.decompressobj(), bytearray()
        while not engine.eof:
            piece = self._view[self._position : self._position + _PIECE]
            if not piece:
                raise _malformed("the pack is cut off")
            self._position += len(piece)
            try:
                result += engine.decompress(piece, size + 1 - len(result))
            except zlib.error as error:
                raise _malformed("an object is not compressed as Git does") from error
            if len(result) > size:
                raise _malformed("an object is longer than it says")
        self._position -= len(engine.unused_data)
        if len(result) != size:
            raise _malformed("an object is shorter than it says")
        return bytes(result)

    def _apply(self, base: bytes, delta: bytes) -> bytes:
        """Return what a difference makes of ``base``; it names its bytes as places in it, or has them."""
        (before, size), position = _two_numbers(delta)
        self._spend(size)
        result = bytearray()
        while position < len(delta) and len(result) <= size:
            command = delta[position]
            position += 1
            if command & 0x80:
                marks = [place for place in range(7) if command >> place & 1]
                values = dict(zip(marks, delta[position : position + len(marks)], strict=False))
                position += len(marks)
                start = sum(values.get(place, 0) << 8 * place for place in range(4))
                length = sum(values.get(4 + place, 0) << 8 * place for place in range(3)) or 0x10000
                piece = base[start : start + length]
            else:
                length = command or 1
                piece = delta[position : position + length] if command else b""
                position += length
            if len(piece) != length:
                raise _malformed("a difference is cut off")
            result += piece
        if before != len(base) or len(result) != size:
            raise _malformed("a difference does not make what it says")
        return bytes(result)


def _two_numbers(delta: bytes) -> tuple[list[int], int]:
    """Return the two sizes that a difference begins with, and where they end."""
    values, position = [], 0
    for _ in range(2):
        match = _NUMBER.match(delta, position)
        if match is None:
            raise _malformed("a difference has no size")
        values.append(sum((byte & 0x7F) << 7 * place for place, byte in enumerate(match[0])))
        position = match.end()
    return values, position


def read_commit(commit: str, objects: Mapping[str, bytes]) -> Tree:
    """Return the files of a commit. Raises DecodeError (``GIT_ANSWER``), TrustError (``GIT_SIZE``)."""
    match = _TREE_OF_COMMIT.match(objects.get(commit, b""))
    if match is None:
        raise _malformed(f"{commit} is no commit of this pack")
    files: list[GitFile] = []
    folders: dict[str, str] = {}
    waiting = [("", match[1].decode())]
    seen = 0
    while waiting:
        path, name = waiting.pop()
        if name not in objects:
            raise _malformed(f"the folder {show(path)} is missing in the pack")
        folders[path.removesuffix("/")] = name
        for mode, part, child in _read_tree(objects[name]):
            seen += 1
            if seen > limits.GIT_FILES or len(path) > _PATH_BYTES:
                raise TrustError(
                    "GIT_SIZE", f"the repository has over {limits.GIT_FILES} files and folders, or deep ones"
                )
            if mode == _FOLDER:
                waiting.append((f"{path}{part}/", child))
            elif mode != _SUBMODULE:
                files.append(GitFile(path + part, mode.decode(), child))
    return Tree(tuple(files), folders)


def _read_tree(content: bytes) -> Iterator[tuple[bytes, str, str]]:
    position = 0
    while position < len(content):
        end = content.find(b"\0", position)
        mode, _, name = content[position:end].partition(b" ")
        position = end + 1 + _ID_BYTES
        if end < 0 or position > len(content) or mode not in _MODES or name in {b"", b".", b".."} or b"/" in name:
            raise _malformed("a folder of the repository cannot be read")
        yield mode, name.decode(errors="surrogateescape"), content[end + 1 : position].hex()


def read_repository_archive(archive: bytes) -> tuple[str, dict[str, bytes]]:
    """Return the commit of a ``.tar.gz`` that ``git archive`` wrote, and objects that lead to its files.

    The commit is made anew, since an archive has its name alone. Raises as the archive reader, DecodeError
    (``GIT_ANSWER``).
    """
    stream = read_gzip(archive)
    named = _ARCHIVED_COMMIT.match(stream, 512)
    if stream[156:157] != b"g" or named is None:
        raise _malformed("the archive does not name its commit")
    objects: dict[str, bytes] = {}
    root: dict[str, object] = {}
    for entry in read_tar(stream):
        _, slash, path = entry.path.partition("/")
        if not slash or entry.kind == "folder":
            continue
        content = entry.target if entry.kind == "symlink" else bytes(entry.content)
        blob = object_id("blob", content)
        objects[blob] = content
        mode = _LINK if entry.kind == "symlink" else _EXECUTABLE if entry.executable else _FILE
        folder, parts = root, path.split("/")
        if parts[-1] == ".gitattributes" and b"export-" in content:
            raise _malformed("the archive leaves out or changes files of its commit")
        for part in parts[:-1]:
            below = folder.setdefault(part, {})
            if not isinstance(below, dict):
                raise _malformed("a file of the archive is below another one")
            folder = below
        folder[parts[-1]] = (mode, blob)
    commit = named[1].decode()
    objects[commit] = b"tree %s\n" % _write_tree(root, objects).encode()
    return commit, objects


def _write_tree(folder: Mapping[str, object], objects: dict[str, bytes]) -> str:
    rows = []
    for name, child in folder.items():
        mode, blob = (
            (_FOLDER, _write_tree(child, objects)) if isinstance(child, dict) else cast("tuple[bytes, str]", child)
        )
        key = name.encode() + b"/" * (mode == _FOLDER)
        rows.append((key, b"%s %s\0%s" % (mode, name.encode(), bytes.fromhex(blob))))
    content = b"".join(row for _, row in sorted(rows))
    objects[tree := object_id("tree", content)] = content
    return tree


def plan_skill(files: Iterable[GitFile], objects: Mapping[str, bytes]) -> ArchivePlan:
    """Return the files of a skill, whose paths are relative to it, under the rules for archives; raise as these do."""
    return plan_entries(_entry(file, objects[file.blob]) for file in files)


def _entry(file: GitFile, content: bytes) -> Entry:
    path = check_path(file.path)
    if file.mode.encode() == _LINK:
        return Entry("symlink", path, target=content)
    check_file_size(len(content), path)
    return Entry("file", path, content, file.mode.encode() == _EXECUTABLE)


def _malformed(message: str) -> DecodeError:
    return DecodeError("GIT_ANSWER", message)
