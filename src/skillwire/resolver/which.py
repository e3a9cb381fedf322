"""The skill that a reference names, and why: the trace of the resolver's own steps.

:func:`skillwire.resolver.resolve.resolve` runs with a context whose ``trace`` is kept. Added are other skills of the
same name in later sources, the trust in the origin, and the installed skill of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from skillwire.errors import SkillwireError, TrustError
from skillwire.model.url import parse_url
from skillwire.resolver.ladder import NAMED, Outcome, RungTrace
from skillwire.resolver.lockfile import find_deviations
from skillwire.resolver.references import Reference, parse_source
from skillwire.resolver.resolve import resolve
from skillwire.resolver.sources import SKILLS_RPC, open_source
from skillwire.wire.exchange import Flow, work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.ref import LockedSkill, OriginRecord, SkillRef
    from skillwire.ports import SkillsFolder
    from skillwire.resolver.context import Attempt, ResolveContext
    from skillwire.resolver.plan import Decision, InstallPolicy
    from skillwire.trust.address import AddressPolicy


class Step(NamedTuple):
    """One lookup, and the policy's refusal of its address, if any."""

    attempt: Attempt
    refused: TrustError | None


class OriginTrust(NamedTuple):
    """The decision about an origin, and its record. ``is_listed``: ``trusted_origins`` names it."""

    origin: str
    decision: Decision
    is_listed: bool
    record: OriginRecord | None


class InstalledHere(NamedTuple):
    """The installed skill with the name of the one that was found.

    Args:
        is_same_origin: whether both have one origin.
        is_current: whether the origin offers the installed digest; None where it gives no digests.
        is_intact: whether the installed files match the lock in every place.
    """

    locked: LockedSkill
    is_same_origin: bool
    is_current: bool | None
    is_intact: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """The skills that a reference names, and how they were found.

    ``found`` is empty exactly when there is an ``error``. ``others`` are skills of the same name in later sources;
    ``beyond`` are the lookups that found them; ``rungs`` are the rungs of the ladder.
    """

    reference: str
    found: tuple[SkillRef, ...] = ()
    why: str = ""
    steps: tuple[Step, ...] = ()
    others: tuple[SkillRef, ...] = ()
    beyond: tuple[Step, ...] = ()
    standing: OriginTrust | None = None
    installed: tuple[InstalledHere, ...] = ()
    error: SkillwireError | None = None
    rungs: tuple[RungTrace, ...] = ()


def which(
    reference: Reference,
    context: ResolveContext,
    *,
    policy: InstallPolicy,
    addresses: AddressPolicy,
    folder: SkillsFolder,
    explain: bool = False,
) -> Flow[Resolution]:
    """Return the resolution of ``reference``, with its error if there is one; ``explain`` asks both protocols."""
    attempts: list[Attempt] = []
    rungs: list[RungTrace] = []
    traced = context._replace(trace=attempts.append, on_climb=rungs.extend)
    try:
        found = yield from resolve(reference, traced, both=explain)
    except SkillwireError as error:
        return Resolution(reference.text, steps=_steps(attempts, addresses), error=error, rungs=tuple(rungs))
    others, beyond = yield from _look_beyond(reference, found[0], context)
    standing = None
    if not found[0].is_local and found[0].rpc is None:  # trust is for installing
        origin = found[0].origin
        record = yield from work(partial(context.origins.look_up, origin))
        standing = OriginTrust(origin, policy.decide(origin, record), policy.decide(origin, None) == "allow", record)
    won = next((one.name for one in rungs if one.outcome is Outcome.FOUND), NAMED)
    lock = yield from work(folder.read_lock)
    here = []
    for skill in found:
        if (locked := lock.skills.get(skill.name)) is None:
            continue
        deviations = yield from work(partial(find_deviations, locked, folder))
        current = None if skill.digest is None else skill.digest == locked.digest
        here.append(InstalledHere(locked, locked.origin == skill.origin, current, not deviations))
    return Resolution(
        reference.text,
        tuple(found),
        _why(reference, found, context) if won == NAMED else f"{won} is the first source that has it",
        _steps(attempts, addresses),
        tuple(others),
        _steps(beyond, addresses),
        standing,
        tuple(here),
        rungs=tuple(rungs),
    )


def _steps(attempts: Sequence[Attempt], addresses: AddressPolicy) -> tuple[Step, ...]:
    steps = []
    for attempt in attempts:
        refused = None
        try:
            if "://" in attempt.url:  # else it is a repository of this machine
                addresses.check_url(parse_url(attempt.url))
        except TrustError as error:
            refused = error
        steps.append(Step(attempt, refused))
    return tuple(steps)


def _look_beyond(
    reference: Reference, won: SkillRef, context: ResolveContext
) -> Flow[tuple[list[SkillRef], list[Attempt]]]:
    """Look up a bare name in the sources behind the first that has it."""
    attempts: list[Attempt] = []
    others: list[SkillRef] = []
    if reference.name is None:
        return others, attempts
    lookups = [parse_source(source) for source in context.sources if source != "lan:"]
    bases = [lookup.base for lookup in lookups]
    if won.origin not in bases:  # a source of Skill Sharing may list another origin's skill
        return others, attempts
    traced = context._replace(trace=attempts.append)
    for lookup in lookups[bases.index(won.origin) + 1 :]:
        if lookup.source == SKILLS_RPC:  # whose names have dots
            continue
        try:
            others += yield from open_source(lookup.source, traced).resolve(lookup._replace(name=reference.name))
        except SkillwireError:
            continue  # the trace has the attempt
    return others, attempts


def _why(reference: Reference, found: Sequence[SkillRef], context: ResolveContext) -> str:
    if reference.path is not None:
        return "the reference is a folder of this machine"
    if reference.name is not None and len(context.sources) == 1:
        return "the one configured source lists it"
    if reference.name is not None:
        return f"it is the first of {len(context.sources)} sources, in their order, whose index lists it"
    if found[0].requested_by_name:
        return "its endpoint describes it" if found[0].rpc is not None else "its index lists it"
    if found[0].rpc is not None:
        return "the endpoint lists it with all others"
    return "the address is that of a whole index, so every skill in it is meant"
