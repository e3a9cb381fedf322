"""Code that a caller brings, as a skill that nobody published. Spec: SKP ``run_code``; specs §4.

It goes the way of every execution: one row of the ledger, the same sandbox, the same bounds. What is its own: the code
lies in the row, nothing of it is kept when the row is forgotten, and it is given no network and no secrets. Nobody
grants it by its digest, for nobody has seen it before: the operator allows all of it, or none.

Its name is one that no published skill can have, and its digest is of a text that no artifact begins with.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import ValidationError
from skillwire.invocation.inputs import InputRules, OutputRules
from skillwire.invocation.offer import Offer
from skillwire.model.action import Action
from skillwire.model.digest import Digest
from skillwire.model.skill import Artifact, Skill

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What it is called in the ledger; a published skill has no underscore in its name.
NAME: Final = "run_code"
#: The file as which it stands in the sandbox.
FILE: Final = "main.py"
_VERSION: Final = "0.0.0"
_CONTEXT: Final = b"skillwire run_code 1\0"
_EXPORT_LENGTH: Final = 100
_MEDIA_TYPE: Final = "text/x-python"


def code_skill(code: bytes, function: str) -> Skill:
    """Return the skill that ``code`` is; ``function`` of it is called.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` for what can name no function.
    """
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


def code_offer(skill: Skill) -> Offer:
    """Return what such code promises: nothing. It takes whatever object it is given."""
    action = skill.action
    if action is None or not is_code(skill):
        raise ValueError("this is a published skill")
    return Offer(skill=skill, action=action, skill_id=NAME, inputs=_AnyInputs(), output=OutputRules(None))


class _AnyInputs(InputRules):
    """Takes every object: nobody has said what the code wants."""

    def __init__(self) -> None:
        super().__init__(())

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse nothing."""
