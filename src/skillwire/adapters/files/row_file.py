"""Rows of bytes in a file without a name, each found by its number: what thousands of skills hold, outside of memory.

The system keeps what is read often at hand and drops it when memory is short, which it cannot do with what a process
holds. The file vanishes with the process, however that ends. One thread adds rows while any number of others read.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from typing import TYPE_CHECKING
from weakref import finalize

from skillwire.adapters.files.directories import make_folder
from skillwire.errors import Place, StorageError

if TYPE_CHECKING:
    from pathlib import Path


class RowFile:
    """Rows in ``directory``. The file is made with the first row, and the folder when it is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ends = array("Q", [0])
        self._file = -1

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        start, size = self._ends[number], self._ends[number + 1] - self._ends[number]
        try:
            row = os.pread(self._file, size, start)
        except OSError as error:
            raise self._failure(error) from error
        if len(row) != size:
            raise StorageError("STORAGE", "a file in use was cut short", place=Place(str(self._directory)))
        return row

    def add(self, row: bytes) -> int:
        """Keep ``row``; return its number.

        Raises:
            StorageError: ``STORAGE`` when it cannot be written.
        """
        end = self._ends[-1]
        try:
            if self._file < 0:
                self._open()
            written = 0
            while written < len(row):
                written += os.pwrite(self._file, row[written:], end + written)
        except OSError as error:
            raise self._failure(error) from error
        self._ends.append(end + len(row))  # from now on others may read it
        return len(self._ends) - 2

    def _open(self) -> None:
        make_folder(self._directory, mode=0o700)
        self._file, path = tempfile.mkstemp(dir=self._directory, prefix=".rows-")
        finalize(self, os.close, self._file)
        os.unlink(path)  # noqa: PTH108  # tempfile gives a text

    def _failure(self, error: OSError) -> StorageError:
        return StorageError("STORAGE", f"rows cannot be kept: {error.strerror}", place=Place(str(self._directory)))
