"""Git's protocol version 2: requests as bytes, and answers of all kinds."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import DecodeError, FetchError, SkillwireError
from skillwire.wire.git import ask_objects, ask_refs, read_capabilities, read_objects, read_refs

A, B = "a" * 40, "b" * 40


def lines(*texts):
    return b"".join(b"%04x%s" % (len(text) + 4, text) if text else b"0000" for text in texts)


def test_requests_are_those_of_the_protocol():
    assert ask_refs(["HEAD"]) == b"0014command=ls-refs\n0001" + lines(b"peel\n", b"ref-prefix HEAD\n", b"")
    asked = ask_objects([A], depth=True, filtered="blob:none")
    options = (b"no-progress\n", b"deepen 1\n", b"filter blob:none\n", b"want %s\n" % A.encode(), b"done\n", b"")
    assert asked == b"0012command=fetch\n0001" + lines(*options)
    assert b"deepen" not in ask_objects([A, B])


@pytest.mark.parametrize("front", [(), (b"# service=git-upload-pack\n", b"")])
def test_capabilities(front):
    answer = lines(*front, b"version 2\n", b"agent=git/2\n", b"ls-refs=unborn\n", b"fetch=shallow filter\n", b"")
    assert read_capabilities(answer) == {"shallow", "filter"}


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"<html>", lines(b"version 1\n"), lines(f"{A} HEAD\0x".encode(), b""),
        lines(b"version 2\n", b"object-format=sha256\n", b""), b"zzzz", b"0003", b"fffe", b"00",
    ],
)  # fmt: skip
def test_what_is_no_server_of_version_2_is_refused(answer):
    with pytest.raises(SkillwireError) as caught:
        read_capabilities(answer)
    assert caught.value.code == "GIT_ANSWER"


def test_refs_lead_to_what_a_tag_leads_to():
    answer = lines(
        f"{A} HEAD symref-target:refs/heads/main\n".encode(),
        f"{A} refs/tags/v1 peeled:{B}\n".encode(),
        b"unborn HEAD\n",
        b"",
    )
    assert {name: ref.commit for name, ref in read_refs(answer).items()} == {"HEAD": A, "refs/tags/v1": B}


@pytest.mark.parametrize("answer", [b"", lines(f"{A} HEAD\n".encode())])
def test_references_without_an_end_are_no_empty_repository(answer):
    with pytest.raises(DecodeError) as caught:
        read_refs(answer)
    assert caught.value.code == "GIT_ANSWER"
    assert read_refs(lines(b"")) == {}


def test_a_refusal_is_shown_without_what_a_terminal_obeys():
    for answer in (lines(b"ERR no\x1b[2J\n"), lines(b"packfile\n", b"\x03no\x1b[2J\n")):
        with pytest.raises(SkillwireError) as caught:
            read_objects(answer)
        assert caught.value.code == "GIT_REFUSED"
        assert "\x1b" not in caught.value.message


def test_a_pack_is_joined_and_progress_left_out():
    answer = lines(b"shallow-info\n", f"shallow {A}".encode(), b"packfile\n", b"\x01PA", b"\x0250%", b"\x01CK", b"")
    assert read_objects(answer.replace(b"000dpackfile", b"0001000dpackfile")) == b"PACK"


@given(st.binary(max_size=200))
def test_no_answer_raises_anything_else(answer):
    for read in (read_capabilities, read_refs, read_objects):
        with suppress(DecodeError, FetchError):
            read(answer)
