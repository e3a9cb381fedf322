"""What a caller may see and use of the packages of a registry, as their access and its grants decide.

A store checks each change again in its transaction: :func:`check_change` and those below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, TrustError
from skillwire.model.access import EVERY_SKILL, Access
from skillwire.model.package import Role, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.access import Principal
    from skillwire.model.package import Change, Package, PackageName, PackageVersion, State


def may_know(principal: Principal, package: Package) -> bool:
    """Whether ``principal`` may know of a package."""
    is_there = package.state.status is not Status.DELETED
    return is_there and (
        package.access is not Access.PRIVATE or principal.has(package.name.name, package.name.namespace)
    )


def may_use(principal: Principal, package: Package) -> bool:
    """Whether the access of a package lets ``principal`` download it, given that it may know of the package."""
    return package.access is Access.PUBLIC or principal.has(package.name.name, package.name.namespace)


def check_use(principal: Principal, package: Package) -> None:
    """Check :func:`may_use`. Raises TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``)."""
    if not may_use(principal, package):
        code = "PERMISSION_DENIED" if principal.name else "AUTH_REQUIRED"
        raise TrustError(code, f"{package.name} is restricted to some accounts")


def is_member(principal: Principal, namespace: str) -> bool:
    """Whether ``principal`` may read every package of a namespace."""
    return not principal.grants.isdisjoint((f"{namespace}/{EVERY_SKILL}", EVERY_SKILL))


class Standing(NamedTuple):
    """What a transaction finds about the actor of a change and the namespace."""

    renamed_to: str | None  # the new name of the namespace
    has_ended: Any  # whether the token has
    is_operator: Any
    role: str | None


def check_change(change: Change, namespace: str, found: Standing) -> None:
    """Check that a change may still be made in a namespace, in its transaction.

    Raises ConflictError (``RENAMED``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``).
    """
    if found.renamed_to:
        raise renamed(namespace, found.renamed_to)
    if (right := change.right) is None:
        return
    if found.has_ended:
        raise TrustError("AUTH_REQUIRED", "the token has ended", details={"reason": "expired"})
    if right.is_operator and not found.is_operator:
        raise TrustError("PERMISSION_DENIED", f"{change.account} is no operator any more")
    if right.role and not right.is_operator and not (found.role and Role(found.role).includes(right.role)):
        raise lacks_role(change.account, right.role, namespace)


def check_names(account: str, taken: int, most: int) -> None:
    """Check that an account may take one more name. Raises ConflictError (``NAMESPACES_FULL``)."""
    if taken >= most:
        raise ConflictError("NAMESPACES_FULL", f"{account} has taken {most} names, as many as it may")


def check_package(
    change: Change, name: PackageName, package: Package | None, state: State | None, *, may_redirect: bool
) -> Package:
    """Return the package of a change, if it may still get ``state``.

    Raises NotFoundError, TrustError, ConflictError (``RENAMED``) for one that redirects, unless it ``may_redirect``.
    """
    if package is None or package.state.status is Status.DELETED:
        raise no_package(name)
    if package.renamed_to and not may_redirect:
        raise renamed(str(name), str(package.renamed_to))
    if state is not None and change.right is not None:
        check_quarantine(package.state.status, is_operator=change.right.is_operator)
    return package


def differing(
    package: Package, changes: Sequence[Change], access: Access | None, state: State | None
) -> tuple[Access | None, State | None, list[Change]]:
    """Return which of ``access`` and ``state`` a package does not have yet, and the changes to these."""
    given = dict(zip([one for one in (access, state) if one is not None], changes, strict=True))
    new = {value: change for value, change in given.items() if value not in {package.access, package.state}}
    return access if access in new else None, state if state in new else None, list(new.values())


def check_version(change: Change, package: PackageName, version: str, status: Status | None) -> None:
    """Check that the state of a version may still be changed, by its ``status``. Raises NotFoundError, TrustError."""
    if status is None:
        raise no_version(package, version)
    if change.right is not None:
        check_quarantine(status, is_operator=change.right.is_operator)


def check_quarantine(*statuses: Status, is_operator: bool) -> None:
    """Check that a change from and to these may be made. Raises TrustError (``PERMISSION_DENIED``)."""
    if Status.QUARANTINED in statuses and not is_operator:
        raise TrustError("PERMISSION_DENIED", "only an operator puts into quarantine, and ends it")


def lacks_role(account: str, role: Role, namespace: str) -> TrustError:
    """Return the refusal of an account without ``role``."""
    message = f"{account} needs the role {role} in {namespace}"
    fix = f"Ask an owner to run: skillwire registry member add {namespace} {account} {role.value}"
    return TrustError("PERMISSION_DENIED", message, fix=fix, details={"role": role.value, "namespace": namespace})


def no_package(name: PackageName) -> NotFoundError:
    """Return the refusal for a package that is not there."""
    return NotFoundError("PACKAGE_NOT_FOUND", f"there is no package {ascii(str(name))[:150]}")


def closed(package: Package) -> ConflictError:
    """Return the refusal of a new version of a package that takes none, with its reason."""
    name, (status, reason, _) = package.name, package.state
    if package.renamed_to:
        why, fix = f"was renamed to {package.renamed_to}", f"Publish it as {package.renamed_to}."
    elif status is Status.ARCHIVED:
        why, fix = "is archived", f"Make it active again: skillwire registry status {name} active"
    elif status is Status.DELETED:
        why, fix = "was deleted", "Publish under another name: that of a deleted package is never given again."
    else:
        why, fix = "is in quarantine", "Ask an operator of the registry, who can make it active again."
    shown = f": {reason}" if reason and not package.renamed_to else ""
    return ConflictError("PACKAGE_CLOSED", f"{name} {why}, and takes no new versions{shown}", fix=fix)


_RAISE: Final = "Raise the version: a published one never changes."
#: Why a version cannot be published: a code, a message, a fix.
_UNPUBLISHABLE: Final = {
    "conflict": ("VERSION_EXISTS", "is published with other bytes", _RAISE),
    "precedence": (
        "VERSION_EXISTS",
        "differs only in build metadata, which does not count, from the published",
        _RAISE,
    ),
    "full": (
        "PACKAGE_CLOSED",
        f"is refused: the lists of files of its package would exceed {limits.REGISTRY_PACKAGE_BYTES:,} bytes",
        "Publish it under another name.",
    ),
}


def unpublishable(one: PackageVersion, why: str, other: str = "") -> ConflictError:
    """Return the refusal of a version, for one of the reasons above; ``other`` is the version it conflicts with."""
    code, message, fix = _UNPUBLISHABLE[why]
    return ConflictError(code, f"{one.package} {one.version} {message} {other}".rstrip(), fix=fix)


def quarantined(one: PackageVersion, reason: str) -> TrustError:
    """Return the refusal of bytes in quarantine."""
    message = f"{one.package} {one.version} has the bytes of a version in quarantine: {reason}"
    return TrustError("QUARANTINED", message, fix="Publish other files, or ask an operator of the registry.")


def no_version(package: PackageName, version: str) -> NotFoundError:
    """Return the refusal for a version that is not there."""
    return NotFoundError("VERSION_NOT_FOUND", f"{package} has no version {ascii(version)[:80]}")


def renamed(name: str, to: str) -> ConflictError:
    """Return the refusal of a change under an old name."""
    return ConflictError("RENAMED", f"{name} was renamed to {to}", fix=f"Repeat the request for {to}.")
