"""Several calls at once, on a handful of threads that live no longer than the calls.

``concurrent.futures`` would do; importing it costs as much as forty requests.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def outcomes(calls: Sequence[Callable[[], T]], threads: int) -> Iterator[tuple[int, T | BaseException]]:
    """Make ``calls`` on at most ``threads`` threads; yield each one's index with its result or exception, as it ends.

    When the caller stops early (an error, Ctrl-C), no further call is begun, and calls under way end by themselves
    without being waited for.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[int, T | BaseException]] = queue.SimpleQueue()
    for index in range(len(calls)):
        waiting.put(index)

    def work() -> None:
        while (index := _next(waiting)) is not None:
            try:
                ended.put((index, calls[index]()))
            except BaseException as error:  # noqa: BLE001 - the caller's thread decides what to make of it
                ended.put((index, error))

    try:
        for _ in range(min(threads, len(calls))):
            threading.Thread(target=work, daemon=True).start()
        for _ in calls:
            yield ended.get()
    finally:
        while _next(waiting) is not None:
            pass


def call_within(call: Callable[[], T], seconds: float) -> T | None:
    """Make a call that cannot be interrupted; return its result, or None when it takes longer than ``seconds``.

    The thread of a call that takes longer goes on until the call ends, and its result is dropped.
    """
    ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            ended.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            ended.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        result, error = ended.get(timeout=seconds)
    except queue.Empty:
        return None
    if error is not None:
        raise error
    return result


def _next(waiting: queue.SimpleQueue[int]) -> int | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None
