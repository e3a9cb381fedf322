"""Whatever a run says of its files, and wherever a text is cut, nothing but what is promised comes out."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.adapters.executors.python import kind_of, read_output_rows
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.errors import DecodeError, NotFoundError, TrustError, ValidationError
from skillwire.model.execution import check_kind, digest_of, is_blob_id
from skillwire.server.runs import _text
from skillwire.trust.paths import check_path

BOUNDS = ResourceLimits(1.0, blobs=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=12,
)
ROWS = st.lists(st.tuples(st.text(max_size=8) | st.sampled_from(["a", "A", "../a", "a/b", "/a"]), st.integers(-1, 3)))


@given(VALUES | ROWS.map(lambda rows: [list(row) for row in rows]), st.integers(0, 6))
def test_a_report_of_files_is_read_as_safe_names_that_add_up_or_refused(listed, size):
    try:
        rows = read_output_rows(listed, size, BOUNDS)
    except (DecodeError, TrustError):
        return
    assert len(rows) <= BOUNDS.blobs
    assert sum(length for _, length in rows) == size
    assert all(check_path(name) == name and length >= 0 for name, length in rows)
    assert [list(row) for row in rows] == json.loads(json.dumps(listed))


@given(st.text())
def test_every_name_has_a_kind(name):
    kind = kind_of(name)
    assert check_kind(kind) == kind


@given(st.text())
def test_whatever_is_said_to_be_a_kind_or_an_id_is_one_or_refused(text):
    with contextlib.suppress(ValidationError):
        assert check_kind(text).isascii()
    if is_blob_id(text):
        assert digest_of(text).hex == text.removeprefix("blob:")
    else:
        with pytest.raises(NotFoundError):
            digest_of(text)


@given(st.text(min_size=1), st.data())
def test_a_part_of_a_text_is_a_text_that_stands_in_it(text, data):
    whole = text.encode()
    begin = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(begin, len(whole)))
    cut = _text(whole[begin:end], begins_within=begin > 0, ends_within=end < len(whole))
    assert cut in text
    assert end - begin - 6 <= len(cut.encode()) <= end - begin
