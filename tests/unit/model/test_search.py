"""Cursors hold what was put into them, and whatever a stranger sends is that or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.model.search import seal, unseal


@given(st.binary(min_size=1, max_size=60))
def test_what_was_sealed_is_unsealed(data):
    assert unseal(seal(data), 100) == data


@given(st.text(max_size=120))
def test_a_made_up_cursor_holds_nothing_or_is_the_one_that_we_write(text):
    data = unseal(text, 100)
    assert data == b"" or seal(data) == text


@pytest.mark.parametrize("cursor", ["", "YQ==", "YR", "Y", "Y Q", "YQ\n", "+/+/", "\uff21Q"])
def test_another_spelling_is_none_of_ours(cursor):
    assert unseal(cursor, 100) == b""
    assert unseal("YQ", 100) == b"a"


def test_a_cursor_is_bounded():
    assert (unseal(seal(b"abc"), 4), unseal(seal(b"abcd"), 4)) == (b"abc", b"")
