"""Resolves references to skills, and skills to everything that they require.

A bare name goes through the ladder: the local network if the sources name it, the DHT and the SkillCenter if the user's
settings enable them, the cache, and the configured sources as one rung. A named place is one rung with three phases:

1. The sources of the reference's lookups are asked in order.
2. If a fresh cached index lacks the skill, they are asked again without the cache, since it may be new.
3. The reference's fallbacks are asked: the same place in the other protocols.

:func:`select_skills` chooses the skills and versions of an installation that meet every requirement. The search is
depth-first with backtracking: each requirement takes the best candidate that fits all earlier choices, and the last
choice is undone when a later requirement cannot be met. So the search finds a selection if one exists, within its
bounds. Among several, earlier candidates for earlier requirements win. A failed search raises the error of the first
best candidate, with the chain of skills that led to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from skillwire import limits
from skillwire.errors import ConflictError, FetchError, NotFoundError, SkillwireError, TrustError, UsageError
from skillwire.model.package import Requirement, parse_requirement, read_package_name
from skillwire.model.ref import LockedSkill, SkillRef
from skillwire.resolver.context import ResolveContext, is_not_found
from skillwire.resolver.ladder import LADDER, NAMED, Rung
from skillwire.resolver.plan import meets_min_age, ref_of_locked
from skillwire.resolver.rank import add_facts, read_origin, resolve_shared
from skillwire.resolver.references import Reference, parse_reference, parse_source, sharing_at
from skillwire.resolver.sources import AGENT_SKILLS, FOLDER, GIT, SKILL_SHARING, SKILLS_RPC, Lookup, open_source
from skillwire.resolver.sources.agent_skills import AgentSkills, has_version, is_namespace_at, usable_versions
from skillwire.wire.exchange import Flow, share_time, work

_NETWORK: Final = "lan:"  # the source that stands for the local network
#: Errors of an address that is no endpoint of the Skills Protocol.
_NO_ENDPOINT: Final = frozenset({"HTTP_STATUS", "CONTENT_TYPE", "RPC_ANSWER", "RPC_METHOD", "JSON_SYNTAX"})


def resolve(reference: Reference, context: ResolveContext, *, both: bool = False) -> Flow[list[SkillRef]]:
    """Return the skills that ``reference`` names: one, or all of an index or folder.

    ``both`` adds the facts of Skill Sharing.

    Raises NotFoundError (``SKILL_NOT_FOUND``), with similar names; ``INDEX_NOT_FOUND``; UsageError (``NO_SOURCES``) for
    a bare name without sources; TrustError (``DIGEST_CONFLICT``) when two sources disagree even without the cache.
    """
    try:
        return (yield from _resolve(reference, context, both=both))
    except TrustError as error:
        if error.code not in {"DIGEST_CONFLICT", "INDEX_DIFFERS"} or context.refresh or context.offline:
            raise
    return (yield from _resolve(reference, context._replace(refresh=True), both=both))  # a cached index may be old


def _resolve(reference: Reference, context: ResolveContext, *, both: bool) -> Flow[list[SkillRef]]:
    rungs: list[Rung[SkillRef]] = []
    places = [source for source in context.sources if source != _NETWORK]
    if reference.name is not None and (discovery := context.discovery()) is not None:
        rungs = discovery.named(reference.name, asks_lan=_NETWORK in context.sources)
    if reference.name is None or places:
        row = LADDER[NAMED]._replace(is_local=context.offline)
        rungs.append(Rung(NAMED, lambda _: _ask_in_phases(reference, places, context), row=row))
    if not rungs:
        message = f"{reference.name} is a bare name, and no sources are configured"
        python = f'client.show("example.com/{reference.name}")'
        raise UsageError("NO_SOURCES", message, details={"name": reference.name}, in_python=python)
    credentials = frozenset(context.credentials.items())  # a login may change the answer
    question = "" if context.refresh else (reference.text, credentials, context.offline)
    climb = context.open_ladder().climb(question, rungs)
    try:
        found = yield from climb.next()
    finally:
        context.on_climb(climb.traces)
    if not found:
        raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} is not published there")
    found = [_in_version(skill, reference) for skill in found]
    if both:
        found = yield from add_facts(found, context)
    return found


def _ask_in_phases(reference: Reference, places: Sequence[str], context: ResolveContext) -> Flow[list[SkillRef]]:
    lookups, fallbacks = reference.lookups, reference.fallback
    if reference.name is not None:
        meant = {"name": reference.name, "version": reference.version}
        lookups = tuple(parse_source(source)._replace(**meant) for source in places)
        fallbacks = tuple(sharing_at(one.url, reference.name) for one in lookups if one.source == AGENT_SKILLS)
    try:
        return (yield from _ask_in_order(lookups, reference, context))
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    may_be_stale = any(lookup.source not in {FOLDER, GIT, SKILLS_RPC} for lookup in lookups)
    if may_be_stale and missing.code == "SKILL_NOT_FOUND" and not (context.refresh or context.offline):
        context = context._replace(refresh=True)
        try:
            return (yield from _ask_in_order(lookups, reference, context))
        except NotFoundError as error:
            missing = error
    found = yield from _ask_fallbacks(fallbacks, context, missing)
    if not found:
        raise missing
    return found


def _in_version(skill: SkillRef, reference: Reference) -> SkillRef:
    """Return ``skill``; raise ``VERSION_NOT_FOUND`` if its source has no versions and it is not the requested one."""
    if reference.version and skill.git is None and not has_version(skill, reference.version):
        fix = f"There is {skill.version or skill.digest or 'one version'}."
        raise NotFoundError("VERSION_NOT_FOUND", f"{reference.text} is not published there", fix=fix)
    return skill


def _ask_in_order(lookups: Sequence[Lookup], reference: Reference, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the answer of the first source that has the skill.

    Otherwise raise the error of an index that lacks the skill, or else that of a source that failed.
    """
    failure: SkillwireError | None = None
    missing: NotFoundError | FetchError | None = None
    for number, lookup in enumerate(lookups, 1):
        try:
            if lookup.source == SKILL_SHARING:
                flow = resolve_shared(lookup, context)
            else:
                flow = open_source(lookup.source, context).resolve(lookup)
            found = yield from share_time(flow, limits.HTTP_REQUEST_SECONDS, is_last=number == len(lookups))
        except (NotFoundError, FetchError) as error:
            failure = failure or error
            if error.code == "SKILL_NOT_FOUND" and lookup.source == AGENT_SKILLS and not (missing and missing.fix):
                missing = error
            continue
        if found:
            return found
    if failure is not None and missing is None:
        raise failure
    if not any(lookup.name for lookup in lookups):
        raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} publishes no skills yet")
    fix, python = (missing.fix, missing.in_python) if missing else (None, None)
    raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} is not published there", fix=fix, in_python=python)


def _ask_fallbacks(lookups: Sequence[Lookup], context: ResolveContext, missing: SkillwireError) -> Flow[list[SkillRef]]:
    """Return the answer of the first fallback that has the skill; an empty list without one.

    A malformed document is raised if no other index exists, and otherwise reported.
    """
    for lookup in lookups:
        try:
            found = yield from open_source(lookup.source, context).resolve(lookup)
        except SkillwireError as error:
            if is_not_found(error, context) or error.code == "CONTENT_TYPE":
                continue  # an HTML page, not an index
            if lookup.source == SKILLS_RPC and error.code in _NO_ENDPOINT:
                continue
            if missing.code == "INDEX_NOT_FOUND" or isinstance(error, UsageError):
                raise
            context.note(error)
            continue
        if found:
            return found
    return []


class DependencySources:
    """Finds candidates for requirements; each index is read once, and installed versions come first.

    Trust: a skill states its requirements, so they permit no connections; only the address policy does.
    """

    def __init__(self, context: ResolveContext, installed: Mapping[str, LockedSkill], registry: str) -> None:
        self._context, self._installed, self._registry = context, installed, registry
        self._known: dict[Lookup, Sequence[SkillRef]] = {}

    def find(self, requirement: Requirement, parent: SkillRef, *, every: bool) -> Flow[Sequence[SkillRef]]:
        """Return candidates, see :class:`FindCandidates`. Raises as :func:`resolve`."""
        if requirement.capability:
            return (yield from self._find_capability(requirement.capability, parent))
        place = place_of(requirement, parent, self._registry)
        if not place:
            return []
        lookup = parse_reference(place).lookups[0]
        if lookup.source == FOLDER:
            path = str(self._context.root / lookup.url)  # origins of folders are relative to the root
            found = yield from open_source(FOLDER, self._context).resolve(lookup._replace(url=path))
        elif every and lookup.source == AGENT_SKILLS:
            versions = usable_versions((yield from AgentSkills(self._context).versions(lookup)))
            found = [one for one in versions if meets_min_age(one, self._context)]
        else:
            known = yield from self._read(lookup)
            named = [one for one in known if one.name == (lookup.name or "").rpartition("/")[2]]
            found = [one for one in named if meets_min_age(one, self._context)]
        locked = self._installed.get(str(lookup.name))
        is_installed = locked is not None and any(one.origin == locked.origin for one in found)
        return [ref_of_locked(locked, self._context.root), *found] if locked is not None and is_installed else found

    def _find_capability(self, capability: str, parent: SkillRef) -> Flow[Sequence[SkillRef]]:
        """Return skills with a capability: from the origin of ``parent``, then its site, then the sources."""
        site = parent.origin.rpartition("/@")[0] if is_namespace_at(parent.origin) else ""
        locked = [one for one in self._installed.values() if capability in one.capabilities]
        found = yield from work(lambda: [ref_of_locked(one, self._context.root) for one in locked])
        for place in dict.fromkeys(("" if parent.is_local else parent.origin, site, *self._context.sources)):
            if place == _NETWORK:  # any machine on it can announce any capability
                continue
            try:
                found += (yield from self._read(parse_source(place))) if place else ()
            except SkillwireError as error:
                if not is_not_found(error, self._context):
                    self._context.note(error)
        return [one for one in found if capability in one.capabilities and not one.has_no_artifact]

    def _read(self, lookup: Lookup) -> Flow[Sequence[SkillRef]]:
        place = lookup._replace(name=None)
        if place not in self._known:
            self._known[place] = yield from open_source(place.source, self._context).find(place, None)
        return self._known[place]


def find_skills(lookup: Lookup, context: ResolveContext, capability_type: str | None = None) -> Flow[list[SkillRef]]:
    """Return all skills of a place, each once, even if the origin publishes it by two protocols."""
    if lookup.source in {AGENT_SKILLS, SKILL_SHARING}:
        return read_origin(lookup, context, capability_type)
    return open_source(lookup.source, context).find(lookup, capability_type)


_SHOWN: Final = 8  # versions or skills in a message


class FindCandidates(Protocol):
    """Finds candidates for a requirement."""

    def __call__(self, requirement: Requirement, parent: SkillRef, *, every: bool) -> Flow[Sequence[SkillRef]]:
        """Return skills that may meet ``requirement`` of ``parent``, best first: ``every`` version or one of each."""


class Selection(NamedTuple):
    """Chosen skills by name; ``met`` maps name → requirement → name of the skill that meets it."""

    skills: Mapping[str, SkillRef] = {}
    met: Mapping[str, Mapping[str, str]] = {}
    parents: Mapping[str, str] = {}  # the first skill that required each; "" for a named one

    def adding(self, skill: SkillRef, parent: str, requirement: str) -> Selection:
        """Return the selection with ``skill`` added, which meets ``requirement`` of ``parent``."""
        met = {**self.met, parent: {**self.met.get(parent, {}), requirement: skill.name}} if parent else self.met
        return Selection({**self.skills, skill.name: skill}, met, {skill.name: parent, **self.parents})

    def chain(self, name: str) -> Iterator[str]:
        """Yield the skills that led to ``name``, beginning with a named one."""
        names = [name]
        while parent := self.parents.get(names[-1], ""):
            names.append(parent)
        for one in reversed(names):
            skill = self.skills.get(one)
            yield f"{one} {skill.version}" if skill is not None and skill.version else one

    def needs(self, name: str, other: str) -> bool:
        """Whether ``name`` equals ``other`` or requires it, directly or indirectly."""
        seen, waiting = {name}, [name]
        while waiting:
            required = set(self.met.get(waiting.pop(), {}).values()) - seen
            seen |= required
            waiting += required
        return other in seen


class InstalledRequirement(NamedTuple):
    """A requirement of the installed skill ``holder`` on the skill ``name``; void if the selection has ``holder``."""

    holder: str
    requirement: Requirement
    name: str


class _Task(NamedTuple):
    parent: SkillRef | None
    requirement: Requirement | None
    alternatives: Sequence[SkillRef]


def place_of(requirement: Requirement, parent: SkillRef, registry: str) -> str:
    """Return the reference of a required skill, relative to the origin of ``parent``.

    For a parent from a folder, ``namespace/name`` is in ``registry``; empty without one.
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
    """Return one skill of each list in ``named``, and all skills that these require.

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
    """A point of the search: its open ``tasks``, and the candidates tried for the first one.

    The first of two ``rounds`` tries one version of each skill, the second every version.
    """

    def __init__(self, tasks: Sequence[_Task], chosen: Selection) -> None:
        self.tasks, self.chosen = tasks, chosen
        self.tried: list[SkillRef] = []
        self.problems: list[SkillwireError] = []
        self.waiting: list[SkillRef] = []
        self.rounds = [False, True] if tasks and tasks[0].requirement else [False]

    def take(self, skill: SkillRef) -> _Choice:
        """Return the next point of the search, where ``skill`` meets the first task."""
        task, *rest = self.tasks
        more = [] if skill.name in self.chosen.skills else _tasks_of(skill)
        text = task.requirement.text if task.requirement else ""
        return _Choice([*rest, *more], self.chosen.adding(skill, task.parent.name if task.parent else "", text))


class _Search:
    def __init__(self, find: FindCandidates, installed: Sequence[InstalledRequirement]) -> None:
        self._find, self._installed = find, installed
        self._failures: list[SkillwireError] = []

    def solve(self, tasks: Sequence[_Task], chosen: Selection) -> Flow[Selection]:
        """Return ``chosen`` with all ``tasks`` met; raise the first failure if that is impossible."""
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
        """Return the next candidate for the first task that fits the chosen skills, or None."""
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
    """Return why ``skill`` cannot meet ``task`` together with the chosen skills, or None."""
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
    """Return the first error of a candidate within the range, or the error that no candidate is in it."""
    requirement, parent = choice.tasks[0].requirement, choice.tasks[0].parent
    if problem := next((one for one in choice.problems if one.code != "DEPENDENCY_MISSING"), None):
        return problem
    assert requirement is not None and parent is not None  # noqa: PT018, S101  # named skills fail in other ways
    chain = [*choice.chosen.chain(parent.name), requirement.text]
    there = f"; there are {', '.join(str(one.version) for one in choice.tried[:_SHOWN])}" if choice.tried else ""
    message = f"{' -> '.join(chain)}: no skill meets this requirement{there}"
    return NotFoundError("DEPENDENCY_MISSING", message, details={"chain": chain})
