# ruff: noqa: S608  # every query is made of constants
"""The packages of a registry, as rows; their artifacts are those of :mod:`skillwire.adapters.sql.artifacts`.

The files that a server sends are in its blob store, made again from the artifacts when they are lost.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.adapters.sql import reads, writes
from skillwire.adapters.sql.artifacts import SqlArtifacts
from skillwire.adapters.sql.package_rows import (
    ACCOUNT,
    ENTRY,
    LAST_ENTRY,
    LOOKED_UP,
    NAMESPACE,
    NO_COPY_STATES,
    OF_PACKAGES,
    OPERATORS,
    PACKAGE,
    STANDING,
    VERSION,
    append_entry,
    check_standing,
    find_changeable,
    find_copy_states,
    find_package,
    insert_account,
    insert_namespace,
    raw_digest,
    read_account,
    read_entry,
    read_namespace,
    read_package,
    read_rights,
    read_version,
    record_change,
    standing_values,
    state_row,
)
from skillwire.errors import StorageError
from skillwire.model.access import EVERY_SKILL, Access
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import (
    CLOSED,
    Account,
    AccountUpdate,
    Among,
    AuditEntry,
    Change,
    ChangeCursor,
    ChangedPackage,
    ChangedPackages,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Rights,
    Role,
    State,
    Status,
    StoredVersion,
    latest_version,
    move_skill,
    required_packages,
    version_order,
)
from skillwire.registry.access import Standing, check_change, check_version, differing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from skillwire.adapters.sql import Connection

#: Continues the numbers of changes.
_NEXT_CHANGE: Final = "(SELECT coalesce(max(changed), 0) + 1 FROM packages)"
#: The number of the row of a package, by its name.
_NUMBER: Final = "(SELECT number FROM packages WHERE namespace = ? AND name = ?)"
#: How many bytes the versions of a package hold.
_HELD: Final = "(SELECT coalesce(sum(length(skill)), 0) FROM versions WHERE package = packages.number)"
_GRANTS: Final = "(SELECT value FROM json_each(?1))"
#: Whether a package is listed for a caller with the grants ?1.
_SHOWN: Final = (
    f"(access != '{Access.PRIVATE.value}' OR '{EVERY_SKILL}' IN {_GRANTS} OR "
    f"packages.namespace || '/{EVERY_SKILL}' IN {_GRANTS} OR packages.namespace || '/' || packages.name IN {_GRANTS})"
)
_AMONG: Final = {
    "present": "renamed_to = ''",
    "latest": "renamed_to = '' AND latest != ''",
    "renamed": "renamed_to != ''",
}
#: States of a package in which no version is served.
_HIDDEN: Final = {Status.DELETED, Status.QUARANTINED}


class SqlPackages(SqlArtifacts):
    """Fills :class:`skillwire.ports.PackageStore`."""

    @writes
    async def add_account(
        self, connection: Connection, account: Account, change: Change, *, is_first: bool = False
    ) -> bool:
        is_new = await insert_account(connection, account, is_first=is_first)
        if is_new:
            await record_change(connection, change)
        return is_new

    @writes
    async def update_account(self, connection: Connection, name: str, update: AccountUpdate, change: Change) -> bool:
        await check_standing(connection, change, "")  # of no namespace
        if update.is_operator is False and await connection.row(f"{OPERATORS} AND name != ?", (name,)) is None:
            return False
        new = "issuer = coalesce(?1, issuer), subject = coalesce(?2, subject), is_operator = coalesce(?4, is_operator)"
        other = "SELECT 1 FROM accounts WHERE issuer = ?1 AND subject = ?2 AND issuer != '' AND name != ?3"
        statement = f"UPDATE accounts SET {new} WHERE name = ?3 AND NOT EXISTS ({other})"
        if await connection.run(statement, (*(update.person or (None, None)), name, update.is_operator)) == 0:
            return False
        chosen = "account = ?2 AND revoked IS NULL AND ?3 IN ('', name)"  # NULL, for None, is in no list
        await connection.run(f"UPDATE tokens SET revoked = ?1 WHERE {chosen}", (change.at, name, update.revoked))
        await record_change(connection, change)
        return True

    @reads
    async def accounts(self, connection: Connection, after: str, limit: int) -> Sequence[Account]:
        query = f"SELECT {ACCOUNT} FROM accounts WHERE name > ? ORDER BY name LIMIT ?"
        return list(filter(None, map(read_account, await connection.rows(query, (after, limit)))))

    @reads
    async def account(self, connection: Connection, name: str) -> Account | None:
        return read_account(await connection.row(f"SELECT {ACCOUNT} FROM accounts WHERE name = ?", (name,)))

    @reads
    async def account_of(self, connection: Connection, issuer: str, subject: str) -> Account | None:
        query = f"SELECT {ACCOUNT} FROM accounts WHERE issuer = ? AND subject = ? AND issuer != ''"
        return read_account(await connection.row(query, (issuer, subject)))

    @reads
    async def has_operator(self, connection: Connection) -> bool:
        return await connection.row(OPERATORS) is not None

    @writes
    async def add_namespace(
        self, connection: Connection, namespace: Namespace, owner: str, change: Change, *, most: int | None = None
    ) -> bool:
        await check_standing(connection, change, "")  # a new one
        if not await insert_namespace(connection, namespace, change.account, most):
            return False
        await connection.run("INSERT INTO members VALUES (?, ?, ?)", (namespace.name, owner, Role.OWNER.value))
        await record_change(connection, change)
        return True

    @reads
    async def namespace(self, connection: Connection, name: str) -> Namespace | None:
        query = f"SELECT {NAMESPACE} FROM namespaces WHERE name = ?"
        row = await connection.row(query, (name,))
        return None if row is None else read_namespace(row)

    @reads
    async def namespaces(self, connection: Connection, after: str, limit: int) -> Sequence[Namespace]:
        query = f"SELECT {NAMESPACE} FROM namespaces WHERE name > ? AND renamed_to = '' ORDER BY name LIMIT ?"
        return [read_namespace(row) for row in await connection.rows(query, (after, limit))]

    @writes
    async def update_namespace(self, connection: Connection, namespace: Namespace, change: Change) -> None:
        await check_standing(connection, change, namespace.name)
        statement = "UPDATE namespaces SET proof = ?, domain = ?, proven = ? WHERE name = ?"
        await connection.run(statement, (*namespace.proof, namespace.name))
        await record_change(connection, change)

    @writes
    async def rename_namespace(
        self, connection: Connection, old: str, new: str, change: Change, *, most: int | None = None
    ) -> bool:
        await check_standing(connection, change, old)
        row = await connection.row(f"SELECT {NAMESPACE} FROM namespaces WHERE name = ?", (old,))
        if row is None or not await insert_namespace(connection, Namespace(new, row[1]), change.account, most):
            return False
        await connection.run("UPDATE namespaces SET renamed_to = ? WHERE name = ? OR renamed_to = ?", (new, old, old))
        redirects = "UPDATE packages SET renamed_to = ?1 || substr(renamed_to, length(?2) + 1)"
        await connection.run(f"{redirects} WHERE substr(renamed_to, 1, length(?2) + 1) = ?2 || '/'", (new, old))
        await record_change(connection, change)
        await connection.run("UPDATE members SET namespace = ? WHERE namespace = ?", (new, old))
        moved = "SELECT ?1, name, package, version FROM requirements WHERE namespace = ?2"  # some may name both
        await connection.run(f"INSERT INTO requirements {moved} ON CONFLICT DO NOTHING", (new, old))
        await connection.run("DELETE FROM requirements WHERE namespace = ?", (old,))
        for (number,) in await connection.rows("SELECT number FROM packages WHERE namespace = ?", (old,)):
            statement = f"UPDATE packages SET namespace = ?, changed = {_NEXT_CHANGE} WHERE number = ?"
            await connection.run(statement, (new, number))
            packed = await connection.rows("SELECT version, skill FROM versions WHERE package = ?", (number,))
            for version, content in packed:
                renamed = pack_skill(move_skill(unpack_skill(content), new))
                statement = "UPDATE versions SET skill = ? WHERE package = ? AND version = ?"
                await connection.run(statement, (renamed, number, version))
        return True

    @writes
    async def set_role(
        self, connection: Connection, namespace: str, account: str, role: Role | None, change: Change
    ) -> bool:
        await check_standing(connection, change, namespace)
        query = "SELECT 1 FROM members WHERE namespace = ? AND role = ? AND account != ?"
        other = await connection.row(query, (namespace, Role.OWNER.value, account))
        if role is not Role.OWNER and other is None:
            return False
        await connection.run("DELETE FROM members WHERE namespace = ? AND account = ?", (namespace, account))
        if role is not None:
            await connection.run("INSERT INTO members VALUES (?, ?, ?)", (namespace, account, role.value))
        await record_change(connection, change)
        return True

    @reads
    async def members(self, connection: Connection, namespace: str) -> Mapping[str, Role]:
        query = "SELECT account, role FROM members WHERE namespace = ? ORDER BY account"
        return {account: Role(role) for account, role in await connection.rows(query, (namespace,))}

    @reads
    async def roles(self, connection: Connection, account: str) -> Mapping[str, Role]:
        query = "SELECT namespace, role FROM members WHERE account = ? ORDER BY namespace"
        return {namespace: Role(role) for namespace, role in await connection.rows(query, (account,))}

    async def publish(self, version: PackageVersion, artifact: bytes, change: Change) -> StoredVersion:
        if self._large is None or len(artifact) <= limits.REGISTRY_ROW_BYTES:
            return await self._publish(version, artifact, change, math.inf)
        return await self._publish(version, None, change, await self._put(self._large, artifact))

    @writes
    async def _publish(
        self, connection: Connection, version: PackageVersion, content: bytes | None, change: Change, until: float
    ) -> StoredVersion:
        skill, name = version.skill, version.package
        packed, digest = pack_skill(skill), raw_digest(skill.artifact.digest)
        query = (
            f"SELECT {STANDING}, packages.number, versions.version, versions.artifact, {_HELD}, "
            f"EXISTS (SELECT 1 FROM artifacts WHERE digest = ?7), last, audit.digest, {OF_PACKAGES} "
            "FROM (SELECT 1) AS one LEFT JOIN packages ON packages.namespace = ?4 AND packages.name = ?5 "
            "LEFT JOIN versions ON package = number AND version >= ?6 AND version < ?6 || ',' "  # follows + in order
            f"LEFT JOIN ({LAST_ENTRY}) AS audit ON TRUE ORDER BY versions.version = ?8 DESC LIMIT 1"
        )
        sought = (name.name, version.version.partition("+")[0], digest, version.version)
        found = await connection.row(query, (*standing_values(change, name.namespace), *sought))
        number, stored, same, held, is_known, last, previous, *row = found[4:]
        check_change(change, name.namespace, Standing(*found[:4]))
        package = None if row[0] is None else read_package(row)
        if package and (package.state.status in CLOSED or package.renamed_to):
            return StoredVersion("closed", package)
        if stored not in {None, version.version}:
            return StoredVersion("precedence", reason=stored)
        copies = await find_copy_states(connection, digest, number, version.version) if is_known else NO_COPY_STATES
        if same is not None:
            return StoredVersion("repeated" if same == digest else "conflict", package, yanked=copies.yanked)
        if copies.quarantined is not None:
            return StoredVersion("quarantined", package, reason=copies.quarantined)
        if not _fits(held, packed):
            return StoredVersion("full")
        if time.time() > until:
            raise StorageError("STORAGE", "the artifact was stored so long before its version that it may be gone")
        after = version.follow(package)
        narrows = package is not None and after.access is not package.access
        # It owns its name at the root unless it is private, or another one was given that name before.
        owns = f"?4 != '{Access.PRIVATE.value}' AND NOT EXISTS (SELECT 1 FROM packages WHERE name = ?2 AND owns_name)"
        kept = "owns_name = packages.owns_name OR excluded.owns_name"
        taken = ", ".join(f"{column} = excluded.{column}" for column in ("access", "latest", "changed"))
        statement = (
            f"INSERT INTO packages ({PACKAGE}, owns_name, changed) "
            f"VALUES (?1, ?2, ?3, ?4, ?5, '', '', ?6, '', {owns}, {_NEXT_CHANGE}) "
            f"ON CONFLICT (namespace, name) DO UPDATE SET {kept}, {taken} RETURNING number, changed"
        )
        row = (*name, after.created, after.access.value, Status.ACTIVE.value, after.latest)
        number, changed = await connection.row(statement, row)
        statement = "INSERT INTO artifacts (digest, content, size) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        await connection.run(statement, (digest, content, skill.artifact.size))
        statement = (
            f"INSERT INTO versions (package, version, artifact, {VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        own = (number, version.version, digest, packed, version.published, version.publisher)
        await connection.run(statement, (*own, raw_digest(version.uploaded), *state_row(version.state)))
        rows = [(*name, number, version.version) for name in required_packages(skill.requires, skill.publisher)]
        present = "coalesce((SELECT nullif(renamed_to, '') FROM namespaces WHERE name = ?1), ?1)"
        await connection.run_many(
            f"INSERT INTO requirements VALUES ({present}, ?2, ?3, ?4) ON CONFLICT DO NOTHING", rows
        )
        if copies.are_quarantined_elsewhere:  # not where: that package may be private
            change = change._replace(details={**change.details, "in_quarantine": True})
        await append_entry(connection, change, last, previous)
        return StoredVersion("created", after, changed, narrows=narrows, yanked=copies.yanked)

    @reads
    async def fits(self, connection: Connection, version: PackageVersion) -> bool:
        query = f"SELECT {_HELD} FROM packages WHERE namespace = ? AND name = ?"
        return _fits(await connection.value(query, version.package), pack_skill(version.skill))

    @reads
    async def package(self, connection: Connection, name: PackageName, *, with_private: bool = True) -> Package | None:
        found = await find_package(connection, name, with_private=with_private)
        return None if found is None else found[1]

    @reads
    async def packages(
        self, connection: Connection, namespace: str, after: str, limit: int, *, grants: Collection[str]
    ) -> Sequence[Package]:
        condition = f"{LOOKED_UP[bool(grants)]} namespace = ?2 AND name > ?3 AND status != ?4 AND renamed_to = ''"
        query = f"SELECT {PACKAGE} FROM {condition} AND {_SHOWN} ORDER BY name LIMIT ?5"
        row = (json.dumps([*grants]), namespace, after, Status.DELETED.value, limit)
        return [read_package(row) for row in await connection.rows(query, row)]

    @reads
    async def find_packages(
        self,
        connection: Connection,
        beginning: str,
        after: PackageName,
        limit: int,
        *,
        grants: Collection[str],
        among: Among = "present",
    ) -> Sequence[Package]:
        query = (
            f"SELECT {PACKAGE} FROM packages WHERE name >= ?2 AND name < ?3 AND (name, namespace) > (?4, ?5) "
            f"AND status != ?6 AND {_AMONG[among]} AND {_SHOWN} ORDER BY name, namespace LIMIT ?7"
        )
        begun = (beginning, f"{beginning}~", *after[::-1])  # ~ is behind z
        row = (json.dumps([*grants]), *begun, Status.DELETED.value, limit)
        return [read_package(row) for row in await connection.rows(query, row)]

    @writes
    async def change_package(
        self,
        connection: Connection,
        name: PackageName,
        changes: Sequence[Change],
        *,
        access: Access | None = None,
        state: State | None = None,
    ) -> None:
        _, package = await find_changeable(connection, name, changes[0], state)
        access, state, changes = differing(package, changes, access, state)
        if not changes:
            return
        values = {} if access is None else {"access": access.value}
        if state is not None:
            values |= zip(("status", "reason", "successor"), state_row(state), strict=True)
        await _set(connection, name, **values)
        for change in changes:
            await record_change(connection, change)
        if access is None:
            return
        # One that is not private gets its name without the namespace, unless another one was given it before.
        condition = f"namespace = ?1 AND name = ?2 AND access != '{Access.PRIVATE.value}'"
        other = "SELECT 1 FROM packages WHERE name = ?2 AND owns_name"
        await connection.run(f"UPDATE packages SET owns_name = TRUE WHERE {condition} AND NOT EXISTS ({other})", name)

    @writes
    async def redirect_package(
        self, connection: Connection, name: PackageName, to: PackageName, change: Change
    ) -> None:
        for one in (name, to):
            await find_changeable(connection, one, change)
        query = "SELECT namespace, name FROM packages WHERE renamed_to = ?"
        for earlier in await connection.rows(query, (str(name),)):
            await _set(connection, PackageName(*earlier), renamed_to=str(to))
        await _set(connection, name, renamed_to=str(to))
        await record_change(connection, change)
        owner = "SELECT 1 FROM packages WHERE namespace = ? AND name = ? AND owns_name"
        if to.name == name.name and await connection.row(owner, name):
            await _set(connection, name, owns_name=False)
            await _set(connection, to, owns_name=True)

    @writes
    async def set_version_state(
        self, connection: Connection, name: PackageName, version: str, state: State, change: Change
    ) -> None:
        number, _ = await find_changeable(connection, name, change, may_redirect=True)
        query = "SELECT version, status, reason, successor FROM versions WHERE package = ?"
        states = {one: State(Status(status), *rest) for one, status, *rest in await connection.rows(query, (number,))}
        before = states.get(version)
        check_version(change, name, version, before and before.status)
        if state == before:
            return
        statement = "UPDATE versions SET status = ?, reason = ?, successor = ? WHERE package = ? AND version = ?"
        await connection.run(statement, (*state_row(state), number, version))
        statuses = [(one, was.status) for one, was in {**states, version: state}.items()]
        await _set(connection, name, latest=latest_version(statuses))
        await record_change(connection, change)

    @writes
    async def set_reader(
        self, connection: Connection, name: PackageName, account: str, *, may_read: bool, change: Change
    ) -> None:
        number, _ = await find_changeable(connection, name, change)
        add = "INSERT INTO readers VALUES (?, ?) ON CONFLICT DO NOTHING"
        remove = "DELETE FROM readers WHERE package = ? AND account = ?"
        if await connection.run(add if may_read else remove, (number, account)):
            await record_change(connection, change)

    @reads
    async def readers(self, connection: Connection, name: PackageName) -> Sequence[str]:
        query = f"SELECT account FROM readers WHERE package = {_NUMBER} ORDER BY account"
        return [account for (account,) in await connection.rows(query, name)]

    @reads
    async def rights(self, connection: Connection, account: str) -> Rights:
        return await read_rights(connection, account)

    @reads
    async def version(self, connection: Connection, name: PackageName, version: str) -> PackageVersion | None:
        query = f"SELECT {VERSION} FROM versions WHERE package = {_NUMBER} AND version = ?"
        row = await connection.row(query, (*name, version))
        return None if row is None else read_version(row)

    @reads
    async def versions(self, connection: Connection, name: PackageName) -> Sequence[PackageVersion]:
        query = f"SELECT {VERSION} FROM versions WHERE package = {_NUMBER}"
        versions = [read_version(row) for row in await connection.rows(query, name)]
        return sorted(versions, key=lambda one: (version_order(one.version), one.version), reverse=True)

    @reads
    async def dependents(
        self, connection: Connection, name: PackageName, limit: int, *, grants: Collection[str]
    ) -> Sequence[PackageName]:
        query = (
            "SELECT packages.namespace, packages.name FROM requirements JOIN packages ON number = package "
            f"WHERE latest = version AND requirements.namespace = ?2 AND requirements.name = ?3 AND status != ?4 "
            f"AND {_SHOWN} ORDER BY packages.namespace, packages.name LIMIT ?5"
        )
        row = (json.dumps([*grants]), *name, Status.DELETED.value, limit)
        return [PackageName(*row) for row in await connection.rows(query, row)]

    @reads
    async def by_artifact(self, connection: Connection, digest: Digest, limit: int) -> Sequence[PackageVersion]:
        query = f"SELECT {VERSION} FROM versions WHERE artifact = ? ORDER BY published LIMIT ?"
        return [read_version(row) for row in await connection.rows(query, (raw_digest(digest), limit))]

    @reads
    async def uploaded(self, connection: Connection, namespace: str, digest: Digest) -> PackageVersion | None:
        of_namespace = "package IN (SELECT number FROM packages WHERE namespace = ?)"
        query = f"SELECT {VERSION} FROM versions WHERE {of_namespace} AND uploaded = ? LIMIT 1"
        return next(map(read_version, await connection.rows(query, (namespace, raw_digest(digest)))), None)

    @reads
    async def changed(self, connection: Connection, after: ChangeCursor, limit: int) -> ChangedPackages:
        query = "SELECT digest FROM audit WHERE number = ?"
        is_anew = bool(after.entry) and await connection.value(query, (after.entry,)) != after.digest
        change = 0 if is_anew else after.change
        last = await connection.row(LAST_ENTRY) or (0, "")
        versions = "versions ON versions.package = packages.number AND versions.version = packages.latest"
        query = (
            "SELECT changed, number, owns_name, skill, versions.status, versions.reason, versions.successor, "
            f"{OF_PACKAGES} FROM packages LEFT JOIN {versions} WHERE changed > ? ORDER BY changed LIMIT ?"
        )
        found = []
        rows = await connection.rows(query, (change, limit))
        for changed, number, owns, packed, status, reason, successor, *row in rows:
            package, change = read_package(row), changed
            is_hidden = packed is None or package.state.status in _HIDDEN or package.renamed_to
            state = State() if is_hidden else State(Status(status), reason, successor)
            found.append(ChangedPackage(number, package, None if is_hidden else packed, state, bool(owns)))
        return ChangedPackages(ChangeCursor(change, *last), tuple(found), is_anew)

    @reads
    async def revision(self, connection: Connection) -> int:
        return int(await connection.value("SELECT coalesce(max(changed), 0) FROM packages"))

    @writes
    async def record(self, connection: Connection, change: Change) -> None:
        await record_change(connection, change)

    @reads
    async def audit(
        self, connection: Connection, after: int, limit: int, namespaces: Collection[str] | None = None
    ) -> Sequence[AuditEntry]:
        condition, names = "number > ?", tuple(namespaces or ())
        if namespaces is not None:
            marks = ", ".join("?" * len(names))
            present = "coalesce(nullif(renamed_to, ''), name)"
            condition += f" AND namespace IN (SELECT name FROM namespaces WHERE {present} IN ({marks}))"
        query = f"SELECT {ENTRY} FROM audit WHERE {condition} ORDER BY number LIMIT ?"
        return [read_entry(row) for row in await connection.rows(query, (after, *names, limit))]

    @reads
    async def statistics(self, connection: Connection, *, with_private: bool) -> Mapping[str, int]:
        listed = "FROM packages WHERE status != ?" + ("" if with_private else " AND access != ?")
        known = f"SELECT number {listed}"
        row = (Status.DELETED.value,) if with_private else (Status.DELETED.value, Access.PRIVATE.value)
        stored = f"SELECT DISTINCT artifact FROM versions WHERE package IN ({known})"
        queries = {
            "namespaces": "SELECT count(*) FROM namespaces WHERE renamed_to = ''",
            "packages": f"SELECT count(*) {listed}",
            "versions": f"SELECT count(*) FROM versions WHERE package IN ({known})",
            "downloads": f"SELECT count(*) FROM downloads WHERE package IN ({known})",
            "bytes": f"SELECT coalesce(sum(size), 0) FROM artifacts WHERE digest IN ({stored})",
        }
        return {key: int(await connection.value(query, row if "?" in query else ())) for key, query in queries.items()}

    @writes
    async def count_download(
        self, connection: Connection, name: PackageName, version: str, day: str, counted: bytes
    ) -> None:
        found = await find_package(connection, name)
        if found is not None:
            row = (found[0], day, version, counted)
            await connection.run("INSERT INTO downloads VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)

    @reads
    async def rank(self, connection: Connection) -> Mapping[str, Mapping[str, float]]:
        counts = dict(await connection.rows("SELECT package, count(*) FROM downloads GROUP BY package"))
        query = "SELECT number, namespace, name, owns_name, changed FROM packages WHERE access = 'public'"
        found: dict[str, dict[str, float]] = {"updated": {}, "downloads": {}}
        for number, namespace, name, owns_name, changed in await connection.rows(query):
            for key in (f"{namespace}/{name}", *([name] if owns_name else [])):
                found["updated"][key] = changed
                found["downloads"][key] = counts.get(number, 0)
        return found

    @reads
    async def downloads(self, connection: Connection, name: PackageName, since: str) -> Mapping[str, int]:
        counts = "SELECT day, count(DISTINCT counted) FROM downloads"
        query = f"{counts} WHERE package = {_NUMBER} AND day >= ? GROUP BY day ORDER BY day"
        return dict(await connection.rows(query, (*name, since)))


def _fits(held: Any, packed: bytes) -> bool:
    """Return whether there is room for a version in a package that holds so many bytes; always for the first one."""
    return not held or int(held) + len(packed) <= limits.REGISTRY_PACKAGE_BYTES


async def _set(connection: Connection, name: PackageName, **values: str | int) -> None:
    columns = ", ".join(f"{column} = ?" for column in values)
    statement = f"UPDATE packages SET {columns}, changed = {_NEXT_CHANGE} WHERE namespace = ? AND name = ?"
    await connection.run(statement, (*values.values(), *name))
