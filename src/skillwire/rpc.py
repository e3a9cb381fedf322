"""The Skills Protocol for programs: what ``Client.rpc`` returns, and its values; and the check of a call's webhook."""

from __future__ import annotations

from skillwire.client.rpc import AsyncRpcSkills, BlobPart, RpcSkills
from skillwire.executions.webhooks import verify_webhook
from skillwire.model.remote_execution import RemoteBlob, RemoteFailure
from skillwire.protocols.skills_rpc.messages import (
    CreatedBlob,
    DescribedSkill,
    ListedSkill,
    OutputBlob,
    RunError,
    RunResult,
    SkillPage,
)

__all__ = [
    "AsyncRpcSkills",
    "BlobPart",
    "CreatedBlob",
    "DescribedSkill",
    "ListedSkill",
    "OutputBlob",
    "RemoteBlob",
    "RemoteFailure",
    "RpcSkills",
    "RunError",
    "RunResult",
    "SkillPage",
    "verify_webhook",
]
