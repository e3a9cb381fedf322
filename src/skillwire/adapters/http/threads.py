"""Several calls at once, on a handful of threads that live no longer than the calls.

A thread is started only when no call has ended for some milliseconds. So calls that wait for a distant server soon
have company, and calls that a near one answers at once run one after the other, which is quickest for them: Python
runs one thread at a time, and passing the turn around costs as much as the request.

``concurrent.futures`` would start them all, and importing it costs as much as forty requests.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 0.005  # a server that answers sooner gains nothing from a second thread


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
        while (index := _next(waiting, 0)) is not None:
            try:
                ended.put((index, calls[index]()))
            except BaseException as error:  # noqa: BLE001 - the caller's thread decides what to make of it
                ended.put((index, error))

    started, most = 0, min(threads, len(calls))
    try:
        for _ in calls:
            while (outcome := _next(ended, _patience(started, most))) is None:
                threading.Thread(target=work, daemon=True).start()
                started += 1
            yield outcome
    finally:
        while _next(waiting, 0) is not None:
            pass


def _patience(started: int, most: int) -> float | None:
    if started == most:
        return None
    return _PATIENCE_SECONDS if started else 0


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
    outcome = _next(ended, seconds)
    if outcome is None:
        return None
    result, error = outcome
    if error is not None:
        raise error
    return result


def _next(waiting: queue.SimpleQueue[T], seconds: float | None) -> T | None:
    try:
        return waiting.get(timeout=seconds)
    except queue.Empty:
        return None
