"""Work that several requests wait for, done once in a task that outlives each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def has_failed(work: asyncio.Future[Any]) -> bool:
    """Whether it has ended and gave nothing: the next request begins it again."""
    return work.done() and (work.cancelled() or work.exception() is not None)
