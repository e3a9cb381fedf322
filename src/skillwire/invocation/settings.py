"""What an operator may set about executions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillwire import limits

#: For whom something is on: for nobody, for everybody who reaches the server, or for those who say who they are.
Opening = bool | Literal["authenticated"]


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """How executions are run and kept; durations in seconds.

    Args:
        concurrency: how many run at once in this process; 0 for a server that only accepts, and leaves them to others.
        per_caller, per_skill: how many run at once of one caller and of one skill, in all processes.
        waiting: how many of one caller may wait or run.
        longest: what one may take; ``longest_task`` a task for a person.
        lease: how long a worker may be silent before its executions are taken from it.
        keep_outputs, keep_executions: how long what has ended is kept.
        queue: the name of what these settings are for. Executions are run by workers of the queue that accepted
            them, and by no others of the same ledger, which may have other secrets and allow other things.
        grant_all: whether every skill that is published here may run as it is, ungranted.
        secrets_file: where skills' secrets are, beside the environment.
        allow: networks and hosts beyond the public ones that skills may reach.
        allow_callbacks: the same for the addresses that callers give, who may be anybody.
    """

    concurrency: int = 8
    per_caller: int = 8
    per_skill: int = 16
    waiting: int = limits.EXECUTION_WAITING
    longest: float = limits.EXECUTION_SECONDS
    longest_task: float = limits.EXECUTION_TASK_SECONDS
    lease: float = 30.0
    keep_outputs: float = limits.EXECUTION_OUTPUT_KEPT_SECONDS
    keep_executions: float = limits.EXECUTION_KEPT_SECONDS
    queue: str = ""
    grant_all: bool = False
    secrets_file: str | None = None
    allow: tuple[str, ...] = ()
    allow_callbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What an operator may set about runs, as agents ask for them; nothing of it is on unless somebody says so.

    Args:
        execute_skill: for whom skills are executed, each as it was granted.
        run_code: for whom code is run that they bring.
        blob_bytes: of one blob.
        blobs_per_owner: bytes of all blobs of one caller.
        blob_seconds: how long a blob is kept after its last use.
        is_local: whether whoever asks started this process; says what they can do about a refusal.
        origins: of pages that may have something done without a credential, beside our own and this machine's.
    """

    execute_skill: Opening = False
    run_code: Opening = False
    blob_bytes: int = limits.BLOB_BYTES
    blobs_per_owner: int = limits.BLOBS_OWNER_BYTES
    blob_seconds: float = limits.BLOB_SECONDS
    is_local: bool = False
    origins: tuple[str, ...] = ()
