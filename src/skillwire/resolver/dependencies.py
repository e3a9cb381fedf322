"""Which skills and versions an installation takes, so that each requirement is met. Without IO.

A depth-first search: one requirement after the other takes the best candidate that fits everything chosen so far, and
the last choice is taken back where a later requirement cannot be met. So a selection is found wherever there is one,
within the bounds. Of several, the one with the earlier candidates for the earlier requirements wins. The first reason
for which a best candidate failed is the one that is raised, with the chain of skills that led to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, SkillwireError
from skillwire.model.package import read_package_name
from skillwire.model.requirement import parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.model.requirement import Requirement
    from skillwire.wire.exchange import Flow


class FindCandidates(Protocol):
    """Looks skills up."""

    def __call__(self, requirement: Requirement, parent: SkillRef, *, every: bool) -> Flow[Sequence[SkillRef]]:
        """Return skills that may meet ``requirement`` of ``parent``, best first: ``every`` version, or one of each."""


class Selection(NamedTuple):
    """Chosen skills by name, and name → requirement → name of the skill that meets it."""

    skills: Mapping[str, SkillRef] = {}
    met: Mapping[str, Mapping[str, str]] = {}
    parents: Mapping[str, str] = {}  # the first skill that required each; "" for one that was asked for

    def adding(self, skill: SkillRef, parent: str, requirement: str) -> Selection:
        """Return a selection with ``skill`` in it, which meets a requirement of ``parent``."""
        met = {**self.met, parent: {**self.met.get(parent, {}), requirement: skill.name}} if parent else self.met
        return Selection({**self.skills, skill.name: skill}, met, {skill.name: parent, **self.parents})

    def chain(self, name: str) -> Iterator[str]:
        """Yield the skills that led to ``name``, from one that was asked for."""
        if parent := self.parents.get(name, ""):
            yield from self.chain(parent)
        skill = self.skills.get(name)
        yield f"{name} {skill.version}" if skill is not None and skill.version else name

    def needs(self, name: str, other: str) -> bool:
        """Whether ``name`` requires ``other``, directly or not, or is it."""
        seen, waiting = {name}, [name]
        while waiting:
            required = set(self.met.get(waiting.pop(), {}).values()) - seen
            seen |= required
            waiting += required
        return other in seen


class InstalledRequirement(NamedTuple):
    """A requirement of an installed skill on another one, as far as the selection does not replace the skill."""

    holder: str
    requirement: Requirement
    name: str


class _Task(NamedTuple):
    parent: SkillRef | None
    requirement: Requirement | None
    alternatives: Sequence[SkillRef]


def place_of(requirement: Requirement, parent: SkillRef) -> str:
    """Return the reference of a required skill, as the user would type it: relative to where ``parent`` comes from."""
    target, origin = requirement.target, parent.origin
    if "/" not in target:
        return f"{origin.removeprefix('path:') if parent.is_local else origin}/{target}"
    if read_package_name(target) is None or parent.is_local:
        return target
    site = origin.rpartition("/@")[0] or origin
    return f"{site}/@{target}"


def select_skills(
    named: Sequence[Sequence[SkillRef]], find: FindCandidates, installed: Sequence[InstalledRequirement] = ()
) -> Flow[Selection]:
    """Return one skill of each list in ``named`` and all that these require.

    Raises NotFoundError (``DEPENDENCY_MISSING``), ConflictError (``DEPENDENCY_CYCLE``, ``DEPENDENCY_CONFLICT``).
    """
    search = _Search(find, installed)
    found = yield from search.solve([_Task(None, None, alternatives) for alternatives in named], Selection(), 0)
    if found is None:
        raise search.failures[0]
    return found


class _Search:
    def __init__(self, find: FindCandidates, installed: Sequence[InstalledRequirement]) -> None:
        self._find, self._installed = find, installed
        self.failures: list[SkillwireError] = []
        self._steps = 0

    def solve(self, tasks: Sequence[_Task], chosen: Selection, depth: int) -> Flow[Selection | None]:
        """Return ``chosen`` with all ``tasks`` done; None, and a failure, where that is impossible."""
        if not tasks:
            return chosen if self._meets_installed(chosen) else None
        self._steps += 1
        if self._steps > limits.DEPENDENCY_STEPS or depth > limits.DEPENDENCIES:
            message = f"more than {limits.DEPENDENCIES} requirements, or too many versions of them, would be compared"
            raise ConflictError(
                "DEPENDENCY_CONFLICT", message, details={"failures": [one.message for one in self.failures[:3]]}
            )
        task, *rest = tasks
        tried: list[SkillRef] = []
        problems: list[SkillwireError] = []
        for every in (False, True) if task.requirement else (False,):
            for skill in (yield from self._candidates(task, chosen, every=every)):
                if skill in tried:
                    continue
                tried.append(skill)
                if (problem := _problem(skill, task, chosen)) is not None:
                    problems.append(problem)
                    continue
                is_new = skill.name not in chosen.skills
                text = task.requirement.text if task.requirement else ""
                more = [_Task(skill, parse_requirement(one), ()) for one in skill.requires] if is_new else []
                after = chosen.adding(skill, task.parent.name if task.parent else "", text)
                found = yield from self.solve([*rest, *more], after, depth + 1)
                if found is not None:
                    return found
        if len(problems) == len(tried):  # otherwise the reason is deeper, and recorded
            self.failures += (
                problems[:1] if task.requirement is None else [_best_problem(task, chosen, tried, problems)]
            )
        return None

    def _candidates(self, task: _Task, chosen: Selection, *, every: bool) -> Flow[Sequence[SkillRef]]:
        requirement, parent = task.requirement, task.parent
        if requirement is None or parent is None:
            return task.alternatives
        present = [one for one in chosen.skills.values() if requirement.capability in one.capabilities]
        try:
            return [*present, *(yield from self._find(requirement, parent, every=every))]
        except NotFoundError:
            return present

    def _meets_installed(self, chosen: Selection) -> bool:
        for holder, requirement, name in self._installed:
            skill = chosen.skills.get(name)
            if holder in chosen.skills or skill is None or skill.version in requirement.versions:
                continue
            chain = [*chosen.chain(name)]
            message = f"{holder}, which is installed, requires {requirement.text}, and not {' -> '.join(chain)}"
            self.failures.append(ConflictError("DEPENDENCY_CONFLICT", message, details={"chain": chain}))
            return False
        return True


def _problem(skill: SkillRef, task: _Task, chosen: Selection) -> SkillwireError | None:
    """Return why ``skill`` does not do for ``task``, beside what is chosen."""
    requirement, parent = task.requirement, task.parent
    chain = [*chosen.chain(parent.name)] if parent else []
    if requirement is not None and skill.version not in requirement.versions:
        return NotFoundError("DEPENDENCY_MISSING", f"{skill.name} {skill.version} is outside", details={"chain": chain})
    before = chosen.skills.get(skill.name, skill)
    if (before.origin, before.version, before.digest) != (skill.origin, skill.version, skill.digest):
        why = " -> ".join([*chain, requirement.text]) if requirement else f"{skill.origin}/{skill.name}"
        other = " -> ".join(chosen.chain(skill.name))
        message = f"{why} needs another {skill.name} than {other} of {before.origin}"
        return ConflictError("DEPENDENCY_CONFLICT", message, details={"chain": chain})
    if parent is not None and chosen.needs(skill.name, parent.name):
        chain.append(skill.name)
        return ConflictError("DEPENDENCY_CYCLE", f"{' -> '.join(chain)} is a circle", details={"chain": chain})
    return None


def _best_problem(
    task: _Task, chosen: Selection, tried: Sequence[SkillRef], problems: Sequence[SkillwireError]
) -> SkillwireError:
    """Return the first problem of a candidate in the range; without one, that none is in it."""
    assert task.requirement is not None and task.parent is not None  # noqa: PT018, S101  # only such tasks have several
    for problem in problems:
        if problem.code != "DEPENDENCY_MISSING":
            return problem
    chain = [*chosen.chain(task.parent.name), task.requirement.text]
    there = f"; there are {', '.join(str(one.version) for one in tried[:8])}" if tried else ""
    message = f"{' -> '.join(chain)}: no skill meets this requirement{there}"
    return NotFoundError("DEPENDENCY_MISSING", message, details={"chain": chain})
