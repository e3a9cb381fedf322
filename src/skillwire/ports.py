"""What the core needs from outside, as protocols; :mod:`skillwire.adapters` fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from skillwire.model.access import Token
    from skillwire.model.digest import Digest
    from skillwire.model.execution import (
        Accepted,
        Attempt,
        Claim,
        Execution,
        ExecutionQuery,
        ExecutionStatus,
        Failure,
        FoundExecutions,
        Grant,
        IdempotencyKey,
        Moment,
        OpenTasks,
        Outcome,
        OutputBlob,
        Quota,
        RunBlob,
        TaskOwner,
    )
    from skillwire.model.install import CachedResponse, InstallLocation, Lock, OriginRecord, StagedSkill
    from skillwire.model.search import SearchPage, SearchQuery
    from skillwire.model.skill import Permissions, Skill


class BlobStore(Protocol):
    """Immutable bytes, found by their digest."""

    def put(self, content: bytes) -> Digest:
        """Keep ``content`` durably enough to be served; return its digest. Putting twice is harmless."""

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when the store does not hold them."""

    def path(self, digest: Digest) -> Path | None:
        """Return a file that holds the bytes, or None when they are not in a file."""

    def download(self, digest: Digest) -> Download:
        """Return the download of the bytes with this digest, as far as it came."""


class Download(Protocol):
    """One artifact on its way into a blob store, which may have broken off earlier; a ``Sink`` of the wire, and more.

    Nothing in it is trusted before its digest is the expected one.
    """

    @property
    def size(self) -> int:
        """How many bytes it holds."""

    def begin(self, position: int) -> bool:
        """Go on at ``position``, forgetting what was behind it; False when it cannot take anything."""

    def append(self, data: bytes | bytearray) -> None:
        """Take the next bytes."""

    def digest(self) -> str:
        """Return the digest of what it holds."""

    def discard(self) -> None:
        """Forget everything."""

    def keep(self) -> None:
        """Make it a blob, now that it is whole."""

    def close(self) -> None:
        """Let go of it; what it holds stays, to be continued."""


class SkillSearch(Protocol):
    """A search over one revision of the published skills that everybody may see."""

    def search(self, query: SearchQuery) -> SearchPage:
        """Return the part of the hits that ``query`` asks for.

        Raises:
            UsageError: ``CURSOR`` when ``query.after`` is none of ours.
        """


class TokenStore(Protocol):
    """The tokens of a publisher."""

    def add(self, token: Token) -> None:
        """Keep a new token, durably."""

    def revoke(self, token_id: str, at: float) -> None:
        """Keep that a token was taken back ``at`` this time, durably; one that was before keeps its time."""

    def succeed(self, token_id: str, successor: Token, *, end: float) -> bool:
        """Keep ``successor`` and let the old token end at ``end`` or when it ends anyway: both or neither, durably.

        Returns:
            Whether that was done: not when the old token was taken back.
        """

    def find(self, token_id: str) -> Token | None:
        """Return the token of this ID."""

    def all(self) -> Sequence[Token]:
        """Return every token, oldest first."""

    def forget(self, beginning: str, *, before: float) -> int:
        """Forget API keys whose name begins so and that ended ``before`` this time; return how many there were."""


class ExecutionLedger(Protocol):
    """The truth about executions: whatever it returned from is on the disk.

    Each method is one step of the state table (:mod:`skillwire.executions.states`), done by comparing and setting, so
    that of any number of workers and servers one succeeds.
    """

    def accept(self, execution: Execution, key: IdempotencyKey | None = None) -> Accepted:
        """Keep a new execution; with a ``key`` that was used before, return the execution of that time."""

    def accept_all(self, executions: Sequence[Execution]) -> None:
        """Keep new executions: all of them, or none."""

    def find(self, execution_id: str) -> Execution | None:
        """Return an execution."""

    def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so; None when none does, or several."""

    def output(self, execution: Execution) -> bytes | None:
        """Return what it gave, wherever that lies; None where there is nothing, or nothing more."""

    def output_file(self, execution: Execution) -> Path | None:
        """Return the file that holds what it gave, where that is too large to be held for each who asks."""

    def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return the executions that ``query`` asks for, newest first."""

    def tasks(self, worker: str, whose: TaskOwner, *, limit: int) -> OpenTasks:
        """Return tasks for people that have not ended, those first that are due first: ``whose`` they are."""

    def claim(self, worker: str, now: Moment, quota: Quota, *, limit: int = 1) -> Sequence[Execution]:
        """Give ``worker`` the next executions that may run, at most ``limit``; the lease begins."""

    def claim_task(self, execution_id: str, worker: str, now: Moment) -> Execution | None:
        """Give a person the task of this ID, unless somebody has it or it ended. It is theirs till its deadline."""

    def release(self, claim: Claim, now: Moment) -> bool:
        """Give back what was claimed, for somebody else to take up."""

    def renew(self, claims: Collection[Claim], now: Moment, lease: float) -> Collection[Claim]:
        """Prolong the leases by ``lease`` seconds from now; return the claims that hold no more."""

    def complete(
        self, claim: Claim, output: bytes, now: Moment, *, log: str = "", blobs: Sequence[OutputBlob] = ()
    ) -> bool:
        """Keep what the execution gave; False when the claim holds no more, and nothing counts."""

    def fail(self, claim: Claim, failure: Failure, now: Moment, *, log: str = "") -> bool:
        """Keep that an attempt failed: the execution has failed, or waits for its next attempt."""

    def cancel(self, execution_id: str, by: str, now: Moment) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""

    def expire(self, now: Moment) -> Sequence[str]:
        """End what is past its deadline as ``timeout``; return the IDs, at most ``SWEPT_AT_ONCE``."""

    def recover(self, now: Moment) -> Sequence[str]:
        """Take up what lost its worker: to be run again where it may be, else failed. Return IDs, as many at most."""

    def due_callbacks(self, now: Moment, *, limit: int, queue: str = "") -> Sequence[Execution]:
        """Return ended executions of a queue whose caller is to be told now; no other is handed them for a minute."""

    def put_off_callback(self, execution_id: str, until: float | None, *, was_tried: bool = True) -> None:
        """Keep when a caller is to be told again; None when that was done, or was given up.

        Args:
            execution_id: whose end is told.
            until: seconds since the epoch.
            was_tried: whether it counts as one of the tries; otherwise its turn was only passed over.
        """

    def forget(self, now: Moment, *, outputs: float, rows: float) -> int:
        """Forget outputs and executions that ended so many seconds ago; return how many."""

    def sweep_outputs(self) -> int:
        """Remove outputs that no execution has, such as those of a crash; return how many."""

    def waiting(self) -> Mapping[str, int]:
        """Return how many executions wait or run, by caller."""

    def count(self, query: ExecutionQuery | None = None) -> Mapping[ExecutionStatus, int]:
        """Return how many executions there are, by status; of those that ``query`` finds, whatever their status."""


class SkillVersions(Protocol):
    """The skills of executions, as they were when those were accepted."""

    def keep(self, skill: Skill) -> None:
        """Keep a skill by its artifact's digest."""

    def find(self, digest: str) -> Skill | None:
        """Return the skill whose artifact has this digest."""

    def needed(self) -> Sequence[Skill]:
        """Return the skills of executions that have not ended."""


class RunBlobs(Protocol):
    """The blobs of those who have skills executed. Nobody is told of another one's."""

    def begin(self) -> BlobWriting:
        """Begin a blob. Whoever does ends it with :meth:`keep` or by closing it."""

    def keep(self, owner: str, blobs: Sequence[tuple[BlobWriting, str]], now: float) -> Sequence[RunBlob]:
        """Keep what was written as blobs of ``owner``, each with its kind: all of them or none, durably.

        Raises:
            ConflictError: ``BLOB_ROOM``. StorageError: ``DATABASE``, ``STORAGE``.
        """

    def find(self, owner: str, digest: Digest, now: float) -> RunBlob | None:
        """Return a blob of ``owner``, unless it has expired; being found is a use of it."""

    def hold(self, owner: str, digests: Collection[Digest], now: float, until: float) -> None:
        """Keep blobs until then at least.

        Raises:
            NotFoundError: ``BLOB_NOT_FOUND`` for the first that ``owner`` does not have.
        """

    def path(self, digest: Digest) -> Path | None:
        """Return the file that holds the bytes, None when there is none."""

    def spool(self) -> BinaryIO:
        """Return a file without a name, for what may become blobs; gone when it is closed."""

    def sweep(self, now: float) -> int:
        """Forget what has expired; return how many blobs."""


class BlobWriting(Protocol):
    """A blob that is being written, bounded in size."""

    @property
    def size(self) -> int:
        """How many bytes were written."""

    @property
    def digest(self) -> Digest:
        """The digest of what was written."""

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            DecodeError: ``LIMIT_SIZE`` when it is larger than a blob may be. StorageError: ``STORAGE``.
        """

    def finish(self) -> None:
        """Have all of it on the disk."""

    def move(self, place: Path) -> None:
        """Give it its place, in place of another one with the same bytes."""

    def close(self) -> None:
        """Forget what was written, unless it has its place."""


class Executor(Protocol):
    """What runs a skill: one for each kind of :data:`skillwire.model.skill.ExecutorKind` but ``human``."""

    async def execute(self, attempt: Attempt) -> Outcome:
        """Run the skill once.

        What a skill does wrong is an outcome. Cancelling ends everything that was begun, before this returns.
        """


class Dispatcher(Protocol):
    """Wakes workers. It may wake one for nothing, and may lose a call: the ledger alone says what there is to do."""

    def wake(self) -> None:
        """Say that something may be claimed."""

    async def wait(self, seconds: float) -> None:
        """Return when something may be claimed, or after ``seconds``."""


class GrantStore(Protocol):
    """What people agreed to have executed here."""

    def add(self, grant: Grant) -> None:
        """Keep a grant, in place of an earlier one of the same digest and permissions."""

    def remove(self, digest: str) -> int:
        """Take back every grant of this artifact; return how many there were."""

    def has(self, digest: str, permissions: Permissions) -> bool:
        """Whether the artifact of this digest may run with these permissions."""

    def all(self) -> Sequence[Grant]:
        """Return every grant, oldest first."""


class ResponseCache(Protocol):
    """Answers kept from earlier requests, one for each URL and credential."""

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        """Return what is kept for ``url`` as seen with ``credential``."""

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        """Keep ``response``, in place of an earlier one."""


class OriginBook(Protocol):
    """What is remembered of each publisher's place, across projects."""

    def look_up(self, base: str) -> OriginRecord | None:
        """Return what is remembered of ``base``."""

    def record(self, base: str, record: OriginRecord) -> None:
        """Remember ``record`` for ``base``."""


class SkillsFolder(Protocol):
    """The installed skills of one project, or of the user, and their lock."""

    @property
    def root(self) -> Path:
        """The folder that placements, and local origins in the lock, are relative to."""

    def read_lock(self) -> Lock:
        """Return the lock; an empty one when there is none."""

    def installed_files(self, placement: InstallLocation, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of what stands where ``name`` is or would be; None when no copy does."""

    def missing_places(self, placement: InstallLocation, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` where neither a copy nor a link of it stands."""

    def change(self) -> SkillsFolderChange:
        """Begin a change. One at a time: a second one waits, then fails with ``FOLDER_BUSY``."""


class SkillsFolderChange(Protocol):
    """A change that happens as a whole or not at all."""

    def stage(self, skill: StagedSkill) -> None:
        """Write ``skill`` aside, to be put in place by :meth:`commit`."""

    def take_away(self, name: str, placement: InstallLocation) -> None:
        """Remove ``name`` at :meth:`commit`."""

    def commit(self, lock: Lock) -> None:
        """Put everything in place and write ``lock``."""

    def close(self) -> None:
        """End the change; what was not committed leaves nothing behind."""
