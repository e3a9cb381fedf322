"""The packages of a registry in memory: the model that durable stores are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.model.access import Access, Principal, narrowest_access
from skillwire.model.catalog import pack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import (
    CLOSED,
    Account,
    AuditEntry,
    ChangeCursor,
    ChangedPackage,
    ChangedPackages,
    Package,
    PackageName,
    Proof,
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
from skillwire.registry.access import (
    Standing,
    check_change,
    check_names,
    check_package,
    check_version,
    differing,
    may_know,
)
from skillwire.registry.audit import FIRST_DIGEST, chain_digest

if TYPE_CHECKING:
    from skillwire.model.access import Token
    from skillwire.model.package import Change, Namespace, PackageVersion


class MemoryPackages:
    """Fills :class:`skillwire.ports.PackageStore`."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._roles: dict[tuple[str, str], Role] = {}
        self._packages: dict[PackageName, Package] = {}
        self._numbers: dict[PackageName, int] = {}
        self._owners: dict[str, PackageName] = {}
        self._versions: dict[PackageName, dict[str, PackageVersion]] = {}
        self._artifacts: dict[Digest, bytes] = {}
        self._readers: set[tuple[PackageName, str]] = set()
        self._audit: list[AuditEntry] = []
        self.tokens: dict[str, Token] = {}
        self._changed: dict[PackageName, int] = {}
        self._downloads: set[tuple[PackageName, str, str, bytes]] = set()

    def _record(self, *changes: Change) -> None:
        digest, entries = self._audit[-1].digest if self._audit else FIRST_DIGEST, []
        for number, one in enumerate(changes, len(self._audit) + 1):
            change = one._replace(right=None)
            digest = chain_digest(digest, number, change)
            entries.append(AuditEntry(number, change, digest))
        self._audit += entries

    def _check(self, change: Change, name: str) -> None:
        token = self.tokens.get(change.right.token_id) if change.right else None
        is_ended, namespace = token is not None and not token.is_good_at(change.at), self._namespaces.get(name)
        account, role = self._accounts.get(change.account), self._roles.get((name, change.account))
        check_change(
            change, name, Standing(namespace and namespace.renamed_to, is_ended, account and account.is_operator, role)
        )

    def check_standing(self, change: Change) -> None:
        """Check a change of no namespace. Raises TrustError."""
        self._check(change, "")

    def _check_package(
        self, change: Change, name: PackageName, state: State | None = None, *, may_redirect: bool = False
    ) -> Package:
        self._check(change, name.namespace)
        return check_package(change, name, self._packages.get(name), state, may_redirect=may_redirect)

    def _put(self, package: Package) -> None:
        if package.name not in self._numbers:
            self._numbers[package.name] = len(self._numbers) + 1
        versions = self._versions.setdefault(package.name, {}).values()
        latest = latest_version((one.version, one.state.status) for one in versions)
        self._packages[package.name] = package._replace(latest=latest)
        self._changed[package.name] = max(self._changed.values(), default=0) + 1

    async def add_account(self, account, change, *, is_first=False):
        if account.name in self._accounts or (is_first and self._has_operator()):
            return False
        if account.issuer and account.name in self._namespaces:
            return False
        return await self._store(account, change)

    async def _store(self, account, change):
        same = await self.account_of(account.issuer, account.subject)
        if same is not None and same.name != account.name:
            return False
        self._accounts[account.name] = account
        self._record(change)
        return True

    async def update_account(self, name, update, change):
        person, is_operator, revoked = update
        self._check(change, "")
        if is_operator is False and not any(one.is_operator for one in self._accounts.values() if one.name != name):
            return False
        account = self._accounts[name]
        (issuer, subject), right = person or account[3:], account.is_operator if is_operator is None else is_operator
        if not await self._store(Account(name, account.created, right, issuer, subject), change):
            return False
        for number, one in self.tokens.items():
            if one.account == name and one.revoked is None and revoked in {"", one.name}:
                self.tokens[number] = one._replace(revoked=change.at)
        return True

    async def accounts(self, after, limit):
        return [self._accounts[name] for name in sorted(self._accounts) if name > after][:limit]

    async def account(self, name):
        return self._accounts.get(name)

    async def account_of(self, issuer, subject):
        found = (one for one in self._accounts.values() if issuer and (one.issuer, one.subject) == (issuer, subject))
        return next(found, None)

    async def has_operator(self):
        return self._has_operator()

    def _has_operator(self):
        return any(account.is_operator for account in self._accounts.values())

    def _is_taken(self, name, account, most):
        if most is not None and name != account and name in self._accounts:
            return True
        if most is not None:
            actions = {"namespace.create", "namespace.rename"}
            taken = sum(one.change.account == account and one.change.action in actions for one in self._audit)
            check_names(account, taken, most)
        return name in self._namespaces

    async def add_namespace(self, namespace, owner, change, *, most=None):
        self._check(change, "")
        if self._is_taken(namespace.name, change.account, most):
            return False
        self._namespaces[namespace.name] = namespace
        self._roles[namespace.name, owner] = Role.OWNER
        self._record(change)
        return True

    async def namespace(self, name):
        return self._namespaces.get(name)

    async def namespaces(self, after, limit):
        names = sorted(name for name, one in self._namespaces.items() if name > after and not one.renamed_to)
        return [self._namespaces[name] for name in names[:limit]]

    async def update_namespace(self, namespace, change):
        self._check(change, namespace.name)
        self._namespaces[namespace.name] = self._namespaces[namespace.name]._replace(proof=namespace.proof)
        self._record(change)

    async def rename_namespace(self, old, new, change, *, most=None):
        self._check(change, old)
        if self._is_taken(new, change.account, most) or old not in self._namespaces:
            return False
        self._record(change)
        self._namespaces[new] = self._namespaces[old]._replace(name=new, proof=Proof())
        for former, one in self._namespaces.items():
            if old in {former, one.renamed_to}:
                self._namespaces[former] = one._replace(renamed_to=new)
        for name, package in list(self._packages.items()):
            if package.renamed_to and package.renamed_to.namespace == old:
                self._packages[name] = package._replace(renamed_to=package.renamed_to._replace(namespace=new))
        self._roles = {(new if one == old else one, who): role for (one, who), role in self._roles.items()}
        for name in [one for one in self._packages if one.namespace == old]:
            moved = name._replace(namespace=new)
            if self._owners.get(name.name) == name:
                self._owners[name.name] = moved
            self._numbers[moved] = self._numbers.pop(name)
            self._versions[moved] = {
                version: one._replace(skill=move_skill(one.skill, new))
                for version, one in self._versions.pop(name).items()
            }
            self._readers = {(moved if one == name else one, who) for one, who in self._readers}
            del self._changed[name]
            self._put(self._packages.pop(name)._replace(name=moved))
        return True

    async def set_role(self, namespace, account, role, change):
        self._check(change, namespace)
        owners = {who for (one, who), held in self._roles.items() if one == namespace and held is Role.OWNER}
        if role is not Role.OWNER and not owners - {account}:
            return False
        self._roles.pop((namespace, account), None)
        if role is not None:
            self._roles[namespace, account] = role
        self._record(change)
        return True

    async def members(self, namespace):
        return dict(sorted((who, role) for (one, who), role in self._roles.items() if one == namespace))

    async def roles(self, account):
        return dict(sorted((one, role) for (one, who), role in self._roles.items() if who == account))

    async def publish(self, version, artifact, change):
        name, skill = version.package, version.skill
        package = self._packages.get(name) or Package(name, version.published, skill.access)
        self._check(change, name.namespace)
        if package.state.status in CLOSED or package.renamed_to:
            return StoredVersion("closed", package)
        same = self._versions.get(name, {}).get(version.version)
        copies = [one for one in await self.by_artifact(skill.artifact.digest, None) if one is not same]
        yanked = {
            one.version: one.state.reason for one in copies if one.state.status is Status.YANKED and one.package == name
        }
        if same is not None:
            is_same = same.skill.artifact.digest == skill.artifact.digest
            return StoredVersion("repeated", package, yanked=yanked) if is_same else StoredVersion("conflict")
        for number in self._versions.get(name, {}):
            if version_order(number) == version_order(version.version):
                return StoredVersion("precedence", reason=number)
        for one in copies:
            if one.state.status is Status.QUARANTINED and one.package == name:
                return StoredVersion("quarantined", package, reason=one.state.reason)
            if Status.QUARANTINED in {one.state.status, self._packages[one.package].state.status}:
                change = change._replace(details={**change.details, "in_quarantine": True})
        if not await self.fits(version):
            return StoredVersion("full")
        self._versions.setdefault(name, {})[version.version] = version
        self._artifacts[skill.artifact.digest] = artifact
        access = narrowest_access(package.access, skill.access)
        self._put(package._replace(access=access))
        self._own_name(name)
        self._record(change)
        narrows = access is not package.access
        return StoredVersion("created", self._packages[name], self._changed[name], narrows=narrows, yanked=yanked)

    async def fits(self, version):
        others = sum(len(pack_skill(one.skill)) for one in self._versions.get(version.package, {}).values())
        return not others or others + len(pack_skill(version.skill)) <= limits.REGISTRY_PACKAGE_BYTES

    def _own_name(self, name):
        if self._packages[name].access is not Access.PRIVATE:
            self._owners.setdefault(name.name, name)

    async def package(self, name, *, with_private=True):
        found = self._packages.get(name)
        return found if found and (with_private or found.access is not Access.PRIVATE) else None

    async def packages(self, namespace, after, limit, *, grants):
        names = sorted(name for name in self._packages if name.namespace == namespace and name.name > after)
        found = self._shown([self._packages[name] for name in names], grants)
        return [one for one in found if one.state.status is not Status.DELETED and not one.renamed_to][:limit]

    def _shown(self, packages, grants):
        return [one for one in packages if may_know(Principal("", frozenset(grants)), one)]

    async def find_packages(self, beginning, after, limit, *, grants, among="present"):
        begun = [one for one in self._packages.values() if one.name.name.startswith(beginning)]
        begun = [one for one in begun if (one.renamed_to is not None) == (among == "renamed")]
        there = [one for one in begun if one.name[::-1] > after[::-1] and (one.latest or among != "latest")]
        return sorted(self._shown(there, grants), key=lambda one: one.name[::-1])[:limit]

    async def _update(self, name, change, **values):
        self._put(self._packages[name]._replace(**values))
        self._record(change)

    async def change_package(self, name, changes, *, access=None, state=None):
        package = self._check_package(changes[0], name, state)
        access, state, changes = differing(package, changes, access, state)
        if not changes:
            return
        self._record(*changes)
        self._put(package._replace(access=access or package.access, state=state or package.state))
        if access:
            self._own_name(name)

    async def redirect_package(self, name, to, change):
        for one in (name, to):
            self._check_package(change, one)
        for earlier in [one for one, package in self._packages.items() if package.renamed_to == name]:
            self._put(self._packages[earlier]._replace(renamed_to=to))
        await self._update(name, change, renamed_to=to)
        if self._owners.get(to.name) == name:
            self._owners[to.name] = to
            self._put(self._packages[to])

    async def set_version_state(self, name, version, state, change):
        self._check_package(change, name, may_redirect=True)
        versions = self._versions[name]
        check_version(change, name, version, versions[version].state.status if version in versions else None)
        if versions[version].state == state:
            return
        versions[version] = versions[version]._replace(state=state)
        await self._update(name, change)

    async def set_reader(self, name, account, *, may_read, change):
        self._check_package(change, name)
        if may_read is not ((name, account) in self._readers):
            (self._readers.add if may_read else self._readers.discard)((name, account))
            self._record(change)

    async def readers(self, name):
        return sorted(who for one, who in self._readers if one == name)

    async def rights(self, account):
        readable = sorted(name for name, who in self._readers if who == account)
        return Rights(self._accounts.get(account), await self.roles(account), readable)

    async def version(self, name, version):
        return self._versions.get(name, {}).get(version)

    async def versions(self, name):
        found = self._versions.get(name, {}).values()
        return sorted(found, key=lambda one: version_order(one.version), reverse=True)

    async def dependents(self, name, limit, *, grants):
        found = [one for one in self._packages.values() if one.latest and one.state.status is not Status.DELETED]
        rows = []
        for package in found:
            skill = self._versions[package.name][package.latest].skill
            wanted = required_packages(skill.requires, skill.publisher)
            if name in {self._renamed(one) for one in wanted}:
                rows.append(package)
        return sorted(one.name for one in self._shown(rows, grants))[:limit]

    def _renamed(self, name):
        namespace = self._namespaces.get(name.namespace)
        return name._replace(namespace=namespace.renamed_to) if namespace and namespace.renamed_to else name

    async def by_artifact(self, digest, limit):
        every = (one for versions in self._versions.values() for one in versions.values())
        found = sorted((one for one in every if one.skill.artifact.digest == digest), key=lambda one: one.published)
        return found[:limit]

    async def uploaded(self, namespace, digest):
        every = (one for versions in self._versions.values() for one in versions.values())
        found = (one for one in every if (one.package.namespace, one.uploaded) == (namespace, digest))
        return next(found, None)

    async def artifact(self, digest):
        return self._artifacts.get(digest)

    async def changed(self, after, limit):
        known = [entry.digest for entry in self._audit if entry.number == after.entry]
        is_anew = after.entry > 0 and known != [after.digest]
        change = 0 if is_anew else after.change
        order = sorted((number, name) for name, number in self._changed.items() if number > change)[:limit]
        found = []
        for _, name in order:
            package = self._packages[name]
            hidden = package.state.status in {Status.DELETED, Status.QUARANTINED} or package.renamed_to
            latest = None if hidden else self._versions[name].get(package.latest)
            served, state = (pack_skill(latest.skill), latest.state) if latest else (None, State())
            owns = self._owners.get(name.name) == name
            found.append(ChangedPackage(self._numbers[name], package, served, state, owns))
        last = [(entry.number, entry.digest) for entry in self._audit[-1:]] or [(0, "")]
        return ChangedPackages(ChangeCursor(order[-1][0] if order else change, *last[0]), tuple(found), is_anew)

    async def remove_unowned(self, before):  # noqa: ARG002  # of no row, it keeps none
        return 0

    async def revision(self):
        return max(self._changed.values(), default=0)

    async def record(self, change):
        self._record(change)

    async def audit(self, after, limit, namespaces=None):
        every = [entry for entry in self._audit if entry.number > after]
        if namespaces is not None:
            names = {name for name, one in self._namespaces.items() if (one.renamed_to or name) in namespaces}
            every = [one for one in every if one.change.target.partition("/")[0] in names]
            every = [one for one in every if not one.change.action.startswith(("account.", "token."))]
        return every[:limit]

    async def statistics(self, *, with_private):
        known = [
            name
            for name, one in self._packages.items()
            if one.state.status is not Status.DELETED and (with_private or one.access is not Access.PRIVATE)
        ]
        versions = [one for name in known for one in self._versions[name].values()]
        sizes = {one.skill.artifact.digest: one.skill.artifact.size for one in versions}
        return {
            "namespaces": sum(not one.renamed_to for one in self._namespaces.values()),
            "packages": len(known),
            "versions": len(versions),
            "downloads": sum(name in known for name, *_ in self._downloads),
            "bytes": sum(sizes.values()),
        }

    async def count_download(self, name, version, day, counted):
        self._downloads.add((name, version, day, counted))

    async def rank(self):
        names = [one.name for one in self._packages.values() if one.access is Access.PUBLIC]
        keys = {name: [str(name), *([name.name] if self._owners.get(name.name) == name else [])] for name in names}
        return {
            "updated": {key: self._changed[name] for name in names for key in keys[name]},
            "downloads": {key: sum(one[0] == name for one in self._downloads) for name in names for key in keys[name]},
        }

    async def downloads(self, name, since):
        days = [day for day, _ in {(day, who) for one, _, day, who in self._downloads if one == name and day >= since}]
        return {day: days.count(day) for day in sorted(set(days))}
