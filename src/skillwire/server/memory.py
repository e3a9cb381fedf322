"""Keeping the memory of a server close to what it needs.

Making a revision of thousands of skills takes several times the memory that the revision keeps, and what was freed
stays with the process: Python keeps free tuples at hand, each of which pins the megabyte that it lies in, and the C
library of Linux keeps what has anything in use behind it, in a heap for each thread; and each large piece that is
freed makes it take larger ones from that heap, too. That would leave a server with its peak for good: 105 MiB at
10,000 skills, where 60 are needed.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_M_ARENA_MAX: Final = -8
_LARGE: Final = 128 * 1024  # with which the library begins


def trim_memory() -> None:
    """Give back what is free; takes 30 ms at 10,000 skills. Only glibc can be told; others have ways of their own."""
    gc.collect()  # it lets go of the free tuples
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_what_is_loaded() -> None:
    """Look for cycles only in what comes from now on: what was loaded first stays, and is most of what there is.

    A call of a skill takes a tenth less processor time by this.
    """
    gc.collect()
    gc.freeze()


def use_one_heap() -> None:
    """Have all threads of this process share one heap, and give back at once whatever is large.

    They take turns anyway, as Python's threads do.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
