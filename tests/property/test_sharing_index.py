"""An index is taken when each id stands in it once, and refused as a whole when one stands twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocols.sharing_samples import ENTRY

from skillwire.errors import ValidationError
from skillwire.protocols.skill_sharing.codec import decode_index

URL = "https://skills.example.com/.well-known/skill-sharing"
IDS = st.lists(st.from_regex(r"[a-c]/[a-c]{1,2}", fullmatch=True), max_size=8)


@pytest.mark.spec("SSP-index-unique")
@given(IDS, st.booleans())
def test_every_id_stands_once_or_the_index_is_refused(ids, is_registry):
    entries = [{**ENTRY, "id": identifier} for identifier in ids]
    head = {"protocol": {"version": "1.0.0"}, "provider": {"name": "P"}}
    data = json.dumps(entries if is_registry else {**head, "skills": entries}).encode()
    if len(set(ids)) == len(ids):
        assert list(decode_index(data, URL).entries) == ids
        return
    with pytest.raises(ValidationError) as caught:
        decode_index(data, URL)
    assert caught.value.code == "ID_DUPLICATE"
