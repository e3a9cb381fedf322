"""``skillwire marketplace``: import skills from a Claude plugin marketplace, and export one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.bridges.marketplace import (
    MARKETPLACE_PATH,
    ListedSkill,
    check_marketplace_name,
    encode_marketplace,
    gather,
    is_untouched,
)
from skillwire.cli.options import CommandGroup, plural
from skillwire.cli.output import bold, dim, output_options, success
from skillwire.errors import ConflictError, NotFoundError, SkillwireError, SourceLocation, UsageError, ValidationError
from skillwire.folder.files import find_folder_names, read_files
from skillwire.folder.rules import Findings
from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.bridges.marketplace import GatheredSkills
    from skillwire.cli.documents_run import ImportedSkill
    from skillwire.cli.output import Output
    from skillwire.model.skill import FileContent, Finding

#: The outcome for a folder, also of a dry run → what is printed.
_VERBS: Final = {"new": "imported", "replaced": "replaced", "unchanged": "unchanged"}
_DRY_VERBS: Final = {**_VERBS, "new": "would import", "replaced": "would replace"}
_FORCE: Final = "Give --force to replace it, or write it elsewhere with --output."


@click.group(cls=CommandGroup)
def command() -> None:
    """Import skills from a Claude plugin marketplace, or export your skills as one.

    A marketplace is a folder, usually a git repository, with .claude-plugin/marketplace.json. Only skills are imported,
    not commands, agents, hooks or servers.
    """


@command.command("import")
@click.argument("source")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FOLDER",
    required=True,
    type=click.Path(),
    help="Folder for the imported skills.",
)
@click.option("--overwrite", is_flag=True, help="Replace folders of the same name with other content.")
@click.option("--dry-run", is_flag=True, help="Print what would be imported, and write nothing.")
@output_options
def import_command(*, output: Output, source: str, target: str, overwrite: bool, dry_run: bool) -> None:
    """Copy the skills of a marketplace or plugin into FOLDER.

    SOURCE is its folder or its marketplace.json. Nothing is run. Plugins from a git repository, a package or a command
    are not fetched; a note explains how to fetch each.
    """
    gathered = gather(_root_of(source))
    for finding in gathered.findings:
        output.finding(finding)
    if not gathered.skills:
        message, fix = "the marketplace has no skill to import", _without_skills(gathered)
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(source), fix=fix)
    rows: list[ImportedSkill] = []
    failed: dict[str, SkillwireError] = {}
    for skill in sorted(gathered.skills.values()):
        folder = Path(target, skill.name)
        try:
            written = _write_skill_folder(folder, skill.files, overwrite=overwrite, dry_run=dry_run)
        except ConflictError as error:
            failed[skill.name] = error
            continue
        rows.append({"name": skill.name, "state": written, "plugin": skill.plugin, "from": skill.place})
        verb = (_DRY_VERBS if dry_run else _VERBS)[written]
        output.line(success(f"{verb} "), bold(skill.name), dim(f"  {folder}, from {skill.plugin}"))
    errors = {name: error.diagnostics() for name, error in failed.items()}
    output.document({
        "schema": "skillwire/marketplace-import/1", "dry_run": dry_run, "marketplace": gathered.name,
        "plugins": gathered.plugins, "skills": rows, "failed": errors,
    })  # fmt: skip
    last = next(reversed(failed), None)
    for name, failure in failed.items():
        output.error(failure.diagnostics(), is_last=name == last)
    if failed:
        raise click.exceptions.Exit(max(error.exit_code for error in failed.values()))
    if not dry_run:
        output.hint("next:", f"skillwire check {target}")


def _without_skills(gathered: GatheredSkills) -> str:
    codes = {finding.code for finding in gathered.findings}
    if "PLUGIN_ELSEWHERE" in codes:
        return "Fetch a plugin as described above, and import its folder."
    if any(finding.level == "error" for finding in gathered.findings):
        return "Fix the errors above in a copy of the folder, and import the copy."
    return "Name another folder: the plugins of this one contain no skills."


def _root_of(source: str) -> Path:
    if source.startswith(("https://", "http://")):
        fix = "Clone its repository, and import that folder."
        raise UsageError("USAGE", "a marketplace is imported from a folder", fix=fix)
    path = Path(os.path.abspath(source))  # noqa: PTH100  # without its dots, and links kept
    if path.is_file():
        if not path.match(MARKETPLACE_PATH):
            fix = f"Name the marketplace's folder, the one that holds {MARKETPLACE_PATH}."
            raise UsageError("USAGE", f"{source} is not in a folder named .claude-plugin", fix=fix)
        path = path.parent.parent
    if not path.is_dir():
        raise UsageError("FOLDER_MISSING", "the folder does not exist", place=SourceLocation(str(path)))
    return path


@command.command("export")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--output",
    "target",
    metavar="ROOT",
    default=".",
    show_default=True,
    type=click.Path(),
    help="The marketplace's folder, which contains every FOLDER.",
)
@click.option("--name", metavar="NAME", help="Name of the marketplace; the name of ROOT by default.")
@click.option("--owner", metavar="NAME", help="Owner of the marketplace; its name by default.")
@click.option("--skip-broken", is_flag=True, help="List the other skills when some cannot be published.")
@click.option(
    "--force", is_flag=True, help="Overwrite a marketplace.json that was not written by an export, or was edited since."
)
@click.option("--dry-run", is_flag=True, help="Print the document, and write nothing.")
@output_options
def export_command(
    *,
    output: Output,
    folders: tuple[str, ...],
    target: str,
    name: str | None,
    owner: str | None,
    skip_broken: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Write ROOT/.claude-plugin/marketplace.json, which lists the skills in each FOLDER.

    ROOT is the folder or git repository that users add. Only public skills are listed, but the repository contains all
    of them. An earlier export is overwritten, unless it was edited since.
    """
    root = Path(os.path.abspath(target))  # noqa: PTH100  # without its dots, and links kept
    called = check_marketplace_name(name or root.name)
    listed, left_out = _listed(output, folders, root, skip_broken=skip_broken)
    document = encode_marketplace(called, owner or called, listed)
    path = root / MARKETPLACE_PATH
    if dry_run and not output.as_json:
        output.text(document.decode())
    elif not dry_run:
        _write_marketplace(path, document, force=force)
    names = sorted(row.skill.name for row in listed)
    output.document({
        "schema": "skillwire/marketplace-export/1", "marketplace": called, "path": str(path), "skills": names,
        "not_public": left_out, "dry_run": dry_run,
    })  # fmt: skip
    number = plural(len(names), "skill")
    kept = f"; {left_out} not listed: not public" if left_out else ""
    if not dry_run:
        output.line(success("wrote "), bold(str(path)), f": {number}{kept}")
        output.hint("in Claude Code:", f"/plugin marketplace add {target}")


def _listed(output: Output, folders: Sequence[str], root: Path, *, skip_broken: bool) -> tuple[list[ListedSkill], int]:
    """Return the public skills with their paths below ``root``, and the number of other skills."""
    from skillwire.adapters.files.loading import LoadJob, load_folders, published_roots  # noqa: PLC0415  # takes a while
    from skillwire.model.catalog import unpack_skill  # noqa: PLC0415  # same

    names = sorted({folder for one in published_roots(folders) for folder in find_folder_names(one)})
    if not names:
        raise NotFoundError("SKILL_NOT_FOUND", "there is no SKILL.md to list", place=SourceLocation(folders[0]))
    listed: list[ListedSkill] = []
    findings: list[Finding] = []
    others = 0
    for loaded in load_folders(LoadJob("local", "nothing", ()), names):
        findings += loaded.findings
        if loaded.packed is None:
            continue
        skill = unpack_skill(loaded.packed)
        if skill.access is Access.PUBLIC:
            path = Path(loaded.folder)
            if not path.is_relative_to(root):
                fix = "With --output, name a folder that contains all of them."
                raise UsageError("USAGE", f"{path} does not lie in {root}", fix=fix)
            below = path.relative_to(root).as_posix()
            listed.append(ListedSkill(skill, "" if below == "." else below))
        else:
            others += 1
    errors = [finding for finding in findings if finding.level == "error"]
    for finding in errors:
        output.finding(finding)
    if errors and not skip_broken:
        details = {"findings": errors}
        raise ValidationError("SKILLS_BROKEN", "some skills are broken; nothing was written", details=details)
    if len({row.skill.name for row in listed}) < len(listed):
        raise ValidationError("SKILLS_BROKEN", "two skills have the same name; skillwire check lists them")
    return listed, others


def _write_marketplace(path: Path, document: bytes, *, force: bool) -> None:
    with storage_errors(path):
        found = path.read_bytes() if path.is_file() else None
    if found == document:
        return
    if os.path.lexists(path) and not force and not (found is not None and is_untouched(found)):
        raise ConflictError("FILE_EXISTS", f"{path} already exists", place=SourceLocation(str(path)), fix=_FORCE)
    write_atomically(path, document)


def _write_skill_folder(
    folder: Path, files: Sequence[FileContent], *, overwrite: bool, dry_run: bool
) -> Literal["new", "replaced", "unchanged"]:
    """Write checked ``files`` as a skill folder; return the outcome. Raises ConflictError (``DESTINATION_EXISTS``)."""
    there = os.path.lexists(folder)
    if there and _holds(folder, files):
        return "unchanged"
    if there and not overwrite:
        message, fix = f"{folder} is there already", "Give --overwrite to replace it, or move it away."
        raise ConflictError("DESTINATION_EXISTS", message, place=SourceLocation(str(folder)), fix=fix)
    if not dry_run:
        suffix = os.urandom(6).hex()
        stage, aside = (folder.with_name(f".{folder.name}.{suffix}.{end}") for end in ("new", "old"))
        with storage_errors(folder):
            try:
                for file in files:
                    write_atomically(stage / file.path, bytes(file.content), mode=0o755 if file.executable else 0o644)
                if os.path.lexists(folder):
                    folder.rename(aside)
                stage.rename(folder)
            except BaseException:
                if os.path.lexists(aside) and not os.path.lexists(folder):
                    aside.rename(folder)
                shutil.rmtree(stage, ignore_errors=True)
                raise
            if aside.is_symlink() or aside.is_file():
                aside.unlink()
            elif aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
    return "replaced" if there else "new"


def _holds(folder: Path, files: Sequence[FileContent]) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    there = read_files(str(folder), Findings("lenient"))
    return {(file.path, bytes(file.content), file.executable) for file in there} == {
        (file.path, bytes(file.content), file.executable) for file in files
    }
