"""An offer: what a skill promises to its callers, ready to check calls by it.

Made once for each version of a skill, since building the validators of its schemas costs a thousand times what a check
does. Spec: SSP §3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from skillwire.invocation.inputs import InputRules, OutputRules
from skillwire.protocols.skill_sharing.messages import AuthType

if TYPE_CHECKING:
    from skillwire.model.action import Action
    from skillwire.model.skill import Skill
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor

_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Offer:
    """A skill that can be called here.

    Args:
        skill: with its action.
        action: how it is run.
        skill_id: its id in Skill Sharing.
        inputs, output: what goes in and comes out.
        timeout: seconds that it may take, None where the publisher does not say.
        max_attempts, backoff: of ``endpoint.retry``; the pause in seconds.
        task: see :class:`skillwire.model.execution.Execution`.
        text_inputs: the names of inputs that are texts.
        needs_authentication: whether callers have to say who they are though the skill is public. Spec: SSP §7.3.
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


def make_offer(skill: Skill, descriptor: SkillDescriptor) -> Offer | None:
    """Return the offer of a skill with this descriptor; None for one that is not executed."""
    action, endpoint = skill.action, descriptor.endpoint
    if action is None:
        return None
    retry = endpoint.retry or None
    return Offer(
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
    """Return what a person is shown who is to do it."""
    shown = {
        "title": descriptor.name,
        "description": descriptor.description,
        "output": descriptor.output.schema or None,
        "output_description": descriptor.output.description or None,
        "inputs": {one.name: one.description for one in descriptor.inputs},
    }
    return msgspec.json.encode(shown)
