"""skillwire: publish a folder of skills once; have it found, verified, installed and called everywhere.

The public names are imported when they are first used, so ``import skillwire`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.client import AsyncClient, AsyncRemoteSkill, Client, RemoteSkill
    from skillwire.errors import SkillwireError
    from skillwire.resolver.policy import InstallPolicy
    from skillwire.resolver.settings import Settings
    from skillwire.version import VERSION as __version__  # noqa: N811  # the dunder is what others expect

_HOMES = {
    "AsyncClient": "skillwire.client",
    "AsyncRemoteSkill": "skillwire.client",
    "Client": "skillwire.client",
    "InstallPolicy": "skillwire.resolver.policy",
    "RemoteSkill": "skillwire.client",
    "Settings": "skillwire.resolver.settings",
    "SkillwireError": "skillwire.errors",
}

__all__ = [
    "AsyncClient",
    "AsyncRemoteSkill",
    "Client",
    "InstallPolicy",
    "RemoteSkill",
    "Settings",
    "SkillwireError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("skillwire.version").VERSION
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
