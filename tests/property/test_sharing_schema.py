"""What the types of Skill Sharing take, its JSON Schema takes, and nothing else; writing gives back what was read."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sharing_documents import documents, spoiled

from skillwire.errors import ValidationError
from skillwire.protocols.skill_sharing.messages import DEFINITIONS
from skillwire.protocols.skill_sharing.validation import parse, serialize, validate

NAMES = st.sampled_from(sorted(DEFINITIONS))


def converts(document, definition):
    try:
        msgspec.convert(document, DEFINITIONS[definition])
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.spec("SSP-validate")
@given(NAMES.flatmap(lambda name: st.tuples(st.just(name), documents(name))))
def test_what_fits_is_taken_by_both(drawn):
    definition, document = drawn
    assert validate(document, definition).errors == ()
    assert converts(document, definition)


@pytest.mark.spec("SSP-types-equivalent")
@given(NAMES.flatmap(lambda name: st.tuples(st.just(name), spoiled(name))))
def test_types_and_schema_agree_on_what_nearly_fits(drawn):
    definition, document = drawn
    assert validate(document, definition).valid == converts(document, definition)


@pytest.mark.spec("SSP-serialize")
@given(documents("SkillDescriptor"))
def test_parsing_what_was_serialized_is_the_identity(document):
    descriptor = parse(document)
    text = serialize(descriptor)
    assert parse(json.loads(text)) == descriptor
    assert json.loads(text) == document
    assert text.startswith('{\n  "protocol"')


@pytest.mark.spec("SSP-parse")
@given(spoiled("SkillDescriptor"))
def test_parsing_raises_with_every_violation_or_gives_the_value(document):
    validation = validate(document)
    if validation.valid:
        assert parse(document) is not None
        return
    with pytest.raises(ValidationError) as caught:
        parse(document)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.details["errors"] == [violation.as_object() for violation in validation.errors]
    assert all(violation.path == "" or violation.path.startswith("/") for violation in validation.errors)
