"""Rows of a registry: accounts, namespaces, packages, versions, and the audit log, which each change is appended to.

A ``read_`` function returns the value in a row of the columns of its name.
"""

# ruff: noqa: S608  # every query is made of constants

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.model.access import Access
from skillwire.model.catalog import unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import (
    Account,
    AuditEntry,
    Change,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Proof,
    Rights,
    Role,
    State,
    Status,
    read_package_name,
)
from skillwire.registry.access import Standing, check_change, check_names, check_package
from skillwire.registry.audit import FIRST_DIGEST, chain_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.adapters.sql import Connection

ACCOUNT: Final = "name, created, is_operator, issuer, subject"
NAMESPACE: Final = "name, created, proof, domain, proven, renamed_to"
PACKAGE: Final = "namespace, name, created, access, status, reason, successor, latest, renamed_to"
OF_PACKAGES: Final = ", ".join(f"packages.{column}" for column in PACKAGE.split(", "))
VERSION: Final = "skill, published, publisher, uploaded, status, reason, successor"
#: The columns of an audit entry.
ENTRY: Final = "number, at, account, action, target, details, address, request, digest"
#: The last audit entry, if there is one.
LAST_ENTRY: Final = "SELECT number AS last, digest FROM audit ORDER BY number DESC LIMIT 1"
#: What :func:`check_change` needs, of a token ?1 at the time ?2, an account ?3, and a namespace ?4.
STANDING: Final = (
    "(SELECT renamed_to FROM namespaces WHERE name = ?4), "
    "(SELECT 1 FROM tokens WHERE token_id = ?1 AND (revoked IS NOT NULL OR expires <= ?2)), "
    "(SELECT is_operator FROM accounts WHERE name = ?3), "
    "(SELECT role FROM members WHERE namespace = ?4 AND account = ?3)"
)
#: Where packages are looked up, given whether private ones are found. The index without private ones makes the look-up
#: of a private one take as long as that of an absent one.
LOOKED_UP: Final = {
    True: "packages WHERE",
    False: f"packages INDEXED BY packages_shown WHERE access != '{Access.PRIVATE.value}' AND",
}
#: The versions with an artifact that are yanked or in quarantine, by themselves or with their package.
_COPY_STATES: Final = (
    "SELECT packages.number, version, versions.status, versions.reason, packages.status FROM versions "
    f"JOIN packages ON number = package WHERE artifact = ? AND (packages.status = '{Status.QUARANTINED.value}' "
    f"OR versions.status IN ('{Status.YANKED.value}', '{Status.QUARANTINED.value}'))"
)
#: A row if there is an operator.
OPERATORS: Final = "SELECT 1 FROM accounts WHERE is_operator"
_ACCESS: Final = {access.value: access for access in Access}


class CopyStates(NamedTuple):
    """States of the other versions with an artifact that is being published.

    ``yanked`` is number → reason of the yanked versions of its package, and ``quarantined`` the reason for which a
    version of its package is in quarantine.
    """

    yanked: Mapping[str, str]
    quarantined: str | None
    are_quarantined_elsewhere: bool


NO_COPY_STATES: Final = CopyStates({}, None, False)


def read_account(row: tuple[Any, ...] | None) -> Account | None:
    """Return the account in a row; None without one."""
    return None if row is None or row[0] is None else Account(row[0], row[1], bool(row[2]), *row[3:])


async def read_rights(connection: Connection, account: str) -> Rights:
    """Return what decides what an account may read."""
    query = (
        f"SELECT {ACCOUNT}, namespace, role, package "
        "FROM (SELECT 1) AS one LEFT JOIN accounts ON name = ?1 LEFT JOIN ("
        "SELECT namespace, role, '' AS package FROM members WHERE account = ?1 UNION ALL "
        "SELECT packages.namespace, '', packages.name FROM readers JOIN packages ON number = package "
        "WHERE account = ?1) AS readable ON TRUE ORDER BY namespace, package"
    )
    rows = await connection.rows(query, (account,))
    roles = {namespace: Role(role) for *_, namespace, role, _ in rows if role}
    shared = [PackageName(namespace, package) for *_, namespace, _, package in rows if package]
    return Rights(read_account(rows[0][:-3]), roles, shared)


def read_namespace(row: Sequence[Any]) -> Namespace:
    """Return the namespace in a row."""
    name, created, kind, domain, proven, renamed_to = row
    return Namespace(name, created, Proof(kind, domain, proven), renamed_to)


def read_package(row: Sequence[Any]) -> Package:
    """Return the package in a row."""
    namespace, name, created, access, status, reason, successor, latest, renamed_to = row
    renamed = read_package_name(renamed_to) if renamed_to else None
    state = _read_state(status, reason, successor)
    return Package(PackageName(namespace, name), created, _ACCESS[access], state, latest, renamed)


@lru_cache(256)  # most packages have the same one
def _read_state(status: str, reason: str, successor: str) -> State:
    return State(Status(status), reason, successor)


def read_version(row: Sequence[Any]) -> PackageVersion:
    """Return the version in a row."""
    packed, published, publisher, uploaded, status, reason, successor = row
    state = _read_state(status, reason, successor)
    return PackageVersion(unpack_skill(packed), published, publisher, Digest(f"sha256:{uploaded.hex()}"), state)


def read_entry(row: Sequence[Any]) -> AuditEntry:
    """Return the entry in a row of :data:`ENTRY`."""
    number, at, account, action, target, details, address, request, digest = row
    return AuditEntry(number, Change(at, account, action, target, json.loads(details), address, request), digest)


def state_row(state: State) -> tuple[str, str, str]:
    """Return the columns of a state."""
    return state.status.value, state.reason, state.successor


def raw_digest(digest: Digest) -> bytes:
    """Return a digest as it is in a row."""
    return bytes.fromhex(digest.hex)


def standing_values(change: Change, namespace: str) -> tuple[str, float, str, str]:
    """Return the values of :data:`STANDING`."""
    return change.right.token_id if change.right else "", change.at, change.account, namespace


async def check_standing(connection: Connection, change: Change, namespace: str) -> None:
    """Check that a change may still be made in a namespace. Raises as :func:`check_change`."""
    found = await connection.row(f"SELECT {STANDING}", standing_values(change, namespace))
    check_change(change, namespace, Standing(*found))


async def find_copy_states(connection: Connection, digest: bytes, number: int | None, version: str) -> CopyStates:
    """Return the states of an artifact's versions, besides ``version`` of the package in row ``number``."""
    yanked: dict[str, str] = {}
    quarantined, is_elsewhere = None, False
    for package, other, status, reason, status_of_package in await connection.rows(_COPY_STATES, (digest,)):
        if package == number and status == Status.QUARANTINED:
            quarantined = reason
        elif package == number and status == Status.YANKED and other != version:
            yanked[other] = reason
        elif package != number and Status.QUARANTINED in {status, status_of_package}:
            is_elsewhere = True
    return CopyStates(yanked, quarantined, is_elsewhere)


async def find_package(
    connection: Connection, name: PackageName, *, with_private: bool = True
) -> tuple[int, Package] | None:
    """Return the number of a package's row, and the package; None without one."""
    query = f"SELECT number, {PACKAGE} FROM {LOOKED_UP[with_private]} namespace = ? AND name = ?"
    row = await connection.row(query, name)
    return None if row is None else (row[0], read_package(row[1:]))


async def find_changeable(
    connection: Connection, name: PackageName, change: Change, state: State | None = None, *, may_redirect: bool = False
) -> tuple[int, Package]:
    """Return the package of a change, as :func:`find_package`. Raises as :mod:`skillwire.registry.access`."""
    await check_standing(connection, change, name.namespace)
    number, package = await find_package(connection, name) or (0, None)
    return number, check_package(change, name, package, state, may_redirect=may_redirect)


async def insert_account(connection: Connection, account: Account, *, is_first: bool) -> bool:
    """Insert an account, one that ``is_first`` only while there is no operator; return whether it was inserted.

    A person chooses the name of the account, so it must not be that of a namespace.
    """
    if is_first and await connection.row(OPERATORS) is not None:
        return False
    namesake = "SELECT 1 FROM namespaces WHERE name = ?"
    if account.issuer and await connection.row(namesake, (account.name,)) is not None:
        return False
    statement = f"INSERT INTO accounts ({ACCOUNT}) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    return await connection.run(statement, account) == 1


async def insert_namespace(connection: Connection, namespace: Namespace, account: str, most: int | None) -> bool:
    """Insert a namespace; return whether its name was free.

    Unless ``most`` is None, the name of another account is not free; then it raises as :func:`check_names`, too.
    """
    if most is not None:
        namesake = "SELECT 1 FROM accounts WHERE name = ?"
        if namespace.name != account and await connection.row(namesake, (namespace.name,)) is not None:
            return False
        query = "SELECT count(*) FROM audit WHERE account = ? AND action IN ('namespace.create', 'namespace.rename')"
        check_names(account, await connection.value(query, (account,)), most)
    row = (namespace.name, namespace.created, *namespace.proof)
    statement = "INSERT INTO namespaces VALUES (?, ?, ?, ?, ?, '') ON CONFLICT DO NOTHING"
    return await connection.run(statement, row) == 1


async def record_change(connection: Connection, change: Change) -> None:
    """Append the audit entry of a change."""
    await append_entry(connection, change, *(await connection.row(LAST_ENTRY) or (None, None)))


async def append_entry(connection: Connection, change: Change, last: int | None, previous: str | None) -> None:
    """Append the audit entry of a change behind the ``last`` one."""
    number = (last or 0) + 1
    details, digest = json.dumps(change.details, sort_keys=True), chain_digest(previous or FIRST_DIGEST, number, change)
    row = (number, *change[:4], details, *change[5:-1], digest)
    await connection.run(f"INSERT INTO audit ({ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
