"""Judging documents of Skill Sharing: whatever comes is judged, and what is valid is what the reader takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sharing_documents import ANYTHING, documents, spoiled

from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_sharing.codec import decode_descriptor
from skillwire.protocols.skill_sharing.judge import DOCUMENT_KINDS, validate_document

URL = "https://skills.example.com/descriptor.json"


@given(st.binary(max_size=200) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_anything_is_judged(data):
    for kind in (None, *DOCUMENT_KINDS):
        judgement = validate_document(data, "x", kind)
        assert all(fault.place.source == "x" for fault in judgement.errors)


@pytest.mark.parametrize("kind", DOCUMENT_KINDS)
@given(data=st.data())
def test_nothing_is_wrong_by_the_schema_with_what_fits_it(kind, data):
    document = data.draw(documents(DOCUMENT_KINDS[kind]))
    codes = {fault.code for fault in validate_document(json.dumps(document).encode(), "x", kind).errors}
    assert "VALIDATION_ERROR" not in codes


@given(spoiled("SkillDescriptor"))
def test_what_is_valid_is_read_but_for_its_addresses(document):
    data = json.dumps(document).encode()
    faults = validate_document(data, "x", "descriptor").errors
    code = None
    try:
        decode_descriptor(data, URL)
    except (DecodeError, ValidationError) as error:
        code = error.code
    assert faults or code in {None, "DESCRIPTOR"}  # for an address; judging refuses none
