"""What the commands that speak with the local network share: how its skills and scenes are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.output import bad, doubtful, faint, good

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.cli.output import Styled
    from skillwire.model.lan import LanMember, LanScene, LanSkill
    from skillwire.resolver.lan import PassedOver


def check_names(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse what can be no name on the network."""
    from skillwire.errors import DecodeError, UsageError  # noqa: PLC0415  # --help does without
    from skillwire.protocols.skill_discovery.fields import read_identifier  # noqa: PLC0415  # same
    from skillwire.protocols.skill_discovery.scenes import LONGEST  # noqa: PLC0415  # same

    is_scene = parameter.name != "capabilities"
    for name in (value,) if isinstance(value, str) else value:
        try:
            read_identifier(name)
        except DecodeError:
            what = "SCENE" if is_scene else "CAPABILITY"
            fix = "A name has letters, digits, hyphens, underscores and dots; skillwire scene list lists scenes."
            raise UsageError("USAGE", f"{what} {ascii(name)[:60]} is no name", fix=fix) from None
        if is_scene and len(name) > LONGEST:
            message = f"SCENE {name[:20]}... has a name of {len(name)} letters"
            raise UsageError("USAGE", message, fix=f"Shorten it to {LONGEST}: the group of a scene has a longer name.")
    return value


def unverified_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--unverified``, which is None unless it was given: the settings decide then."""
    return click.option(
        "--unverified",
        "use_unverified",
        is_flag=True,
        default=None,
        help="On the local network, use skills whose key nobody certified.",
    )(command)


def lan_object(skill: LanSkill) -> dict[str, Any]:
    """Return what the local network says of a skill for ``--json``."""
    return {
        "agent_id": skill.agent_id,
        "skill_id": skill.skill_id,
        "skill_type": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": list(skill.capabilities),
        "scenes": list(skill.scenes),
        "status": skill.status,
        "trust": skill.trust,
        "found_via": str(skill.found_via),
        "heard_at": skill.heard,
        "stale": skill.is_stale,
    }


def provider_object(skill: LanSkill, passed: list[PassedOver]) -> dict[str, Any]:
    """Return who has answered a call by capability, and who was passed over, for ``--json``."""
    over = [{"skill": lan_object(one.skill), "code": one.error.code, "reason": one.error.message} for one in passed]
    return {"skill": lan_object(skill), "passed_over": over}


def scene_object(scene: LanScene) -> dict[str, Any]:
    """Return a scene for ``--json``."""
    return {"scene": scene.name, "group_id": scene.group_id, "members": members_object(scene.members)}


def members_object(members: tuple[LanMember, ...]) -> list[dict[str, Any]]:
    """Return the members of a group for ``--json``."""
    return [member._asdict() for member in members]


def told_status(skill: LanSkill) -> Styled:
    """Return how a skill is, in a word; that of one which is only remembered is stale."""
    word = f"{skill.status}?" if skill.is_stale else skill.status
    if skill.status == "HEALTHY":
        return good(word)
    return doubtful(word) if skill.is_usable else bad(word)


def told_trust(skill: LanSkill) -> Styled:
    """Return whether somebody vouches for a skill, in a word."""
    looks = {"verified": good, "unverified": doubtful, "not known": faint}
    return looks[skill.trust](skill.trust)


def told_source(skill: LanSkill) -> Styled:
    """Return where a skill was heard of, in a word."""
    return faint(str(skill.found_via))
