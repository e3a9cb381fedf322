"""A selection of skills, compared with the trial of every combination of versions."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import ConflictError, NotFoundError
from skillwire.model.package import parse_requirement
from skillwire.model.ref import SkillRef
from skillwire.resolver.resolve import InstalledRequirement, select_skills
from skillwire.wire.exchange import follow

NAMES, VERSIONS = "abcd", ("1.0.0", "1.1.0", "2.0.0")
RANGES = ("", "@*", "@^1", "@1.0.0", "@>=1.1", "@<2", "@2.0.0", "@3.0.0")
REQUIREMENTS = st.builds("{}{}".format, st.sampled_from(NAMES), st.sampled_from(RANGES))


def skill(name, version, requires=(), capabilities=()):
    return SkillRef(
        name, "https://o.example", "", version, None, "test", 0.0, requires=requires, capabilities=capabilities
    )


@st.composite
def universes(draw):
    """Return name → versions, the highest first, each with what it requires."""
    universe = {}
    for name in NAMES:
        versions = draw(st.sets(st.sampled_from(VERSIONS), min_size=1))
        rows = st.lists(REQUIREMENTS, max_size=2, unique=True).map(tuple)
        universe[name] = [skill(name, version, draw(rows)) for version in sorted(versions, reverse=True)]
    return universe


def finding(universe):
    def find(requirement, _, *, every):
        yield from ()
        found = universe.get(requirement.target, [])
        if requirement.capability:
            found = [one for rows in universe.values() for one in rows if requirement.capability in one.capabilities]
        return found if every else found[:1]

    return find


def select(universe, *named, installed=()):
    return follow(select_skills([universe[name] for name in named], finding(universe), installed), ())


def is_valid(chosen, roots):
    """Whether every requirement is met, nothing is there without a reason, and no skill requires itself."""
    if not all(root in chosen for root in roots):
        return False
    needed = {}
    for one in chosen.values():
        rows = [parse_requirement(text) for text in one.requires]
        if any(row.target not in chosen or chosen[row.target].version not in row.versions for row in rows):
            return False
        needed[one.name] = {row.target for row in rows}
    reached, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += needed[name]
    while free := [name for name, rows in needed.items() if not rows & needed.keys()]:
        for name in free:
            del needed[name]
    return reached == set(chosen) and not needed


@given(universes(), st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
def test_a_selection_is_found_where_there_is_one(universe, roots):
    every = product(*([None, *universe[name]] for name in NAMES))
    possible = any(is_valid({one.name: one for one in some if one}, roots) for some in every)
    if not possible:
        with pytest.raises((NotFoundError, ConflictError)) as refused:
            select(universe, *sorted(roots))
        assert refused.value.code.startswith("DEPENDENCY_")
        assert "chain" in refused.value.details
        return
    selection = select(universe, *sorted(roots))
    assert is_valid(selection.skills, roots)
    for name, met in selection.met.items():
        assert set(met) == set(selection.skills[name].requires)


@given(universes())
def test_the_same_question_has_the_same_answer(universe):
    answers = []
    for _ in range(2):
        try:
            answers.append(str(select(universe, "a").skills))
        except (NotFoundError, ConflictError) as error:
            answers.append(error.message)
    assert answers[0] == answers[1]


@given(universes(), REQUIREMENTS)
def test_what_an_installed_skill_requires_is_kept(universe, text):
    requirement = parse_requirement(text)
    try:
        selection = select(universe, "a", installed=[InstalledRequirement("holder", requirement, requirement.target)])
    except (NotFoundError, ConflictError):
        return
    found = selection.skills.get(requirement.target)
    assert found is None or found.version in requirement.versions
