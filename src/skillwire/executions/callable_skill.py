"""Callable skills: what a skill promises to its callers, compiled so that calls can be checked by it. Spec: SSP §3.5.

It is made once for each version of a skill, because compiling schemas costs a thousand times what a check does.

Code that a caller brings (SKP ``run_code``) is a callable skill that is not published. Its code is stored in the row of
its execution alone, and it gets no network and no secrets. The operator allows all such code or none. Its name and its
digest are ones that no published skill can have.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire.errors import ValidationError
from skillwire.executions.inputs import InputRules, OutputRules
from skillwire.model.digest import Digest
from skillwire.model.skill import Action, Artifact, Skill
from skillwire.protocols.skill_sharing.messages import AuthType, SkillDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping


_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class CallableSkill:
    """A skill that can be called here; durations in seconds.

    ``max_attempts`` and ``backoff`` are its ``endpoint.retry``, ``text_inputs`` its inputs that are texts.
    ``needs_authentication`` if callers of a public skill must authenticate. Spec: SSP §7.3.
    """

    skill: Skill
    action: Action
    skill_id: str
    inputs: InputRules
    output: OutputRules
    timeout: float | None = None
    max_attempts: int = 1
    backoff: float = 0.0
    task: bytes | None = None
    text_inputs: frozenset[str] = frozenset()
    needs_authentication: bool = False


def make_callable_skill(skill: Skill, descriptor: SkillDescriptor) -> CallableSkill | None:
    """Return the offer of a skill with this descriptor; None for one that is not executed."""
    action, endpoint = skill.action, descriptor.endpoint
    if action is None:
        return None
    retry = endpoint.retry or None
    return CallableSkill(
        skill=skill,
        action=action,
        skill_id=descriptor.id,
        inputs=InputRules(descriptor.inputs),
        output=OutputRules(descriptor.output.schema or None),
        timeout=endpoint.timeout_ms / _MS if endpoint.timeout_ms else None,
        max_attempts=max(1, int(retry.max_attempts)) if retry else 1,
        backoff=retry.backoff_ms / _MS if retry else 0.0,
        task=_task(descriptor) if action.executor == "human" else None,
        text_inputs=frozenset(one.name for one in descriptor.inputs if one.type == "string"),
        needs_authentication=descriptor.auth.type is not AuthType.NONE,
    )


def _task(descriptor: SkillDescriptor) -> bytes:
    shown = {
        "title": descriptor.name,
        "description": descriptor.description,
        "output": descriptor.output.schema or None,
        "output_description": descriptor.output.description or None,
        "inputs": {one.name: one.description for one in descriptor.inputs},
    }
    return msgspec.json.encode(shown)


#: What it is called in the ledger; a published skill has no underscore in its name.
NAME: Final = "run_code"
#: The file as which it stands in the sandbox.
FILE: Final = "main.py"
_VERSION: Final = "0.0.0"
_CONTEXT: Final = b"skillwire run_code 1\0"
_EXPORT_LENGTH: Final = 100
_MEDIA_TYPE: Final = "text/x-python"


def code_skill(code: bytes, function: str) -> Skill:
    """Return the skill for ``code``, whose ``function`` is called. Raises ValidationError for an invalid name."""
    if not function.isidentifier() or len(function) > _EXPORT_LENGTH:
        message = f"entrypoint must name a function of the code, such as main, not {function[:_EXPORT_LENGTH]!a}"
        raise ValidationError("VALIDATION_ERROR", message)
    digest = hashlib.sha256(_CONTEXT + function.encode() + b"\0" + code)
    return Skill(
        publisher="",
        name=NAME,
        version=_VERSION,
        description="Code that a caller brought.",
        files=(),
        artifact=Artifact("skill-md", _MEDIA_TYPE, ".py", len(code), Digest(f"sha256:{digest.hexdigest()}")),
        kind="action",
        action=Action("python", FILE, function),
    )


def is_code(skill: Skill) -> bool:
    """Whether a skill of the ledger is code that a caller brought."""
    return skill.name == NAME


def callable_code(skill: Skill) -> CallableSkill:
    """Return what such code promises: nothing. It takes whatever object it is given."""
    action = skill.action
    if action is None or not is_code(skill):
        raise ValueError("this is a published skill")
    return CallableSkill(skill=skill, action=action, skill_id=NAME, inputs=_AnyInputs(), output=OutputRules(None))


class _AnyInputs(InputRules):
    """Accepts every object: code has no descriptor."""

    def __init__(self) -> None:
        super().__init__(())

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse nothing."""
