"""Writing skill folders for a publisher, each as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.errors import ConflictError, SourceLocation
from skillwire.folder.files import read_files
from skillwire.folder.rules import Findings
from skillwire.model.skill import FileContent

#: The outcome for a folder, also of a dry run.
FolderOutcome = Literal["new", "replaced", "unchanged"]


def write_skill_folder(
    folder: Path, files: Sequence[FileContent], *, overwrite: bool = False, dry_run: bool = False
) -> FolderOutcome:
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
