"""skillwire: publish a folder of skills once; have it found, verified, installed and called everywhere.

The names here are those that most programs need; :mod:`skillwire.dht`, :mod:`skillwire.lan`, :mod:`skillwire.rpc` and
:mod:`skillwire.testing` have the others. Each is imported when it is first used, so ``import skillwire`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.client.agent_tools import tools
    from skillwire.client.api import AsyncClient
    from skillwire.client.calls import PreparedCall
    from skillwire.client.skill import AsyncRemoteSkill, CallEvent, RemoteSkill
    from skillwire.client.sync import Client
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
    from skillwire.model.execution import CallContext
    from skillwire.model.ref import InstallLocation, LockedSkill, OriginRecord, SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.model.skill import FileContent, Finding
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Verification
    from skillwire.resolver.plan import InstallPlan, InstallPolicy, PlannedSkill, UpdateComparison
    from skillwire.resolver.settings import Settings
    from skillwire.server.publisher import Publisher
    from skillwire.version import VERSION as __version__  # noqa: N811  # the dunder is what others expect

#: Module → the public names that it defines.
_HOMES = {
    "client.agent_tools": "tools",
    "client.api": "AsyncClient",
    "client.calls": "PreparedCall",
    "client.skill": "AsyncRemoteSkill CallEvent RemoteSkill",
    "client.sync": "Client",
    "errors": "ConflictError DecodeError ExecutionError FetchError NotFoundError PendingError SkillwireError"
    " SourceLocation StorageError TrustError UsageError ValidationError",
    "model.execution": "CallContext",
    "model.remote_execution": "RemoteExecution",
    "model.ref": "InstallLocation LockedSkill OriginRecord SkillRef",
    "model.skill": "FileContent Finding",
    "resolver.apply": "InstallReport",
    "resolver.lockfile": "Verification",
    "resolver.plan": "InstallPlan InstallPolicy PlannedSkill UpdateComparison",
    "resolver.settings": "Settings",
    "server.publisher": "Publisher",
}

__all__ = [
    "AsyncClient",
    "AsyncRemoteSkill",
    "CallContext",
    "CallEvent",
    "Client",
    "ConflictError",
    "DecodeError",
    "ExecutionError",
    "FetchError",
    "FileContent",
    "Finding",
    "InstallLocation",
    "InstallPlan",
    "InstallPolicy",
    "InstallReport",
    "LockedSkill",
    "NotFoundError",
    "OriginRecord",
    "PendingError",
    "PlannedSkill",
    "PreparedCall",
    "Publisher",
    "RemoteExecution",
    "RemoteSkill",
    "Settings",
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
    "tools",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("skillwire.version").VERSION
    for module, names in _HOMES.items():
        if name in names.split():
            try:
                return getattr(importlib.import_module(f"skillwire.{module}"), name)
            except ModuleNotFoundError as error:
                error.add_note("Install skillwire with the extra server, which servers need.")
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
