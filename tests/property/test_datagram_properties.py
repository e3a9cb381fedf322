"""Datagrams: what was written is what is read, and nothing that comes does more harm than being refused."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.datagrams import identifiers, records, signatures, signed_messages, unsigned_messages

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import codec
from skillwire.protocols.skill_discovery.codec import SHAPES, encode, encode_responses, signed_part
from skillwire.protocols.skill_discovery.messages import Message, Profile, Unknown


def decode(data, profile=Profile.OPEN):
    return codec.decode(data, profile)


TYPES = st.sampled_from(sorted(SHAPES))
PARTS = st.sampled_from(
    ["a", "0.7.0", "tool-skill", "h:1", "", "a,b", "1707868800000", "SIG", "HEALTHY", "a|1.0.0|h:1|c|s"]
)


@given(signed_messages | unsigned_messages)
def test_what_was_written_is_what_is_read(message):
    assert decode(encode(message)) == message


@given(unsigned_messages, signatures)
def test_what_was_signed_is_what_is_read_in_the_profile_signed(message, signature):
    message = msgspec.structs.replace(message, signature=signature)
    data = encode(message, Profile.SIGNED)
    assert decode(data, Profile.SIGNED) == message
    assert data == signed_part(data) + b";" + signature.encode()


@given(
    st.binary(max_size=300)
    | st.builds("{}:{}".format, TYPES, st.text(max_size=60)).map(str.encode)
    | st.builds(lambda name, parts: f"{name}:{';'.join(parts)}".encode(), TYPES, st.lists(PARTS, max_size=10))
)
@example(b"")
@example(b"SKILL_REGISTER:" + b";" * 2000)
@example(b"SCENE_JOIN_RESPONSE:a;%7B%22sceneId%22:%22\xff%22%7D;1")
@example(b"SCENE_JOIN_RESPONSE:a;" + b"[" * 900 + b";1")
@pytest.mark.parametrize("profile", Profile)
def test_no_bytes_make_decode_raise_anything_but_decode_error(profile, data):
    try:
        message = decode(data, profile)
    except DecodeError:
        return
    assert isinstance(message, Message)
    if not isinstance(message, Unknown):
        assert decode(encode(message, profile), profile) == message


@given(identifiers, st.lists(records, max_size=60), st.sampled_from([None, lambda _: "A" * 96]))
def test_responses_are_whole_messages_that_hold_every_skill_in_order(requester, skills, sign):
    profile = Profile.SIGNED if sign else Profile.OPEN
    datagrams = encode_responses(requester, skills, 1_707_868_800_000, sign=sign)
    assert all(len(data) <= limits.DATAGRAM_BYTES for data in datagrams)
    messages = [decode(data, profile) for data in datagrams]
    assert [skill for message in messages for skill in message.skills] == skills
    assert {message.requester_id for message in messages} == ({requester} if skills else set())
    sizes = [len(data) for data in datagrams]
    assert all(one + two > limits.DATAGRAM_BYTES for one, two in pairwise(sizes))


@given(
    signed_messages,
    st.text(
        st.characters(exclude_characters="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"),
        min_size=1,
    ),
)
def test_what_is_no_identifier_is_never_written(message, text):
    with pytest.raises(ValidationError):
        encode(msgspec.structs.replace(message, agent_id=text))
