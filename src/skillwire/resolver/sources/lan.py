"""Skills of a local network, by capability, in the order in which they are tried.

``lan:CAPABILITY`` means any provider of that capability. Providers are tried in one order: healthy before unknown,
certified before others, then by name, so that every client decides alike. A provider that fails before it has accepted
a call is skipped, and the next is tried; one that may have accepted it is not, since another would run it a second
time. Why each was skipped is kept and reported.

Spec: SDP §3, §8, §12; docs/decisions/0013. Trust: announcements are untrusted; unverified skills are used only when
the user allows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.lan import host_and_port
from skillwire.model.ref import SkillRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.lan import LanSkill
    from skillwire.protocols.skill_discovery.settings import LanSettings


Stage = Literal["reading", "checking", "calling"]

#: What a reference to any provider of a capability begins with.
LAN: Final = "lan:"
#: A capability as datagrams carry it; digits alone would be the port of a host that is named lan. Spec: specs §3.
_CAPABILITY: Final = re.compile(r"(?!\d+\Z)[A-Za-z0-9._-]{1,128}", re.ASCII)
_NAMED: Final = 5  # reasons that one sentence names
#: What to do about a skill without a certified key.
UNVERIFIED_FIX: Final = (
    "Check the certificate chain, and name its root in [discovery.trust] roots. To use it all the same, if you trust "
    "whoever is on this network, give --unverified, or use_unverified=True in a program."
)

#: What to do about a skill that only others announce.
UNHEARD_FIX: Final = (
    "Ask again in a moment: it may not have registered with us yet. If it never does, its own agent is not heard here; "
    "skillwire lan shows whom this machine hears."
)


def lan_capability(text: str) -> str | None:
    """Return the capability that a reference ``lan:CAPABILITY`` names; None for any other reference.

    Raises:
        UsageError: ``REFERENCE`` for what no capability may be called.
    """
    if not text.startswith(LAN):
        return None
    name = text.removeprefix(LAN)
    if name.isdigit() or "/" in name:  # a port, and a path: this is a host named lan
        return None
    if _CAPABILITY.fullmatch(name) is None:
        fix = "Write lan: and one capability, such as lan:org-data-read; skillwire find --lan lists them."
        raise UsageError("REFERENCE", f"cannot read the reference {ascii(text)[:120]}", fix=fix)
    return name


def http_url(skill: LanSkill) -> str:
    """Return the address of the server that a skill is at."""
    return f"http://{skill.endpoint}"


def ref_of(skill: LanSkill) -> SkillRef:
    """Return a skill of the network as one from any other source."""
    return SkillRef(
        name=skill.skill_id,
        origin=http_url(skill),
        description=describe_lan_skill(skill),
        version=skill.version,
        digest=None,
        found_via=f"lan {skill.found_via}",
        fetched_at=skill.heard,
    )


def describe_lan_skill(skill: LanSkill) -> str:
    """Return what a skill says of itself on the network, which has no room for a description."""
    able = ", ".join(skill.capabilities)
    scenes = f"scene {', '.join(skill.scenes)}" if skill.scenes else ""
    return "; ".join(part for part in (able, scenes) if part) or str(skill.skill_type)


def in_call_order(skills: Iterable[LanSkill]) -> list[LanSkill]:
    """Return skills in the order in which they are tried: by health, then verified first, then by name."""
    return sorted(skills, key=lambda one: one.call_order)


def matching(skill: LanSkill, found: Sequence[SkillRef]) -> SkillRef:
    """Return which of the skills that a server publishes is the one that was announced.

    Raises:
        FetchError: ``DISC_006``, it publishes none of this name.
    """
    name = skill.skill_id
    for one in found:
        shared = one.shared.id if one.shared is not None else ""
        if name in {one.name, shared, shared.rpartition("/")[2]}:
            return one._replace(found_via=f"lan {skill.found_via}, {one.found_via}", requested_by_name=True)
    message = f"the server that announces {name} does not publish it"
    raise FetchError("DISC_006", message, place=SourceLocation(http_url(skill)))


class SkippedProvider(NamedTuple):
    """A skill that is not called, and why."""

    skill: LanSkill
    error: SkillwireError

    @property
    def reason(self) -> str:
        """The skill, where it is, and why it was passed over, in a sentence."""
        return f"{self.skill.skill_id} {self.skill.publisher_label} was passed over: {self.error.message}"


class Providers:
    """Who can be asked for a capability, one after the other.

    Args:
        capability: that is wanted.
        found: skills that say that they have it.
        use_unverified: whether skills without a certified key may be used.

    ``passed`` are those that were passed over, with why.
    """

    def __init__(self, capability: str, found: Iterable[LanSkill], *, use_unverified: bool) -> None:
        self.capability = capability
        self.passed: list[SkippedProvider] = []
        self._waiting: list[LanSkill] = []
        for skill in in_call_order(found):
            flaw = _flaw(skill, use_unverified=use_unverified)
            if flaw is None:
                self._waiting.append(skill)
            else:
                self.passed.append(SkippedProvider(skill, flaw))

    def next(self) -> LanSkill:
        """Return who is tried next.

        Raises:
            NotFoundError: ``DISC_002`` when no skill offers the capability.
            TrustError: ``DISC_004`` when those who could be called are all unverified.
            FetchError: ``DISC_006`` when no provider is left.
        """
        if self._waiting:
            return self._waiting.pop(0)
        raise self._none_left()

    def failed(self, skill: LanSkill, error: SkillwireError, stage: Stage, *, is_safe: bool = False) -> None:
        """Take note that a skill could not be called, and let the next be tried.

        Args:
            skill: from :meth:`next`.
            error: what happened.
            stage: ``reading`` the descriptor, ``checking`` the call against that, or ``calling`` it.
            is_safe: whether it may be run twice without harm.

        Raises:
            SkillwireError: ``error``, where another provider must not or need not be tried.
        """
        # What is wrong with the inputs is wrong with the call; what is wrong with the address is the provider's.
        may_go_on = stage == "reading" or isinstance(error, TrustError)
        if stage == "calling":
            may_go_on = error.may_be_accepted is False or (is_safe and isinstance(error, FetchError))
        if not may_go_on:
            raise error
        self.passed.append(SkippedProvider(skill, error))

    def _none_left(self) -> SkillwireError:
        if not self.passed:
            message = f"no skill on the local network offers {self.capability}"
            return NotFoundError("DISC_002", message)
        if len(self.passed) == 1:
            return self._only(self.passed[0])
        if all(one.error.code == "DISC_004" for one in self.passed):
            message = f"nobody has certified any of the {len(self.passed)} skills that offer {self.capability}"
            return TrustError("DISC_004", message, fix=UNVERIFIED_FIX)
        reasons = "; ".join(one.reason for one in self.passed[:_NAMED])
        more = f"; and {len(self.passed) - _NAMED} more" if len(self.passed) > _NAMED else ""
        message = f"none of the {len(self.passed)} skills that offer {self.capability} could be called: {reasons}{more}"
        fix = UNVERIFIED_FIX if any(one.error.code == "DISC_004" for one in self.passed) else None
        return FetchError("DISC_006", message, fix=fix)

    def _only(self, passed: SkippedProvider) -> SkillwireError:
        """Return why the only skill was not called, which says whose it is."""
        error = passed.error
        if error.code in {"DISC_004", "DISC_006"}:
            return error
        message = f"the only skill that offers {self.capability} could not be called: {passed.reason}"
        return FetchError("DISC_006", message, place=error.place, fix=error.diagnostics().fix)


def no_answer(settings: LanSettings, scene: str = "") -> FetchError:
    """Return the error for silence; after a question about ``scene``, where there is one."""
    patience = f"{settings.figures.patience:g} seconds"
    groups = ", ".join(host_and_port(group, settings.port) for group in (settings.group, settings.group6) if group)
    serve = "skillwire serve FOLDER --lan" + (f" --scene {scene}" if scene else "")
    return FetchError(
        "DISC_001",
        f"nobody on the local network has answered within {patience}: nobody is there, or datagrams do not get through",
        place=SourceLocation(groups) if settings.multicast else None,
        fix="Ask again, each time after a longer pause; skillwire lan shows whom this machine hears. "
        f"To offer something yourself: {serve}.",
    )


def unverified(skill: LanSkill) -> TrustError:
    """Return the refusal to use a skill without a certified key."""
    who = f"{skill.agent_id}, which offers" if skill.agent_id else "who offers"
    message = f"nobody has certified {who} {skill.skill_id}"
    return TrustError("DISC_004", message, place=SourceLocation(http_url(skill)), fix=UNVERIFIED_FIX)


def unverified_scene(scene: str, skill_id: str, endpoint: str, *, is_heard: bool = True) -> TrustError:
    """Return the refusal to join a scene whose provider has no certified key.

    Args:
        scene: that was asked for.
        skill_id: of the provider.
        endpoint: of it, ``host:port``.
        is_heard: whether it has registered with us itself; otherwise only others say that it provides the scene.
    """
    if is_heard:
        message = f"nobody has certified {skill_id}, which provides the scene {scene}"
        return TrustError("DISC_004", message, place=SourceLocation(endpoint), fix=UNVERIFIED_FIX)
    message = f"{skill_id} has not said itself that it provides the scene {scene}; only others have"
    return TrustError("DISC_004", message, place=SourceLocation(endpoint), fix=UNHEARD_FIX)


def _flaw(skill: LanSkill, *, use_unverified: bool) -> SkillwireError | None:
    if not skill.is_usable:
        message = f"{skill.skill_id} is {skill.status}"
        return FetchError("DISC_006", message, place=SourceLocation(http_url(skill)))
    return None if skill.is_verified or use_unverified else unverified(skill)
