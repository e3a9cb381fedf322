"""What the types of Skill Sharing take, its JSON Schema takes, and nothing else; writing gives back what was read."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sharing_documents import documents, spoiled
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.errors import DecodeError, ValidationError
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


@given(spoiled("SkillDescriptor"), st.sampled_from([None, 1]), st.booleans())
def test_bytes_and_value_are_read_alike(document, indent, ascii_only):
    data = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert outcome(data) == outcome(document)


def outcome(document):
    try:
        return parse(document)
    except ValidationError as error:
        return error.details["errors"]


SMALL = {**DESCRIPTOR, "description": "d"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"description":"d"', b'"description":"d","description":"e"'),
        (b'"type":"none"', b'"type":"none","type":"none"'),
        (b'"inputs":[]', b'"inputs":[],"x":{"a":1,"a":2}'),
        (b'"description":"d"', b'"description":"d","description":"\\u003a"'),
        (b'"inputs":[]', b'"inputs":[],"x":' + b"[" * 65 + b"]" * 65),
        (b'"inputs":[]', b'"inputs":[],"x":' + b"9" * 21),
        (b'"inputs":[]', b'"inputs":[],"x":1e999'),
        (b'"inputs":[]', b'"inputs":[],"x":NaN'),
        (b'"description":"d"', b'"description":"\xff"'),
        (b'"description":"d"', b'"description":"\\ud800"'),
    ],
)
def test_quick_way_lets_nothing_pass_that_the_guarded_reader_refuses(old, new):
    data = json.dumps(SMALL, separators=(",", ":")).encode()
    assert parse(data) == parse(SMALL)
    assert old in data
    with pytest.raises(DecodeError):
        parse(data.replace(old, new))


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
    assert caught.value.details["errors"] == [violation._asdict() for violation in validation.errors]
    assert all(violation.path == "" or violation.path.startswith("/") for violation in validation.errors)
