"""Forgetting what ended long ago: outputs first, then executions with all that was kept for them alone.

A blob goes only while the transaction holds the database, and only when no other execution has its output in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.model.digest import Digest

if TYPE_CHECKING:
    from sqlite3 import Connection

    from skillwire.adapters.files.blobs import FileBlobs

#: How many rows one round takes at most.
_AT_ONCE: Final = 500


def forget_outputs(connection: Connection, before: float, outputs: FileBlobs) -> int:
    """Forget outputs of executions that completed before a time; return how many."""
    query = (
        "SELECT number, output_blob FROM executions WHERE status = 'completed' AND output_forgotten = 0"
        " AND completed < ? ORDER BY completed LIMIT ?"
    )
    found = connection.execute(query, (before, _AT_ONCE)).fetchall()
    forget = "UPDATE executions SET output = NULL, log = NULL, blobs = NULL, output_forgotten = 1 WHERE number = ?"
    connection.executemany(forget, [(number,) for number, _ in found])
    _remove_blobs(connection, {blob for _, blob in found if blob}, outputs)
    return len(found)


def forget_rows(connection: Connection, before: float, outputs: FileBlobs) -> int:
    """Forget executions that ended before a time, with all that was kept for them alone; return how many."""
    query = "SELECT execution_id, digest, output_blob FROM executions WHERE completed < ? ORDER BY completed LIMIT ?"
    found = connection.execute(query, (before, _AT_ONCE)).fetchall()
    names = [(execution_id,) for execution_id, _, _ in found]
    connection.executemany("DELETE FROM executions WHERE execution_id = ?", names)
    connection.executemany("DELETE FROM idempotency_keys WHERE execution_id = ?", names)
    query = "DELETE FROM run_mounts WHERE execution_id = ? RETURNING digest"
    mounted = [row for name in names for row in connection.execute(query, name).fetchall()]
    is_unused = (
        "NOT EXISTS (SELECT 1 FROM executions WHERE digest = ?1 AND completed IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM executions INDEXED BY executions_open WHERE completed IS NULL AND digest = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM run_mounts WHERE digest = ?1)"
    )
    digests = {*mounted, *((digest,) for _, digest, _ in found)}
    connection.executemany(f"DELETE FROM skill_versions WHERE digest = ?1 AND {is_unused}", digests)  # noqa: S608  # a constant
    _remove_blobs(connection, {blob for _, _, blob in found if blob}, outputs)
    return len(found)


def _remove_blobs(connection: Connection, blobs: set[str], outputs: FileBlobs) -> None:
    for blob in map(Digest, blobs):
        if not is_needed(connection, blob):
            outputs.remove(blob)


def is_needed(connection: Connection, blob: Digest) -> bool:
    """Whether an execution has its output in this blob."""
    query = "SELECT 1 FROM executions WHERE output_blob = ? AND output_forgotten = 0 LIMIT 1"
    return connection.execute(query, (str(blob),)).fetchone() is not None
