"""What a change of installed skills is about to rename, written down so that a later process can undo it.

A process may be killed between two renames. Its journal then says what was to go where, and what the lock held and was
to hold. A change that was complete says so itself, by a mark that it makes right after the lock; or the lock shows it,
when the process was killed between the two. Then only its staging folders are left to remove. When the lock is as it
was before, each rename that has happened, which the disk shows, is undone. Doing so twice does no harm, so a recovery
that is killed is recovered from in the same way.

A lock that is neither was written by somebody else since, a ``git pull`` say, and no longer tells what stands there.
Then nothing is undone and nothing is removed that stood there before: it is kept, and the user is told where.

The journal lies in the user's state folder and never in a project: a cloned repository could bring one along. It is
written before the first rename and not synced, since a killed process loses nothing that it has written; one that a
power cut left half written is of a change that had not begun.
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
    """What stands at ``place`` goes to ``aside``, and ``staged`` to ``place``; None where there is nothing to move."""

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
    """Write down ``rows``, the staging folders, and by which content of the lock to tell what has happened.

    Args:
        path: of the journal.
        rows: in the order in which they will happen.
        stagings: what to remove in the end.
        before: what the lock holds now; None where there is none.
        after: what it will hold. When that is the same, only the mark can tell that the change is complete.

    Raises:
        StorageError: ``STORAGE``.
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
    """Write into the journal at ``path`` that its change is complete, whatever becomes of the lock from now on.

    Raises:
        StorageError: ``STORAGE``.
    """
    with storage_errors(path):
        document = json.loads(path.read_bytes())
    write_atomically(path, json.dumps({**document, "committed": True}).encode("ascii"))


def recover(path: Path, lock_path: Path) -> list[Path]:
    """Undo, or clean up after, the change whose journal a killed process left at ``path``; nothing when there is none.

    The caller holds the lock that every change holds.

    Returns:
        The folders where what stood there before is kept, since nobody can tell any more whether it should.

    Raises:
        StorageError: ``STORAGE``; the journal then stays.
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
    """Whether something lies in ``staging`` that a change has moved out of its way.

    Raises:
        OSError: the folder cannot be read.
    """
    return staging.is_dir() and any(_is_aside(path.name) for path in staging.iterdir())


def _is_aside(name: str) -> bool:
    """Whether :func:`aside_name` gave the name; the folders in which a skill is unpacked have a dot in front."""
    stem, _, number = name.rpartition(".")
    return bool(stem) and number.isdecimal()


def keep_staging(staging: Path) -> Path:
    """Rename a staging folder so that no later change removes it; return where it is then.

    Raises:
        OSError: it cannot be renamed, and stays.
    """
    # A cloned repository may have brought a folder of any name along, but not of one that is made up now.
    return staging.rename(staging.with_name(f"{KEPT}-{os.urandom(6).hex()}"))


def remove_staging(folder: Path) -> None:
    """Remove a staging folder, in which a change that went well leaves nothing.

    What cannot be removed stays; the next change in that skills folder removes it.
    """
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
