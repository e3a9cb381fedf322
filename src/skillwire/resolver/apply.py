"""Doing what a plan says.

Everything is fetched, verified, unpacked and staged before the first folder is put in place, and the lock is written
last, so that a failure or an interruption at any point leaves what was there before.

From located skills to their files: out of the blob store, or fetched, verified, unpacked in memory.

Only what was chosen is fetched. An artifact whose digest is known is looked up first, so a skill that was
seen once is never downloaded again, and works ``offline``. A large artifact goes into the store as it comes,
and what breaks off is continued the next time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, FetchError, SkillwireError, SourceLocation, StorageError, TrustError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.digest import Digest
from skillwire.model.install import InstallLocation, LockedSkill, OriginRecord
from skillwire.model.skill import FileContent, Finding
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_artifact, fetch_files
from skillwire.resolver.context import as_finding, timestamp
from skillwire.resolver.plan import compare_with_folder, hash_files
from skillwire.resolver.references import reference_to
from skillwire.trust.archive import plan_files, read_archive
from skillwire.trust.hidden_text import find_hidden
from skillwire.wire.exchange import run_all, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.ref import Files, SkillRef
    from skillwire.ports import Download, SkillsFolder, SkillsFolderChange
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.plan import InstallPlan, PlannedSkill
    from skillwire.trust.archive import ArchiveFormat
    from skillwire.wire.exchange import Flow


#: What came for a skill: an artifact's verified bytes, the digest of a large one that lies in the blob store, single
#: files, or why it cannot be had.
Fetched = bytes | Digest | list[FileContent] | SkillwireError
_SKILL_MD: Final = "SKILL.md"


def fetch_contents(
    skills: Sequence[SkillRef], context: ResolveContext, on_done: Callable[[], object] = lambda: None
) -> Flow[list[Fetched]]:
    """Return what was fetched for each skill, or why it cannot be had, in order; nothing is opened yet.

    ``on_done`` is called for each.
    """
    known: list[Fetched | None] = yield from work(lambda: [_look_up(skill, context, on_done) for skill in skills])
    missing = [skill for skill, content in zip(skills, known, strict=True) if content is None]
    fetched = iter((yield from _fetch_missing(missing, context, on_done)) if missing else ())
    return [content if content is not None else next(fetched) for content in known]


def _look_up(skill: SkillRef, context: ResolveContext, on_done: Callable[[], object]) -> Fetched | None:
    content: Fetched | None = list(skill.files) if skill.files is not None else None
    if skill.has_no_artifact:
        content = no_digest(skill, is_logged_in=context.credential_for(skill.origin) is not None)
    if content is None and skill.digest is not None:
        content = context.blobs.read(skill.digest)
        if content is not None and len(content) > limits.DOWNLOAD_PIECE_BYTES:
            content = skill.digest  # read again when its turn comes, so that several are not in memory at once
    if content is None and context.offline:
        content = FetchError("OFFLINE", f"{skill.name} is not in the cache", place=SourceLocation(skill.url))
    if content is not None:
        on_done()
    return content


def no_digest(ref: SkillRef, *, is_logged_in: bool) -> TrustError:
    """Return the error that says why a skill that has no artifact cannot be had, and what to do.

    ``is_logged_in`` says whether its origin was asked with a credential.
    """
    if ref.rpc is not None:
        message = f"{ref.name} is a skill of an endpoint, which gives no digest that files could be verified by"
        fix = f"It is read and called there: skillwire show {reference_to(ref)}. Or add it where an index lists it."
        return TrustError("NO_DIGEST", message, place=SourceLocation(ref.rpc.endpoint), fix=fix)
    called = f"It is called, not installed: skillwire show {reference_to(ref)} says how."
    message = f"only Skill Sharing lists {ref.name}, and gives no digest that files could be verified by"
    if ref.shared is None:
        return TrustError("NO_DIGEST", message, place=SourceLocation(ref.origin), fix=called)
    place, is_knowledge = SourceLocation(ref.shared.descriptor_url), ref.shared.capability_type == "knowledge"
    if ref.shared.access != "public" and not is_logged_in:
        # Its files may well be published there, for those who may see them.
        message = f"{ref.name} is {ref.shared.access}, and nobody is logged in there"
        login = f"Run skillwire auth login {parse_url(ref.origin).origin}."
        return TrustError("NO_DIGEST", message, place=place, fix=login if is_knowledge else f"{login} Or: {called}")
    asking = "Ask the provider to publish it by Agent Skills Discovery, too, as skillwire serve and build do."
    return TrustError("NO_DIGEST", message, place=place, fix=asking if is_knowledge else called)


def _fetch_missing(
    skills: Sequence[SkillRef], context: ResolveContext, on_done: Callable[[], object]
) -> Flow[list[Fetched]]:
    downloads: list[Download | None] = yield from work(lambda: [_download(skill, context) for skill in skills])
    try:
        flows = [_fetch(*row, context) for row in zip(skills, downloads, strict=True)]
        fetched = yield from run_all(flows, on_done)
        rows = list(zip(skills, downloads, fetched, strict=True))
        if None in fetched:
            return (yield from work(lambda: [_keep(*row) for row in rows]))
        return [_keep(*row) for row in rows]
    finally:
        for download in downloads:
            if download is not None:
                download.close()


def _download(skill: SkillRef, context: ResolveContext) -> Download | None:
    digest = skill.digest
    return None if digest is None or skill.artifact_type != "archive" else context.blobs.download(digest)


def _fetch(
    skill: SkillRef, download: Download | None, context: ResolveContext
) -> Flow[bytes | None] | Flow[list[FileContent]]:
    authorization = context.credential_for(skill.url)
    if skill.artifact_type == "files":
        return fetch_files(skill.indexed_files, authorization=authorization)
    return fetch_artifact(skill, authorization=authorization, sink=download)


def _keep(
    skill: SkillRef, download: Download | None, fetched: bytes | list[FileContent] | SkillwireError | None
) -> Fetched:
    """Return what was fetched; what went into ``download`` is made a blob."""
    if fetched is not None:
        return fetched
    assert download is not None  # noqa: S101  # an exchange without one ends with bytes
    assert skill.digest is not None  # noqa: S101  # same
    try:
        download.keep()
    except StorageError as error:
        return error
    return skill.digest


def open_content(skill: SkillRef, fetched: Fetched, context: ResolveContext) -> Files:
    """Return the files that were fetched, and keep an artifact for the next time.

    Raises:
        SkillwireError: what ``fetched`` is instead of content; from the archive reader.
        StorageError: ``STORAGE`` when the blob store has lost what it was given.
    """
    if isinstance(fetched, SkillwireError):
        raise fetched
    if isinstance(fetched, Digest):
        content = context.blobs.read(fetched)
        if content is None:
            raise StorageError("STORAGE", "the artifact is not in the cache any more", place=SourceLocation(skill.url))
        return open_artifact(skill, content)
    if not isinstance(fetched, bytes):
        return plan_files(fetched).files
    files = open_artifact(skill, fetched)
    try:
        context.blobs.put(fetched)
    except StorageError as error:
        context.note(error)
    return files


def open_artifact(skill: SkillRef, content: bytes) -> Files:
    """Return the files that verified artifact bytes hold.

    Raises:
        TrustError, DecodeError: from the archive reader, with the artifact's URL as place.
    """
    if skill.artifact_type == "skill-md":
        return (FileContent(_SKILL_MD, content),)
    try:
        return read_archive(content, expected_format=_stated_format(skill.url)).files
    except SkillwireError as error:
        error.place = error.place or SourceLocation(skill.url)
        raise


def _stated_format(url: str) -> ArchiveFormat | None:
    """Return the format that the extension in a URL states, if any."""
    path = parse_url(url).target.partition("?")[0].lower()
    if path.endswith(".zip"):
        return "zip"
    return "tar.gz" if path.endswith((".tar.gz", ".tgz")) else None


_SKILL_TOML: Final = "skill.toml"
_TOLD: Final = 6  # hosts and secrets that one line names
_AT_ONCE: Final = 8  # skills fetched before they are staged: bounds memory to as many artifacts


class InstallReport(NamedTuple):
    """What was done: what was put in place, which of it took the place of an earlier one, and what failed."""

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
    """Do what ``plan`` says. The caller has the consent that ``plan.unknown_origins`` asks for.

    Skills are fetched a few at a time and staged, so that memory stays bounded; when all are staged they are put in
    place together. A skill that was asked for by name and cannot be had ends it all, and nothing is changed; one
    that came with the others of its index is left out and reported.

    Raises:
        ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``.
    """
    if plan.conflicts and not overwrite:
        raise _conflict(plan.conflicts[0])
    unchanged = tuple(planned.skill.name for planned in plan.skills if planned.state == "unchanged")
    if not plan.pending:
        return InstallReport((), (), unchanged, {})
    change = yield from work(folder.change)
    try:
        staged = yield from work(lambda: _Staged(plan, context, folder, change, overwrite=overwrite))
        for start in range(0, len(plan.pending), _AT_ONCE):
            batch = plan.pending[start : start + _AT_ONCE]
            fetched = yield from fetch_contents([planned.skill for planned in batch], context, on_done)
            yield from work(partial(staged.add_all, batch, fetched))
        yield from work(staged.commit)
    except BaseException:
        change.close()
        raise
    yield from work(change.close)
    for base in plan.unknown_origins:
        yield from work(partial(_accept, base, context))
    return staged.report(unchanged)


def _conflict(planned: PlannedSkill) -> ConflictError:
    return ConflictError("SKILL_CONFLICT", f"{planned.skill.name}: {planned.reason}")


class _Staged:
    """The skills that are ready to be put in place, and those that could not be had."""

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
        if not overwrite:
            self._check_unchanged(folder)

    def _check_unchanged(self, folder: SkillsFolder) -> None:
        """Compare once more under the lock: the plan may be minutes old."""
        for planned in self._plan.pending:
            if planned.locked is None:
                now = compare_with_folder(planned, folder, self._lock)
                if now.state == "conflict":
                    raise _conflict(now)

    def add_all(self, batch: Sequence[PlannedSkill], fetched: Sequence[Fetched]) -> None:
        """Open, check and stage each, one after the other."""
        for planned, content in zip(batch, fetched, strict=True):
            try:
                self._add(planned, content)
            except SkillwireError as error:
                if planned.skill.requested_by_name:
                    raise
                self._failed[planned.skill.name] = error

    def _add(self, planned: PlannedSkill, content: Fetched) -> None:
        name = planned.skill.name
        files = open_content(planned.skill, content, self._context)
        check_loadable(name, files, self._context.report)
        _report_code(planned.skill, files, self._context.report)
        if planned.locked is not None and hash_files(files) != planned.locked.files:
            place = SourceLocation(planned.skill.url)
            raise TrustError("LOCK_MISMATCH", f"{name}: the files are not those of the lock", place=place)
        self._change.stage(name, files, planned.location)
        before = self._lock.skills.get(name)
        self._installed.append(_locked(planned, files, before, self._context))
        _remove_old(before, planned.location, self._change.take_away)

    def commit(self) -> None:
        """Put everything in place and write the lock; raise the first failure when there is nothing to put."""
        if self._installed:
            self._change.commit(self._lock.with_skills(self._installed))
        elif self._failed:
            raise next(iter(self._failed.values()))

    def report(self, unchanged: tuple[str, ...]) -> InstallReport:
        """Return what was done."""
        names = {locked.name for locked in self._installed}
        updated = [row.skill.name for row in self._plan.skills if row.state == "update"]
        return InstallReport(
            tuple(self._installed), tuple(name for name in updated if name in names), unchanged, self._failed
        )


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
        artifact_type="folder" if skill.is_local else skill.artifact_type,
        version=skill.version,
        first_seen=known.first_seen if known is not None and same else timestamp(context.clock()),
        agents=planned.agents,
        placement=planned.location,
        files=files,
    )


def _remove_old(
    before: LockedSkill | None, placement: InstallLocation, take_away: Callable[[str, InstallLocation], object]
) -> None:
    """Remove the skill from folders that its new placement does not name."""
    if before is None:
        return
    now = {*placement.folders, *placement.links}
    old = before.placement._replace(
        folders=tuple(folder for folder in before.placement.folders if folder not in now),
        links=tuple(link for link in before.placement.links if link not in now),
    )
    if old.folders or old.links:
        take_away(before.name, old)


def check_loadable(name: str, files: Files, report: Callable[[Finding], object]) -> None:
    """Check that an agent can load the skill: leniently, since we did not publish it; report what is doubtful.

    Raises:
        DecodeError, ValidationError: no frontmatter, or no description in it.
    """
    content = next(file.content for file in files if file.path == _SKILL_MD)
    source = f"{name}/{_SKILL_MD}"
    skill_md = parse_skill_md(bytes(content), source=source)
    if skill_md.name != name:
        message = f"SKILL.md names itself {skill_md.name!r}, the index {name!r}"
        report(Finding("NAME_MISMATCH", "warning", message, skill_md.place("name"), "Tell the publisher."))
    if hidden := find_hidden(bytes(content).decode()):
        message = f"SKILL.md holds {sum(run.length for run in hidden)} hidden characters, such as a {hidden[0].name}"
        fix = f"Read it with skillwire cat before an agent does; they are shown there as escapes: {name}"
        report(Finding("HIDDEN_TEXT", "warning", message, SourceLocation(source), fix))


def _report_code(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Say of an action that it brings code which would run, and what it asks for."""
    name = ref.name
    content = next((file.content for file in files if file.path == _SKILL_TOML), None)
    if content is None:
        return
    from skillwire.folder.manifest import read_manifest  # noqa: PLC0415  # few skills have one

    try:
        manifest, _ = read_manifest(bytes(content), source=f"{name}/{_SKILL_TOML}")
    except SkillwireError as error:
        report(as_finding(error))
        return
    if manifest.runtime is None:
        return
    wanted = [*manifest.network, *manifest.secrets]
    asks = f", and asks for {', '.join(wanted[:_TOLD])}{' and more' if len(wanted) > _TOLD else ''}" if wanted else ""
    message = f"{name} is an action: its code would run when something calls it{asks}"
    fix = f"Nothing was run. Read it first: skillwire cat {reference_to(ref)} {manifest.runtime.entrypoint}"
    report(Finding("CODE_INSTALLED", "note", message, SourceLocation(f"{name}/{_SKILL_TOML}"), fix))


def _accept(base: str, context: ResolveContext) -> None:
    record = context.origins.look_up(base) or OriginRecord(first_seen=timestamp(context.clock()))
    context.origins.record(base, record._replace(accepted=True))
