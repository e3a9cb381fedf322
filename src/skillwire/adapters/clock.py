"""The current time on both clocks of a :class:`~skillwire.model.execution.Moment`."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Final

from skillwire.model.execution import Moment

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def moment() -> Moment:
    """Return now."""
    return Moment(time.time(), time.clock_gettime(_BOOT_CLOCK), _boot_id())


@cache
def _boot_id() -> str:
    """Return the identifier of this system start; empty where the system has none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
