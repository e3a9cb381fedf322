"""Applying a plan: fetch, verify, unpack in memory, review, stage, and put in place.

Every skill is staged before the first folder is put in place, and the lock is written last, so a failure or an
interruption leaves the earlier state. An artifact with a known digest is looked up in the blob store first, so a skill
is downloaded once and can be installed ``offline``. A large artifact is written to the store as it arrives; the next
run continues an interrupted download.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from skillwire import limits
from skillwire.errors import (
    ConflictError,
    FetchError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
)
from skillwire.model.digest import Digest
from skillwire.model.ref import LockedSkill, OriginRecord
from skillwire.model.skill import SKILL_MD, FileContent
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import UnstoredBytes, fetch_artifact, fetch_files
from skillwire.resolver.context import timestamp
from skillwire.resolver.plan import compare_with_folder, hash_files
from skillwire.resolver.references import reference_to
from skillwire.resolver.review import compare_versions, inspect_files
from skillwire.resolver.sources import GIT, open_source
from skillwire.trust.archive import plan_files, read_archive
from skillwire.wire.exchange import run_all, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.ref import Files, SkillRef
    from skillwire.ports import SkillsFolder, SkillsFolderChange
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.plan import InstallPlan, PlannedSkill
    from skillwire.resolver.sources.git import GitSource
    from skillwire.wire.exchange import Flow


#: An artifact's verified bytes, the digest of a large one in the blob store, single files, or the error.
Fetched = bytes | Digest | list[FileContent] | SkillwireError
#: Bytes of files that an inspected plan keeps; beyond that, the installation opens artifacts from the cache again.
_KEPT_BYTES: Final = 8 * limits.MIB
_AT_ONCE: Final = 8  # skills fetched before they are staged: bounds memory to this many artifacts
#: The bytes of a version never change, so the origin or the lock may be forged, and a new lock would hide that.
_SAME_VERSION_FIX: Final = (
    "Find out which side changed: if it is the origin, report it to the publisher; if it is skills.lock, restore it "
    "from version control. Only then install without --frozen to change the lock."
)


def inspect_plan(
    plan: InstallPlan,
    context: ResolveContext,
    folder: SkillsFolder,
    on_done: Callable[[], object] = lambda: None,
    *,
    consent: bool = False,
) -> Flow[InstallPlan]:
    """Fetch the skills of a plan, report warnings about them, and return the plan with a review of each.

    A failed skill keeps its error for the installation. Without ``consent``, errors of unknown origins are dropped: the
    user's permission may be all that is missing, so the installation fetches these skills again.
    """
    lock = yield from work(folder.read_lock)
    rows: dict[str, PlannedSkill] = {}
    room = _KEPT_BYTES

    def inspect(batch: Sequence[PlannedSkill], fetched: Sequence[Fetched]) -> None:
        nonlocal room
        for planned, content in zip(batch, fetched, strict=True):
            row = _with_digest(planned, content)
            try:
                files = open_content(row.skill, content, context)
                locked = lock.skills.get(row.skill.name)
                old_files = folder.read_files(locked) if locked is not None else ()
                review = compare_versions(row.skill, files, locked, old_files, context.report)
            except SkillwireError as error:
                if consent or row.skill.origin not in plan.unknown_origins:
                    rows[row.skill.name] = row._replace(inspected=error)
                continue
            room -= sum(len(file.content) for file in (*review.files, *review.old_files))
            if room < 0 and planned.skill.digest is not None:  # the cache has its artifact
                review = review._replace(files=(), old_files=())
            rows[row.skill.name] = row._replace(inspected=review)

    for start in range(0, len(plan.pending), _AT_ONCE):
        batch = plan.pending[start : start + _AT_ONCE]
        fetched = yield from fetch_contents([row.skill for row in batch], context, on_done)
        yield from work(partial(inspect, batch, fetched))
    return plan._replace(skills=tuple(rows.get(row.skill.name, row) for row in plan.skills))


def fetch_contents(
    skills: Sequence[SkillRef], context: ResolveContext, on_done: Callable[[], object] = lambda: None
) -> Flow[list[Fetched]]:
    """Return the content of each skill, or the error of its fetch, in order; calls ``on_done`` after each skill."""
    known: list[Fetched | None] = yield from work(lambda: [_look_up(skill, context, on_done) for skill in skills])
    missing = [skill for skill, content in zip(skills, known, strict=True) if content is None]
    fetched = iter((yield from run_all([_fetch(skill, context) for skill in missing], on_done)) if missing else ())
    return [content if content is not None else next(fetched) for content in known]


def _look_up(skill: SkillRef, context: ResolveContext, on_done: Callable[[], object]) -> Fetched | None:
    content: Fetched | None = list(skill.files) if skill.files is not None else None
    if skill.has_no_artifact:
        content = no_digest(skill, is_logged_in=context.credential_for(skill.origin) is not None)
    if content is None and skill.digest is not None:
        content = context.blobs.read(skill.digest)
        if content is not None and len(content) > limits.DOWNLOAD_PIECE_BYTES:
            content = skill.digest  # read again when it is opened, so that only one is in memory
    if content is None and context.offline:
        content = FetchError("OFFLINE", f"{skill.name} is not in the cache", place=SourceLocation(skill.url))
    if content is not None:
        on_done()
    return content


def no_digest(ref: SkillRef, *, is_logged_in: bool) -> TrustError:
    """Return the error for a skill without an artifact. ``is_logged_in``: requests to its origin have a credential."""
    lacks = "gives no digest that files could be verified by"
    if ref.rpc is not None:
        message = f"{ref.name} is a skill of an endpoint, which {lacks}"
        fix = f"Read and call it there: skillwire show {reference_to(ref)}. Or add it from an index that lists it."
        return TrustError("NO_DIGEST", message, place=SourceLocation(ref.rpc.endpoint), fix=fix)
    if ref.shared is None:
        message = f"{ref.name} was announced on the local network, which {lacks}"
        fix = f"Read it at its server: {reference_to(ref)}."
        return TrustError("NO_DIGEST", message, place=SourceLocation(ref.origin), fix=fix)
    place, is_knowledge = SourceLocation(ref.shared.descriptor_url), ref.shared.capability_type == "knowledge"
    if ref.shared.access != "public" and not is_logged_in:
        message = f"{ref.name} is {ref.shared.access}, and you are not logged in there"
        login = f"Run skillwire auth login {parse_url(ref.origin).origin}."
        return TrustError("AUTH_REQUIRED", message, place=SourceLocation(ref.origin), fix=login)
    message = f"only Skill Sharing lists {ref.name}, and {lacks}"
    called = f"It is called, not installed: skillwire show {reference_to(ref)} says how."
    asking = "Ask the provider to publish it by Agent Skills Discovery, too, as skillwire serve and build do."
    return TrustError("NO_DIGEST", message, place=place, fix=asking if is_knowledge else called)


def _fetch(skill: SkillRef, context: ResolveContext) -> Flow[Fetched]:
    if skill.git is not None:
        return (yield from cast("GitSource", open_source(GIT, context)).fetch(skill))
    authorization, digest = context.credential_for(skill.url), skill.digest
    if skill.artifact_type == "files":
        return (yield from fetch_files(skill.indexed_files, authorization=authorization))
    if skill.artifact_type != "archive" or digest is None:
        return (yield from fetch_artifact(skill, authorization=authorization)) or b""
    download = yield from work(partial(context.blobs.download, digest))
    try:
        content = yield from fetch_artifact(skill, authorization=authorization, sink=download)
        if content is not None:
            return content
        yield from work(download.keep)
        return digest
    finally:
        download.close()


def open_content(skill: SkillRef, fetched: Fetched, context: ResolveContext) -> Files:
    """Return the files in fetched content, and store an artifact in the cache. Raises the error of a failed fetch."""
    if isinstance(fetched, SkillwireError):
        raise fetched
    if isinstance(fetched, Digest):
        content = context.blobs.read(fetched)
        if content is None:
            raise StorageError("STORAGE", "the artifact is not in the cache any more", place=SourceLocation(skill.url))
        return _open_artifact(skill, content)
    if not isinstance(fetched, bytes):
        return plan_files(fetched).files
    files = _open_artifact(skill, fetched)
    try:
        if not isinstance(fetched, UnstoredBytes):
            context.blobs.put(fetched)
    except StorageError as error:
        context.note(error)
    return files


def _open_artifact(skill: SkillRef, content: bytes) -> Files:
    if skill.artifact_type == "skill-md":
        return (FileContent(SKILL_MD, content),)
    try:
        return read_archive(content).files
    except SkillwireError as error:
        error.place = error.place or SourceLocation(skill.url)
        raise


class InstallReport(NamedTuple):
    """The installed skills, the names of those that were updated, the unchanged names, and name → error of failures."""

    installed: tuple[LockedSkill, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, SkillwireError] = {}


def apply_install(
    plan: InstallPlan,
    context: ResolveContext,
    folder: SkillsFolder,
    *,
    overwrite: bool = False,
    on_done: Callable[[], object] = lambda: None,
) -> Flow[InstallReport]:
    """Apply ``plan``; the caller must have the user's consent for ``plan.unknown_origins``.

    Skills are fetched and staged in small batches, which bounds memory; then all are put in place together. If a skill
    requested by name fails, nothing changes, and its error is raised. A failed skill that came with its whole index is
    left out and reported. ``on_done`` is called after each skill that was fetched.

    Raises ConflictError (``SKILL_CONFLICT``) unless ``overwrite``, TrustError (``LOCK_MISMATCH``).
    """
    if plan.conflicts and not overwrite:
        raise _conflict(plan.conflicts[0])
    unchanged = tuple(planned.skill.name for planned in plan.skills if planned.state == "unchanged")
    if not plan.pending:
        return InstallReport((), (), unchanged, {})
    change = yield from work(folder.change)
    try:
        staged = yield from work(lambda: _StagedSkills(plan, context, folder, change, overwrite=overwrite))
        for start in range(0, len(plan.pending), _AT_ONCE):
            batch = plan.pending[start : start + _AT_ONCE]
            missing = [planned.skill for planned in batch if planned.content is None]
            fetched = iter((yield from fetch_contents(missing, context, on_done)))
            contents = [content if (content := planned.content) is not None else next(fetched) for planned in batch]
            yield from work(partial(staged.add_all, batch, contents))
        yield from work(staged.commit)
    except BaseException:
        change.close()
        raise
    yield from work(change.close)

    def accept() -> None:
        moved = {row.skill.origin for row in plan.skills if row.skill.former_origin}
        for base in moved.union(plan.unknown_origins):
            record = context.origins.look_up(base) or OriginRecord(first_seen=timestamp(context.clock()))
            context.origins.record(base, record._replace(accepted=True))

    yield from work(accept)
    return staged.report(unchanged)


def _conflict(planned: PlannedSkill) -> ConflictError:
    return ConflictError("SKILL_CONFLICT", f"{planned.skill.name}: {planned.reason}")


class _StagedSkills:
    """The skills of a plan that are staged, and the errors of those that failed."""

    def __init__(
        self,
        plan: InstallPlan,
        context: ResolveContext,
        folder: SkillsFolder,
        change: SkillsFolderChange,
        *,
        overwrite: bool,
    ) -> None:
        self._plan, self._context, self._change = plan, context, change
        self._lock = folder.read_lock()
        self._installed: list[LockedSkill] = []
        self._failed: dict[str, SkillwireError] = {}
        for planned in () if overwrite else plan.pending:  # once more, under the lock: the plan may be minutes old
            if planned.locked is None:
                now = compare_with_folder(planned, folder, self._lock)
                if now.state == "conflict":
                    raise _conflict(now)

    def add_all(self, batch: Sequence[PlannedSkill], fetched: Sequence[Fetched]) -> None:
        """Open, check and stage each skill in order. Raises the error of one that was requested by name."""
        for planned, content in zip(batch, fetched, strict=True):
            try:
                name = planned.skill.name
                files = open_content(planned.skill, content, self._context)
                if planned.inspected is None:
                    inspect_files(planned.skill, files, self._context.report)
                if planned.locked is not None and hash_files(files) != planned.locked.files:
                    message, place = f"{name}: the files are not those of the lock", SourceLocation(planned.skill.url)
                    is_same = planned.skill.version == planned.locked.version
                    fix, python = (_SAME_VERSION_FIX, "") if is_same else (None, None)
                    raise TrustError("LOCK_MISMATCH", message, place=place, fix=fix, in_python=python)
                self._change.stage(name, files, planned.location)
                before = self._lock.skills.get(name)
                self._installed.append(_locked(_with_digest(planned, content), files, before, self._context))
                if before is not None:
                    now = {*planned.location.folders, *planned.location.links}
                    old = before.placement._replace(
                        folders=tuple(folder for folder in before.placement.folders if folder not in now),
                        links=tuple(link for link in before.placement.links if link not in now),
                    )
                    if old.folders or old.links:
                        self._change.take_away(name, old)
            except SkillwireError as error:
                if planned.skill.requested_by_name:
                    raise
                self._failed[planned.skill.name] = error

    def commit(self) -> None:
        """Put the staged skills in place and write the lock. Raises the first error if no skill is staged."""
        if self._installed:
            self._change.commit(self._lock.with_skills(self._installed))
        elif self._failed:
            raise next(iter(self._failed.values()))

    def report(self, unchanged: tuple[str, ...]) -> InstallReport:
        """Return the report of the installation; ``unchanged`` has the names that the plan left as they are."""
        names = {locked.name for locked in self._installed}
        updated = (row.skill.name for row in self._plan.skills if row.state == "update" and row.skill.name in names)
        return InstallReport(tuple(self._installed), tuple(updated), unchanged, self._failed)


def _with_digest(planned: PlannedSkill, content: Fetched) -> PlannedSkill:
    """Return the row; a skill from Git gets the digest of its packed files, which is known only after the fetch."""
    if planned.skill.git is None or not isinstance(content, bytes):
        return planned
    return planned._replace(skill=planned.skill._replace(digest=Digest.of(content)))


def _locked(planned: PlannedSkill, content: Files, before: LockedSkill | None, context: ResolveContext) -> LockedSkill:
    skill, files = planned.skill, hash_files(content)
    known = planned.locked or before
    same = known is not None and known.files == files and known.origin in {skill.origin, skill.former_origin}
    return LockedSkill(
        name=skill.name,
        origin=skill.origin,
        index=skill.index_url,
        url=skill.url,
        digest=skill.digest,
        artifact_type="folder" if skill.files is not None else skill.artifact_type,
        version=skill.version,
        first_seen=known.first_seen if known is not None and same else timestamp(context.clock()),
        agents=planned.agents,
        placement=planned.location,
        files=files,
        wanted=planned.wanted or (known.wanted if known is not None else ""),
        capabilities=skill.capabilities,
        requires=planned.requires,
        git=skill.git and skill.git._replace(ref="", files=()),
    )
