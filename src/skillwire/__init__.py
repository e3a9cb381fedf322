"""skillwire: publish a folder of skills once; have it found, verified, installed and called everywhere.

The public names are imported when they are first used, so ``import skillwire`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.client import AsyncClient, AsyncRemoteSkill, AsyncRpcSkills, Client, RemoteSkill, RpcSkills
    from skillwire.client.call_values import PreparedCall
    from skillwire.client.lan_asynchronous import AsyncLan
    from skillwire.client.lan_synchronous import Lan
    from skillwire.client.rpc_values import BlobPart
    from skillwire.errors import (
        ConflictError,
        DecodeError,
        ExecutionError,
        FetchError,
        NotFoundError,
        PendingError,
        SkillwireError,
        SourceLocation,
        StorageError,
        TrustError,
        UsageError,
        ValidationError,
    )
    from skillwire.executions.webhooks import verify_webhook
    from skillwire.model.execution import CallContext, RemoteBlob, RemoteExecution, RemoteFailure
    from skillwire.model.install import LockedSkill, OriginRecord, Placement
    from skillwire.model.lan import LanChange, LanMember, LanNotice, LanScene, LanSkill, LanSnapshot, SceneResult
    from skillwire.model.ref import SkillRef
    from skillwire.model.skill import FileContent, Finding
    from skillwire.protocols.skills_rpc.messages import (
        CreatedBlob,
        DescribedSkill,
        ListedSkill,
        OutputBlob,
        RunError,
        RunResult,
        SkillPage,
    )
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Deviation, Verification
    from skillwire.resolver.plan import InstallPlan, InstallPolicy, PlannedSkill, UpdateComparison
    from skillwire.resolver.settings import Settings
    from skillwire.server.publisher import Publisher
    from skillwire.version import VERSION as __version__  # noqa: N811  # the dunder is what others expect

#: Module → the public names that it defines.
_HOMES = {
    "client": ("AsyncClient", "AsyncRemoteSkill", "AsyncRpcSkills", "Client", "RemoteSkill", "RpcSkills"),
    "client.call_values": ("PreparedCall",),
    "client.lan_asynchronous": ("AsyncLan",),
    "client.lan_synchronous": ("Lan",),
    "client.rpc_values": ("BlobPart",),
    "errors": (
        "ConflictError",
        "DecodeError",
        "ExecutionError",
        "FetchError",
        "NotFoundError",
        "PendingError",
        "SkillwireError",
        "SourceLocation",
        "StorageError",
        "TrustError",
        "UsageError",
        "ValidationError",
    ),
    "executions.webhooks": ("verify_webhook",),
    "model.execution": ("CallContext", "RemoteBlob", "RemoteExecution", "RemoteFailure"),
    "model.install": ("LockedSkill", "OriginRecord", "Placement"),
    "model.lan": ("LanChange", "LanMember", "LanNotice", "LanScene", "LanSkill", "LanSnapshot", "SceneResult"),
    "model.ref": ("SkillRef",),
    "model.skill": ("FileContent", "Finding"),
    "protocols.skills_rpc.messages": (
        "CreatedBlob",
        "DescribedSkill",
        "ListedSkill",
        "OutputBlob",
        "RunError",
        "RunResult",
        "SkillPage",
    ),
    "resolver.apply": ("InstallReport",),
    "resolver.lockfile": ("Deviation", "Verification"),
    "resolver.plan": ("InstallPlan", "InstallPolicy", "PlannedSkill", "UpdateComparison"),
    "resolver.settings": ("Settings",),
    "server.publisher": ("Publisher",),
}

__all__ = [
    "AsyncClient",
    "AsyncLan",
    "AsyncRemoteSkill",
    "AsyncRpcSkills",
    "BlobPart",
    "CallContext",
    "Client",
    "ConflictError",
    "CreatedBlob",
    "DecodeError",
    "DescribedSkill",
    "Deviation",
    "ExecutionError",
    "FetchError",
    "FileContent",
    "Finding",
    "InstallPlan",
    "InstallPolicy",
    "InstallReport",
    "Lan",
    "LanChange",
    "LanMember",
    "LanNotice",
    "LanScene",
    "LanSkill",
    "LanSnapshot",
    "ListedSkill",
    "LockedSkill",
    "NotFoundError",
    "OriginRecord",
    "OutputBlob",
    "PendingError",
    "Placement",
    "PlannedSkill",
    "PreparedCall",
    "Publisher",
    "RemoteBlob",
    "RemoteExecution",
    "RemoteFailure",
    "RemoteSkill",
    "RpcSkills",
    "RunError",
    "RunResult",
    "SceneResult",
    "Settings",
    "SkillPage",
    "SkillRef",
    "SkillwireError",
    "SourceLocation",
    "StorageError",
    "TrustError",
    "UpdateComparison",
    "UsageError",
    "ValidationError",
    "Verification",
    "__version__",
    "verify_webhook",
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
