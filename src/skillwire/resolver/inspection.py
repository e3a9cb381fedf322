"""What a person should know of a skill's files before an agent reads them: the findings of an installation.

Trust: the files are hostile, even where their digest is right. Nothing of them is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError, SourceLocation
from skillwire.folder.danger import search_file
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.skill import Finding
from skillwire.resolver.context import as_finding
from skillwire.resolver.references import reference_to
from skillwire.trust.hidden_text import find_hidden

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.folder.manifest import Manifest
    from skillwire.model.ref import Files, SkillRef


_SKILL_MD: Final = "SKILL.md"
_SKILL_TOML: Final = "skill.toml"
_NAMED: Final = 6  # hosts and secrets, or scripts, in one message
_SCRIPTS: Final = (".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd")


def inspect_files(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report what is doubtful about a skill's files, and its code. Raises when no agent could load the skill."""
    manifest = _manifest_of(ref, files, report)
    _check_loadable(ref, files, manifest, report)
    _report_dangers(ref, files, report)
    _report_code(ref, manifest, report)


def _manifest_of(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> Manifest | None:
    content = next((file.content for file in files if file.path == _SKILL_TOML), None)
    if content is None:
        return None
    from skillwire.folder.manifest import read_manifest  # noqa: PLC0415  # few skills have one

    try:
        return read_manifest(bytes(content), source=f"{ref.name}/{_SKILL_TOML}")[0]
    except SkillwireError as error:
        report(as_finding(error))
        return None


def _check_loadable(
    ref: SkillRef, files: Files, manifest: Manifest | None, report: Callable[[Finding], object]
) -> None:
    """Check leniently that an agent can load the skill, that it is the one of the index, and that all of it shows."""
    name = ref.name
    content = next(file.content for file in files if file.path == _SKILL_MD)
    source = f"{name}/{_SKILL_MD}"
    stated = manifest.description if manifest is not None and manifest.name else None
    skill_md = parse_skill_md(bytes(content), source=source, description=stated)
    if skill_md.name != name:
        message = f"SKILL.md names itself {skill_md.name!r}, the index {name!r}"
        report(Finding("NAME_MISMATCH", "warning", message, skill_md.place("name"), "Inform the publisher."))
    if ref.description and ref.description.split() != skill_md.description.split():
        message = f"the index describes {name} in other words than its SKILL.md"
        fix = f"Read it before an agent does: skillwire cat {reference_to(ref)} {_SKILL_MD}"
        report(Finding("DESCRIPTION_MISMATCH", "warning", message, skill_md.place("description"), fix))
    if hidden := find_hidden(bytes(content).decode()):
        number = sum(run.length for run in hidden)
        message = f"SKILL.md holds {number} hidden character{'s' if number > 1 else ''}, the first a {hidden[0].name}"
        fix = f"Read it with skillwire cat {name} before an agent does; it shows them as escapes."
        report(Finding("HIDDEN_TEXT", "warning", message, SourceLocation(source), fix))


def _report_dangers(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report the first place of each danger in each file."""
    for file in files:
        reported = set[str]()
        for code, message, place in search_file(file.path, f"{ref.name}/{file.path}", bytes(file.content)):
            if message not in reported:
                reported.add(message)
                fix = f"Read it before an agent does: skillwire cat {reference_to(ref)} {file.path}"
                report(Finding(code, "warning", message, place, fix))


def _report_code(ref: SkillRef, manifest: Manifest | None, report: Callable[[Finding], object]) -> None:
    """Report that an action contains code, and the hosts and secrets that it requests."""
    if manifest is None or manifest.runtime is None:
        return
    asks = _some([*manifest.network, *manifest.secrets])
    asks = f", and asks for {asks}" if asks else ""
    message = f"{ref.name} is an action: its code would run when something calls it{asks}"
    fix = f"Nothing was run. Read it first: skillwire cat {reference_to(ref)} {manifest.runtime.entrypoint}"
    report(Finding("CODE_INSTALLED", "note", message, SourceLocation(f"{ref.name}/{_SKILL_TOML}"), fix))


def report_scripts(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Report the scripts of a skill, which an agent may run."""
    scripts = [
        file.path
        for file in files
        if file.executable or file.path.lower().endswith(_SCRIPTS) or bytes(file.content[:2]) == b"#!"
    ]
    if scripts:
        fix = f"Nothing was run. Read them first: skillwire cat {reference_to(ref)} {scripts[0]}"
        message = f"{ref.name} contains scripts: {_some(scripts)}"
        report(Finding("CODE_INSTALLED", "note", message, SourceLocation(ref.name), fix))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" and more" if len(names) > _NAMED else "")
