"""Which skills and versions an installation takes, so that each requirement is met. Without IO.

A depth-first search: one requirement after the other takes the best candidate that fits everything chosen so far, and
the last choice is taken back where a later requirement cannot be met. So a selection is found wherever there is one,
within the bounds. Of several, the one with the earlier candidates for the earlier requirements wins. The first reason
for which a best candidate failed is the one that is raised, with the chain of skills that led to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, SkillwireError
from skillwire.model.package import Requirement, parse_requirement, read_package_name
from skillwire.model.ref import SkillRef
from skillwire.wire.exchange import Flow

_SHOWN: Final = 8  # versions or skills in a message


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
        names = [name]
        while parent := self.parents.get(names[-1], ""):
            names.append(parent)
        for one in reversed(names):
            skill = self.skills.get(one)
            yield f"{one} {skill.version}" if skill is not None and skill.version else one

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


def place_of(requirement: Requirement, parent: SkillRef, registry: str) -> str:
    """Return the reference of a required skill, relative to where ``parent`` comes from.

    A folder has no registry of its own; for one, ``namespace/name`` is in ``registry``. Empty where there is none.
    """
    target, origin = requirement.target, parent.origin
    if "/" not in target:
        folder = origin.removeprefix("path:")
        return f"{folder if folder.startswith(('.', '/')) or not parent.is_local else f'./{folder}'}/{target}"
    if read_package_name(target) is None:
        return target
    site = registry.rstrip("/") if parent.is_local else origin.rpartition("/@")[0] or origin
    return f"{site}/@{target}" if site else ""


def select_skills(
    named: Sequence[Sequence[SkillRef]], find: FindCandidates, installed: Sequence[InstalledRequirement] = ()
) -> Flow[Selection]:
    """Return one skill of each list in ``named`` and all that these require.

    Raises NotFoundError (``DEPENDENCY_MISSING``), ConflictError (``DEPENDENCY_CYCLE``, ``DEPENDENCY_CONFLICT``).
    """
    single = [alternatives[0] for alternatives in named if len(alternatives) == 1]
    chosen = Selection({one.name: one for one in single}, {}, {one.name: "" for one in single})
    tasks = [_Task(None, None, alternatives) for alternatives in named if len(alternatives) > 1]
    search = _Search(find, installed)
    return (yield from search.solve([*tasks, *(task for one in single for task in _tasks_of(one))], chosen))


def _tasks_of(skill: SkillRef) -> list[_Task]:
    return [_Task(skill, parse_requirement(text), ()) for text in skill.requires]


class _Choice:
    """The first of some ``tasks``, and the candidates that were tried: one version of each, then every version."""

    def __init__(self, tasks: Sequence[_Task], chosen: Selection) -> None:
        self.tasks, self.chosen = tasks, chosen
        self.tried: list[SkillRef] = []
        self.problems: list[SkillwireError] = []
        self.waiting: list[SkillRef] = []
        self.rounds = [False, True] if tasks and tasks[0].requirement else [False]

    def take(self, skill: SkillRef) -> _Choice:
        """Return the choice that follows when ``skill`` does the first task."""
        task, *rest = self.tasks
        more = [] if skill.name in self.chosen.skills else _tasks_of(skill)
        text = task.requirement.text if task.requirement else ""
        return _Choice([*rest, *more], self.chosen.adding(skill, task.parent.name if task.parent else "", text))


class _Search:
    def __init__(self, find: FindCandidates, installed: Sequence[InstalledRequirement]) -> None:
        self._find, self._installed = find, installed
        self._failures: list[SkillwireError] = []

    def solve(self, tasks: Sequence[_Task], chosen: Selection) -> Flow[Selection]:
        """Return ``chosen`` with all ``tasks`` done; raise the first failure where that is impossible."""
        choices = [_Choice(tasks, chosen)]
        for _ in range(limits.DEPENDENCY_STEPS + len(tasks)):
            choice = choices[-1]
            if not choice.tasks and self._meets_installed(choice.chosen):
                return choice.chosen
            skill = (yield from self._next(choice)) if choice.tasks else None
            if skill is not None:
                choices.append(choice.take(skill))
                continue
            if choice.tasks and len(choice.problems) == len(choice.tried):  # otherwise the reason is recorded
                self._failures.append(_best_problem(choice))
            choices.pop()
            if not choices:
                raise self._failures[0]
        message = f"no versions that fit together were found within {limits.DEPENDENCY_STEPS:,} steps"
        raise ConflictError("DEPENDENCY_CONFLICT", message, details={"chain": [*choices[-1].chosen.skills][:_SHOWN]})

    def _next(self, choice: _Choice) -> Flow[SkillRef | None]:
        """Return the next candidate for the first task that fits what is chosen; None when there is none."""
        while choice.waiting or choice.rounds:
            if not choice.waiting:
                every = choice.rounds.pop(0)
                choice.waiting = yield from self._candidates(choice.tasks[0], choice.chosen, every=every)
                continue
            skill = choice.waiting.pop(0)
            if skill not in choice.tried:
                choice.tried.append(skill)
                if (problem := _problem(skill, choice.tasks[0], choice.chosen)) is None:
                    return skill
                choice.problems.append(problem)
        return None

    def _candidates(self, task: _Task, chosen: Selection, *, every: bool) -> Flow[list[SkillRef]]:
        requirement, parent = task.requirement, task.parent
        if requirement is None or parent is None:
            return [*task.alternatives]
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
            self._failures.append(ConflictError("DEPENDENCY_CONFLICT", message, details={"chain": chain}))
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


def _best_problem(choice: _Choice) -> SkillwireError:
    """Return the first problem of a candidate in the range; without one, that none is in it."""
    requirement, parent = choice.tasks[0].requirement, choice.tasks[0].parent
    if problem := next((one for one in choice.problems if one.code != "DEPENDENCY_MISSING"), None):
        return problem
    assert requirement is not None and parent is not None  # noqa: PT018, S101  # one that was asked for has problems alone
    chain = [*choice.chosen.chain(parent.name), requirement.text]
    there = f"; there are {', '.join(str(one.version) for one in choice.tried[:_SHOWN])}" if choice.tried else ""
    message = f"{' -> '.join(chain)}: no skill meets this requirement{there}"
    return NotFoundError("DEPENDENCY_MISSING", message, details={"chain": chain})
