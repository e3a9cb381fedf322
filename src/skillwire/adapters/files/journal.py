"""What a change of installed skills is about to rename, written down so that a later process can undo it.

A process may be killed between two renames. Its journal then says what was to go where, and what the lock was to
hold: when the lock holds that, the change was complete and only its staging folders are left to remove; otherwise
each rename that has happened, which the disk shows, is undone. Doing so twice does no harm, so a recovery that is
killed is recovered from in the same way.

The journal lies in the user's state folder and never in a project: a cloned repository could bring one along. It is
written before the first rename and not synced, since a killed process loses nothing that it has written; one that a
power cut left half written is of a change that had not begun.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skillwire.adapters.files.atomic import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
    """Write down ``rows``, the staging folders, and which content of the lock means that all is done.

    Args:
        path: of the journal.
        rows: in the order in which they will happen.
        stagings: what to remove in the end.
        before: what the lock holds now.
        after: what it will hold. When that is the same it tells nothing, and the change counts as not complete.

    Raises:
        StorageError: ``STORAGE``.
    """
    document = {
        "lock": None if before == after else hashlib.sha256(after).hexdigest(),
        "rows": [[None if part is None else str(part) for part in row] for row in rows],
        "stagings": [str(staging) for staging in stagings],
    }
    with storage_errors(path):
        path.write_text(json.dumps(document), "ascii")


def recover(path: Path, lock_path: Path) -> None:
    """Undo, or clean up after, the change whose journal a killed process left at ``path``; nothing when there is none.

    The caller holds the lock that every change holds.

    Raises:
        StorageError: ``STORAGE``; the journal then stays.
    """
    with storage_errors(path):
        if not path.exists():
            return
        try:
            document = json.loads(path.read_bytes())
        except ValueError:  # half written: the change had not begun
            path.unlink()
            return
        if not _is_complete(document["lock"], lock_path):
            for row in reversed(document["rows"]):
                Replacement(*(None if part is None else Path(part) for part in row)).undo()  # type: ignore[arg-type]  # the first is never None
        for staging in document["stagings"]:
            remove_staging(Path(staging))
        path.unlink()


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


def _is_complete(expected: str | None, lock_path: Path) -> bool:
    if expected is None or not lock_path.exists():
        return False
    return hashlib.sha256(lock_path.read_bytes()).hexdigest() == expected
