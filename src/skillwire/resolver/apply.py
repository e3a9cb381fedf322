"""Applying a plan: fetch, verify, unpack in memory, review, stage, and put in place.

Every skill is staged before the first folder is put in place, and the lock is written last, so a failure or an
interruption leaves the earlier state. An artifact with a known digest is looked up in the blob store first, so a skill
is downloaded once and works ``offline``. A large artifact goes into the store as it arrives, and an interrupted
download continues the next time.

:func:`compare_versions` returns what one skill may do; :func:`inspect_files` reports doubts about one that is installed
without such a review. :func:`hold_back` takes out of a plan the updates that ask for more than the installed version,
and those that replace a version under its own number, unless they were accepted. A folder or a branch of Git has no
version whose bytes are fixed.

Trust: the files are hostile, even where their digest is right. Nothing of them is run.
"""

from __future__ import annotations

import hashlib
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
    UsageError,
    ValidationError,
    first_of,
)
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.review import KINDS, SkillReview, review_files
from skillwire.model.digest import Digest
from skillwire.model.package import parse_requirement
from skillwire.model.ref import LockedSkill, OriginRecord
from skillwire.model.skill import SKILL_MD, SKILL_TOML, FileContent, Finding, is_skill_name
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import UnstoredBytes, fetch_artifact, fetch_files
from skillwire.resolver.context import as_finding, timestamp
from skillwire.resolver.git_references import means_version
from skillwire.resolver.plan import compare_with_folder, hash_files
from skillwire.resolver.references import exact_reference_to, reference_to
from skillwire.resolver.sources import GIT, open_source
from skillwire.trust.archive import plan_files, read_archive
from skillwire.trust.hidden_text import find_hidden
from skillwire.wire.exchange import run_all, work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from skillwire.folder.danger import Danger
    from skillwire.folder.manifest import Manifest
    from skillwire.model.ref import Files, Lock, SkillRef
    from skillwire.ports import SkillsFolder, SkillsFolderChange
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.plan import InstallPlan, PlannedSkill
    from skillwire.resolver.sources.git import GitSource
    from skillwire.wire.exchange import Flow


#: An artifact's verified bytes, the digest of a large one in the blob store, single files, or the error.
Fetched = bytes | Digest | list[FileContent] | SkillwireError
#: An inspected plan keeps as many bytes of files that an artifact in the cache has too.
_KEPT_BYTES: Final = 8 * limits.MIB
_AT_ONCE: Final = 8  # skills fetched before they are staged: bounds memory to as many artifacts
_NAMED: Final = 6  # hosts and secrets, or values of a kind, in one message
#: A version does not change: its origin or the lock may have been tampered with, and a new lock would hide that.
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
    """Fetch the skills of a plan, report what is doubtful about them, and return the plan with a review of each.

    An error is kept for the installation. Without ``consent`` an unknown origin may only lack permission, so its skills
    are fetched again.
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
    """Return the fetched content or the error of each skill, in order; ``on_done`` is called for each."""
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
    """Return the error for a skill without an artifact; ``is_logged_in``: its origin was asked with a credential."""
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
    """Return the fetched files, and store an artifact for the next time; raise the error of a failed fetch."""
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
    """The installed skills, the names among them that were updates, the unchanged ones, and the failures."""

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
    """Apply ``plan``; the caller has the consent for ``plan.unknown_origins``.

    A few skills at a time are fetched and staged, which bounds memory; then all are put in place together. If a skill
    requested by name fails, nothing is changed; one that came with its whole index is left out and reported.

    Raises ConflictError (``SKILL_CONFLICT``) unless ``overwrite``.
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
        for base in plan.unknown_origins:
            record = context.origins.look_up(base) or OriginRecord(first_seen=timestamp(context.clock()))
            context.origins.record(base, record._replace(accepted=True))

    yield from work(accept)
    return staged.report(unchanged)


def _conflict(planned: PlannedSkill) -> ConflictError:
    return ConflictError("SKILL_CONFLICT", f"{planned.skill.name}: {planned.reason}")


class _StagedSkills:
    """The skills that are ready to be put in place, and those that failed."""

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
        """Open, check and stage each, one after the other."""
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
        """Put the staged skills in place and write the lock; raise the first failure without any."""
        if self._installed:
            self._change.commit(self._lock.with_skills(self._installed))
        elif self._failed:
            raise next(iter(self._failed.values()))

    def report(self, unchanged: tuple[str, ...]) -> InstallReport:
        """Return the report."""
        names = {locked.name for locked in self._installed}
        updated = (row.skill.name for row in self._plan.skills if row.state == "update" and row.skill.name in names)
        return InstallReport(tuple(self._installed), tuple(updated), unchanged, self._failed)


def _with_digest(planned: PlannedSkill, content: Fetched) -> PlannedSkill:
    """Return a skill of a Git repository with the digest of its packed files, which is known now."""
    if planned.skill.git is None or not isinstance(content, bytes):
        return planned
    return planned._replace(skill=planned.skill._replace(digest=Digest.of(content)))


def _locked(planned: PlannedSkill, content: Files, before: LockedSkill | None, context: ResolveContext) -> LockedSkill:
    skill, files = planned.skill, hash_files(content)
    known = planned.locked or before
    same = known is not None and known.files == files and known.origin == skill.origin
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


def compare_versions(
    ref: SkillRef,
    files: Files,
    old: SkillRef | LockedSkill | None,
    old_files: Files,
    report: Callable[[Finding], object],
) -> SkillReview:
    """Return what a skill may do, and what the version before it may, if there is one.

    Where it is not the skill of its index is reported; what is doubtful in it is part of the review. Raises when no
    agent could load the skill.
    """
    _check_loadable(ref, files, report)
    after = review_files(ref.name, _in_order(files))
    hashes, old_hashes = hash_files(files), hash_files(old_files)
    review = SkillReview(ref.name, ref.version, ref.digest or tree_digest(hashes), after, files)
    if old is None or not old_files:
        return review
    published = old.files if isinstance(old, LockedSkill) else old_hashes  # those on disk may have been changed since
    wanted = old.wanted if isinstance(old, LockedSkill) else old.git.ref if old.git else ""
    is_fixed = means_version(ref.git.ref) and means_version(wanted) if ref.git else not ref.is_local
    is_same = ref.version == old.version is not None and ref.origin == old.origin
    return review._replace(
        old_version=old.version,
        old_digest=old.digest or tree_digest(old_hashes),
        before=review_files(ref.name, _in_order(old_files)),
        old_files=old_files,
        is_changed=hashes != old_hashes,
        is_reused=is_fixed and is_same and hashes != published,
    )


def tree_digest(hashes: Mapping[str, str]) -> str:
    """Return the digest of files without an artifact: over the sorted lines ``path NUL hex LF``. Spec: specs §1."""
    lines = sorted(f"{path}\0{digest}\n" for path, digest in hashes.items())
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def inspect_files(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report what is doubtful in a skill that is installed unreviewed. Raises when no agent could load the skill."""
    manifest = _check_loadable(ref, files, report)
    reported = set[tuple[str, str]]()

    def report_danger(path: str, danger: Danger) -> None:
        """Report the first place of each danger in each file."""
        if (path, danger.message) not in reported:
            reported.add((path, danger.message))
            report(Finding(danger.code, "warning", danger.message, danger.place, _read_first(ref, path)))

    _report_hidden(ref, files, report)
    review_files(ref.name, _in_order(files), report_danger)
    _report_code(ref, manifest, report)


def _read_first(ref: SkillRef, path: str) -> str:
    return f"Read it before an agent does: skillwire cat {exact_reference_to(ref)} {path}"


def _in_order(files: Files) -> Files:
    return tuple(sorted(files, key=lambda file: (file.path != SKILL_MD, file.path)))


def _check_loadable(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> Manifest | None:
    """Check leniently that an agent can load the skill, and that it is the one of the index; return its manifest."""
    name, contents = ref.name, {file.path: file.content for file in files if file.path in {SKILL_MD, SKILL_TOML}}
    manifest = None
    if SKILL_TOML in contents:
        from skillwire.folder.manifest import read_manifest  # noqa: PLC0415  # few skills have one

        try:
            manifest, _ = read_manifest(bytes(contents[SKILL_TOML]), source=f"{name}/{SKILL_TOML}")
        except SkillwireError as error:
            report(as_finding(error))
    stated = manifest.description if manifest is not None and manifest.name else None
    skill_md = parse_skill_md(bytes(contents[SKILL_MD]), source=f"{name}/{SKILL_MD}", description=stated)
    if skill_md.name != name:
        message = f"SKILL.md names itself {skill_md.name!r}, the index {name!r}"
        report(Finding("NAME_MISMATCH", "warning", message, skill_md.place("name"), "Inform the publisher."))
    if ref.description and ref.description.split() != skill_md.description.split():
        message, fix = f"the index describes {name} in other words than its SKILL.md", _read_first(ref, SKILL_MD)
        report(Finding("DESCRIPTION_MISMATCH", "warning", message, skill_md.place("description"), fix))
    return manifest


def _report_hidden(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report characters of ``SKILL.md`` that no reader sees."""
    content = next(file.content for file in files if file.path == SKILL_MD)
    if hidden := find_hidden(bytes(content).decode()):
        number = sum(run.length for run in hidden)
        message = f"SKILL.md holds {number} hidden character{'s' if number > 1 else ''}, the first a {hidden[0].name}"
        fix = f"{_read_first(ref, SKILL_MD)} shows them as escapes on a terminal."
        report(Finding("HIDDEN_TEXT", "warning", message, SourceLocation(f"{ref.name}/{SKILL_MD}"), fix))


def _report_code(ref: SkillRef, manifest: Manifest | None, report: Callable[[Finding], object]) -> None:
    """Report that an action contains code, and the hosts and secrets that it requests."""
    if manifest is None or manifest.runtime is None:
        return
    asks = first_of([*manifest.network, *manifest.secrets], _NAMED)
    asks = f", and asks for {asks}" if asks else ""
    message = f"{ref.name} is an action: its code would run when something calls it{asks}"
    fix = f"Nothing was run. Read it first: skillwire cat {exact_reference_to(ref)} {manifest.runtime.entrypoint}"
    report(Finding("CODE_INSTALLED", "note", message, SourceLocation(f"{ref.name}/{SKILL_TOML}"), fix))


def hold_back(
    plan: InstallPlan, accepted: Collection[str], declined: Collection[str], lock: Lock
) -> tuple[InstallPlan, dict[str, SkillwireError]]:
    """Return the inspected plan without the updates that need an answer, and why each of these is held back.

    ``accepted`` has names, and ``NAME@sha256:...`` for exact bytes. What requires a version that is held back, or was
    ``declined``, is held back too.
    """
    place = SourceLocation("")
    held: dict[str, SkillwireError] = {
        name: TrustError("UPDATE_ASKS_MORE", f"{name} was declined", place=place) for name in declined
    }
    for row in plan.pending:
        if error := _objection(row, accepted, lock):
            held[row.skill.name] = error
    waiting = [row for row in plan.pending if row.skill.name not in held]
    while found := next(((row, why) for row in waiting if (why := _depends(row, held, lock))), None):
        row, why = found
        held[row.skill.name] = TrustError("UPDATE_ASKS_MORE", why, place=SourceLocation(row.skill.origin))
        waiting.remove(row)
    return plan._replace(skills=tuple(row for row in plan.skills if row.skill.name not in held)), held


def _depends(row: PlannedSkill, held: Collection[str], lock: Lock) -> str:
    """Return how a planned skill and the installed version of a held one do not fit together; nothing if they do."""
    name, version = row.skill.name, row.skill.version
    for other in held:
        installed = lock.skills.get(other)
        for text, met in row.requires.items():
            if met == other and (installed.version if installed else None) not in parse_requirement(text).versions:
                return f"{name} {version} requires {text}, which is held back"
        for text, met in installed.requires.items() if installed else ():
            if met == name and version not in parse_requirement(text).versions:
                return f"{other}, whose update is held back, requires {text}, not {version}"
    return ""


def _objection(row: PlannedSkill, accepted: Collection[str], lock: Lock) -> SkillwireError | None:
    import shlex  # noqa: PLC0415  # few updates are held back

    review, name = row.inspected, row.skill.name
    place = SourceLocation(row.skill.origin)
    if review is None and name in lock.skills and name not in accepted:
        fix = f"Agree to the origin beforehand, so that the files can be read: skillwire update {name} --yes"
        return TrustError("UPDATE_ASKS_MORE", f"the files of {name} could not be reviewed", place=place, fix=fix)
    if not isinstance(review, SkillReview) or f"{name}@{review.digest}" in accepted:
        return None
    to = shlex.quote(row.wanted) if row.wanted else ""
    read = f"Read skillwire diff {name} {to}".rstrip()
    take = f"skillwire update {name} {f'--to {to} ' * bool(to)}--accept"
    if review.is_reused:
        message = f"{name} {review.version} has other bytes than the installed {review.version}"
        fix = f"{read}, then accept them: {take} {name}@{review.digest}"
        return TrustError("VERSION_REUSED", message, place=place, fix=fix)
    more = review.more
    if not more or name in accepted:
        return None
    asks = "; ".join(f"{KINDS[kind]}: {first_of(values, _NAMED)}" for kind, values in more.items())
    message = f"{name}{f' {review.version}' if review.version else ''} asks for more: {asks}"
    fix = f"{read}, then accept it: {take} {name}"
    return TrustError("UPDATE_ASKS_MORE", message, place=place, fix=fix, details={"more": more})


def check_accepted(text: str) -> str:
    """Return ``NAME`` or ``NAME@sha256:...``, as ``--accept`` takes it; raise ``USAGE`` for another form."""
    name, at, digest = text.partition("@")
    try:
        if at:
            Digest.parse(digest)
        if is_skill_name(name):
            return text
    except ValidationError:
        pass
    fix = "Give the name of a skill, or NAME@sha256:... for exact bytes."
    raise UsageError("USAGE", f"{ascii(text)[:120]} names no update", fix=fix)
