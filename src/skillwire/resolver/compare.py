"""What is installed, beside what its origin has now.

An origin that gives digests is compared by them alone, without fetching an artifact. One that gives none can
only be fetched again; it is planned as an update and turns out unchanged when the same files come.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from skillwire.errors import SkillwireError
from skillwire.resolver.flow import work
from skillwire.resolver.install import check_no_downgrade, hash_files
from skillwire.resolver.locate import LocatedSkill, read_index
from skillwire.resolver.reference import IndexLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.model.install import LockedSkill
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Session


class Comparison(NamedTuple):
    """An installed skill beside what its origin has now.

    ``state`` is ``current``, ``changed``, ``unverifiable`` (the origin gives no digests), ``gone`` (its index does
    not list it any more) or ``unreachable``, with the error.
    """

    locked: LockedSkill
    state: Literal["current", "changed", "unverifiable", "gone", "unreachable"]
    latest: LocatedSkill | None = None
    error: SkillwireError | None = None


def compare(
    skills: Sequence[LockedSkill], session: Session, load_local: Callable[[LockedSkill], LocatedSkill]
) -> Flow[list[Comparison]]:
    """Compare installed skills with their origins; each index is read once.

    ``load_local`` reads a skill that came from a folder of this machine anew.
    """
    comparisons: dict[str, Comparison] = {}
    by_index: dict[str, list[LockedSkill]] = {}
    for locked in skills:
        if not locked.index:
            comparisons[locked.name] = yield from work(partial(_compare_local, locked, load_local))
        else:
            by_index.setdefault(locked.index, []).append(locked)
    for index, members in by_index.items():
        for comparison in (yield from _compare_with_index(index, members, session)):
            comparisons[comparison.locked.name] = comparison
    return [comparisons[locked.name] for locked in skills]


def _compare_local(locked: LockedSkill, load_local: Callable[[LockedSkill], LocatedSkill]) -> Comparison:
    try:
        latest = load_local(locked)
    except SkillwireError as error:
        return Comparison(locked, "gone", error=error)
    return Comparison(locked, "current" if hash_files(latest.files or ()) == locked.files else "changed", latest)


def _compare_with_index(index: str, members: Sequence[LockedSkill], session: Session) -> Flow[list[Comparison]]:
    try:
        found = yield from read_index(IndexLocation(index, None), session)
    except SkillwireError as error:
        return [Comparison(locked, "unreachable", error=error) for locked in members]
    comparisons = []
    for locked in members:
        entry = found.index.entries.get(locked.name)
        if entry is None:
            comparisons.append(Comparison(locked, "gone"))
            continue
        latest = found.locate(entry, was_named=False)
        try:
            check_no_downgrade(locked, latest)
        except SkillwireError as error:
            comparisons.append(Comparison(locked, "unreachable", error=error))
            continue
        if entry.digest is None:
            comparisons.append(Comparison(locked, "unverifiable", latest))
        else:
            comparisons.append(Comparison(locked, "current" if entry.digest == locked.digest else "changed", latest))
    return comparisons
