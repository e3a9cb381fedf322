"""Connections that wait for their next request, for both drivers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.model.url import Origin


class Closable(Protocol):
    """A connection."""

    def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Closable)


class Kept(Generic[C]):
    """Idle connections by origin, the oldest closed when there are too many. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[Origin, C]] = []  # oldest first

    def take(self, origin: Origin) -> C | None:
        """Return the connection to ``origin`` that was used last, which is then no longer kept."""
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index][0] == origin:
                    return self._idle.pop(index)[1]
        return None

    def keep(self, origin: Origin, connection: C) -> None:
        """Keep ``connection``."""
        with self._lock:
            self._idle.append((origin, connection))
            over, self._idle = self._idle[: -limits.HTTP_KEPT], self._idle[-limits.HTTP_KEPT :]
        for _, oldest in over:
            oldest.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()
