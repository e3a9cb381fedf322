"""A record of a process's disk requests, in order: each write, truncation and sync of SQLite, and each durable file.

SQLite reaches the disk through a table of functions. In this process they are replaced by functions that do the same
and record it. Our own files are recorded when they are synced and renamed. A test's confirmations to its callers are
recorded in between, so the record shows for any moment what was requested, what was synced and what was promised.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_OK: Final = 0
_CREATE: Final = 0x4
_JOURNALS: Final = 0x80000 | 0x4000 | 0x800  # the log, and the two kinds of journals
_c_open = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p)
_c_delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
_c_write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_c_truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_c_sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The beginning of ``sqlite3_vfs``."""

    _fields_ = (
        *[(name, ctypes.c_int) for name in ("version", "file_size", "longest_path")],
        *[(name, ctypes.c_void_p) for name in ("next", "name", "data", "open", "delete")],
    )


class _Methods(ctypes.Structure):
    """``sqlite3_io_methods``, to its third version."""

    _fields_ = (
        ("version", ctypes.c_int),
        *[(name, ctypes.c_void_p) for name in ("close", "read", "write", "truncate", "sync")],
        ("others", ctypes.c_void_p * 13),
    )


class Op(NamedTuple):
    """Something that was asked of the disk, or confirmed.

    ``what`` is ``write`` (``data`` at ``offset``), ``truncate`` (to ``offset``), ``sync`` or ``delete`` of a file of
    SQLite; ``rename`` of a file of ours, with the ``data`` that was synced before; ``mkdir``; ``sync folder``; and
    ``confirm``, of a promise.
    """

    what: str
    path: str
    offset: int = 0
    data: Any = b""


def can_record() -> bool:
    """Whether this Python's SQLite shows its functions."""
    return hasattr(ctypes.CDLL(_sqlite3.__file__), "sqlite3_vfs_find")


class Recorder:
    """Notes what is asked of the disk below ``folder``, within :meth:`recording`."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.ops: list[Op] = []
        self._paths: dict[int, str] = {}
        self._synced: dict[str, bytes] = {}
        self._unnamed: set[int] = set()
        self._methods: dict[int, _Methods] = {}
        self._kept: list[object] = []  # what C holds must not be collected

    def confirm(self, what: object) -> None:
        """Record a confirmation to a caller."""
        self.ops.append(Op("confirm", "", data=what))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record; no connection may be open before or after."""
        find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
        find.restype, find.argtypes = ctypes.POINTER(_Vfs), (ctypes.c_char_p,)
        vfs = find(None).contents
        opens, deletes = vfs.open, vfs.delete
        fsync, replace, mkdir = os.fsync, os.replace, os.mkdir
        vfs.open, vfs.delete = self._hold(self._open(_c_open(opens))), self._hold(self._delete(_c_delete(deletes)))
        os.fsync, os.replace, os.mkdir = self._fsync(fsync), self._replace(replace), self._mkdir(mkdir)
        try:
            yield
        finally:
            vfs.open, vfs.delete = opens, deletes
            os.fsync, os.replace, os.mkdir = fsync, replace, mkdir

    def _hold(self, function: Any) -> int | None:
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value

    def _note(self, op: Op) -> None:
        if op.path.startswith(self.folder):
            self.ops.append(op._replace(path=op.path.removeprefix(self.folder)))

    # --- SQLite's files

    def _open(self, real: Any) -> Any:
        def opens(vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
            code = int(real(vfs, name, file, flags, out))
            if code == _OK and name is not None:  # a temporary file has none
                self._paths[file] = os.fsdecode(ctypes.string_at(name))
                self._unnamed.discard(file)
                if flags & _CREATE and flags & _JOURNALS:
                    self._unnamed.add(file)
                place = ctypes.c_void_p.from_address(file)
                place.value = self._patched(place.value or 0)
            return code

        return _c_open(opens)

    def _patched(self, address: int) -> int:
        if address not in self._methods:
            methods = _Methods.from_buffer_copy(_Methods.from_address(address))
            methods.write = self._hold(self._write(_c_write(methods.write)))
            methods.truncate = self._hold(self._truncate(_c_truncate(methods.truncate)))
            methods.sync = self._hold(self._sync(_c_sync(methods.sync)))
            self._methods[address] = methods
        return ctypes.addressof(self._methods[address])

    def _write(self, real: Any) -> Any:
        def writes(file: int, data: int, size: int, offset: int) -> int:
            self._note(Op("write", self._paths[file], offset, ctypes.string_at(data, size)))
            return int(real(file, data, size, offset))

        return _c_write(writes)

    def _truncate(self, real: Any) -> Any:
        def truncates(file: int, size: int) -> int:
            self._note(Op("truncate", self._paths[file], size))
            return int(real(file, size))

        return _c_truncate(truncates)

    def _sync(self, real: Any) -> Any:
        def syncs(file: int, flags: int) -> int:
            code = int(real(file, flags))
            if code == _OK:
                self._note(Op("sync", self._paths[file]))
                if file in self._unnamed:  # with the first sync of a journal SQLite syncs its name
                    self._unnamed.remove(file)
                    self._note(Op("sync folder", os.path.dirname(self._paths[file])))  # noqa: PTH120  # text
            return code

        return _c_sync(syncs)

    def _delete(self, real: Any) -> Any:
        def deletes(vfs: int, name: bytes, sync_folder: int) -> int:
            self._note(Op("delete", os.fsdecode(name)))
            code = int(real(vfs, name, sync_folder))
            if sync_folder:
                self._note(Op("sync folder", os.path.dirname(os.fsdecode(name))))  # noqa: PTH120  # text
            return code

        return _c_delete(deletes)

    # --- files of ours

    def _fsync(self, real: Any) -> Any:
        def fsync(handle: int) -> None:
            real(handle)
            path = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115  # text
            if os.path.isdir(path):  # noqa: PTH112  # same
                self._note(Op("sync folder", path))
            else:
                self._synced[path] = Path(path).read_bytes()

        return fsync

    def _replace(self, real: Any) -> Any:
        def replace(source: str, target: Any) -> None:
            self._note(Op("rename", str(target), data=self._synced.pop(str(source), b"")))
            real(source, target)

        return replace

    def _mkdir(self, real: Any) -> Any:
        def mkdir(path: Any, *arguments: Any, **options: Any) -> None:
            real(path, *arguments, **options)
            self._note(Op("mkdir", str(path)))

        return mkdir
