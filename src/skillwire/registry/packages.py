"""The use cases of a registry: authorization and changes; the store does everything else.

Operators may do everything. In a namespace, roles decide; an account owns the namespace of its own name from its first
publication on. For callers without access, a private package does not exist.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, SkillwireError, TrustError, UsageError, first_of
from skillwire.model.access import EVERY_SKILL, Access, Principal
from skillwire.model.package import (
    CLOSED,
    Change,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Proof,
    Right,
    Rights,
    Role,
    State,
    Status,
    check_identifiers,
    is_account,
    is_namespace,
    parse_requirement,
    read_package_name,
    required_packages,
    version_order,
    with_version,
)
from skillwire.model.skill import Skill, is_skill_name, is_version
from skillwire.registry.access import (
    check_quarantine,
    check_use,
    closed,
    lacks_role,
    may_know,
    no_package,
    no_version,
    quarantined,
    unpublishable,
)
from skillwire.registry.accounts import (
    ADMIN,
    PUBLISH,
    READ,
    Actor,
    is_limited,
    namespaces_of,
    present_scopes,
    require_account,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.digest import Digest
    from skillwire.ports import PackageStore

Stated = TypeVar("Stated", Package, PackageVersion)
_REASON_LENGTH: Final = 500
_WITHDRAWN: Final = {Status.QUARANTINED, Status.DELETED}
_NAMED: Final = 10  # namespaces that a message names


class PublishRight(NamedTuple):
    """The right of an actor to publish in a namespace, under its current name; publishing creates a new one."""

    actor: Actor
    namespace: str
    is_new: bool


class PublishedVersion(NamedTuple):
    """The result of a publication, with the package afterwards and the number of the change.

    ``repeated`` if the same bytes were already published, ``checked`` for a dry run of new ones. ``yanked`` is
    number → reason of the package's other versions with the same bytes that are yanked.
    """

    version: PackageVersion
    how: Literal["created", "repeated", "checked"]
    package: Package
    change: int = 0
    yanked: Mapping[str, str] = {}


class Registry:
    """Manages the packages in ``store``. ``reserved`` namespaces are never assigned; changes call ``changed``.

    ``withdrawn`` is awaited after a package or version was quarantined or deleted, or its access narrowed: when it
    returns, this server does not serve it any more. Others of the same database follow as soon as they hear of it.
    """

    def __init__(self, store: PackageStore, clock: Callable[[], float], *, reserved: Collection[str] = ()) -> None:
        self.store = store
        self.changed: Callable[[], object] = lambda: None
        self.withdrawn: Callable[[], Awaitable[object]] | None = None
        self._clock = clock
        self._reserved = frozenset(reserved)

    # --- namespaces --------------------------------------------------------------------------------------

    async def create_namespace(self, actor: Actor, name: str) -> Namespace:
        """Create a namespace owned by the actor.

        Raises UsageError, ConflictError (``NAMESPACE_TAKEN``, ``NAMESPACES_FULL``), TrustError.
        """
        self._allow(actor, ADMIN, name)
        return await self._make_namespace(actor, name)

    async def _make_namespace(self, actor: Actor, name: str) -> Namespace:
        if not is_namespace(name):
            fix = "Use lower-case letters, digits and single hyphens, at most 64 characters."
            raise UsageError("NAMESPACE_FORM", f"{ascii(name)[:80]} is no name of a namespace", fix=fix)
        now = self._clock()
        proof = Proof("operator", "", now) if actor.is_operator else Proof()
        namespace = Namespace(name, now, proof)
        change = self._change(actor, None, "namespace.create", name)
        most = None if name == actor.account else _most_names(actor)
        if name in self._reserved or not await self.store.add_namespace(namespace, actor.account, change, most=most):
            raise await self._name_refusal(actor, name)
        return namespace

    async def prove_namespace(self, actor: Actor, name: str, proof: Proof) -> Namespace:
        """Record the proof of a namespace; kind ``operator`` needs an operator. Raises TrustError, NotFoundError."""
        name = await self.require(actor, Role.OWNER, name, scope=ADMIN)
        if proof.kind == "operator" and not actor.is_operator:
            raise TrustError("PERMISSION_DENIED", "only an operator can vouch for a namespace")
        namespace = (await self.namespace(name))._replace(proof=proof)
        change = self._change(actor, Role.OWNER, "namespace.prove", name, kind=proof.kind, domain=proof.domain)
        await self.store.update_namespace(namespace, change)
        return namespace

    async def rename_namespace(self, actor: Actor, old: str, new: str) -> Namespace:
        """Rename a namespace, which loses its proof; its old name redirects permanently.

        Raises as :meth:`create_namespace`, NotFoundError, ConflictError (``RENAMED``).
        """
        old = await self.require(actor, Role.OWNER, old, scope=ADMIN)
        self._allow(actor, ADMIN, new)
        if not is_namespace(new):
            raise UsageError("NAMESPACE_FORM", f"{ascii(new)[:80]} is no name of a namespace")
        change, most = self._change(actor, Role.OWNER, "namespace.rename", old, to=new), _most_names(actor)
        if new in self._reserved or not await self.store.rename_namespace(old, new, change, most=most):
            raise await self._name_refusal(actor, new)
        self.changed()
        return await self.namespace(new)

    async def _name_refusal(self, actor: Actor, name: str) -> ConflictError:
        """Return the refusal of a name of a namespace."""
        own = "You have it already; choose a name that was never used."
        fix = own if name in await self.store.roles(actor.account) else None
        return ConflictError("NAMESPACE_TAKEN", f"the namespace {name} is taken, or was once", fix=fix)

    async def set_role(self, actor: Actor, namespace: str, account: str, role: Role | None) -> None:
        """Give an account a role, or remove it; members may remove themselves.

        Raises UsageError (``LAST_OWNER``), NotFoundError, TrustError.
        """
        needed = Role.READER if role is None and account == actor.account else Role.OWNER
        namespace = await self.require(actor, needed, namespace, scope=ADMIN)
        if role is not None and (not is_account(account) or await self.store.account(account) is None):
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no account {ascii(account)[:80]}")
        if role is None and account not in await self.store.members(namespace):
            fix = f"Check the name: skillwire registry member list {namespace} shows the members."
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"{ascii(account)[:80]} is no member of {namespace}", fix=fix)
        action, details = "member.set" if role else "member.remove", {"account": account, "role": role or ""}
        change = self._change(actor, needed, action, namespace, **details)
        if not await self.store.set_role(namespace, account, role, change):
            raise UsageError("LAST_OWNER", f"{account} is the last owner of {namespace}")

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace, under its new name if it was renamed. Raises NotFoundError (``NAMESPACE_NOT_FOUND``)."""
        found = await self.store.namespace(name) if is_namespace(name) else None
        if found is not None and found.renamed_to:
            found = await self.store.namespace(found.renamed_to)
        if found is None:
            raise _no_namespace(name)
        return found

    # --- publishing --------------------------------------------------------------------------------------

    async def check_publication(self, actor: Actor, namespace: str) -> PublishRight:
        """Return the right to publish in the namespace, before the bytes are read.

        Raises TrustError, NotFoundError, ConflictError (``NAMESPACE_TAKEN``).
        """
        try:
            present = await self.require(actor, Role.PUBLISHER, namespace, scope=PUBLISH)
            return PublishRight(actor, present, is_new=False)
        except NotFoundError:
            if namespace != actor.account or not is_namespace(namespace):
                raise
        self._allow(actor, PUBLISH, namespace)
        if namespace in self._reserved:
            raise ConflictError("NAMESPACE_TAKEN", f"the namespace {namespace} is taken, or was once")
        return PublishRight(actor, namespace, is_new=True)

    async def publish(
        self,
        right: PublishRight,
        prepared: PreparedSkill,
        uploaded: Digest,
        *,
        version: str = "",
        dry_run: bool = False,
    ) -> PublishedVersion:
        """Publish a skill in the namespace that it was prepared for; ``version`` overrides the folder's version.

        A dry run stores nothing. Raises ConflictError (``VERSION_EXISTS``, ``PACKAGE_CLOSED``), UsageError,
        TrustError (``QUARANTINED`` for bytes that are in quarantine in this package), NotFoundError.
        """
        skill, actor = with_version(prepared.skill, version), right.actor
        if skill.publisher != right.namespace:
            raise ValueError(f"{skill.publisher} is not the namespace {right.namespace}")
        check_identifiers(skill)
        one = PackageVersion(skill, self._clock(), actor.account, uploaded)
        if dry_run:
            return await self._preview(one)
        if right.is_new:
            with suppress(ConflictError):  # a concurrent publication created it; the store checks the role
                await self._make_namespace(actor, right.namespace)
        details = {"digest": str(skill.artifact.digest), "uploaded": str(uploaded)}
        change = self._change(actor, Role.PUBLISHER, "version.publish", f"{one.package}@{skill.version}", **details)
        stored = await self.store.publish(one, prepared.artifact, change)
        if stored.how == "created":
            await self._follow(withdraws=stored.narrows)
        elif stored.how == "repeated":
            one = await self.store.version(one.package, one.version) or one
        elif stored.how == "quarantined":
            raise quarantined(one, stored.reason)
        elif stored.how == "closed" and stored.package:
            raise closed(stored.package)
        else:
            raise unpublishable(one, stored.how, stored.reason)
        return PublishedVersion(one, stored.how, stored.package or one.follow(None), stored.change, stored.yanked)

    async def _preview(self, one: PackageVersion) -> PublishedVersion:
        """Return the result that publishing ``one`` would have now. Raises ConflictError, TrustError."""
        package = await self.store.package(one.package)
        if package is None:
            return PublishedVersion(one, "checked", one.follow(None))
        if package.state.status in CLOSED or package.renamed_to:
            raise closed(package)
        stored = await self.store.version(one.package, one.version)
        if stored is not None and stored.skill.artifact.digest != one.skill.artifact.digest:
            raise unpublishable(one, "conflict")
        others = [other for other in await self.store.versions(one.package) if other.version != one.version]
        copies = [other for other in others if other.skill.artifact.digest == one.skill.artifact.digest]
        yanked = {copy.version: copy.state.reason for copy in copies if copy.state.status is Status.YANKED}
        if stored is not None:
            return PublishedVersion(stored, "repeated", package, yanked=yanked)
        for other in others:
            if version_order(other.version) == version_order(one.version):
                raise unpublishable(one, "precedence", other.version)
        for copy in copies:
            if copy.state.status is Status.QUARANTINED:
                raise quarantined(one, copy.state.reason)
        if not await self.store.fits(one):
            raise unpublishable(one, "full")
        return PublishedVersion(one, "checked", one.follow(package), yanked=yanked)

    async def unmet(self, principal: Principal, skill: Skill) -> list[str]:
        """Return the requirements of a skill on this registry's packages that no version for ``principal`` meets."""
        found: list[str] = []
        for text in skill.requires:
            for name in required_packages([text], skill.publisher):
                versions: list[PackageVersion] = []
                with suppress(NotFoundError):
                    versions = await self.resolved(await self.package(principal, name))
                if not any(one.version in parse_requirement(text).versions for one in versions):
                    found.append(text)
        return found

    # --- states ------------------------------------------------------------------------------------------

    async def set_version_state(self, actor: Actor, package: Package, version: str, state: State) -> PackageVersion:
        """Yank, deprecate, quarantine a version, or make it active again.

        This includes versions of a package that redirects, since their artifacts are still served by digest. Raises as
        :meth:`describe_version` and :meth:`change_package`.
        """
        found = await self.describe_version(package, version)
        await self.require(actor, Role.PUBLISHER, package.name.namespace, scope=PUBLISH)
        _check_state(actor, found.state, state)
        target = f"{package.name}@{found.version}"
        change = self._change(actor, Role.PUBLISHER, f"version.{state.status}", target, reason=state.reason)
        await self.store.set_version_state(package.name, found.version, state, change)
        await self._follow(withdraws=state.status in _WITHDRAWN)
        return found._replace(state=state)

    async def change_package(
        self, actor: Actor, package: Package, *, access: Access | None = None, state: State | None = None
    ) -> Package:
        """Set the access of a package, its state, or both; a refused change of one leaves the other as it was.

        Raises TrustError, ConflictError (``RENAMED``), UsageError (``REASON_FORM``, ``REFERENCE``), NotFoundError.
        """
        await self._check_maintainer(actor, package)
        changes, name = [], str(package.name)
        if access is not None:
            changes.append(self._change(actor, Role.MAINTAINER, "package.access", name, access=access))
        if state is not None:
            _check_state(actor, package.state, state)
            details = {"reason": state.reason, "successor": state.successor}
            changes.append(self._change(actor, Role.MAINTAINER, f"package.{state.status}", name, **details))
        await self.store.change_package(package.name, changes, access=access, state=state)
        is_closed = state is not None and state.status in _WITHDRAWN
        await self._follow(withdraws=is_closed or access not in {None, Access.PUBLIC})
        return package._replace(access=access or package.access, state=state or package.state)

    async def _follow(self, *, withdraws: bool) -> None:
        self.changed()
        if withdraws and self.withdrawn is not None:
            await self.withdrawn()

    async def _check_maintainer(self, actor: Actor, package: Package) -> None:
        """Check that the actor may change a package. Packages that redirect are refused: they have a new owner."""
        await self.require(actor, Role.MAINTAINER, package.name.namespace, scope=ADMIN)
        if package.renamed_to:
            message = f"{package.name} was renamed to {package.renamed_to}, and only its versions can be changed"
            raise ConflictError("RENAMED", message, fix=f"To change the new package, name {package.renamed_to}.")

    async def redirect(self, actor: Actor, package: Package, to: PackageName) -> Package:
        """Redirect a package permanently to another one, which its owner published under the new name.

        Raises UsageError (``REFERENCE``), TrustError, ConflictError (``RENAMED``), NotFoundError
        (``PACKAGE_NOT_FOUND``).
        """
        await self._check_maintainer(actor, package)
        await self.require(actor, Role.MAINTAINER, to.namespace, scope=ADMIN)
        target = await self.store.package(to)
        if target is None or target.state.status is Status.DELETED:
            fix = "Publish the skill under its new name first; the old package redirects to it then."
            raise NotFoundError("PACKAGE_NOT_FOUND", f"there is no package {to} to redirect to", fix=fix)
        if to == package.name:
            fix = "Publish the package under its new name, and name that."
            raise UsageError("REFERENCE", f"{to} is the name that the package has already", fix=fix)
        if target.renamed_to:
            raise UsageError("REFERENCE", f"{to} is itself a redirect", fix="Name the package that it redirects to.")
        change = self._change(actor, Role.MAINTAINER, "package.rename", str(package.name), to=str(to))
        await self.store.redirect_package(package.name, to, change)
        self.changed()
        return package._replace(renamed_to=to)

    async def set_reader(self, actor: Actor, package: Package, account: str, *, may_read: bool) -> None:
        """Allow an account to read a package, or end that. Raises as :meth:`change_package`, NotFoundError."""
        await self._check_maintainer(actor, package)
        if await self.store.account(account) is None:
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no account {ascii(account)[:80]}")
        details = {"account": account, "may_read": may_read}
        change = self._change(actor, Role.MAINTAINER, "package.share", str(package.name), **details)
        await self.store.set_reader(package.name, account, may_read=may_read, change=change)

    # --- reading -----------------------------------------------------------------------------------------

    async def package(self, principal: Principal, name: PackageName, *, redirects: bool = True) -> Package:
        """Return a package that ``principal`` may know of, under its new name if it was renamed.

        Without ``redirects``, a package that redirects to another one is returned itself, for changes.
        Raises NotFoundError (``PACKAGE_NOT_FOUND``), also for a package that ``principal`` may not know of.
        """
        namespace = await self.store.namespace(name.namespace) if is_namespace(name.namespace) else None
        present = namespace.renamed_to or namespace.name if namespace else ""
        found = await self._read(principal, name._replace(namespace=present)) if present else None
        if found is not None and found.renamed_to and redirects:
            found = await self._read(principal, found.renamed_to)
        if found is None or not may_know(principal, found):
            raise no_package(name)
        return found

    async def _read(self, principal: Principal, name: PackageName) -> Package | None:
        """Return a package; an inaccessible private one is not read, since the response time would reveal it."""
        return await self.store.package(name, with_private=principal.has(*name[::-1]))

    async def successor(self, principal: Principal, name: str) -> Package | None:
        """Return the package that a state names, under its present name; None if ``principal`` may not know of it."""
        asked = read_package_name(name)
        with suppress(NotFoundError):
            return asked and await self.package(principal, asked)
        return None

    async def shown(self, principal: Principal, rows: Sequence[Stated]) -> list[Stated]:
        """Return packages or versions as answers show them to ``principal``: no successor that it may not know of."""
        named = {one.state.successor for one in rows if one.state.successor}
        hidden = [one for one in named if await self.successor(principal, one) is None]
        return [
            one._replace(state=one.state._replace(successor="")) if one.state.successor in hidden else one
            for one in rows
        ]

    async def packages(
        self, principal: Principal, namespace: str, after: str, limit: int
    ) -> tuple[Sequence[Package], str | None]:
        """Return a page of the packages that ``principal`` may know of, and the last name if more follow."""
        found = await self.store.packages(namespace, after, limit + 1, grants=principal.grants)
        return found[:limit], found[limit - 1].name.name if len(found) > limit else None

    async def find(
        self, principal: Principal, beginning: str, after: PackageName, limit: int
    ) -> tuple[Sequence[Package], PackageName | None]:
        """Return a page of packages of all namespaces whose names start with ``beginning``, as :meth:`packages`."""
        found = await self.store.find_packages(beginning, after, limit + 1, grants=principal.grants)
        return found[:limit], found[limit - 1].name if len(found) > limit else None

    async def version(self, principal: Principal, package: Package, version: str = "") -> PackageVersion:
        """Return a version, the latest one by default, for download.

        Raises NotFoundError (``VERSION_NOT_FOUND``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``,
        ``QUARANTINED``, ``YANKED``).
        """
        found = await self.shown_version(package, version)
        check_use(principal, package)
        if package.state.status is Status.QUARANTINED:
            raise _withdrawn(found, package.state)
        if found.state.status is Status.QUARANTINED or not (version or package.latest):
            [shown] = await self.shown(principal, [found])
            raise _withdrawn(found, shown.state)
        return found

    async def describe_version(self, package: Package, version: str) -> PackageVersion:
        """Return a version, also one that may not be downloaded; an empty text stands for the latest one.

        Raises NotFoundError (``VERSION_NOT_FOUND``), TrustError (``YANKED``, ``QUARANTINED``) where none is resolved.
        """
        if not version and not package.latest:
            highest = await self.shown_version(package)
            raise _withdrawn(highest, highest.state._replace(successor=""))  # the caller may not know of it
        version = version or package.latest
        found = await self.store.version(package.name, version) if is_version(version) else None
        if found is None:
            raise no_version(package.name, version)
        return found

    async def shown_version(self, package: Package, version: str = "") -> PackageVersion:
        """Return a version as :meth:`describe_version`; an empty text may stand for the highest one, to show it."""
        if version or package.latest:
            return await self.describe_version(package, version)
        return (await self.store.versions(package.name))[0]

    async def resolved(self, package: Package) -> list[PackageVersion]:
        """Return the versions that are resolved, highest first."""
        hidden = {Status.YANKED, Status.QUARANTINED}
        return [one for one in await self.store.versions(package.name) if one.state.status not in hidden]

    async def by_artifact(self, principal: Principal, digest: Digest) -> tuple[Package, PackageVersion]:
        """Return a version with this artifact that ``principal`` may download, yanked ones included.

        Raises as :meth:`version` if ``principal`` may only know of the version; NotFoundError (``VERSION_NOT_FOUND``).
        """
        refusal: SkillwireError = NotFoundError("VERSION_NOT_FOUND", "no version has this artifact")
        for one in await self.store.by_artifact(digest, limits.REGISTRY_PAGE):
            package = await self.store.package(one.package)
            if package is not None and may_know(principal, package):
                try:
                    return package, await self.version(principal, package, one.version)
                except TrustError as error:
                    refusal = error
        raise refusal

    async def authorize(self, principal: Principal, rights: Rights | None = None) -> Principal:
        """Return the caller with the rights of its account: those of an operator, or grants of packages.

        Grants are ``namespace/*`` and ``namespace/name``. A deleted account is removed from the caller. The ``rights``
        of the account are read from the store if they were not read with the token.
        """
        principal = principal._replace(grants=self._qualified(principal.grants))
        if not principal.account:
            return principal
        account, roles, shared = rights or await self.store.rights(principal.account)
        if account is None:
            return principal._replace(account="")
        if not set(principal.scopes) & {READ, PUBLISH, ADMIN}:
            return principal
        is_operator = account.is_operator and ADMIN in principal.scopes and not is_limited(principal.scopes)
        scopes = await present_scopes(self.store, principal.scopes, roles)
        actor = Actor(account.name, scopes | {ADMIN})
        grants = [
            *(f"{namespace}/{EVERY_SKILL}" for namespace in roles if actor.allows(READ, namespace)),
            *(str(name) for name in shared if actor.allows(READ, name.namespace)),
        ]
        granted = principal.grants.union([EVERY_SKILL] if is_operator else grants)
        return principal._replace(grants=granted, scopes=scopes, is_operator=is_operator, roles=roles)

    def _qualified(self, grants: Collection[str]) -> frozenset[str]:
        """Return the grants, bare names as skills of the folders: namespaces may have the same names."""
        bare = set(filter(is_skill_name, grants))
        return frozenset({*grants} - bare).union(f"{one}/{name}" for one in self._reserved for name in bare)

    async def require(self, actor: Actor, role: Role, namespace: str, *, scope: str) -> str:
        """Check that the actor has ``role`` in ``namespace`` and its token ``scope``; return its current name.

        Raises TrustError, NotFoundError (``NAMESPACE_NOT_FOUND``).
        """
        require_account(actor)
        name, own = namespace, actor.roles.get(namespace)
        if own is None:  # renamed, or created after the rights were read
            name = (await self.namespace(namespace)).name
            own = (await self.store.roles(actor.account)).get(name)
        self._allow(actor, scope, name)
        if not actor.is_operator and (own is None or not Role(own).includes(role)):
            raise lacks_role(actor.account, role, name)
        return name

    def _allow(self, actor: Actor, scope: str, namespace: str) -> None:
        require_account(actor)
        if not actor.allows(scope, namespace):
            if not actor.reaches(namespace):
                own = namespaces_of(actor.scopes)
                message = f"the token does not reach {namespace}; it is limited to {first_of(own, _NAMED)}"
                fix = f"Name a namespace of the token, when publishing with --namespace {own[0]}, or use another token."
                raise TrustError("PERMISSION_DENIED", message, fix=fix, details={"namespace": namespace})
            message = f"the token does not allow {scope} in {namespace}: this needs the scope {scope}"
            raise TrustError("PERMISSION_DENIED", message, details={"scope": scope, "namespace": namespace})

    def _change(self, actor: Actor, role: Role | None, action: str, target: str, /, **details: Any) -> Change:
        """Return a change that needs ``role`` in the namespace of its target."""
        right = Right(actor.token_id, role, actor.is_operator)
        return actor.change(self._clock(), action, target, **details)._replace(right=right)


def _withdrawn(version: PackageVersion, state: State) -> TrustError:
    """Return the refusal of a version in quarantine, or of a yanked one that would be the latest."""
    what, reason = f"{version.package} {version.version}", state.reason or "no reason is given"
    if state.status is Status.QUARANTINED:
        return TrustError("QUARANTINED", f"{what} is in quarantine: {reason}")
    own = f"To use the yanked one nevertheless, name its version, {version.version}."
    fix = f"Use {state.successor} instead." if state.successor else own
    return TrustError("YANKED", f"{what} is yanked, and no other version is resolved: {reason}", fix=fix)


def _check_state(actor: Actor, before: State, after: State) -> None:
    check_quarantine(before.status, after.status, is_operator=actor.is_operator)
    if len(after.reason) > _REASON_LENGTH or not after.reason.isprintable():
        raise UsageError("REASON_FORM", f"a reason is one line of at most {_REASON_LENGTH} characters")
    if after.status in {Status.YANKED, Status.QUARANTINED} and not after.reason:
        message = f"a {after.status} version needs a reason"
        raise UsageError("REASON_FORM", message, fix="Say why in one line: reason, or --reason TEXT.")
    if after.successor and read_package_name(after.successor) is None:
        fix = "Name the successor as NAMESPACE/NAME, a package of this registry."
        raise UsageError("REFERENCE", f"{ascii(after.successor)[:80]} is not NAMESPACE/NAME", fix=fix)
    if after.successor and after.status is Status.ACTIVE:
        fix = "Leave the successor out, or deprecate the package."
        raise UsageError("REFERENCE", "what is active has no successor", fix=fix)


def _most_names(actor: Actor) -> int | None:
    return None if actor.is_operator else int(limits.REGISTRY_NAMES)


def _no_namespace(name: str) -> NotFoundError:
    return NotFoundError("NAMESPACE_NOT_FOUND", f"there is no namespace {ascii(name)[:80]}")
