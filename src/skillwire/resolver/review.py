"""Reviews of skills before an agent reads them, and the updates that a user must accept first.

:func:`compare_versions` returns the review of a skill; :func:`inspect_files` reports warnings about a skill that is
installed without a review. :func:`hold_back` removes from a plan the updates that ask for more than the installed
version, and those with other bytes under the same version number, unless the user accepted them. The files of a folder
or a Git branch may change under one version number, so the second rule does not apply to them.

Trust: the files are hostile, even if their digest is right. No file is run.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError, SourceLocation, TrustError, UsageError, ValidationError, first_of
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.review import KINDS, SkillReview, review_files
from skillwire.model.digest import Digest
from skillwire.model.package import parse_requirement
from skillwire.model.ref import LockedSkill
from skillwire.model.skill import SKILL_MD, SKILL_TOML, Finding, is_skill_name
from skillwire.resolver.context import as_finding
from skillwire.resolver.git_references import means_version
from skillwire.resolver.plan import hash_files
from skillwire.resolver.references import exact_reference_to
from skillwire.trust.hidden_text import find_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from skillwire.folder.danger import Danger
    from skillwire.folder.manifest import Manifest
    from skillwire.model.ref import Files, Lock, SkillRef
    from skillwire.resolver.plan import InstallPlan, PlannedSkill

_NAMED: Final = 6  # hosts and secrets, or values of a kind, in one message


def compare_versions(
    ref: SkillRef,
    files: Files,
    old: SkillRef | LockedSkill | None,
    old_files: Files,
    report: Callable[[Finding], object],
) -> SkillReview:
    """Return the review of a skill with ``files``, beside ``old``, the version before it with ``old_files``, if any.

    A name or description that differs from the index goes to ``report``; dangers are part of the review. Raises as
    :func:`parse_skill_md` for a skill that no agent could load.
    """
    _check_loadable(ref, files, report)
    after = review_files(ref.name, _in_order(files))
    hashes, old_hashes = hash_files(files), hash_files(old_files)
    review = SkillReview(ref.name, ref.version, ref.digest or tree_digest(hashes), after, files)
    if old is None or not old_files:
        return review
    published = old.files if isinstance(old, LockedSkill) else old_hashes  # those on disk may have been edited since
    wanted = old.wanted if isinstance(old, LockedSkill) else old.git.ref if old.git else ""
    is_fixed = means_version(ref.git.ref) and means_version(wanted) if ref.git else not ref.is_local
    is_same = ref.version == old.version is not None and old.origin in {ref.origin, ref.former_origin}
    return review._replace(
        old_version=old.version,
        old_digest=old.digest or tree_digest(old_hashes),
        before=review_files(ref.name, _in_order(old_files)),
        old_files=old_files,
        is_changed=hashes != old_hashes,
        is_reused=is_fixed and is_same and hashes != published,
    )


def tree_digest(hashes: Mapping[str, str]) -> str:
    """Return the digest of a skill without an artifact: over the sorted lines ``path NUL hex LF``. Spec: specs §1."""
    lines = sorted(f"{path}\0{digest}\n" for path, digest in hashes.items())
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def inspect_files(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report hidden text, dangers and code of a skill without a review. Raises as :func:`compare_versions`."""
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
    """Return the manifest, if any; report a name or description that differs from the index."""
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
    """Report invisible characters in ``SKILL.md``."""
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
    """Return the inspected plan without the updates that the user must accept first, and name → reason of those.

    ``accepted`` has names, and ``NAME@sha256:...`` for exact bytes; ``declined`` has names, which are held back. A
    skill that requires a held-back version is held back too.
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
    """Return why a planned skill and the installed version of a held-back one conflict; an empty text if none do."""
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
    """Return ``text`` if it is ``NAME`` or ``NAME@sha256:...``, as ``--accept`` takes it. Raises UsageError."""
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
