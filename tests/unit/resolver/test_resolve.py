"""Selections that a hostile registry offers."""

import pytest

from skillwire.errors import ConflictError
from skillwire.model.ref import SkillRef
from skillwire.resolver.resolve import select_skills
from skillwire.wire.exchange import follow


def skill(number):
    requires = (f"s{number + 1}",)
    return SkillRef(f"s{number}", "https://o.example", "", "1.0.0", None, "test", 0.0, requires=requires)


def test_an_endless_chain_of_requirements_is_given_up():
    def find(requirement, _, *, every):
        yield from ()
        return [] if every else [skill(int(requirement.target[1:]))]

    with pytest.raises(ConflictError) as caught:
        follow(select_skills([[skill(0)]], find), ())
    assert caught.value.code == "DEPENDENCY_CONFLICT"
