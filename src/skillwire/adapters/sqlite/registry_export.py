"""Everything of a registry as a folder of plain files: the export of one, which another one imports.

``registry.json`` names the form, the columns of each table, and how many rows each has; it is written last, so an
export without it is not whole. ``TABLE.jsonl`` has one row a line, a JSON array in the order of the columns, sorted by
the primary key; binary values are in base64. ``artifacts/ab/cdef...`` holds the artifact with SHA-256 ``abcdef...``.
So equal registries have equal exports, byte for byte. An export is one snapshot, also of a registry that is in use.

An import is one transaction into an empty registry. It verifies each artifact's digest, that a version has the files
of its artifact, names, references, and the chain of the audit log. Trust: the folder is hostile; each line and file is
bounded, and nothing of a refused import is stored but large artifacts, which are then without an owner.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire import limits
from skillwire.adapters.files.atomic import read_bounded, storage_errors, sync_folder, write_atomically
from skillwire.adapters.sql.packages import ENTRY, read_entry
from skillwire.errors import ConflictError, SkillwireError, SourceLocation, StorageError, TrustError, ValidationError
from skillwire.folder.publish import packed_files
from skillwire.model.digest import Digest
from skillwire.model.package import Role, Status, is_account, is_namespace
from skillwire.model.packed_skills import pack_skill, unpack_skill
from skillwire.model.skill import is_skill_name, is_version
from skillwire.registry.audit import verify_entries
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from sqlite3 import Connection

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.adapters.sqlite.database import Database

FORM: Final = "skillwire/registry-export/1"
#: Table → what its rows are sorted by, in the order in which rows refer to earlier ones.
TABLES: Final = {
    "accounts": "name",
    "tokens": "token_id",
    "namespaces": "name",
    "members": "namespace, account",
    "packages": "number",
    "versions": "package, version",
    "requirements": "namespace, name, package, version",
    "readers": "package, account",
    "downloads": "package, day, version, counted",
    "audit": "number",
}
#: Tokens of no account are of the server that publishes folders.
_ROWS: Final = {"tokens": "account != ''"}
_HEADER: Final = "registry.json"


def export_registry(
    database: Database, large: FileBlobs, folder: Path, advance: Callable[[], object] = lambda: None
) -> Mapping[str, int]:
    """Write a new ``folder``, durably; return table → rows. ``advance`` is called for each artifact.

    Raises ConflictError (``EXPORT_EXISTS``), StorageError (``DATABASE``, ``STORAGE``).
    """
    with storage_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConflictError("EXPORT_EXISTS", f"{folder} is there already, and is not empty")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with database.reading() as connection:
        connection.execute("BEGIN")  # one snapshot
        try:
            columns = {table: _columns(connection, table) for table in TABLES}
            rows = {table: _write_table(connection, table, columns[table], folder) for table in TABLES}
            for digest, content in connection.execute("SELECT digest, content FROM artifacts ORDER BY digest"):
                found = Digest(f"sha256:{digest.hex()}")
                whole = large.read(found) if content is None else content
                if whole is None or Digest.of(whole) != found:
                    raise StorageError("DATABASE", f"the artifact {found} is lost or damaged")
                write_atomically(_artifact(folder, found), whole, mode=0o600, durable=True)
                advance()
        finally:
            connection.execute("ROLLBACK")
    names = {table: list(kinds) for table, kinds in columns.items()}
    header = json.dumps({"form": FORM, "columns": names, "rows": rows}, indent=1)
    write_atomically(folder / _HEADER, header.encode() + b"\n", mode=0o600, durable=True)
    return rows


def import_registry(
    database: Database, large: FileBlobs, folder: Path, advance: Callable[[], object] = lambda: None
) -> Mapping[str, int]:
    """Store an export in a registry without accounts and packages, whole or not at all; return table → rows.

    Raises ConflictError (``REGISTRY_NOT_EMPTY``), ValidationError (``EXPORT_FORM``, with the file and line), TrustError
    (``AUDIT_BROKEN``), StorageError.
    """
    with database.writing() as connection:
        for table in TABLES:
            if connection.execute(f"SELECT 1 FROM {table} {_where(table)} LIMIT 1").fetchone():  # noqa: S608  # constants
                raise ConflictError("REGISTRY_NOT_EMPTY", f"there are {table} here already")
        columns = {table: _columns(connection, table) for table in TABLES}
        wanted = {table: list(kinds) for table, kinds in columns.items()}
        header = _read_header(folder)
        if header.get("form") != FORM or header.get("columns") != wanted:
            raise _refused(folder / _HEADER, 1, "it is the export of another version of skillwire")
        rows = {table: _read_table(connection, table, columns[table], folder) for table in TABLES}
        if rows != header.get("rows"):
            raise _refused(folder / _HEADER, 1, "it has other numbers of rows than the files")
        _check_names(connection, folder)
        _read_artifacts(connection, large, folder, advance)
        _check_versions(connection, large, folder)
        if connection.execute("PRAGMA foreign_key_check").fetchone():
            raise _refused(folder / "versions.jsonl", 1, "a row refers to a package that is not there")
        with _refusals(folder / "audit.jsonl", 0):
            query = f"SELECT {ENTRY} FROM audit ORDER BY number"  # noqa: S608  # constants
            verify_entries(map(read_entry, connection.execute(query)))
    return rows


def _columns(connection: Connection, table: str) -> dict[str, str]:
    """Return column → declared type."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


def _where(table: str) -> str:
    return f"WHERE {_ROWS[table]}" if table in _ROWS else ""


def _artifact(folder: Path, digest: Digest) -> Path:
    return folder / "artifacts" / digest.hex[:2] / digest.hex[2:]


def _write_table(connection: Connection, table: str, columns: Mapping[str, str], folder: Path) -> int:
    number, path = 0, folder / f"{table}.jsonl"
    query = f"SELECT {', '.join(columns)} FROM {table} {_where(table)} ORDER BY {TABLES[table]}"  # noqa: S608  # constants
    opener = lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)  # noqa: E731  # it has token hashes
    with storage_errors(path), open(path, "wb", opener=opener) as file:  # Path.open takes no opener
        for row in connection.execute(query):
            shown = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in row]
            file.write(json.dumps(shown, separators=(",", ":")).encode() + b"\n")
            number += 1
        file.flush()
        os.fsync(file.fileno())
    with storage_errors(folder):
        sync_folder(folder)
    return number


def _read_header(folder: Path) -> dict[str, Any]:
    with _refusals(folder / _HEADER, 1):
        content = read_bounded(folder / _HEADER, limits.EXPORT_LINE_BYTES)
        header = load_json(content or b"", max_bytes=limits.EXPORT_LINE_BYTES)
    return header if isinstance(header, dict) else {}


def _read_table(connection: Connection, table: str, columns: Mapping[str, str], folder: Path) -> int:
    number, path = 0, folder / f"{table}.jsonl"
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  # constants
    kinds = list(columns.values())
    with storage_errors(path), path.open("rb") as file:
        while line := file.readline(limits.EXPORT_LINE_BYTES + 1):
            number += 1
            with _refusals(path, number):
                row = load_json(line, max_bytes=limits.EXPORT_LINE_BYTES)
                if not isinstance(row, list) or len(row) != len(kinds):
                    raise ValueError("it is no row of this table")
                connection.execute(statement, [_value(one, kind) for one, kind in zip(row, kinds, strict=True)])
    return number


def _value(value: object, kind: str) -> object:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if not isinstance(value, str):
        raise TypeError("a value is neither text nor a number")
    return base64.b64decode(value, validate=True) if kind == "BLOB" else value


def _check_names(connection: Connection, folder: Path) -> None:
    """Check the forms of names, which paths and URLs rely on. Raises ValidationError (``EXPORT_FORM``)."""
    checks: Sequence[tuple[str, str, Callable[[Any], bool]]] = (
        ("accounts", "name", is_account),
        ("namespaces", "name", is_namespace),
        ("packages", "namespace", is_namespace),
        ("packages", "name", is_skill_name),
        ("packages", "status", lambda one: one in set(Status)),
        ("versions", "version", is_version),
        ("versions", "status", lambda one: one in set(Status)),
        ("members", "role", lambda one: one in set(Role)),
    )
    for table, column, is_right in checks:
        for (value,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}"):  # noqa: S608  # constants
            if not is_right(value):
                raise _refused(folder / f"{table}.jsonl", 0, f"{column} {ascii(value)[:80]} has another form")


def _read_artifacts(connection: Connection, large: FileBlobs, folder: Path, advance: Callable[[], object]) -> None:
    """Store the artifact of each version. Raises ValidationError (``EXPORT_FORM``), StorageError."""
    statement = "INSERT INTO artifacts (digest, content, size) VALUES (?, ?, ?)"
    for (raw,) in connection.execute("SELECT DISTINCT artifact FROM versions ORDER BY artifact").fetchall():
        digest = Digest(f"sha256:{raw.hex()}")
        path = _artifact(folder, digest)
        content = read_bounded(path, limits.ARCHIVE_BYTES + 1)
        if content is None or Digest.of(content) != digest:
            raise _refused(path, 0, "the artifact is missing, or has another digest")
        is_large = len(content) > limits.REGISTRY_ROW_BYTES
        if is_large:
            large.put(content)
        connection.execute(statement, (raw, None if is_large else content, len(content)))
        advance()


def _check_versions(connection: Connection, large: FileBlobs, folder: Path) -> None:
    """Check that each version is of its package, and has the files of its artifact. Raises ValidationError."""
    query = """SELECT namespace, name, version, skill, digest, content FROM versions
        JOIN packages ON packages.number = package JOIN artifacts ON artifact = digest"""
    for namespace, name, version, packed, raw, content in connection.execute(query):
        digest = Digest(f"sha256:{raw.hex()}")
        with _refusals(folder / "versions.jsonl", 0):
            skill = unpack_skill(packed)
            own = (skill.publisher, skill.name, skill.version, skill.artifact.digest)
            found = packed_files(skill, (large.read(digest) or b"") if content is None else content)
            same = [(file.digest, file.size) for file in skill.files] == [(Digest.of(one), len(one)) for one in found]
            if own != (namespace, name, version, digest) or not same or pack_skill(skill) != packed:
                raise ValueError(f"{namespace}/{name} {version} is not what its artifact holds")


#: What hostile rows raise in what reads them.
_HOSTILE: Final = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError),
    *(msgspec.MsgspecError, sqlite3.IntegrityError, sqlite3.DataError),
)


@contextmanager
def _refusals(path: Path, line: int) -> Iterator[None]:
    """Raise what hostile bytes cause in the block as ValidationError (``EXPORT_FORM``)."""
    try:
        yield
    except _HOSTILE as error:
        raise _refused(path, line, str(error)) from error
    except (StorageError, TrustError):
        raise
    except SkillwireError as error:
        raise _refused(path, line, error.message) from error


def _refused(path: Path, line: int, reason: str) -> ValidationError:
    place = SourceLocation(str(path), line or None)
    return ValidationError("EXPORT_FORM", reason[:500], place=place)
