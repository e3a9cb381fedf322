# ruff: noqa: ASYNC230, ASYNC240  # files are read and written where nothing else waits
"""Everything of a registry as a folder of plain files: the export of one, which another one imports.

``registry.json`` names the form, the columns of each table, and how many rows each has; it is written last, so an
export without it is not whole. ``TABLE.jsonl`` has one row a line, a JSON array in the order of the columns, sorted by
the primary key; binary values are in base64. ``artifacts/ab/cdef...`` holds the artifact with SHA-256 ``abcdef...``.
So equal registries have equal exports, byte for byte. An export is one snapshot, also of a registry that is in use.

An import is one transaction into an empty registry. It verifies each artifact's digest, that a version has the files
of its artifact, names, references, and the chain of the audit log. Trust: the folder is hostile; each line and file is
bounded, and nothing of a refused import is stored.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from skillwire import limits
from skillwire.adapters.files.atomic import read_bounded, storage_errors, sync_folder, write_atomically
from skillwire.adapters.sql import Connection, Database
from skillwire.adapters.sql.artifacts import LargeArtifacts
from skillwire.adapters.sql.package_rows import ENTRY, read_entry
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.errors import ConflictError, SkillwireError, SourceLocation, StorageError, TrustError, ValidationError
from skillwire.folder.publish import packed_files
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import Role, Status, is_account, is_namespace
from skillwire.model.skill import is_skill_name, is_version
from skillwire.registry.audit import verify_entries
from skillwire.trust.guarded_json import load_json

FORM: Final = "skillwire/registry-export/1"
#: Table → its columns, those first that its rows are sorted by, in the order in which rows refer to earlier ones.
TABLES: Final = {
    "accounts": "name, created, is_operator, issuer, subject",
    "tokens": "token_id, name, kind, skills, scopes, created, expires, revoked, digest, account, used",
    "namespaces": "name, created, proof, domain, proven, renamed_to",
    "members": "namespace, account, role",
    "packages": (
        "number, namespace, name, created, access, status, reason, successor, latest, renamed_to, changed, owns_name"
    ),
    "versions": "package, version, artifact, uploaded, skill, published, publisher, status, reason, successor",
    "requirements": "namespace, name, package, version",
    "readers": "package, account",
    "downloads": "package, day, version, counted",
    "audit": "number, at, account, action, target, details, address, request, digest",
}
#: Table → how many columns its rows are sorted by, where that is not one.
_KEYS: Final = {"members": 2, "versions": 2, "requirements": 4, "readers": 2, "downloads": 4}
#: Columns of bytes, and of flags, which are numbers in the files.
_BINARY: Final = {
    ("tokens", "digest"),
    ("versions", "artifact"),
    ("versions", "uploaded"),
    ("versions", "skill"),
    ("downloads", "counted"),
}
_FLAGS: Final = {("accounts", "is_operator"), ("packages", "owns_name")}
_COLUMNS: Final = {table: columns.split(", ") for table, columns in TABLES.items()}
#: Tokens of no account are of the server that publishes folders.
_ROWS: Final = {"tokens": "account != ''"}
#: Rows that are in memory at once.
_PAGE: Final = 1_000
_HEADER: Final = "registry.json"


async def export_registry(
    database: Database, large: LargeArtifacts | None, folder: Path, advance: Callable[[], object] = lambda: None
) -> Mapping[str, int]:
    """Write a new ``folder``, durably; return table → rows. ``advance`` is called for each artifact.

    Raises ConflictError (``EXPORT_EXISTS``), StorageError (``DATABASE``, ``STORAGE``).
    """
    with storage_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConflictError("EXPORT_EXISTS", f"{folder} is there already, and is not empty")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def write(connection: Connection) -> dict[str, int]:
        rows = {table: await _write_table(connection, table, folder) for table in TABLES}
        async for ((digest, _),) in _pages(connection, "artifacts", ["digest", "size"], 1, 1):
            content = await connection.value("SELECT content FROM artifacts WHERE digest = ?", (digest,))
            found = Digest(f"sha256:{digest.hex()}")
            whole = large.read(found) if content is None and large else content
            if whole is None or Digest.of(whole) != found:
                raise StorageError("DATABASE", f"the artifact {found} is lost or damaged")
            write_atomically(_artifact(folder, found), whole, mode=0o600, durable=True)
            advance()
        return rows

    rows = await database.read(write)
    header = json.dumps({"form": FORM, "columns": _COLUMNS, "rows": rows}, indent=1)
    write_atomically(folder / _HEADER, header.encode() + b"\n", mode=0o600, durable=True)
    return rows


async def import_registry(
    database: Database, large: LargeArtifacts | None, folder: Path, advance: Callable[[], object] = lambda: None
) -> Mapping[str, int]:
    """Store an export in a registry without accounts and packages, whole or not at all; return table → rows.

    Raises ConflictError (``REGISTRY_NOT_EMPTY``), ValidationError (``EXPORT_FORM``, with the file and line), TrustError
    (``AUDIT_BROKEN``), StorageError.
    """

    async def read(connection: Connection) -> dict[str, int]:
        for table in TABLES:
            if await connection.row(f"SELECT 1 FROM {table} {_where(table)} LIMIT 1"):  # noqa: S608  # constants
                raise ConflictError("REGISTRY_NOT_EMPTY", f"there are {table} here already")
        header = _read_header(folder)
        if header.get("form") != FORM or header.get("columns") != _COLUMNS:
            raise _refused(folder / _HEADER, 1, "it is the export of another version of skillwire")
        rows = {table: await _read_table(connection, table, folder) for table in TABLES}
        if rows != header.get("rows"):
            raise _refused(folder / _HEADER, 1, "it has other numbers of rows than the files")
        await connection.continue_numbers("packages")
        await _check_names(connection, folder)
        with _removing_refused(large) as stored:  # in the transaction, so that no version with one of them comes
            await _read_artifacts(connection, large, folder, stored, advance)
            await _check_versions(connection, large, folder)
            last = None
            async for page in _pages(connection, "audit", ENTRY.split(", "), 1):
                with _refusals(folder / "audit.jsonl", 0):
                    last = verify_entries(map(read_entry, page), last)
            if last is None and rows["accounts"]:
                raise TrustError("AUDIT_BROKEN", "the log is empty, and there are accounts")
        return rows

    return await database.write(read, SqlPackages.turn)


async def _pages(
    connection: Connection, table: str, columns: Sequence[str], keys: int, size: int = _PAGE
) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
    """Give the rows of a table, some at a time, in the order of its first columns."""
    key, after = ", ".join(columns[:keys]), ()
    wanted = f"SELECT {', '.join(columns)} FROM {table} {_where(table)}"  # noqa: S608  # constants
    behind = f"{'AND' if table in _ROWS else 'WHERE'} ({key}) > ({', '.join('?' * keys)})"
    while rows := await connection.rows(f"{wanted} {behind if after else ''} ORDER BY {key} LIMIT {size}", after):
        yield rows
        after = rows[-1][:keys]


def _where(table: str) -> str:
    return f"WHERE {_ROWS[table]}" if table in _ROWS else ""


def _artifact(folder: Path, digest: Digest) -> Path:
    return folder / "artifacts" / digest.hex[:2] / digest.hex[2:]


async def _write_table(connection: Connection, table: str, folder: Path) -> int:
    number, path = 0, folder / f"{table}.jsonl"
    opener = lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)  # noqa: E731  # token hashes
    with storage_errors(path), open(path, "wb", opener=opener) as file:  # Path.open takes no opener
        async for rows in _pages(connection, table, _COLUMNS[table], _KEYS.get(table, 1)):
            file.writelines(
                json.dumps([_shown(one) for one in row], separators=(",", ":")).encode() + b"\n" for row in rows
            )
            number += len(rows)
        file.flush()
        os.fsync(file.fileno())
    with storage_errors(folder):
        sync_folder(folder)
    return number


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return int(value) if isinstance(value, bool) else value


def _read_header(folder: Path) -> dict[str, Any]:
    content = read_bounded(folder / _HEADER, limits.EXPORT_LINE_BYTES)
    if content is None:
        fix = "Name a folder that skillwire registry export has written."
        raise ValidationError("EXPORT_FORM", f"it has no {_HEADER}", place=SourceLocation(str(folder)), fix=fix)
    with _refusals(folder / _HEADER, 1):
        header = load_json(content, max_bytes=limits.EXPORT_LINE_BYTES)
    return header if isinstance(header, dict) else {}


async def _read_table(connection: Connection, table: str, folder: Path) -> int:
    number, path = 0, folder / f"{table}.jsonl"
    columns = _COLUMNS[table]
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # constants
    with storage_errors(path), path.open("rb") as file:
        while line := file.readline(limits.EXPORT_LINE_BYTES + 1):
            number += 1
            with _refusals(path, number, connection):
                row = load_json(line, max_bytes=limits.EXPORT_LINE_BYTES)
                if not isinstance(row, list) or len(row) != len(columns):
                    raise ValueError("it is no row of this table")
                values = [_value(one, (table, column)) for one, column in zip(row, columns, strict=True)]
                await connection.run(statement, values)
    return number


def _value(value: object, column: tuple[str, str]) -> object:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return bool(value) if column in _FLAGS else value
    if not isinstance(value, str):
        raise TypeError("a value is neither text nor a number")
    return base64.b64decode(value, validate=True) if column in _BINARY else value


async def _check_names(connection: Connection, folder: Path) -> None:
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
        for (value,) in await connection.rows(f"SELECT DISTINCT {column} FROM {table}"):  # noqa: S608  # constants
            if not is_right(value):
                raise _refused(folder / f"{table}.jsonl", 0, f"{column} {ascii(value)[:80]} has another form")


async def _read_artifacts(
    connection: Connection,
    large: LargeArtifacts | None,
    folder: Path,
    stored: set[Digest],
    advance: Callable[[], object],
) -> None:
    """Store the artifact of each version; add large ones to ``stored``. Raises ValidationError, StorageError."""
    statement = "INSERT INTO artifacts (digest, content, size) VALUES (?, ?, ?)"
    for (raw,) in await connection.rows("SELECT DISTINCT artifact FROM versions ORDER BY artifact"):
        digest = Digest(f"sha256:{raw.hex()}")
        path = _artifact(folder, digest)
        content = read_bounded(path, limits.ARCHIVE_BYTES + 1)
        if content is None or Digest.of(content) != digest:
            raise _refused(path, 0, "the artifact is missing, or has another digest")
        is_large = large is not None and len(content) > limits.REGISTRY_ROW_BYTES
        if large is not None and is_large:
            if not large.has(digest, len(content)):
                stored.add(digest)
            large.put(content)
        await connection.run(statement, (raw, None if is_large else content, len(content)))
        advance()


@contextmanager
def _removing_refused(large: LargeArtifacts | None) -> Iterator[set[Digest]]:
    """Give a set for the artifacts that the block stores; remove these if it raises."""
    stored: set[Digest] = set()
    try:
        yield stored
    except BaseException:
        for digest, remove in large.aged(math.inf) if large and stored else ():
            if digest in stored:
                remove()
        raise


async def _check_versions(connection: Connection, large: LargeArtifacts | None, folder: Path) -> None:
    """Check that each version is of its package, and has the files of its artifact. Raises ValidationError."""
    names = {
        number: (*name,) for number, *name in await connection.rows("SELECT number, namespace, name FROM packages")
    }
    query = "SELECT content FROM artifacts WHERE digest = ?"
    async for rows in _pages(connection, "versions", ["package", "version", "skill", "artifact"], 2):
        for package, version, packed, raw in rows:
            digest = Digest(f"sha256:{raw.hex()}")
            content = await connection.value(query, (raw,)) or (large and large.read(digest)) or b""
            with _refusals(folder / "versions.jsonl", 0):
                skill = unpack_skill(packed)
                own = (skill.publisher, skill.name, skill.version, skill.artifact.digest)
                found = packed_files(skill, content)
                same = [(file.digest, file.size) for file in skill.files] == [
                    (Digest.of(one), len(one)) for one in found
                ]
                if own != (*names[package], version, digest) or not same or pack_skill(skill) != packed:
                    raise ValueError(f"{'/'.join(names[package])} {version} is not what its artifact holds")


#: What hostile rows raise in what reads them.
_HOSTILE: Final = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError),
    msgspec.MsgspecError,
)


@contextmanager
def _refusals(path: Path, line: int, connection: Connection | None = None) -> Iterator[None]:
    """Raise what hostile bytes cause in the block as ValidationError (``EXPORT_FORM``)."""
    hostile: tuple[type[Exception], ...] = (*_HOSTILE, *(connection.refusals if connection else ()))
    try:
        yield
    except hostile as error:
        raise _refused(path, line, str(error)) from error
    except (StorageError, TrustError):
        raise
    except SkillwireError as error:
        raise _refused(path, line, error.message) from error


def _refused(path: Path, line: int, reason: str) -> ValidationError:
    place = SourceLocation(str(path), line or None)
    return ValidationError("EXPORT_FORM", reason[:500], place=place)
