"""Skills as bytes, which the ledger may have kept before a field was added, and cursors, which strangers make up."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.publishing import write_skill

from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.model.catalog import decode_cursor, encode_cursor, pack_skill, unpack_skill


@given(st.binary(min_size=1, max_size=60))
def test_what_was_sealed_is_unsealed(data):
    assert decode_cursor(encode_cursor(data), 100) == data


@given(st.text(max_size=120))
def test_a_made_up_cursor_holds_nothing_or_is_the_one_that_we_write(text):
    data = decode_cursor(text, 100)
    assert data == b"" or encode_cursor(data) == text


@pytest.mark.parametrize("cursor", ["", "YQ==", "YR", "Y", "Y Q", "YQ\n", "+/+/", "\uff21Q"])
def test_another_spelling_is_none_of_ours(cursor):
    assert decode_cursor(cursor, 100) == b""
    assert decode_cursor("YQ", 100) == b"a"


def test_a_cursor_is_bounded():
    assert (decode_cursor(encode_cursor(b"abc"), 4), decode_cursor(encode_cursor(b"abcd"), 4)) == (b"abc", b"")


def prepared(folder, **files):
    outcome = prepare(write_skill(folder, "leads-sync", files), "acme")
    assert isinstance(outcome, PreparedSkill)
    return outcome.skill


def test_what_skill_discovery_calls_it_is_kept(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    assert skill.skill_type == "enterprise-skill"
    assert unpack_skill(pack_skill(skill)) == skill


def test_a_row_from_before_there_were_types_and_requirements_is_read(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    *earlier, _, _, _ = msgspec.msgpack.decode(pack_skill(skill))
    assert unpack_skill(msgspec.msgpack.encode(earlier)) == skill._replace(skill_type=None)
