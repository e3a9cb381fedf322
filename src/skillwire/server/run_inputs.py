"""What a run is given beside its arguments: blobs, and skills whose files it is shown. Spec: SKP; specs §4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.run_blob import digest_of, is_blob_id
from skillwire.protocols.skills_rpc.guide import GUIDE, load_guide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.invocation.offer import Offer
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill
    from skillwire.protocols.skills_rpc.server import SkillsRpc


def mountable(names: Iterable[str], skills: SkillsRpc) -> dict[str, Skill]:
    """Return the skills of these names, which the caller may use, and whose files can be shown to code.

    Raises:
        as :meth:`SkillsRpc.usable`, and ValidationError: ``VALIDATION_ERROR`` for our guide, which no store has.
    """
    found = {name: skills.usable(name) for name in names}
    if GUIDE in found and found[GUIDE] is load_guide().skill:
        fix = "Read it with load_skills_protocol_guide."
        raise ValidationError("VALIDATION_ERROR", f"{GUIDE} is part of this server, and is not mounted", fix=fix)
    return found


def blobs_of(named: Iterable[str], args: Mapping[str, Any], offer: Offer) -> list[Digest]:
    """Return the digests of the blobs of a run: those that it names, and those whose ids are arguments.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` when there are too many, or nothing would read them.
        NotFoundError: ``BLOB_NOT_FOUND`` for what can be no id.
    """
    given = list(dict.fromkeys(named))
    if offer.action.executor != "python":
        if given:
            message = f"{offer.skill.name} is no code: blobs are files that only code could read"
            raise ValidationError("VALIDATION_ERROR", message, fix="Call it without input_blobs.")
        return []
    wanted = list(dict.fromkeys([*given, *(value for value in args.values() if is_blob_id(value))]))
    check_number("input_blobs", wanted, limits.RUN_INPUT_BLOBS)
    return [digest_of(one) for one in wanted]


def check_number(name: str, given: Sequence[str], most: int) -> None:
    """Look how many entries a list of a request has.

    Raises:
        ValidationError: ``VALIDATION_ERROR``: more than ``most``.
    """
    if len(given) > most:
        raise ValidationError("VALIDATION_ERROR", f"{name} has {len(given)} entries, {most} at most")
