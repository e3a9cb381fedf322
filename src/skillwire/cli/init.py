"""``skillwire init``: make a new skill to fill in."""

from __future__ import annotations

from pathlib import Path

import click

from skillwire.adapters.files.atomic import write_atomically
from skillwire.cli.output import Output, bold, output_options, success
from skillwire.errors import ConflictError, SourceLocation
from skillwire.folder.scaffold import scaffold


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--dir",
    "parent",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Create the skill's folder in DIR instead of the current folder.",
)
@click.option("--script", is_flag=True, help="Add a script that the skill runs.")
@click.option("--manifest", is_flag=True, help="Add a skill.toml.")
@click.option("--dry-run", is_flag=True, help="Print what would be created, and write nothing.")
@output_options
def command(*, output: Output, name: str, parent: Path, script: bool, manifest: bool, dry_run: bool) -> None:
    """Create the folder of a new skill, with a SKILL.md template.

    NAME is 1-64 of a-z, 0-9 and single hyphens, and names the folder. Existing files are not overwritten. check warns
    until you replace the texts of the template.
    """
    files = scaffold(name, script=script, manifest=manifest)
    folder = parent / name
    if folder.is_symlink() or folder.exists():
        raise ConflictError("FILE_EXISTS", f"{folder} already exists", place=SourceLocation(str(folder)))
    for file in () if dry_run else files:
        write_atomically(folder / file.path, bytes(file.content), mode=0o755 if file.executable else 0o644)
    names = [file.path for file in files]
    output.document(
        {"schema": "skillwire/init/1", "name": name, "path": str(folder), "files": names, "dry_run": dry_run}
    )
    if dry_run:
        output.line("would make ", bold(name), f"  {folder}: {', '.join(names)}")
        return
    output.line(success("made "), bold(name), f"  {folder}")
    output.hint(f"next: fill in {folder / 'SKILL.md'}, then:", f"skillwire check {folder}")
