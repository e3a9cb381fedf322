"""Watches the folders of skills and makes the next revision of the catalog.

One thread waits for a change, loads what changed, makes the next revision and swaps it in with a single assignment. The
event loop only reads :attr:`CatalogService.current`, so there is no lock, and requests get the previous revision while
the next one is made.

File notifications report a change at once, but they can fail: a large tree needs more watches than the system grants,
some file systems send none, and a watched folder can be replaced as a whole (a link that points elsewhere, a volume
mounted anew). So the folders are also compared, every second for replaced roots, and every few seconds in full where
notifications are unavailable.

After a failure the thread waits, longer each time, and loads everything again. Until that succeeds the served catalog
may hold more than the folders allow, so :attr:`CatalogService.watch` reports the watch as down, with the reason; the
log has it once. Folders that cannot be read keep their skills, those of an earlier run included; the others are
published meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
import watchfiles

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.model.access import Access
from skillwire.model.catalog import no_skills, summarize
from skillwire.protocols.agent_skills.decoder import find_excess
from skillwire.server.log import log_broken, log_changes
from skillwire.server.problems import NOT_READY, ProblemError
from skillwire.server.revision import Superseded, make_revision
from skillwire.server.search import NoSearch, SearchAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.adapters.files.published_folders import PublishedFolders
    from skillwire.folder.publish import InvalidFolder
    from skillwire.model.catalog import PackedSkills, SkillChanges
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Artifact, Skill
    from skillwire.ports import SkillIndex, SkillSearch
    from skillwire.server.revision import Revision

#: What an editor or a copy does in one go is taken together: until nothing happens for the first, at most the second.
_QUIET_MS: Final = 50
_DEBOUNCE_MS: Final = 800
#: How often the folders themselves are compared, and a request to look again is noticed; beside a registry more often,
#: for its changes are such requests.
_TICK_MS: Final = 1_000
_REGISTRY_TICK_MS: Final = 200
#: Seconds between two looks where there are no notifications.
_POLL: Final = 2.0
#: Where there is no folder, only a registry that reports its changes.
_LONGEST_POLL: Final = 60.0
#: Looking takes at most this part of the time: a large tree is looked at less often.
_POLL_SHARE: Final = 0.1
#: After a revision the next push waits so many times as long as that took, but no longer than two seconds, or twice as
#: long as it took: many pushes share a revision, which makes each of them a twentieth slower and not a tenth. The first
#: one of 50,000 skills takes seconds, and minutes where their files are written.
_PUSH_PAUSES: Final = 19
_PUSH_PAUSE: Final = 2.0
_LONGEST_PUSH_PAUSE: Final = 10.0
#: The memory that revisions leave is returned after one that took so many seconds of processor time, as the first one
#: of thousands of skills does, and after others once in so many seconds: that takes longer than making such a one.
_LONG: Final = 0.1
_TIDY_SECONDS: Final = 60.0


class Watch(NamedTuple):
    """Whether changes of the folders are followed now, how often that was interrupted, and why it is now."""

    alive: bool = True
    interruptions: int = 0
    reason: str = ""


def watch_folders(
    folders: Sequence[str],
    *,
    stop: threading.Event,
    again: threading.Event,
    poll: float | None = None,
    is_registry: bool = False,
) -> Iterator[Collection[str] | None]:
    """Yield touched absolute paths, or None to look at everything: first, after ``again``, and every ``poll`` s."""
    while not stop.is_set():
        if poll is not None or not folders:
            yield from _polled(_LONGEST_POLL if poll is None else poll, stop, again)
            continue
        try:
            yield from _notified(folders, stop, again, _REGISTRY_TICK_MS if is_registry else _TICK_MS)
        except FileNotFoundError:  # a folder is being replaced; what was in it is gone until it comes back
            yield None
            stop.wait(_POLL)
        except (OSError, RuntimeError) as error:  # RuntimeError is what the library makes of the system's limits
            log = structlog.get_logger("skillwire")
            log.warning("no notifications of changes; looking every few seconds", reason=str(error))
            poll = _POLL


def _notified(
    folders: Sequence[str], stop: threading.Event, again: threading.Event, tick_ms: int
) -> Iterator[Collection[str] | None]:
    """Yield until ``stop``, or until a folder is no longer the one that is watched."""
    watched = _identities(folders)
    yield None
    # What changes while the watch is being set up is seen by a second look, right after it.
    again.set()
    for changes in watchfiles.watch(
        *folders,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_QUIET_MS,
        rust_timeout=tick_ms,
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
        took = now - started
        stop.wait(min(took * _PUSH_PAUSES, max(_PUSH_PAUSE, took * 2), _LONGEST_PUSH_PAUSE))
        while now < until and not stop.is_set() and not again.wait(min(until - now, _TICK_MS / 1000)):
            now = time.monotonic()
        again.clear()


def _identities(folders: Sequence[str]) -> list[tuple[int, int]]:
    """Return what tells these folders from others."""
    return [(seen.st_dev, seen.st_ino) for seen in map(os.stat, folders)]


#: Longer than an index may be cached (:class:`skillwire.protocols.agent_skills.server.CachePolicy`): who holds an old
#: one can still fetch what it names.
_UNUSED_BLOB_SECONDS: Final = 900.0
#: Seconds until what failed is tried again; each time twice as long, up to the second.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


def _reason(error: Exception) -> str:
    """Return why changes are not followed, in words that ``/readyz`` may show without credentials."""
    if isinstance(error, SkillwireError):
        return f"the database fails: {error.message}" if error.code == "DATABASE" else error.message
    return getattr(error, "strerror", None) or f"an internal error, {type(error).__name__}; the log has its traceback"


def _wake(waiting: Iterable[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    for loop, event in waiting:
        with suppress(RuntimeError):  # a loop that was closed; no task waits there any more
            loop.call_soon_threadsafe(event.set)


class CatalogService:
    """Keeps a revision of ``folders`` current; see the module for the thread that does it."""

    def __init__(
        self,
        folders: PublishedFolders,
        blobs: FileBlobs,
        make_index: Callable[[], SkillIndex],
        *,
        base_url: str = "",
        poll: float | None = None,
        needed: Callable[[], Iterable[Digest]] = tuple,
        warn: Callable[[Iterable[Skill]], object] = lambda _: None,
        logs_all: bool = False,
    ) -> None:
        self.folders = folders
        self.blobs = blobs
        self.current: Revision | None = None
        self.watch = Watch()
        self.lost_blobs = 0
        #: The last change of the registry that is served.
        self.reached = 0
        self._lost: set[Digest] = set()
        blobs.on_lost = self._restore_blob
        #: Called with each revision once it is served, in the thread that makes it.
        self.follows: list[Callable[[Revision], object]] = []
        #: Called in that thread when a revision has left memory that is not used.
        self.tidy: Callable[[], object] = lambda: None
        self._base_url = base_url
        self._poll = poll
        self._needed = needed
        self._warn = warn
        self._logs_all = logs_all
        self._number = 0
        self._pause = _FIRST_PAUSE
        self._is_restored = False
        self._is_owed = True  # a revision of what the folders hold has still to be made
        self._skills = self._listed = no_skills()
        self._public_number = 0
        self._reported: list[InvalidFolder] = []
        self._superseded: dict[Artifact, Superseded] = {}
        self._make_index = make_index
        self._index: SkillIndex | None = None
        self._unindexed: StorageError | None = None  # why the current revision cannot be searched
        self._log = structlog.get_logger("skillwire")
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._again = threading.Event()
        self._missing = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        #: Set for the callers that wait until the changes before their call are served: those since the last attempt,
        #: and those of attempts that failed, which cut no pause short.
        self._followers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._unserved: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def start(self) -> None:
        """Begin to load and watch, in a thread of its own, unless that has begun."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="skillwire-publication", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for its end. What was loaded stays readable."""
        thread, self._thread = self._thread, None
        self._stop.set()
        self._again.set()
        if thread is not None:
            thread.join()

    def _restore_blob(self, digest: Digest) -> bytes | None:
        content = self.folders.make_blob(digest)
        if content is not None:
            return content
        self._missing.set()  # before the blob counts as lost: what is lost when a refresh begins, that refresh checks
        if digest not in self._lost and self.blobs.path(digest) is None:  # else one made it again since it was read
            self._lost.add(digest)
            self.lost_blobs += 1
            self._log.warning("a blob is damaged or missing, and is made again", blob=str(digest))
        self._again.set()
        return None

    def follow_packages(self) -> None:
        """Have the changes of the registry published soon."""
        self._again.set()

    async def look_for_packages(self) -> None:
        """Have the changes of other servers published soon, if there are any. Raises StorageError."""
        if self.folders.packages is not None and await self.folders.packages.has_changes():
            self.follow_packages()

    async def follow(self, seconds: float) -> None:
        """Return as soon as the changes before this call are served, after ``seconds`` at the latest."""
        event = asyncio.Event()
        follower = asyncio.get_running_loop(), event
        self._followers.append(follower)  # without a call between, in which the thread could take the list
        self._again.set()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        finally:
            event.set()  # it waits no more

    async def reach(self, change: int) -> None:
        """Return once this change of the registry is served. Raises ProblemError (503) when that takes too long."""
        self.start()
        if self.reached < change:
            await self.follow(limits.SERVER_REVISION_SECONDS)
        if self.reached < change:
            raise ProblemError(replace(NOT_READY, message="the change is not served here yet"))

    async def follow_withdrawal(self) -> None:
        """Return once what was withdrawn before this call is not served, unless nothing follows changes."""
        if self._thread is not None:
            await self.follow(limits.REGISTRY_WITHDRAWN_SECONDS)

    async def first(self, seconds: float | None = None) -> Revision | None:
        """Return the current revision as soon as there is one; None when that takes longer than ``seconds``."""
        event = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), event))
        if self.current is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        return self.current

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._follow()
                except Exception as error:  # noqa: BLE001  # it may pass, and is reported nowhere else
                    if self._interrupt(_reason(error)):
                        trace = None if isinstance(error, (SkillwireError, OSError)) else error
                        self._log.error("the folders are not watched", reason=one_line(error), exc_info=trace)
                    self._wait()
        finally:
            self.blobs.unlock()

    def _follow(self) -> None:
        self._take_followers()
        self.blobs.lock()
        if not self._is_restored:
            self.folders.restore()
            self._is_restored = True
        watched = watch_folders(
            self.folders.roots,
            stop=self._stop,
            again=self._again,
            poll=self._poll,
            is_registry=self.folders.packages is not None,
        )
        tidied, since = self.current, time.monotonic()
        for touched in watched:
            began = time.thread_time()
            gc.disable()  # what is made stays, and is searched for cycles below: 0.4 of the 5 s for 50,000 skills
            try:
                is_complete = self._refresh(touched)
            finally:
                gc.enable()
            if is_complete:
                if not self.watch.alive:
                    self._log.info("the folders are watched again")
                self.watch, self._pause = self.watch._replace(alive=True, reason=""), _FIRST_PAUSE
            else:
                self._wait()
                self._again.set()
            is_long = time.thread_time() - began > _LONG
            if self.current is not tidied and (is_long or time.monotonic() - since > _TIDY_SECONDS):
                self.tidy()
                tidied, since = self.current, time.monotonic()
        self._save()

    def _save(self) -> None:
        try:
            self.folders.save()
        except StorageError as error:
            self._log.warning("loaded skills are not recorded", reason=one_line(error), fix=error.diagnostics().fix)

    def _interrupt(self, reason: str) -> bool:
        """Report the watch as down; return whether the reason is new."""
        before = self.watch
        self.watch = Watch(False, before.interruptions + 1, reason)
        return reason != before.reason

    def _wait(self) -> None:
        """Wait before the next attempt; one that a request waits for is made soon."""
        until = time.monotonic() + self._pause
        while time.monotonic() < until and not self._followers and not self._stop.wait(_FIRST_PAUSE):
            pass
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _take_followers(self) -> None:
        """Begin an attempt: its callers no longer shorten the pause that follows a failure."""
        followers, self._followers = self._followers, []
        self._unserved = [one for one in (*self._unserved, *followers) if not one[1].is_set()]

    def _refresh(self, touched: Collection[str] | None) -> bool:
        """Load what changed and swap in the next revision, if anything did; return whether that succeeded."""
        lost = set(self._lost)
        self._take_followers()
        if self._missing.is_set():
            self._missing.clear()
            self.folders.check_blobs()
            touched = None  # each folder may lack some
        try:
            self._is_owed |= self.folders.refresh(touched)
        except SkillwireError as error:  # what is served stays, and all is looked at again
            if self._interrupt(_reason(error)):
                self._log.error("changes are not published", code=error.code, reason=one_line(error))
            return False
        self._lost -= lost
        unreadable = self.folders.unreadable
        first = self.current is None
        # Where nothing can be read and nothing is known, an empty catalog would tell clients that all is gone.
        if self._is_owed and not (first and unreadable and not self.folders.skills.everything):
            self._publish()
            self._is_owed = False
        if self.folders.packages is not None and not self._is_owed:
            self.reached = self.folders.packages.cursor.change
        _wake(self._unserved)
        self._unserved = []
        if self._has_disk_fault():
            return False
        if first and self.current is not None and not unreadable:  # what is in other folders may need its bytes
            self._save()
            with suppress(SkillwireError):  # of a ledger that cannot be read nothing is known to be unused
                self.blobs.remove_unused(self.folders.used_blobs().union(self._needed()))
        if unreadable:
            if self._interrupt("; ".join(sorted(set(unreadable.values())))):
                folder, reason = min(unreadable.items())
                named = {"folders": len(unreadable), "place": folder, "reason": reason}
                fix = "Make it readable, or mount it; where it is to be empty, restart the server."
                self._log.error("folders cannot be read, and keep their skills", **named, fix=fix)
            return False
        return True

    def _has_disk_fault(self) -> bool:
        """Whether the index, or bytes of packages, could not be written: report it, and have both tried again."""
        fault = self._unindexed or self.folders.unwritten
        self._is_owed |= self._unindexed is not None
        if fault is not None and self._interrupt(_reason(fault)):
            self._log.error("the blob folder cannot be written", code=fault.code, reason=one_line(fault))
        return fault is not None

    def _publish(self) -> None:
        skills, listed, before = self.folders.skills, self.folders.listed, self._skills
        usable, everything = skills.usable, skills.everything
        changes, whole = usable.changes_since(before.usable), everything.changes_since(before.everything)
        # Replaced artifacts are kept for a while, unless their skill is gone.
        now = time.monotonic()
        for name in whole.changed:
            old = before.everything[name]
            self._superseded[old.artifact] = Superseded(old.publisher, name, now, name in before.usable)
        self._superseded = {
            artifact: one
            for artifact, one in self._superseded.items()
            if one.name in everything and now - one.since < _UNUSED_BLOB_SECONDS
        }
        self._number += 1
        broken = tuple(self.folders.broken())
        # The number for anonymous clients rises with what they may see, and with nothing else.
        reported = [one for one in broken if one.access is Access.PUBLIC]
        newly_known = listed.known.changes_since(self._listed.known)
        if self._public_number == 0 or any(newly_known) or reported != self._reported:
            self._public_number += 1
        newly_listed = listed.usable.changes_since(self._listed.usable)
        self._listed, self._reported = listed, reported
        revision = make_revision(
            self._number,
            self._public_number,
            skills,
            listed,
            lambda: SearchAnswers(self._indexed(listed.usable, newly_listed), listed.usable, self._base_url),
            changes=changes,
            base_url=self._base_url,
            superseded=self._superseded,
            broken=broken,
            before=self.current,
        )
        self.current = revision
        self._skills = skills
        _wake(self._waiting)
        self._waiting.clear()
        for follow in self.follows:
            follow(revision)
        logged, logged_changes = (everything, whole) if self._logs_all else (usable, changes)
        log_changes(self._log, self._public_number, len(logged), logged_changes)
        with suppress(SkillwireError):  # where grants or secrets cannot be read, each call fails with the reason
            names = (*whole.added, *whole.changed)
            self._warn([everything[name] for name in names if summarize(everything, name).kind == "action"])
        log_broken(self._log, broken)
        excess = find_excess(len(usable), self._base_url)
        if excess is not None and find_excess(len(usable) - len(changes.added), self._base_url) is None:
            self._log.warning(excess.message, skills=len(usable), code=excess.code, fix=excess.fix)

    def _indexed(self, skills: PackedSkills, changes: SkillChanges) -> SkillSearch:
        """Return the search of ``skills``; an index that fails is made anew the next time."""
        index, self._index, self._unindexed = self._index, None, None
        try:
            if index is not None:
                search = index.update(skills, (*changes.added, *changes.changed), changes.removed)
            else:
                index = self._make_index()
                search = index.update(skills, tuple(skills), ())
        except StorageError as error:  # what was hidden must not wait for a disk
            self._unindexed = error
            return NoSearch(error)
        self._index = index
        return search
