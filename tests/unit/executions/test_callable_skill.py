"""Code that a caller brings is a skill that nobody could have published."""

import pytest
from tests.support.catalogs import make_skill

from skillwire.errors import ValidationError
from skillwire.executions.callable_skill import callable_code, code_skill, is_code
from skillwire.executions.grants import needs_grant
from skillwire.model.packed_skills import pack_skill, unpack_skill
from skillwire.model.skill import Permissions, is_skill_name

CODE = b"def main(args):\n    return args\n"


def test_it_is_told_from_published_ones_and_has_no_permissions():
    skill = code_skill(CODE, "main")
    assert is_code(skill)
    assert not is_skill_name(skill.name)
    assert not is_code(make_skill("run-code"))
    assert skill.action is not None
    assert (skill.action.permissions, skill.action.idempotent) == (Permissions(), False)
    assert needs_grant(skill)
    assert unpack_skill(pack_skill(skill)) == skill


def test_its_digest_is_of_code_and_function():
    digests = {code_skill(*one).artifact.digest for one in ((CODE, "main"), (CODE, "mai"), (CODE + b"\n", "main"))}
    assert len(digests) == 3
    assert code_skill(CODE, "main") == code_skill(CODE, "main")


@pytest.mark.parametrize("function", ["main", "_go2", "größe"])
def test_it_takes_whatever_object_it_is_given(function):
    offer = callable_code(code_skill(CODE, function))
    offer.inputs.check({"anything": [1, {"deep": None}]})
    assert offer.action.export == function
    assert offer.output.find_flaw({"anything": 1}) is None


@pytest.mark.parametrize("function", ["", "a.b", "a b", "__import__('os')", "1", "x" * 101, "a\n"])
def test_what_names_no_function_is_refused(function):
    with pytest.raises(ValidationError, match="entrypoint"):
        code_skill(CODE, function)


def test_a_published_skill_is_no_code():
    with pytest.raises(ValueError, match="published"):
        callable_code(make_skill("run-code"))
