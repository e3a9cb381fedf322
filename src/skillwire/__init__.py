"""skillwire: publish a folder of skills once; have it found, verified, installed and called everywhere.

The public names are imported when they are first used, so ``import skillwire`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.client import AsyncClient, AsyncRemoteSkill, Client, RemoteSkill
    from skillwire.errors import (
        ConflictError,
        DecodeError,
        FetchError,
        NotFoundError,
        Place,
        SkillwireError,
        StorageError,
        TrustError,
        UsageError,
        ValidationError,
    )
    from skillwire.model.finding import Finding
    from skillwire.model.install import LockedSkill, Placement
    from skillwire.model.origin_record import OriginRecord
    from skillwire.model.ref import SkillRef
    from skillwire.model.skill import FileContent
    from skillwire.resolver.apply import Report
    from skillwire.resolver.compare import Comparison
    from skillwire.resolver.install import Plan, PlannedSkill
    from skillwire.resolver.installed import Deviation, Verification
    from skillwire.resolver.policy import InstallPolicy
    from skillwire.resolver.settings import Settings
    from skillwire.version import VERSION as __version__  # noqa: N811  # the dunder is what others expect

#: Module → the public names that it defines.
_HOMES = {
    "client": ("AsyncClient", "AsyncRemoteSkill", "Client", "RemoteSkill"),
    "errors": (
        "ConflictError",
        "DecodeError",
        "FetchError",
        "NotFoundError",
        "Place",
        "SkillwireError",
        "StorageError",
        "TrustError",
        "UsageError",
        "ValidationError",
    ),
    "model.finding": ("Finding",),
    "model.install": ("LockedSkill", "Placement"),
    "model.origin_record": ("OriginRecord",),
    "model.ref": ("SkillRef",),
    "model.skill": ("FileContent",),
    "resolver.apply": ("Report",),
    "resolver.compare": ("Comparison",),
    "resolver.install": ("Plan", "PlannedSkill"),
    "resolver.installed": ("Deviation", "Verification"),
    "resolver.policy": ("InstallPolicy",),
    "resolver.settings": ("Settings",),
}

__all__ = [
    "AsyncClient",
    "AsyncRemoteSkill",
    "Client",
    "Comparison",
    "ConflictError",
    "DecodeError",
    "Deviation",
    "FetchError",
    "FileContent",
    "Finding",
    "InstallPolicy",
    "LockedSkill",
    "NotFoundError",
    "OriginRecord",
    "Place",
    "Placement",
    "Plan",
    "PlannedSkill",
    "RemoteSkill",
    "Report",
    "Settings",
    "SkillRef",
    "SkillwireError",
    "StorageError",
    "TrustError",
    "UsageError",
    "ValidationError",
    "Verification",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("skillwire.version").VERSION
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"skillwire.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
