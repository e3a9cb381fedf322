"""Attempts to hand to executors, without a ledger."""

from typing import Any

from tests.support.executions import make_execution

from skillwire.model.digest import Digest
from skillwire.model.execution import Attempt
from skillwire.model.skill import Action, Artifact, ExecutorKind, Permissions, Skill

DIGEST = Digest.of(b"a skill")


def skill_of(action: Action, name: str = "demo") -> Skill:
    artifact = Artifact("skill-md", "text/markdown", ".md", 7, DIGEST)
    return Skill("acme", name, "1.0.0", "Does it.", (), artifact, kind="action", action=action)


def attempt_of(
    executor: ExecutorKind,
    settings: dict[str, Any] | None = None,
    *,
    inputs: dict[str, Any] | None = None,
    seconds: float = 20.0,
    name: str = "demo",
    permissions: Permissions = Permissions(),  # noqa: B008  # a value
    **fields: Any,
) -> Attempt:
    """Return the first attempt of a call with ``inputs``; ``fields`` are those of the execution."""
    skill = skill_of(Action(executor, settings=settings or {}, permissions=permissions), name)
    values: dict[str, Any] = {
        "execution_id": "exec-" + "0" * 32,
        "skill": name,
        "skill_id": f"acme/{name}",
        "digest": str(DIGEST),
        "executor": executor,
        "caller": "address 192.0.2.1",
        "caller_id": "anonymous",
        "caller_type": "service",
        "inputs": b"{}",
        "timeout": seconds,
        "turn": 0.0,
        "attempt": 1,
        "worker": "worker-1",
    }
    return Attempt(make_execution(1_000.0, **values | fields), skill, inputs or {}, seconds)
