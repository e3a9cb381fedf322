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
        Place,
        SkillwireError,
        StorageError,
        TrustError,
        UsageError,
        ValidationError,
    )
    from skillwire.invocation.webhook import verify_webhook
    from skillwire.model.call_context import CallContext
    from skillwire.model.finding import Finding
    from skillwire.model.install import LockedSkill, Placement
    from skillwire.model.lan import LanChange, LanMember, LanNotice, LanScene, LanSkill, LanSnapshot, SceneResult
    from skillwire.model.origin_record import OriginRecord
    from skillwire.model.ref import SkillRef
    from skillwire.model.remote_execution import RemoteBlob, RemoteExecution, RemoteFailure
    from skillwire.model.skill import FileContent
    from skillwire.protocols.skills_rpc.messages import (
        CreatedBlob,
        DescribedSkill,
        ListedSkill,
        OutputBlob,
        Run,
        RunError,
        SkillPage,
    )
    from skillwire.resolver.apply import Report
    from skillwire.resolver.compare import Comparison
    from skillwire.resolver.install import Plan, PlannedSkill
    from skillwire.resolver.installed import Deviation, Verification
    from skillwire.resolver.policy import InstallPolicy
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
        "Place",
        "SkillwireError",
        "StorageError",
        "TrustError",
        "UsageError",
        "ValidationError",
    ),
    "invocation.webhook": ("verify_webhook",),
    "model.call_context": ("CallContext",),
    "model.finding": ("Finding",),
    "model.install": ("LockedSkill", "Placement"),
    "model.lan": ("LanChange", "LanMember", "LanNotice", "LanScene", "LanSkill", "LanSnapshot", "SceneResult"),
    "model.origin_record": ("OriginRecord",),
    "model.ref": ("SkillRef",),
    "model.remote_execution": ("RemoteBlob", "RemoteExecution", "RemoteFailure"),
    "model.skill": ("FileContent",),
    "protocols.skills_rpc.messages": (
        "CreatedBlob",
        "DescribedSkill",
        "ListedSkill",
        "OutputBlob",
        "Run",
        "RunError",
        "SkillPage",
    ),
    "resolver.apply": ("Report",),
    "resolver.compare": ("Comparison",),
    "resolver.install": ("Plan", "PlannedSkill"),
    "resolver.installed": ("Deviation", "Verification"),
    "resolver.policy": ("InstallPolicy",),
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
    "Comparison",
    "ConflictError",
    "CreatedBlob",
    "DecodeError",
    "DescribedSkill",
    "Deviation",
    "ExecutionError",
    "FetchError",
    "FileContent",
    "Finding",
    "InstallPolicy",
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
    "Place",
    "Placement",
    "Plan",
    "PlannedSkill",
    "PreparedCall",
    "Publisher",
    "RemoteBlob",
    "RemoteExecution",
    "RemoteFailure",
    "RemoteSkill",
    "Report",
    "RpcSkills",
    "Run",
    "RunError",
    "SceneResult",
    "Settings",
    "SkillPage",
    "SkillRef",
    "SkillwireError",
    "StorageError",
    "TrustError",
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
