"""What a caller may see and use of the packages of a registry, as their access and its grants decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.errors import TrustError
from skillwire.model.access import EVERY_SKILL, Access
from skillwire.model.package import Status

if TYPE_CHECKING:
    from skillwire.model.access import Principal
    from skillwire.model.package import Package


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
