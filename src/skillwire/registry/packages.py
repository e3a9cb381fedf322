"""The use cases of a registry: who may do what, and what then changes. Everything else is the store's.

An :class:`Actor` is an account with what its token allows. Operators may do everything. In a namespace, roles decide;
an account owns the namespace of its own name from its first publication on. Who may not see a private package learns
nothing of it: it is answered as one that is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import ConflictError, NotFoundError, TrustError, UsageError
from skillwire.model.access import EVERY_SKILL, Access, Principal
from skillwire.model.package import (
    Change,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Proof,
    Role,
    State,
    Status,
    is_account,
    is_namespace,
    read_package_name,
)
from skillwire.model.skill import is_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.digest import Digest
    from skillwire.model.package import Published
    from skillwire.model.skill import Skill
    from skillwire.ports import PackageStore

#: What a token may be allowed in a registry: to read what is not public, to publish, and everything of its account.
READ: Final = "read"
PUBLISH: Final = "publish"
ADMIN: Final = "admin"
REGISTRY_SCOPES: Final = (READ, PUBLISH, ADMIN)
#: What a scope begins with that limits a token to one namespace.
NAMESPACE_SCOPE: Final = "namespace:"
_REASON_LENGTH: Final = 500


class Actor(NamedTuple):
    """An authenticated account, what its token allows, and where the request came from."""

    account: str
    scopes: frozenset[str] = frozenset()
    is_operator: bool = False
    address: str = ""
    request_id: str = ""

    def allows(self, scope: str, namespace: str) -> bool:
        """Whether the token allows ``scope`` in ``namespace``."""
        limits = {one for one in self.scopes if one.startswith(NAMESPACE_SCOPE)}
        is_inside = not limits or f"{NAMESPACE_SCOPE}{namespace}" in limits
        return is_inside and not self.scopes.isdisjoint({scope, ADMIN})


class PublishedVersion(NamedTuple):
    """What a publication came to: ``created``, or ``repeated`` when the same bytes were there before."""

    version: PackageVersion
    how: Published


class Registry:
    """The packages in ``store``. ``reserved`` namespaces are never given out; ``changed`` is called after changes."""

    def __init__(
        self,
        store: PackageStore,
        clock: Callable[[], float],
        *,
        reserved: Collection[str] = (),
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self.store = store
        self.changed = changed
        self._clock = clock
        self._reserved = frozenset(reserved)

    # --- namespaces --------------------------------------------------------------------------------------

    async def create_namespace(self, actor: Actor, name: str) -> Namespace:
        """Make a namespace that the actor owns. Raises UsageError, ConflictError (``NAMESPACE_TAKEN``), TrustError."""
        self._allow(actor, ADMIN, name)
        return await self._make_namespace(actor, name)

    async def _make_namespace(self, actor: Actor, name: str) -> Namespace:
        if not is_namespace(name):
            fix = "Use lower-case letters, digits and single hyphens, at most 64 characters."
            raise UsageError("NAMESPACE_FORM", f"{ascii(name)[:80]} is no name of a namespace", fix=fix)
        now = self._clock()
        proof = Proof("operator", "", now) if actor.is_operator else Proof()
        namespace = Namespace(name, now, proof)
        change = self._change(actor, "namespace.create", name)
        if name in self._reserved or not await self.store.add_namespace(namespace, actor.account, change):
            raise ConflictError("NAMESPACE_TAKEN", f"the namespace {name} is taken, or was once")
        return namespace

    async def prove_namespace(self, actor: Actor, name: str, proof: Proof) -> Namespace:
        """Record how a namespace was proven; an operator's word needs an operator. Raises TrustError, NotFoundError."""
        await self.require(actor, Role.OWNER, name, scope=ADMIN)
        if proof.kind == "operator" and not actor.is_operator:
            raise TrustError("PERMISSION_DENIED", "only an operator can vouch for a namespace")
        namespace = (await self.namespace(name))._replace(proof=proof)
        change = self._change(actor, "namespace.prove", name, kind=proof.kind, domain=proof.domain)
        await self.store.update_namespace(namespace, change)
        return namespace

    async def rename_namespace(self, actor: Actor, old: str, new: str) -> None:
        """Rename a namespace; its old name redirects for good. Raises ConflictError, UsageError, TrustError."""
        await self.require(actor, Role.OWNER, old, scope=ADMIN)
        if not is_namespace(new):
            raise UsageError("NAMESPACE_FORM", f"{ascii(new)[:80]} is no name of a namespace")
        change = self._change(actor, "namespace.rename", old, to=new)
        if new in self._reserved or not await self.store.rename_namespace(old, new, change):
            raise ConflictError("NAMESPACE_TAKEN", f"the namespace {new} is taken, or was once")
        self.changed()

    async def set_role(self, actor: Actor, namespace: str, account: str, role: Role | None) -> None:
        """Give an account a role, or take it away. Raises UsageError (``LAST_OWNER``), NotFoundError, TrustError."""
        await self.require(actor, Role.OWNER, namespace, scope=ADMIN)
        if role is not None and (not is_account(account) or await self.store.account(account) is None):
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no account {ascii(account)[:80]}")
        change = self._change(actor, "member.set", namespace, account=account, role=role or "")
        if not await self.store.set_role(namespace, account, role, change):
            raise UsageError("LAST_OWNER", f"{account} is the last owner of {namespace}")

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace; a renamed one under its new name. Raises NotFoundError (``NAMESPACE_NOT_FOUND``)."""
        found = await self.store.namespace(name) if is_namespace(name) else None
        if found is not None and found.renamed_to:
            found = await self.store.namespace(found.renamed_to)
        if found is None:
            raise NotFoundError("NAMESPACE_NOT_FOUND", f"there is no namespace {ascii(name)[:80]}")
        return found

    # --- publishing --------------------------------------------------------------------------------------

    async def check_publication(self, actor: Actor, namespace: str) -> None:
        """Check, before its bytes are read, that the actor may publish there. Raises TrustError, NotFoundError."""
        if await self.store.namespace(namespace) is None and namespace == actor.account:
            self._allow(actor, PUBLISH, namespace)
            if namespace in self._reserved:
                raise ConflictError("NAMESPACE_TAKEN", f"the namespace {namespace} is taken, or was once")
        else:
            await self.require(actor, Role.PUBLISHER, namespace, scope=PUBLISH)

    async def publish(
        self, actor: Actor, prepared: PreparedSkill, uploaded: Digest, *, version: str = ""
    ) -> PublishedVersion:
        """Publish a skill in the namespace that it was prepared for; ``version`` stands above the folder's own.

        Raises ConflictError (``VERSION_EXISTS``, ``PACKAGE_CLOSED``), UsageError, TrustError, NotFoundError.
        """
        skill = with_version(prepared.skill, version)
        namespace = skill.publisher
        _check_identifiers(skill)
        await self.check_publication(actor, namespace)
        if await self.store.namespace(namespace) is None:
            await self._make_namespace(actor, namespace)
        one = PackageVersion(skill, self._clock(), actor.account, uploaded)
        digests = {"digest": str(skill.artifact.digest), "uploaded": str(uploaded)}
        change = self._change(actor, "version.publish", f"{one.package}@{skill.version}", **digests)
        how = await self.store.publish(one, prepared.artifact, change)
        if how == "conflict":
            fix = "Raise the version: a published one never changes."
            raise ConflictError(
                "VERSION_EXISTS", f"{one.package} {skill.version} is published with other bytes", fix=fix
            )
        if how == "closed":
            raise ConflictError("PACKAGE_CLOSED", f"{one.package} takes no new versions")
        if how == "repeated":
            stored = await self.store.version(one.package, skill.version)
            return PublishedVersion(stored or one, how)
        self.changed()
        return PublishedVersion(one, how)

    # --- states ------------------------------------------------------------------------------------------

    async def set_version_state(self, actor: Actor, package: Package, version: str, state: State) -> PackageVersion:
        """Yank, deprecate, quarantine a version, or make it active again. Raises TrustError, NotFoundError."""
        found = await self.store.version(package.name, version)
        if found is None:
            raise NotFoundError("VERSION_NOT_FOUND", f"{package.name} has no version {ascii(version)[:80]}")
        await self._check_state(actor, package, found.state, state, Role.PUBLISHER)
        target = f"{package.name}@{version}"
        change = self._change(actor, f"version.{state.status}", target, reason=state.reason)
        await self.store.set_version_state(package.name, version, state, change)
        self.changed()
        return found._replace(state=state)

    async def set_state(self, actor: Actor, package: Package, state: State) -> Package:
        """Archive, deprecate, quarantine or delete a package, or make it active again. Raises TrustError."""
        await self._check_state(actor, package, package.state, state, Role.MAINTAINER)
        change = self._change(
            actor, f"package.{state.status}", str(package.name), reason=state.reason, successor=state.successor
        )
        await self.store.set_package_state(package.name, state, change)
        self.changed()
        return package._replace(state=state)

    async def _check_state(self, actor: Actor, package: Package, before: State, after: State, role: Role) -> None:
        await self.require(actor, role, package.name.namespace, scope=PUBLISH if role is Role.PUBLISHER else ADMIN)
        if Status.QUARANTINED in {before.status, after.status} and not actor.is_operator:
            raise TrustError("PERMISSION_DENIED", "only an operator puts into quarantine, and ends it")
        if len(after.reason) > _REASON_LENGTH or not after.reason.isprintable():
            raise UsageError("REASON_FORM", f"a reason is one line of at most {_REASON_LENGTH} characters")
        if after.status is Status.YANKED and not after.reason:
            raise UsageError("REASON_FORM", "a yanked version needs a reason", fix="Say why: --reason TEXT.")
        if after.successor and read_package_name(after.successor) is None:
            raise UsageError("REFERENCE", f"{ascii(after.successor)[:80]} is not NAMESPACE/NAME")

    async def set_access(self, actor: Actor, package: Package, access: Access) -> Package:
        """Store how far a package is visible. Raises TrustError."""
        await self.require(actor, Role.MAINTAINER, package.name.namespace, scope=ADMIN)
        change = self._change(actor, "package.access", str(package.name), access=access)
        await self.store.set_access(package.name, access, change)
        self.changed()
        return package._replace(access=access)

    async def set_reader(self, actor: Actor, package: Package, account: str, *, may_read: bool) -> None:
        """Let an account read a package, or no longer. Raises TrustError, NotFoundError (``ACCOUNT_NOT_FOUND``)."""
        await self.require(actor, Role.MAINTAINER, package.name.namespace, scope=ADMIN)
        if await self.store.account(account) is None:
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no account {ascii(account)[:80]}")
        change = self._change(actor, "package.share", str(package.name), account=account, may_read=may_read)
        await self.store.set_reader(package.name, account, may_read=may_read, change=change)

    # --- reading -----------------------------------------------------------------------------------------

    async def package(self, principal: Principal, name: PackageName) -> Package:
        """Return a package that ``principal`` may know of, under its new name where it was renamed.

        Raises NotFoundError (``PACKAGE_NOT_FOUND``), also for what it may not know of.
        """
        missing = NotFoundError("PACKAGE_NOT_FOUND", f"there is no package {ascii(str(name))[:150]}")
        namespace = await self.store.namespace(name.namespace)
        if namespace is None:
            raise missing
        found = await self.store.package(name._replace(namespace=namespace.renamed_to or name.namespace))
        if found is not None and found.renamed_to:
            found = await self.store.package(found.renamed_to)
        if found is None or found.state.status is Status.DELETED:
            raise missing
        if found.access is Access.PRIVATE and not _may_read(principal, found):
            raise missing
        return found

    async def version(self, principal: Principal, package: Package, version: str = "") -> PackageVersion:
        """Return a version, the latest one by default, for download.

        Raises NotFoundError (``VERSION_NOT_FOUND``), TrustError (``PERMISSION_DENIED``, ``QUARANTINED``).
        """
        wanted = version or package.latest
        found = await self.store.version(package.name, wanted) if is_version(wanted) else None
        if found is None:
            raise NotFoundError("VERSION_NOT_FOUND", f"{package.name} has no version {ascii(wanted)[:80]}")
        if package.access is not Access.PUBLIC and not _may_read(principal, package):
            raise TrustError("PERMISSION_DENIED", f"{package.name} is restricted to some accounts")
        for state in (package.state, found.state):
            if state.status is Status.QUARANTINED:
                message = f"{package.name} {wanted} is in quarantine: {state.reason or 'no reason is given'}"
                raise TrustError("QUARANTINED", message)
        return found

    async def grants(self, account: str, scopes: Collection[str]) -> frozenset[str]:
        """Return what a token of ``account`` may read beside what is public: ``namespace/*`` and ``namespace/name``."""
        if not set(scopes) & {READ, PUBLISH, ADMIN}:
            return frozenset()
        known = await self.store.account(account)
        if known is not None and known.is_operator and ADMIN in scopes:
            return frozenset({EVERY_SKILL})
        roles, shared = await self.store.roles(account), await self.store.readable(account)
        actor = Actor(account, frozenset({*scopes, ADMIN}))
        return frozenset(
            [
                *(f"{namespace}/{EVERY_SKILL}" for namespace in roles if actor.allows(READ, namespace)),
                *(str(name) for name in shared if actor.allows(READ, name.namespace)),
            ]
        )

    async def actor(self, principal: Principal | None, address: str = "", request_id: str = "") -> Actor:
        """Return the caller as one who may change things; without an account it may change nothing."""
        account = await self.store.account(principal.account) if principal and principal.account else None
        if principal is None or account is None:
            return Actor("", address=address, request_id=request_id)
        is_operator = account.is_operator and ADMIN in principal.scopes
        return Actor(account.name, principal.scopes, is_operator, address, request_id)

    async def require(self, actor: Actor, role: Role, namespace: str, *, scope: str) -> None:
        """Check that the actor has ``role`` in ``namespace`` and its token ``scope``. Raises TrustError."""
        self._allow(actor, scope, namespace)
        if actor.is_operator:
            await self.namespace(namespace)
            return
        own = (await self.store.members((await self.namespace(namespace)).name)).get(actor.account)
        if own is None or not own.includes(role):
            message = f"{actor.account} is no {role} of {namespace}"
            raise TrustError("PERMISSION_DENIED", message, details={"role": role.value, "namespace": namespace})

    def _allow(self, actor: Actor, scope: str, namespace: str) -> None:
        if not actor.account:
            raise TrustError("AUTH_REQUIRED", "this needs the token of an account", details={"reason": "missing"})
        if not actor.allows(scope, namespace):
            message = f"the token does not allow {scope} in {namespace}"
            raise TrustError("PERMISSION_DENIED", message, details={"scope": scope, "namespace": namespace})

    def _change(self, actor: Actor, action: str, target: str, **details: Any) -> Change:
        told: Mapping[str, Any] = {key: value for key, value in details.items() if value != ""}
        return Change(self._clock(), actor.account, action, target, told, actor.address, actor.request_id)


def _may_read(principal: Principal, package: Package) -> bool:
    return principal.has(package.name.name, package.name.namespace)


def with_version(skill: Skill, version: str) -> Skill:
    """Return ``skill`` with another version. Raises UsageError (``PACKAGE_VERSION``)."""
    if version and not is_version(version):
        fix = "Write it as Semantic Versioning does, such as 1.2.0."
        raise UsageError("PACKAGE_VERSION", f"{ascii(version)[:80]} is no version", fix=fix)
    if not version or version == skill.version:
        return skill
    return skill._replace(version=version, sharing=skill.sharing and skill.sharing._replace(version=version))


def _check_identifiers(skill: Skill) -> None:
    """Check that a skill takes no identifiers of other namespaces. Raises UsageError (``IDENTIFIER_FOREIGN``)."""
    ids, namespace = skill.identifiers, skill.publisher
    dotted = namespace.replace("-", ".")
    for identifier, begin in ((ids.skill_sharing, f"{namespace}/"), (ids.skills_rpc, f"{dotted}.")) if ids else ():
        if not identifier.startswith(begin):
            fix = f"Remove the identifier from skill.toml and descriptor.json, or begin it with {begin}"
            raise UsageError("IDENTIFIER_FOREIGN", f"{identifier} is not of the namespace {namespace}", fix=fix)
