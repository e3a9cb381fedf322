"""Instants as the protocol writes them: ISO 8601, UTC, milliseconds only where there are some. Spec: SSP §5.4."""

from __future__ import annotations

import time
from functools import lru_cache


def written(instant: float) -> str:
    """Return ``2025-07-01T12:00:00Z`` for seconds since the epoch."""
    seconds, milliseconds = divmod(round(instant * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03}Z" if milliseconds else f"{_second(seconds)}Z"


@lru_cache(maxsize=64)  # most are of these seconds
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
