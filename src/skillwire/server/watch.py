"""Waiting for folders to change.

The system's notifications say at once what was touched. They can fail: too few watches for a large tree, a file
system that sends none, a watched folder that is replaced as a whole (a link that is pointed elsewhere, a volume
mounted anew). So the folders themselves are compared now and then, and where notifications cannot be had,
everything is looked at every few seconds.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
import watchfiles

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator, Sequence

#: What an editor or a copy does in one go is taken together: until nothing happens for the first, at most the second.
_QUIET_MS: Final = 50
_TOGETHER_MS: Final = 800
#: How often the folders themselves are compared, and a request to look again is noticed.
_TICK_MS: Final = 1_000
#: Seconds between two looks where there are no notifications.
_POLL: Final = 2.0
#: Looking takes at most this part of the time: a large tree is looked at less often.
_POLL_SHARE: Final = 0.1


class Watch(NamedTuple):
    """Whether changes of the folders are followed now, and how often that was interrupted."""

    alive: bool = True
    interruptions: int = 0


def watch_folders(
    folders: Sequence[str], *, stop: threading.Event, again: threading.Event, poll: float | None = None
) -> Iterator[Collection[str] | None]:
    """Yield what was touched, as absolute paths; None when that is unknown and everything has to be looked at.

    Args:
        folders: absolute paths.
        stop: ends the iteration when it is set, within a second.
        again: asks for a None; cleared when that is given.
        poll: seconds between two looks, instead of notifications.
    """
    while not stop.is_set():
        if poll is not None:
            yield from _polled(poll, stop, again)
            continue
        try:
            yield from _notified(folders, stop, again)
        except FileNotFoundError:  # a folder is being replaced; what was in it is gone until it comes back
            yield None
            stop.wait(_POLL)
        except (OSError, RuntimeError) as error:  # RuntimeError is what the library makes of the system's limits
            log = structlog.get_logger("skillwire")
            log.warning("no notifications of changes; looking every few seconds", reason=str(error))
            poll = _POLL


def _notified(
    folders: Sequence[str], stop: threading.Event, again: threading.Event
) -> Iterator[Collection[str] | None]:
    """Yield until ``stop``, or until a folder is no longer the one that is watched."""
    watched = _identities(folders)
    yield None
    # What changes while the watch is being set up is seen by a second look, right after it.
    again.set()
    for changes in watchfiles.watch(
        *folders,
        watch_filter=None,
        debounce=_TOGETHER_MS,
        step=_QUIET_MS,
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        stop_event=stop,
    ):
        if again.is_set():
            again.clear()
            yield None
        elif changes:
            yield {path for _, path in changes}
        if _identities(folders) != watched:
            return


def _polled(poll: float, stop: threading.Event, again: threading.Event) -> Iterator[None]:
    while not stop.is_set():
        started = time.monotonic()
        yield None
        now = time.monotonic()
        until = now + max(poll, (now - started) / _POLL_SHARE)
        while now < until and not again.is_set() and not stop.wait(min(until - now, _TICK_MS / 1000)):
            now = time.monotonic()
        again.clear()


def _identities(folders: Sequence[str]) -> list[tuple[int, int]]:
    """Return what tells a folder from another of the same name."""
    return [(seen.st_dev, seen.st_ino) for seen in map(os.stat, folders)]
