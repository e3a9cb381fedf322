"""The journal of a change of installed skills: the planned renames, so that a later process can undo them.

A process may be killed between two renames. Its journal names each rename, and the lock file's content before and
after. A complete change is recognised by a mark, written right after the lock, or by the lock's new content; then only
staging folders remain to be removed. With the old content in the lock, each rename that the disk shows is undone.
Recovery can be repeated, so a killed recovery does no harm.

A lock with other content was written by a third party, such as ``git pull``. Then nothing is undone; replaced skills
are kept, and the user learns where.

The journal lies in the user's state folder, because a cloned repository could contain one. It is not synced: a killed
process loses nothing that it wrote, and a journal cut by a power failure belongs to a change that had not begun.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire.adapters.files.atomic import storage_errors, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How the names of our folders inside a skills folder begin: of changes under way, and of what could not be undone.
STAGING: Final = ".skillwire-staging"
KEPT: Final = ".skillwire-kept"


class Replacement(NamedTuple):
    """A planned replacement: ``place`` moves to ``aside``, then ``staged`` to ``place``; None where nothing moves."""

    place: Path
    aside: Path | None
    staged: Path | None

    def undo(self) -> None:
        """Undo as much of it as has happened."""
        if self.staged is not None and not os.path.lexists(self.staged) and os.path.lexists(self.place):
            self.place.rename(self.staged)
        if self.aside is not None and os.path.lexists(self.aside) and not os.path.lexists(self.place):
            self.aside.rename(self.place)


def write_journal(
    path: Path, rows: Sequence[Replacement], stagings: Iterable[Path], *, before: bytes | None, after: bytes
) -> None:
    """Record ``rows`` and the staging folders, before the first rename. Raises StorageError (``STORAGE``).

    Args:
        path: of the journal.
        rows: in the order of the renames.
        stagings: folders to remove at the end.
        before: the lock's content now; None without a lock.
        after: the lock's content after the change; if it is the same, only the mark shows completion.
    """
    document = {
        "before": _hash(before),
        "after": _hash(after),
        "rows": [[None if part is None else str(part) for part in row] for row in rows],
        "stagings": [str(staging) for staging in stagings],
    }
    with storage_errors(path):
        path.write_text(json.dumps(document), "ascii")


def mark_committed(path: Path) -> None:
    """Mark the change of the journal at ``path`` as complete, whatever the lock holds later. Raises StorageError."""
    with storage_errors(path):
        document = json.loads(path.read_bytes())
    write_atomically(path, json.dumps({**document, "committed": True}).encode("ascii"))


def recover(path: Path, lock_path: Path) -> list[Path]:
    """Undo, or clean up after, the change whose journal is at ``path``; does nothing without one.

    The caller holds the lock that every change holds. Raises StorageError (``STORAGE``); the journal then stays.

    Returns:
        The folders with replaced skills that are kept because it is unclear whether they should be.
    """
    kept: list[Path] = []
    with storage_errors(path):
        if not path.exists():
            return kept
        try:
            document = json.loads(path.read_bytes())
        except ValueError:  # half written: the change had not begun
            path.unlink()
            return kept
        outcome = _outcome(document, lock_path)
        if outcome == "undo":
            for row in reversed(document["rows"]):
                Replacement(*(None if part is None else Path(part) for part in row)).undo()  # type: ignore[arg-type]  # the first is never None
        for staging in map(Path, document["stagings"]):
            if outcome == "keep" and holds_asides(staging):
                kept.append(keep_staging(staging))
            else:
                remove_staging(staging)
        path.unlink()
    return kept


def aside_name(name: str, number: int) -> str:
    """Return the name in a staging folder of what stood at ``name``; no skill that is staged has such a name."""
    return f"{name}.{number}"


def holds_asides(staging: Path) -> bool:
    """Whether ``staging`` holds something that a change moved aside. Raises OSError."""
    return staging.is_dir() and any(_is_aside(path.name) for path in staging.iterdir())


def _is_aside(name: str) -> bool:
    """Whether :func:`aside_name` gave the name; the folders in which a skill is unpacked have a dot in front."""
    stem, _, number = name.rpartition(".")
    return bool(stem) and number.isdecimal()


def keep_staging(staging: Path) -> Path:
    """Rename a staging folder so that no later change removes it; return its new path. Raises OSError."""
    # A cloned repository may have brought a folder of any name along, but not of one that is made up now.
    return staging.rename(staging.with_name(f"{KEPT}-{os.urandom(6).hex()}"))


def remove_staging(folder: Path) -> None:
    """Remove a staging folder; if that fails, the next change in that skills folder removes it."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:  # it holds something
        import shutil  # noqa: PLC0415  # an installation starts without it, which saves 3 ms

        shutil.rmtree(folder, ignore_errors=True)


def _outcome(document: dict[str, Any], lock_path: Path) -> Literal["complete", "undo", "keep"]:
    if document.get("committed"):
        return "complete"
    found = _hash(lock_path.read_bytes() if lock_path.exists() else None)
    if found == document["before"]:
        return "undo"
    return "complete" if found == document["after"] else "keep"


def _hash(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
