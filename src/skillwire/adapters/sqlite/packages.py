# ruff: noqa: S608  # every query is made of constants
"""The packages of a registry in SQLite.

An artifact of usual size is in the database, so that publishing is one durable transaction, which the writer thread
commits together with others; a large one is a file beside it, written durably before. The files that a server sends are
in its blob store, made again from the artifacts when they are lost.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.adapters.sqlite.async_database import Store, reads, writes
from skillwire.errors import StorageError
from skillwire.folder.publish import narrowest_access
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import (
    CLOSED,
    Account,
    AuditEntry,
    Change,
    ChangedPackage,
    ChangedPackages,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Proof,
    Rights,
    Role,
    Standing,
    State,
    Status,
    latest_version,
    move_skill,
    read_package_name,
    version_order,
)
from skillwire.model.packed_skills import pack_skill, unpack_skill
from skillwire.model.requirement import required_packages
from skillwire.registry.audit import FIRST_DIGEST, chain_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from sqlite3 import Connection

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.adapters.sqlite.async_database import AsyncDatabase
    from skillwire.model.package import Published

_ACCOUNT: Final = "name, created, is_operator, issuer, subject"
_NAMESPACE: Final = "name, created, proof, domain, proven, renamed_to"
_PACKAGE: Final = "namespace, name, created, access, status, reason, successor, latest, renamed_to"
_OF_PACKAGES: Final = ", ".join(f"packages.{column}" for column in _PACKAGE.split(", "))
_VERSION: Final = "skill, published, publisher, uploaded, status, reason, successor"
#: The columns of an audit entry.
ENTRY: Final = "number, at, account, action, target, details, address, request, digest"
#: Continues the numbers of changes.
_NEXT_CHANGE: Final = "(SELECT ifnull(max(changed), 0) + 1 FROM packages)"
#: The number of the row of a package, by its name.
_NUMBER: Final = "(SELECT number FROM packages WHERE namespace = ? AND name = ?)"
_OWNED: Final = "SELECT 1 FROM artifacts WHERE digest = ?"
#: Whether a package is listed, given whether private ones are.
_SHOWN: Final = f"(? OR access != '{Access.PRIVATE.value}')"
#: Where packages are looked up. Strangers use an index without private ones: such a one takes as long as none.
_LOOKED_UP: Final = {
    True: "packages WHERE",
    False: f"packages INDEXED BY packages_shown WHERE access != '{Access.PRIVATE.value}' AND",
}
_HEX: Final = 64  # characters of a digest; leftovers of writes have others
#: States of a package in which no version is served.
_HIDDEN: Final = {Status.DELETED, Status.QUARANTINED}


class SqlitePackages(Store):
    """Fills :class:`skillwire.ports.PackageStore`; ``large`` holds artifacts too large for a row, durably."""

    def __init__(self, database: AsyncDatabase, large: FileBlobs) -> None:
        super().__init__(database)
        self._large = large

    @writes
    def add_account(self, connection: Connection, account: Account, change: Change) -> bool:
        statement = f"INSERT OR IGNORE INTO accounts ({_ACCOUNT}) VALUES (?, ?, ?, ?, ?)"
        if connection.execute(statement, account).rowcount == 0:
            return False
        _record(connection, change)
        return True

    @writes
    def update_account(self, connection: Connection, account: Account, change: Change) -> bool:
        statement = "UPDATE OR IGNORE accounts SET is_operator = ?, issuer = ?, subject = ? WHERE name = ?"
        if connection.execute(statement, (*account[2:], account.name)).rowcount == 0:
            return False
        _record(connection, change)
        return True

    @reads
    def account(self, connection: Connection, name: str) -> Account | None:
        query = f"SELECT {_ACCOUNT} FROM accounts WHERE name = ?"
        return _read_account(connection.execute(query, (name,)).fetchone())

    @reads
    def account_of(self, connection: Connection, issuer: str, subject: str) -> Account | None:
        query = f"SELECT {_ACCOUNT} FROM accounts WHERE issuer = ? AND subject = ? AND issuer != ''"
        return _read_account(connection.execute(query, (issuer, subject)).fetchone())

    @reads
    def has_operator(self, connection: Connection) -> bool:
        return connection.execute("SELECT 1 FROM accounts WHERE is_operator LIMIT 1").fetchone() is not None

    @writes
    def add_namespace(self, connection: Connection, namespace: Namespace, owner: str, change: Change) -> bool:
        if not _insert_namespace(connection, namespace):
            return False
        connection.execute("INSERT INTO members VALUES (?, ?, ?)", (namespace.name, owner, Role.OWNER.value))
        _record(connection, change)
        return True

    @reads
    def namespace(self, connection: Connection, name: str) -> Namespace | None:
        query = f"SELECT {_NAMESPACE} FROM namespaces WHERE name = ?"
        row = connection.execute(query, (name,)).fetchone()
        return None if row is None else _read_namespace(row)

    @reads
    def namespaces(self, connection: Connection, after: str, limit: int) -> Sequence[Namespace]:
        query = f"SELECT {_NAMESPACE} FROM namespaces WHERE name > ? AND renamed_to = '' ORDER BY name LIMIT ?"
        return [_read_namespace(row) for row in connection.execute(query, (after, limit))]

    @writes
    def update_namespace(self, connection: Connection, namespace: Namespace, change: Change) -> None:
        statement = "UPDATE namespaces SET proof = ?, domain = ?, proven = ? WHERE name = ?"
        connection.execute(statement, (*namespace.proof, namespace.name))
        _record(connection, change)

    @writes
    def rename_namespace(self, connection: Connection, old: str, new: str, change: Change) -> bool:
        row = connection.execute(f"SELECT {_NAMESPACE} FROM namespaces WHERE name = ?", (old,)).fetchone()
        if row is None or row[-1] or not _insert_namespace(connection, Namespace(new, row[1])):
            return False
        connection.execute("UPDATE namespaces SET renamed_to = ? WHERE name = ? OR renamed_to = ?", (new, old, old))
        redirects = "UPDATE packages SET renamed_to = ?1 || substr(renamed_to, length(?2) + 1)"
        connection.execute(f"{redirects} WHERE substr(renamed_to, 1, length(?2) + 1) = ?2 || '/'", (new, old))
        for table in ("members", "audit", "requirements"):
            connection.execute(f"UPDATE {table} SET namespace = ? WHERE namespace = ?", (new, old))
        numbers = [
            number for (number,) in connection.execute("SELECT number FROM packages WHERE namespace = ?", (old,))
        ]
        for number in numbers:
            statement = f"UPDATE packages SET namespace = ?, changed = {_NEXT_CHANGE} WHERE number = ?"
            connection.execute(statement, (new, number))
            packed = connection.execute("SELECT version, skill FROM versions WHERE package = ?", (number,)).fetchall()
            for version, content in packed:
                renamed = pack_skill(move_skill(unpack_skill(content), new))
                statement = "UPDATE versions SET skill = ? WHERE package = ? AND version = ?"
                connection.execute(statement, (renamed, number, version))
        _record(connection, change)
        return True

    @writes
    def set_role(self, connection: Connection, namespace: str, account: str, role: Role | None, change: Change) -> bool:
        query = "SELECT 1 FROM members WHERE namespace = ? AND role = ? AND account != ?"
        other = connection.execute(query, (namespace, Role.OWNER.value, account)).fetchone()
        if role is not Role.OWNER and other is None:
            return False
        connection.execute("DELETE FROM members WHERE namespace = ? AND account = ?", (namespace, account))
        if role is not None:
            connection.execute("INSERT INTO members VALUES (?, ?, ?)", (namespace, account, role.value))
        _record(connection, change)
        return True

    @reads
    def members(self, connection: Connection, namespace: str) -> Mapping[str, Role]:
        query = "SELECT account, role FROM members WHERE namespace = ? ORDER BY account"
        return {account: Role(role) for account, role in connection.execute(query, (namespace,))}

    @reads
    def roles(self, connection: Connection, account: str) -> Mapping[str, Role]:
        return _roles(connection, account)

    @reads
    def standing(self, connection: Connection, account: str, name: PackageName) -> Standing:
        query = (
            f"SELECT {_NAMESPACE} FROM namespaces WHERE renamed_to = '' "
            "AND name = ifnull((SELECT nullif(renamed_to, '') FROM namespaces WHERE name = ?1), ?1)"
        )
        row = connection.execute(query, (name.namespace,)).fetchone()
        if row is None:
            return Standing(None)
        query = "SELECT role FROM members WHERE namespace = ? AND account = ?"
        role = connection.execute(query, (row[0], account)).fetchone()
        found = _find(connection, PackageName(row[0], name.name))
        return Standing(_read_namespace(row), Role(role[0]) if role else None, found[1] if found else None)

    @reads
    def named(self, connection: Connection, account: str) -> int:
        query = "SELECT count(*) FROM audit WHERE account = ? AND action IN ('namespace.create', 'namespace.rename')"
        return int(connection.execute(query, (account,)).fetchone()[0])

    async def publish(self, version: PackageVersion, artifact: bytes, change: Change) -> Published:
        is_large = len(artifact) > limits.REGISTRY_ROW_BYTES
        if is_large:
            await asyncio.to_thread(self._large.put, artifact)
        return await self._publish(version, None if is_large else artifact, change)

    @writes
    def _publish(
        self, connection: Connection, version: PackageVersion, content: bytes | None, change: Change
    ) -> Published:
        skill = version.skill
        packed, digest = pack_skill(skill), _raw(skill.artifact.digest)
        found = _find(connection, version.package)
        renamed = "SELECT 1 FROM namespaces WHERE name = ? AND renamed_to != ''"
        if connection.execute(renamed, (skill.publisher,)).fetchone():
            return "closed"
        if found is None:
            columns = f"{_PACKAGE}, changed"
            statement = f"INSERT INTO packages ({columns}) VALUES (?, ?, ?, ?, ?, '', '', '', '', {_NEXT_CHANGE})"
            row = (skill.publisher, skill.name, change.at, skill.access.value, Status.ACTIVE.value)
            number = connection.execute(statement, row).lastrowid
        else:
            number, package = found
            query = "SELECT artifact FROM versions WHERE package = ? AND version = ?"
            same = connection.execute(query, (number, version.version)).fetchone()
            if package.state.status in CLOSED or package.renamed_to:
                return "closed"
            if same is not None:
                return "repeated" if same[0] == digest else "conflict"
            if not _fits(connection, version.package, packed):
                return "full"
            access = narrowest_access(package.access, skill.access)
            connection.execute("UPDATE packages SET access = ? WHERE number = ?", (access.value, number))
        if content is None and not self._large.has(skill.artifact.digest, skill.artifact.size):
            raise StorageError("STORAGE", "the artifact was removed before its version was stored")
        statement = "INSERT OR IGNORE INTO artifacts (digest, content, size) VALUES (?, ?, ?)"
        connection.execute(statement, (digest, content, skill.artifact.size))
        columns = f"package, version, artifact, {_VERSION}"
        connection.execute(
            f"INSERT INTO versions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(number, version.version, digest),
                *(packed, version.published, version.publisher, _raw(version.uploaded)),
                *_state_row(version.state),
            ),
        )
        rows = [(*name, number, version.version) for name in required_packages(skill.requires, skill.publisher)]
        present = "ifnull((SELECT nullif(renamed_to, '') FROM namespaces WHERE name = ?1), ?1)"
        connection.executemany(f"INSERT OR IGNORE INTO requirements VALUES ({present}, ?2, ?3, ?4)", rows)
        _own_name(connection, version.package)
        _set_latest(connection, number)
        _record(connection, change)
        return "created"

    @reads
    def fits(self, connection: Connection, version: PackageVersion) -> bool:
        return _fits(connection, version.package, pack_skill(version.skill))

    @reads
    def package(self, connection: Connection, name: PackageName, *, with_private: bool = True) -> Package | None:
        found = _find(connection, name, with_private=with_private)
        return None if found is None else found[1]

    @reads
    def packages(
        self, connection: Connection, namespace: str, after: str, limit: int, *, with_private: bool = True
    ) -> Sequence[Package]:
        condition = f"{_LOOKED_UP[with_private]} namespace = ? AND name > ? AND status != ?"
        query = f"SELECT {_PACKAGE} FROM {condition} ORDER BY name LIMIT ?"
        row = (namespace, after, Status.DELETED.value, limit)
        return [_read_package(row) for row in connection.execute(query, row)]

    @reads
    def find_packages(
        self, connection: Connection, beginning: str, after: PackageName, limit: int, *, with_private: bool = True
    ) -> Sequence[Package]:
        query = (
            f"SELECT {_PACKAGE} FROM packages WHERE name >= ? AND name < ? AND (name, namespace) > (?, ?) "
            f"AND status != ? AND {_SHOWN} AND renamed_to = '' ORDER BY name, namespace LIMIT ?"
        )
        deleted, end = Status.DELETED.value, f"{beginning}~"  # ~ is behind z
        row = (beginning, end, after.name, after.namespace, deleted, with_private, limit)
        return [_read_package(row) for row in connection.execute(query, row)]

    @writes
    def set_access(self, connection: Connection, name: PackageName, access: Access, change: Change) -> None:
        _update(connection, name, change, access=access.value)
        _own_name(connection, name)

    @writes
    def redirect_package(self, connection: Connection, name: PackageName, to: PackageName, change: Change) -> None:
        query = "SELECT namespace, name FROM packages WHERE renamed_to = ?"
        for earlier in connection.execute(query, (str(name),)).fetchall():
            _set(connection, PackageName(*earlier), renamed_to=str(to))
        _update(connection, name, change, renamed_to=str(to))
        owner = "SELECT 1 FROM packages WHERE namespace = ? AND name = ? AND owns_name"
        if to.name == name.name and connection.execute(owner, name).fetchone():
            _set(connection, name, owns_name=0)
            _set(connection, to, owns_name=1)

    @writes
    def set_package_state(self, connection: Connection, name: PackageName, state: State, change: Change) -> None:
        status, reason, successor = _state_row(state)
        _update(connection, name, change, status=status, reason=reason, successor=successor)

    @writes
    def set_version_state(
        self, connection: Connection, name: PackageName, version: str, state: State, change: Change
    ) -> None:
        found = _find(connection, name)
        if found is not None:
            statement = "UPDATE versions SET status = ?, reason = ?, successor = ? WHERE package = ? AND version = ?"
            connection.execute(statement, (*_state_row(state), found[0], version))
            _set_latest(connection, found[0])
            _record(connection, change)

    @writes
    def set_reader(
        self, connection: Connection, name: PackageName, account: str, *, may_read: bool, change: Change
    ) -> None:
        found = _find(connection, name)
        if found is not None:
            add, remove = (
                "INSERT OR IGNORE INTO readers VALUES (?, ?)",
                "DELETE FROM readers WHERE package = ? AND account = ?",
            )
            connection.execute(add if may_read else remove, (found[0], account))
            _record(connection, change)

    @reads
    def readers(self, connection: Connection, name: PackageName) -> Sequence[str]:
        query = f"SELECT account FROM readers WHERE package = {_NUMBER} ORDER BY account"
        return [account for (account,) in connection.execute(query, name)]

    @reads
    def rights(self, connection: Connection, account: str) -> Rights:
        row = connection.execute(f"SELECT {_ACCOUNT} FROM accounts WHERE name = ?", (account,)).fetchone()
        query = "SELECT namespace, name FROM readers JOIN packages ON number = package WHERE account = ?"
        shared = sorted(PackageName(*row) for row in connection.execute(query, (account,)))
        return Rights(_read_account(row), _roles(connection, account), shared)

    @reads
    def version(self, connection: Connection, name: PackageName, version: str) -> PackageVersion | None:
        query = f"SELECT {_VERSION} FROM versions WHERE package = {_NUMBER} AND version = ?"
        row = connection.execute(query, (*name, version)).fetchone()
        return None if row is None else _read_version(row)

    @reads
    def versions(self, connection: Connection, name: PackageName) -> Sequence[PackageVersion]:
        query = f"SELECT {_VERSION} FROM versions WHERE package = {_NUMBER}"
        versions = [_read_version(row) for row in connection.execute(query, name)]
        return sorted(versions, key=lambda one: version_order(one.version), reverse=True)

    @reads
    def dependents(
        self, connection: Connection, name: PackageName, after: PackageName, limit: int, *, with_private: bool = True
    ) -> Sequence[Package]:
        query = (
            f"SELECT {_OF_PACKAGES} FROM requirements JOIN packages ON number = package AND latest = version "
            f"WHERE requirements.namespace = ? AND requirements.name = ? AND status != ? AND {_SHOWN} "
            "AND (packages.namespace, packages.name) > (?, ?) ORDER BY packages.namespace, packages.name LIMIT ?"
        )
        row = (*name, Status.DELETED.value, with_private, *after, limit)
        return [_read_package(row) for row in connection.execute(query, row)]

    @reads
    def by_artifact(self, connection: Connection, digest: Digest, limit: int) -> Sequence[PackageVersion]:
        query = f"SELECT {_VERSION} FROM versions WHERE artifact = ? ORDER BY published LIMIT ?"
        return [_read_version(row) for row in connection.execute(query, (_raw(digest), limit))]

    async def artifact(self, digest: Digest) -> bytes | None:
        found, content = await self._artifact(digest)
        return await asyncio.to_thread(self._large.read, digest) if found and content is None else content

    @reads
    def _artifact(self, connection: Connection, digest: Digest) -> tuple[bool, bytes | None]:
        row = connection.execute("SELECT content FROM artifacts WHERE digest = ?", (_raw(digest),)).fetchone()
        return (False, None) if row is None else (True, row[0])

    @writes
    def remove_unowned(self, connection: Connection, before: float) -> int:
        removed = 0
        with storage_errors(self._large.directory):
            for path, digest in self._large.files():
                owned = len(digest.hex) == _HEX and connection.execute(_OWNED, (_raw(digest),)).fetchone()
                if not owned and path.stat().st_mtime < before:  # in one transaction, so that no version comes
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    @reads
    def changed(self, connection: Connection, after: int, limit: int) -> ChangedPackages:
        versions = "versions ON versions.package = packages.number AND versions.version = packages.latest"
        query = (
            "SELECT changed, number, owns_name, skill, versions.status, versions.reason, versions.successor, "
            f"{_OF_PACKAGES} FROM packages LEFT JOIN {versions} WHERE changed > ? ORDER BY changed LIMIT ?"
        )
        found, cursor = [], after
        rows = connection.execute(query, (after, limit))
        for changed, number, owns, packed, status, reason, successor, *row in rows:
            package, cursor = _read_package(row), changed
            is_hidden = packed is None or package.state.status in _HIDDEN or package.renamed_to
            state = State() if is_hidden else State(Status(status), reason, successor)
            found.append(ChangedPackage(number, package, None if is_hidden else packed, state, bool(owns)))
        return ChangedPackages(cursor, tuple(found))

    @writes
    def record(self, connection: Connection, change: Change) -> None:
        _record(connection, change)

    @reads
    def audit(
        self, connection: Connection, after: int, limit: int, namespaces: Collection[str] | None = None
    ) -> Sequence[AuditEntry]:
        condition, names = "number > ?", tuple(namespaces or ())
        if namespaces is not None:
            marks = ", ".join("?" * len(names))
            condition += f" AND namespace IN ({marks})"
        query = f"SELECT {ENTRY} FROM audit WHERE {condition} ORDER BY number LIMIT ?"
        return [read_entry(row) for row in connection.execute(query, (after, *names, limit))]

    @reads
    def statistics(self, connection: Connection, *, with_private: bool) -> Mapping[str, int]:
        known = "SELECT number FROM packages WHERE status != ?" + ("" if with_private else " AND access != ?")
        row = (Status.DELETED.value,) if with_private else (Status.DELETED.value, Access.PRIVATE.value)
        stored = f"SELECT DISTINCT artifact FROM versions WHERE package IN ({known})"
        queries = {
            "namespaces": "SELECT count(*) FROM namespaces WHERE renamed_to = ''",
            "packages": f"SELECT count(*) FROM ({known})",
            "versions": f"SELECT count(*) FROM versions WHERE package IN ({known})",
            "downloads": f"SELECT count(*) FROM downloads WHERE package IN ({known})",
            "bytes": f"SELECT ifnull(sum(size), 0) FROM artifacts WHERE digest IN ({stored})",
        }
        counted = {key: connection.execute(query, row if "?" in query else ()) for key, query in queries.items()}
        return {key: int(found.fetchone()[0]) for key, found in counted.items()}

    @writes
    def count_download(self, connection: Connection, name: PackageName, version: str, day: str, counted: bytes) -> None:
        found = _find(connection, name)
        if found is not None:
            row = (found[0], day, version, counted)
            connection.execute("INSERT OR IGNORE INTO downloads VALUES (?, ?, ?, ?)", row)

    @reads
    def rank(self, connection: Connection) -> Mapping[str, Mapping[str, float]]:
        counts = dict(connection.execute("SELECT package, count(*) FROM downloads GROUP BY package").fetchall())
        query = "SELECT number, namespace, name, owns_name, changed FROM packages WHERE access = 'public'"
        found: dict[str, dict[str, float]] = {"updated": {}, "downloads": {}}
        for number, namespace, name, owns_name, changed in connection.execute(query):
            for key in (f"{namespace}/{name}", *([name] if owns_name else [])):
                found["updated"][key] = changed
                found["downloads"][key] = counts.get(number, 0)
        return found

    @reads
    def downloads(self, connection: Connection, name: PackageName, since: str) -> Mapping[str, int]:
        counts = "SELECT day, count(DISTINCT counted) FROM downloads"
        query = f"{counts} WHERE package = {_NUMBER} AND day >= ? GROUP BY day ORDER BY day"
        return dict(connection.execute(query, (*name, since)).fetchall())


def _roles(connection: Connection, account: str) -> dict[str, Role]:
    query = "SELECT namespace, role FROM members WHERE account = ? ORDER BY namespace"
    return {namespace: Role(role) for namespace, role in connection.execute(query, (account,))}


def _find(connection: Connection, name: PackageName, *, with_private: bool = True) -> tuple[int, Package] | None:
    """Return the number of a package's row, and the package."""
    query = f"SELECT number, {_PACKAGE} FROM {_LOOKED_UP[with_private]} namespace = ? AND name = ?"
    row = connection.execute(query, name).fetchone()
    return None if row is None else (row[0], _read_package(row[1:]))


def _fits(connection: Connection, name: PackageName, packed: bytes) -> bool:
    query = f"SELECT ifnull(sum(length(skill)), 0) FROM versions WHERE package = {_NUMBER}"
    (held,) = connection.execute(query, name).fetchone()
    return not held or int(held) + len(packed) <= limits.REGISTRY_PACKAGE_BYTES


def _update(connection: Connection, name: PackageName, change: Change, **values: str) -> None:
    _set(connection, name, **values)
    _record(connection, change)


def _set(connection: Connection, name: PackageName, **values: str | int) -> None:
    columns = ", ".join(f"{column} = ?" for column in values)
    statement = f"UPDATE packages SET {columns}, changed = {_NEXT_CHANGE} WHERE namespace = ? AND name = ?"
    connection.execute(statement, (*values.values(), *name))


def _own_name(connection: Connection, name: PackageName) -> None:
    """Give a package that is not private its name without the namespace, unless another one was given it before."""
    condition = f"namespace = ?1 AND name = ?2 AND access != '{Access.PRIVATE.value}'"
    other = "SELECT 1 FROM packages WHERE name = ?2 AND owns_name"
    connection.execute(f"UPDATE packages SET owns_name = 1 WHERE {condition} AND NOT EXISTS ({other})", name)


def _set_latest(connection: Connection, number: int | None) -> None:
    versions = connection.execute("SELECT version, status FROM versions WHERE package = ?", (number,)).fetchall()
    latest = latest_version((version, Status(status)) for version, status in versions)
    connection.execute(f"UPDATE packages SET latest = ?, changed = {_NEXT_CHANGE} WHERE number = ?", (latest, number))


def _insert_namespace(connection: Connection, namespace: Namespace) -> bool:
    row = (namespace.name, namespace.created, *namespace.proof)
    statement = "INSERT OR IGNORE INTO namespaces VALUES (?, ?, ?, ?, ?, '')"
    return connection.execute(statement, row).rowcount == 1


def _record(connection: Connection, change: Change) -> None:
    """Append the audit entry of a change."""
    last = connection.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, previous = (last[0] + 1, last[1]) if last else (1, FIRST_DIGEST)
    details = json.dumps(change.details, sort_keys=True)
    row = (number, *change[:4], details, *change[5:], chain_digest(previous, number, change), change.namespace)
    connection.execute(f"INSERT INTO audit ({ENTRY}, namespace) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _read_account(row: tuple[Any, ...] | None) -> Account | None:
    return None if row is None else Account(row[0], row[1], bool(row[2]), *row[3:])


def _read_namespace(row: Sequence[Any]) -> Namespace:
    name, created, kind, domain, proven, renamed_to = row
    return Namespace(name, created, Proof(kind, domain, proven), renamed_to)


def _read_package(row: Sequence[Any]) -> Package:
    namespace, name, created, access, status, reason, successor, latest, renamed_to = row
    state = State(Status(status), reason, successor)
    renamed = read_package_name(renamed_to) if renamed_to else None
    return Package(PackageName(namespace, name), created, Access(access), state, latest, renamed)


def _read_version(row: Sequence[Any]) -> PackageVersion:
    packed, published, publisher, uploaded, status, reason, successor = row
    state = State(Status(status), reason, successor)
    return PackageVersion(unpack_skill(packed), published, publisher, Digest(f"sha256:{uploaded.hex()}"), state)


def read_entry(row: Sequence[Any]) -> AuditEntry:
    """Return the entry in a row of :data:`ENTRY`."""
    number, at, account, action, target, details, address, request, digest = row
    return AuditEntry(number, Change(at, account, action, target, json.loads(details), address, request), digest)


def _state_row(state: State) -> tuple[str, str, str]:
    return state.status.value, state.reason, state.successor


def _raw(digest: Digest) -> bytes:
    return bytes.fromhex(digest.hex)
