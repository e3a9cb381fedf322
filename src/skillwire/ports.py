"""What the core needs from outside, as protocols; :mod:`skillwire.adapters` fills them.

Each has one suite of tests in ``tests/contracts``, which every adapter passes. A port is asynchronous, or says why not.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from skillwire.model.access import Access, DeviceLogin, Token
from skillwire.model.catalog import Explanation, SearchPage, SearchQuery
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
    LedgerStatistics,
    Moment,
    NewExecution,
    OpenTasks,
    Outcome,
    OutputBlob,
    Quota,
    RunBlob,
    StatisticsCursor,
    TaskOwner,
)
from skillwire.model.package import (
    Account,
    AccountUpdate,
    Among,
    AnnouncedFile,
    AuditEntry,
    Change,
    ChangeCursor,
    ChangedPackages,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Rights,
    Role,
    State,
    StoredVersion,
    Upload,
)
from skillwire.model.ref import CachedResponse, Files, InstallLocation, Lock, LockedSkill, OriginRecord
from skillwire.model.skill import FileContent, Permissions, Skill
from skillwire.wire.exchange import Sink


class BlobStore(Protocol):
    """Immutable bytes, found by their digest. Synchronous: flows call it as ``Work``, and servers in threads."""

    def put(self, content: bytes) -> Digest:
        """Keep ``content`` durably enough to be served; return its digest. Putting twice is harmless."""

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when the store does not hold them."""

    def has(self, digest: Digest, size: int) -> bool:
        """Whether the store holds the bytes, judged by their ``size``."""

    def path(self, digest: Digest) -> Path | None:
        """Return a file that holds the bytes, or None when they are not in a file."""

    def download(self, digest: Digest) -> Download:
        """Return the download of the bytes with this digest, as far as it came."""


class Download(Sink, Protocol):
    """One artifact, trusted only with the expected digest. Synchronous: each step is the write of one piece."""

    def keep(self) -> None:
        """Make it a blob, now that it is whole."""

    def close(self) -> None:
        """Close it; what it holds stays, to be continued."""


class SkillSearch(Protocol):
    """A search over one revision of the public skills. It is derived from the catalog, and local to this process.

    Synchronous: it computes, in a thread, or within two milliseconds.
    """

    def search(self, query: SearchQuery, values: Mapping[str, float] = {}) -> SearchPage:
        """Return a page of hits. It may take 20 ms. Raises UsageError (``QUERY``, ``CURSOR``).

        A query with an order is sorted by the ``values`` of the names, largest first, then by name.
        """

    def explain(self, text: str, names: Sequence[str]) -> Explanation:
        """Return why the hits of these names match ``text``. Raises UsageError (``QUERY``)."""

    def suggest(self, text: str) -> Sequence[str]:
        """Return texts like ``text`` that find skills: names, and words two letters away. Raises UsageError."""

    def search_briefly(self, query: SearchQuery) -> SearchPage | None:
        """Return the same within two milliseconds, or None. Raises UsageError: as :meth:`search`."""

    def rank(self, text: str) -> Sequence[str]:
        """Return the names of all hits, best first. It may take 20 ms. Raises UsageError (``QUERY``)."""


class SkillIndex(Protocol):
    """A full-text index that serves several revisions at once. Synchronous: the thread that makes one calls it."""

    def update(self, skills: Mapping[str, Skill], changed: Collection[str], removed: Collection[str]) -> SkillSearch:
        """Return a search over ``skills``, sorted by name, given the names that differ from the call before.

        Raises StorageError; the index cannot be used any more then.
        """


class TokenStore(Protocol):
    """The tokens of a publisher. Changes are durable on return, each with the audit entry of its ``change``, if any."""

    async def add(self, token: Token, *, change: Change | None = None, most: int | None = None) -> bool:
        """Store a new token; False when its account has ``most`` already that are valid then. Raises TrustError."""

    async def revoke(self, token_id: str, at: float, *, change: Change | None = None) -> None:
        """Store when a token was revoked; one that was revoked before keeps its time, and no change is recorded."""

    async def succeed(self, token_id: str, successor: Token, *, end: float, change: Change | None = None) -> bool:
        """Store ``successor`` and end the old token at ``end`` at the latest; False and nothing for a revoked one."""

    async def note_use(self, token_id: str, at: float) -> None:
        """Store when a token was last used."""

    async def find(self, token_id: str) -> Token | None:
        """Return the token with this ID."""

    async def find_with_rights(self, token_id: str) -> tuple[Token, Rights] | None:
        """Return the token with this ID and the rights of its account, as :meth:`PackageStore.rights`, in one read."""

    async def all(self, account: str = "") -> Sequence[Token]:
        """Return every token, or those of an account, oldest first."""

    async def page(self, account: str, after: tuple[float, str], limit: int) -> Sequence[Token]:
        """Return a page of the tokens of an account, or of all for "", oldest first, behind a time and an ID."""

    async def forget(self, prefix: str, *, before: float) -> int:
        """Delete API keys whose name begins with ``prefix`` and that ended ``before`` this time; return how many."""

    async def end_session(self, number: str, ends: float, *, now: float, most: int) -> None:
        """Store that a session of the console was ended, until it ``ends``; of more than ``most`` the last are kept."""

    async def is_session_ended(self, number: str) -> bool:
        """Whether a session was ended."""


class DeviceLoginStore(Protocol):
    """Logins that programs asked for, until a person has decided and the program has fetched the decision, once."""

    async def add(self, login: DeviceLogin, *, now: float, most: int) -> bool:
        """Store a login, and forget those that ended long ago; False when there are ``most`` already."""

    async def find(self, user: bytes) -> DeviceLogin | None:
        """Return the login with this hash of a user code."""

    async def decide(self, login: DeviceLogin, change: Change) -> bool:
        """Store the decision about a login, with its audit entry; False when there is one already."""

    async def poll(self, device: bytes, now: float) -> DeviceLogin | None:
        """Return a login as it was, and note the time; one that asks too soon has to wait longer from now on.

        A decided one is deleted with this, unless it asks too soon: only one of any number of callers gets it.
        """


class PackageStore(Protocol):
    """The namespaces, packages and accounts of a registry, and the audit log of their changes.

    Each method that takes changes is one transaction with their audit entries, durable on return. A name that was ever
    used is never free again. What may be changed by whom is decided before (:mod:`skillwire.registry`). The store
    decides what two callers at once could both get, and refuses a change whose :class:`~skillwire.model.package.Right`
    has ended (TrustError), whose namespace was renamed (ConflictError ``RENAMED``), or whose package was deleted
    (NotFoundError). A state, access or reader that is there already is not stored and recorded again.
    """

    async def add_account(self, account: Account, change: Change, *, is_first: bool = False) -> bool:
        """Store a new account; False when its name or person is taken, or it ``is_first`` and an operator exists."""

    async def update_account(self, name: str, update: AccountUpdate, change: Change) -> bool:
        """Change an account; False if another one has the person, or no operator would be left."""

    async def accounts(self, after: str, limit: int) -> Sequence[Account]:
        """Return a page of the accounts, by name, beginning behind ``after``."""

    async def account(self, name: str) -> Account | None:
        """Return an account."""

    async def account_of(self, issuer: str, subject: str) -> Account | None:
        """Return the account that signs in with OpenID Connect as ``subject``."""

    async def has_operator(self) -> bool:
        """Whether there is an operator: until then the first one can be made by a one-time code."""

    async def add_namespace(self, namespace: Namespace, owner: str, change: Change, *, most: int | None = None) -> bool:
        """Store a namespace with its first owner; False when its name was ever taken, with ``most`` also by an account.

        Raises ConflictError (``NAMESPACES_FULL``) when the account of the change has taken ``most`` names.
        """

    async def namespace(self, name: str) -> Namespace | None:
        """Return a namespace, a renamed one included."""

    async def namespaces(self, after: str, limit: int) -> Sequence[Namespace]:
        """Return a page of the namespaces, by name, beginning behind ``after``."""

    async def update_namespace(self, namespace: Namespace, change: Change) -> None:
        """Store the proof of a namespace."""

    async def rename_namespace(self, old: str, new: str, change: Change, *, most: int | None = None) -> bool:
        """Give a namespace, its members and its packages a new name, as :meth:`add_namespace`."""

    async def set_role(self, namespace: str, account: str, role: Role | None, change: Change) -> bool:
        """Store the role of an account, or take it away; False for what would leave no owner."""

    async def members(self, namespace: str) -> Mapping[str, Role]:
        """Return account → role, by account."""

    async def roles(self, account: str) -> Mapping[str, Role]:
        """Return namespace → role of an account."""

    async def publish(self, version: PackageVersion, artifact: bytes, change: Change) -> StoredVersion:
        """Store a version and its artifact, all or nothing; its package is made with the first one.

        ``repeated``: it is there with the same artifact. ``conflict``: with another one. ``precedence``: one is there
        that differs only in build metadata. ``closed``: its package takes no versions. ``full``: it has as many as it
        may. ``quarantined``: another version of its package with the same artifact is in quarantine; if another package
        has it in quarantine, the entry says ``in_quarantine``. A version narrower than its package narrows its access.
        """

    async def fits(self, version: PackageVersion) -> bool:
        """Whether a package can take a version, or is ``full``."""

    async def package(self, name: PackageName, *, with_private: bool = True) -> Package | None:
        """Return a package, a deleted or renamed one included; without ``with_private`` no private one."""

    async def packages(self, namespace: str, after: str, limit: int, *, grants: Collection[str]) -> Sequence[Package]:
        """Return a page of a namespace's packages, by name, behind ``after``; all but deleted and renamed ones.

        Here and below, private packages are left out unless ``grants`` has ``*``, ``namespace/*`` or their name.
        """

    async def find_packages(
        self, beginning: str, after: PackageName, limit: int, *, grants: Collection[str], among: Among = "present"
    ) -> Sequence[Package]:
        """Return a page ``among`` packages whose names begin so, by name, then namespace, behind ``after``."""

    async def change_package(
        self, name: PackageName, changes: Sequence[Change], *, access: Access | None = None, state: State | None = None
    ) -> None:
        """Store the access or the state of a package, or both, with an audit entry for each change."""

    async def redirect_package(self, name: PackageName, to: PackageName, change: Change) -> None:
        """Let a package, and those that redirect to it, redirect to ``to``. Raises ConflictError (``RENAMED``)."""

    async def set_version_state(self, name: PackageName, version: str, state: State, change: Change) -> None:
        """Store the state of a version, and which one is the latest now."""

    async def set_reader(self, name: PackageName, account: str, *, may_read: bool, change: Change) -> None:
        """Let an account read a package that is not public, or no longer."""

    async def readers(self, name: PackageName) -> Sequence[str]:
        """Return the accounts that were let read a package."""

    async def rights(self, account: str) -> Rights:
        """Return what decides what an account may read; without the account where there is none."""

    async def version(self, name: PackageName, version: str) -> PackageVersion | None:
        """Return one version of a package."""

    async def versions(self, name: PackageName) -> Sequence[PackageVersion]:
        """Return the versions of a package, the highest first."""

    async def dependents(self, name: PackageName, limit: int, *, grants: Collection[str]) -> Sequence[PackageName]:
        """Return the first packages, by name, whose latest version requires ``name``."""

    async def by_artifact(self, digest: Digest, limit: int) -> Sequence[PackageVersion]:
        """Return the first published versions whose artifact has this digest."""

    async def uploaded(self, namespace: str, digest: Digest) -> PackageVersion | None:
        """Return a version in a namespace that was uploaded with this digest."""

    async def artifact(self, digest: Digest) -> bytes | None:
        """Return the bytes of a stored artifact."""

    async def remove_unowned(self, before: float) -> int:
        """Remove artifacts of no version that were written ``before``; return how many. Raises StorageError."""

    async def changed(self, after: ChangeCursor, limit: int) -> ChangedPackages:
        """Return a page of the packages that changed behind a cursor, in the order of their commits."""

    async def revision(self) -> int:
        """Return the number of the last change."""

    async def record(self, change: Change) -> None:
        """Append the audit entry of a change that another store holds."""

    async def audit(self, after: int, limit: int, namespaces: Collection[str] | None = None) -> Sequence[AuditEntry]:
        """Return a page of the log, oldest first, behind entry ``after``, of ``namespaces`` by their present names."""

    async def count_download(self, name: PackageName, version: str, day: str, counted: bytes) -> None:
        """Count a download once per ``counted`` (an identity's hash) and day (``2026-11-24``)."""

    async def statistics(self, *, with_private: bool) -> Mapping[str, int]:
        """Return the numbers of ``namespaces``, ``packages``, ``versions``, ``downloads`` and ``bytes`` of artifacts.

        Deleted packages are left out, and private ones unless ``with_private``.
        """

    async def rank(self) -> Mapping[str, Mapping[str, float]]:
        """Return ``updated`` and ``downloads`` → name → value of each public package, by its names in the catalog."""

    async def downloads(self, name: PackageName, since: str) -> Mapping[str, int]:
        """Return day → downloads of a package, since a day; an identity counts once a day for all versions."""


class UploadStore(Protocol):
    """Archives on their way to a registry. Each upload belongs to an account and is kept for a while."""

    async def begin(self, account: str, size: int, digest: Digest) -> Upload:
        """Return the upload of these bytes, begun now or before.

        Raises UsageError (``UPLOAD_SIZE``), ConflictError (``UPLOADS_FULL``), StorageError.
        """

    async def find(self, account: str, number: str) -> Upload:
        """Return an upload of ``account``. Raises NotFoundError (``UPLOAD_NOT_FOUND``)."""

    async def append(self, account: str, number: str, offset: int, pieces: AsyncIterable[bytes]) -> Upload:
        """Write ``pieces`` at ``offset``, which is how far the upload came; what was written stays when they end early.

        Raises ConflictError (``UPLOAD_OFFSET``), UsageError (``UPLOAD_SIZE``), NotFoundError, StorageError.
        """

    async def read(self, account: str, number: str) -> bytes:
        """Return the bytes of a complete upload. Raises ConflictError (``UPLOAD_OFFSET``), NotFoundError, StorageError.

        Bytes of another digest (ValidationError ``DIGEST_MISMATCH``) are removed: they have to be sent again.
        """

    async def remove(self, account: str, number: str) -> None:
        """Remove an upload. Raises NotFoundError (``UPLOAD_NOT_FOUND``), StorageError."""

    async def expire(self) -> None:
        """Remove every upload that has expired. Raises StorageError."""


class AnnouncedFileStore(Protocol):
    """The files that were announced to a registry one by one and are not published yet. Raises StorageError."""

    async def announce(self, file: AnnouncedFile) -> float | None:
        """Store a file; where its account would have announced too much, return when the first of its files ends."""

    async def find(self, account: str, tickets: Collection[str], now: float) -> Sequence[AnnouncedFile]:
        """Return the files of ``account`` with these tickets, in any order, which have not ended."""

    async def remove(self, tickets: Collection[str]) -> None:
        """Forget files."""

    async def remove_ended(self, now: float) -> Sequence[AnnouncedFile]:
        """Forget what has ended, and return it."""


class GrantStore(Protocol):
    """The grants of this installation: which artifacts may run, with which permissions. Changes are durable."""

    async def add(self, grant: Grant) -> None:
        """Store a grant, in place of an earlier one with the same digest and permissions."""

    async def remove(self, digest: str) -> int:
        """Delete every grant of an artifact; return how many there were."""

    async def has(self, digest: str, permissions: Permissions) -> bool:
        """Whether the artifact with this digest may run with these permissions."""

    async def all(self) -> Sequence[Grant]:
        """Return every grant, oldest first."""


class ExecutionLedger(Protocol):
    """The durable record of executions; a change is stored when its method returns. Raises StorageError (``DATABASE``).

    Each change is one transition of the state table (:mod:`skillwire.executions.states`), done by comparing and
    setting, so only one of any number of workers succeeds. Batches exist because a commit waits for the disk.
    """

    async def accept_all(self, new: Sequence[NewExecution]) -> Sequence[Accepted | Exception]:
        """Store new executions, each by itself; return for each how it was accepted, or the error.

        A key that was used before returns its execution; ``BLOB_NOT_FOUND`` stores nothing of its execution.
        """

    async def find(self, execution_id: str) -> Execution | None:
        """Return an execution."""

    async def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so; None when none does, or several."""

    async def output(self, execution: Execution) -> bytes | None:
        """Return an execution's output, wherever it is stored; None before completion and after it was forgotten."""

    async def output_file(self, execution: Execution) -> Path | None:
        """Return a local file with the output, where it is too large to be held in memory for each reader."""

    async def find_skill(self, digest: str) -> Skill | None:
        """Return the skill version whose artifact has this digest, as it was when an execution was accepted."""

    async def open_skills(self) -> Sequence[Skill]:
        """Return the skill versions of executions in progress."""

    async def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return a page of executions, newest first. Raises UsageError: ``CURSOR`` for an invalid ``query.after``."""

    async def count(self, query: ExecutionQuery | None = None) -> Mapping[ExecutionStatus, int]:
        """Return how many executions a query finds, by status; its own statuses and cursor do not matter."""

    async def waiting(self) -> Mapping[str, int]:
        """Return how many executions wait or run, by caller."""

    async def tasks(self, worker: str, whose: TaskOwner, *, limit: int) -> OpenTasks:
        """Return open tasks for people, by priority and deadline."""

    async def claim(self, worker: str, now: Moment, quota: Quota, *, limit: int = 1) -> Sequence[Execution]:
        """Give ``worker`` the next executions that may run, at most ``limit``; their leases begin."""

    async def claim_task(self, execution_id: str, worker: str, now: Moment) -> Execution | None:
        """Give a person a task until its deadline; None when another person has it or it has ended."""

    async def release(self, claim: Claim, now: Moment) -> bool:
        """Give back a claimed execution, for another worker; False when the claim no longer holds."""

    async def renew(self, claims: Collection[Claim], now: Moment, lease: float) -> Collection[Claim]:
        """Prolong the leases by ``lease`` seconds from now; return the claims that no longer hold."""

    async def complete(
        self, claim: Claim, output: bytes, now: Moment, *, log: str = "", blobs: Sequence[OutputBlob] = ()
    ) -> bool:
        """Store an execution's output; False when the claim no longer holds, and nothing is stored."""

    async def fail(self, claim: Claim, failure: Failure, now: Moment, *, log: str = "") -> bool:
        """Store that an attempt failed: the execution has failed, or waits for its next attempt."""

    async def cancel(self, execution_id: str, by: str, now: Moment) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""

    async def expire(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        """End executions past their deadline, but ``held`` ones; return at most ``EXPIRED_PER_BATCH`` IDs.

        A worker has :data:`~skillwire.limits.EXECUTION_END_SECONDS` more to report on an attempt.
        """

    async def recover(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        """Release or fail what lost its worker, but ``held`` ones; return at most ``EXPIRED_PER_BATCH`` IDs."""

    async def due_callbacks(self, now: Moment, *, limit: int, queue: str = "") -> Sequence[Execution]:
        """Return ended executions of a queue whose callback is due; no other process gets them for a minute."""

    async def put_off_callback(self, execution_id: str, until: float | None, *, was_tried: bool = True) -> None:
        """Store when a callback is due again, None for never; ``was_tried`` if this counts as a try."""

    async def forget(self, now: Moment, *, outputs: float, rows: float) -> int:
        """Forget some of the outputs and executions that ended so many seconds ago; return how many."""

    async def remove_orphaned_outputs(self) -> int:
        """Remove outputs that no execution has, such as those of a crash; return how many."""

    async def shrink(self) -> int:
        """Give some free space back to the disk; return 0 when there is no more."""

    async def statistics(self, after: StatisticsCursor, until: float, limit: int) -> LedgerStatistics:
        """Return the counts now, what was accepted since ``after``, and what ended up to ``until``."""

    async def exists(self) -> bool:
        """Whether the ledger was created. A server that only publishes creates none."""

    async def check(self) -> None:
        """Try to write if the last attempt failed."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` on the running event loop when other processes change it. Synchronous: it registers."""

    async def close(self) -> None:
        """Finish what was begun."""


class RunBlobs(Protocol):
    """The blobs that callers upload for runs, and that runs leave for them. No caller learns of another one's."""

    async def store(
        self, owner: str, contents: Sequence[tuple[AsyncIterable[bytes], str]], now: float
    ) -> Sequence[RunBlob]:
        """Store contents with their media types for ``owner``: all or none. Raises DecodeError, ConflictError."""

    async def find(self, owner: str, digest: Digest, now: float) -> RunBlob | None:
        """Return a blob of ``owner`` that has not expired; being found is a use that postpones its expiry."""

    async def file_of(self, digest: Digest) -> Path | None:
        """Return a local file that holds the bytes."""

    async def remove(self, owner: str, digest: Digest) -> bool:
        """Delete a blob of ``owner``; return whether there was one. A run that has not read it yet fails."""

    def spool(self) -> BinaryIO:
        """Return an unnamed file for what may become blobs. Synchronous: the thread that watches a sandbox calls it."""

    async def expire(self, now: float) -> int:
        """Delete some of the blobs that have expired; return how many."""


class Clock(Protocol):
    """What time it is. Durations are waited for with a ``sleep`` beside it, so tests can let time pass."""

    def __call__(self) -> Moment:
        """Return now. Synchronous: it reads a clock."""


class Executor(Protocol):
    """What runs a skill: one for each kind of :data:`skillwire.model.skill.ExecutorKind` but ``human``."""

    async def execute(self, attempt: Attempt) -> Outcome:
        """Run the skill once; its mistakes are an outcome. Cancelling ends everything before this returns."""


class ResponseCache(Protocol):
    """Answers kept from earlier requests, one for each URL and credential. Synchronous: flows call it as ``Work``."""

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        """Return what is kept for ``url`` as seen with ``credential``."""

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        """Keep ``response``, in place of an earlier one."""

    def drop(self, url: str, credential: str | None) -> None:
        """Remove what is kept for ``url`` as seen with ``credential``."""


class OriginBook(Protocol):
    """What is remembered of each publisher's place, across projects. Synchronous: flows call it as ``Work``."""

    def look_up(self, base: str) -> OriginRecord | None:
        """Return what is remembered of ``base``."""

    def record(self, base: str, record: OriginRecord) -> None:
        """Remember ``record`` for ``base``; an earlier time, consent or promise of digests stays."""


class SkillsFolder(Protocol):
    """The installed skills of one project, or of the user, and their lock. Synchronous: flows call it as ``Work``."""

    lock_path: Path

    @property
    def root(self) -> Path:
        """The folder that placements, and local origins in the lock, are relative to."""

    def read_lock(self) -> Lock:
        """Return the lock; an empty one when there is none."""

    def installed_files(self, placement: InstallLocation, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of what stands where ``name`` is or would be; None when no copy does."""

    def read_files(self, locked: LockedSkill) -> Files:
        """Return the files of an installed skill that its lock names, as they are on disk; those that are there."""

    def missing_places(self, placement: InstallLocation, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` where neither a copy nor a link of it stands."""

    def change(self) -> SkillsFolderChange:
        """Begin a change. One at a time: a second one waits, then fails with ``FOLDER_BUSY``."""


class SkillsFolderChange(Protocol):
    """A change that happens as a whole or not at all. Synchronous: flows call it as ``Work``."""

    def stage(self, name: str, files: Sequence[FileContent], location: InstallLocation) -> None:
        """Write a skill aside, to be put in place by :meth:`commit`."""

    def take_away(self, name: str, placement: InstallLocation) -> None:
        """Remove ``name`` at :meth:`commit`."""

    def commit(self, lock: Lock) -> None:
        """Put everything in place and write ``lock``."""

    def close(self) -> None:
        """End the change; what was not committed leaves nothing behind."""
