"""Which skill a reference means, and why: the resolver's own steps, written down while it takes them.

Nothing is resolved a second time or in a second way. :func:`skillwire.resolver.resolve.resolve` runs with a context
whose ``trace`` is kept; what is added is what the user would ask next: who else has a skill of this name, whether
its origin is trusted and since when it is known, and what of it is installed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skillwire.errors import SkillwireError, TrustError
from skillwire.model.url import parse_url
from skillwire.resolver.merge import add_facts
from skillwire.resolver.references import parse_source
from skillwire.resolver.resolve import resolve
from skillwire.resolver.sources import SKILLS_RPC, open_source
from skillwire.resolver.sources.folder import load_folders
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.install import LockedSkill, OriginRecord
    from skillwire.model.ref import SkillRef
    from skillwire.ports import SkillsFolder
    from skillwire.resolver.context import Attempt, ResolveContext
    from skillwire.resolver.plan import Decision, InstallPolicy
    from skillwire.resolver.references import Reference
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Flow


class Step(NamedTuple):
    """One lookup: what was asked, and why it was not allowed to be, if it was not."""

    attempt: Attempt
    refused: TrustError | None


class OriginTrust(NamedTuple):
    """What is decided and remembered of an origin. ``is_listed``: ``trusted_origins`` names it."""

    origin: str
    decision: Decision
    is_listed: bool
    record: OriginRecord | None


class InstalledHere(NamedTuple):
    """What is installed under the name of the skill that was found.

    Args:
        is_same_origin: whether it came from where the skill was found now.
        is_current: whether the origin offers what is installed; None where it gives no digests.
        is_intact: whether the installed files are those of the lock, in every place.
    """

    locked: LockedSkill
    is_same_origin: bool
    is_current: bool | None
    is_intact: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a reference means, and how that was found out.

    ``found`` is empty exactly when there is an ``error``. ``others`` are skills of the same name in the sources that
    come after the one that won; ``beyond`` are the lookups that found them.
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


def which(
    reference: Reference,
    context: ResolveContext,
    *,
    policy: InstallPolicy,
    addresses: AddressPolicy,
    folder: SkillsFolder,
    explain: bool = False,
) -> Flow[Resolution]:
    """Find what ``reference`` means and say how; what went wrong is part of the answer, not raised.

    With ``explain`` the other protocol of the origin is asked, too, where the first has answered.
    """
    attempts: list[Attempt] = []
    traced = context._replace(trace=attempts.append)
    path = Path(reference.path).expanduser() if reference.path is not None else None
    try:
        found = yield from (resolve(reference, traced) if path is None else load_folders(path, folder.root))
        if explain:
            found = yield from _ask_both(found, traced)
    except SkillwireError as error:
        return Resolution(reference.text, steps=_steps(attempts, addresses), error=error)
    others, beyond = yield from _look_beyond(reference, found[0], context)
    standing = None
    if path is None and found[0].rpc is None:  # what cannot be installed needs no trust for that
        standing = yield from work(partial(_standing, found[0].origin, policy, context))
    return Resolution(
        reference.text,
        tuple(found),
        _why(reference, found, context),
        _steps(attempts, addresses),
        tuple(others),
        _steps(beyond, addresses),
        standing,
        (yield from _installed(found, folder)),
    )


def _ask_both(found: Sequence[SkillRef], context: ResolveContext) -> Flow[list[SkillRef]]:

    return (yield from add_facts(found, context))


def _steps(attempts: Sequence[Attempt], addresses: AddressPolicy) -> tuple[Step, ...]:
    return tuple(Step(attempt, _refusal(attempt.url, addresses)) for attempt in attempts)


def _refusal(url: str, addresses: AddressPolicy) -> TrustError | None:
    try:
        addresses.check_url(parse_url(url))
    except TrustError as error:
        return error
    return None


def _look_beyond(
    reference: Reference, won: SkillRef, context: ResolveContext
) -> Flow[tuple[list[SkillRef], list[Attempt]]]:
    """Look a bare name up in the sources after the one that has it, too."""
    attempts: list[Attempt] = []
    others: list[SkillRef] = []
    if reference.name is None:
        return others, attempts
    lookups = [parse_source(source) for source in context.sources]
    bases = [lookup.base for lookup in lookups]
    if won.origin not in bases:  # a source of Skill Sharing may list another origin's skill
        return others, attempts
    traced = context._replace(trace=attempts.append)
    for lookup in lookups[bases.index(won.origin) + 1 :]:
        if lookup.source == SKILLS_RPC:  # no bare name is one of a skill there
            continue
        try:
            others += yield from open_source(lookup.source, traced).resolve(lookup._replace(name=reference.name))
        except SkillwireError:
            continue  # the attempt shows it: that another source fails changes nothing
    return others, attempts


def _standing(origin: str, policy: InstallPolicy, context: ResolveContext) -> OriginTrust:
    record = context.origins.look_up(origin)
    return OriginTrust(origin, policy.decide(origin, record), policy.decide(origin, None) == "allow", record)


def _installed(found: Sequence[SkillRef], folder: SkillsFolder) -> Flow[tuple[InstalledHere, ...]]:
    lock = yield from work(folder.read_lock)
    here = []
    for skill in found:
        if (locked := lock.skills.get(skill.name)) is None:
            continue
        is_intact = yield from work(partial(_is_intact, locked, folder))
        same_origin = locked.origin == skill.origin
        current = None if skill.digest is None else skill.digest == locked.digest
        here.append(InstalledHere(locked, same_origin, current, is_intact))
    return tuple(here)


def _is_intact(locked: LockedSkill, folder: SkillsFolder) -> bool:
    standing = folder.installed_files(locked.placement, locked.name)
    return standing == locked.files and not folder.missing_places(locked.placement, locked.name)


def _why(reference: Reference, found: Sequence[SkillRef], context: ResolveContext) -> str:
    if reference.path is not None:
        return "the reference is a folder of this machine"
    if reference.name is None:
        if found[0].rpc is not None:
            return (
                "its endpoint describes it" if found[0].requested_by_name else "the endpoint lists it with all others"
            )
        return (
            "its index lists it"
            if found[0].requested_by_name
            else "the address is that of a whole index, so every skill in it is meant"
        )
    if len(context.sources) == 1:
        return "the one configured source lists it"
    return f"it is the first of {len(context.sources)} sources, in their order, whose index lists it"
