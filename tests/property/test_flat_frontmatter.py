"""Whenever the reader of the simple form answers, guarded YAML answers the same."""

from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skillwire.errors import DecodeError
from skillwire.folder.frontmatter import read_flat
from skillwire.trust.guarded_yaml import load_yaml_mapping

PIECES = ["a", "name", "description", "metadata", "é", "1", "null", "x-y.z", "日本", "C:/x", "http://x", "it's"]
SIGNS = [": ", ":", " ", "  ", " #", "#", '"', "'", "\\", "- ", "-", "?", "|", ">", "&", "*", "!", "%", "@", "`", "~"]
ODD = [
    "\t", "\r", "\x85", "\u2028", "\xa0", "\ufeff", "\x00", "\ufffe", "😀", "---", "...", "{", "}", "[", "]", ",", "<<",
]  # fmt: skip
ANY = st.lists(st.sampled_from([*PIECES, *PIECES, *SIGNS, *ODD, "\n", "\n"]), max_size=12).map("".join)
KEYS = ["name", "description", "license", "a", "b", "x-y.z", "null", "true", "K", "k" * 64, "k" * 65]
VALUE = st.lists(st.sampled_from([*PIECES, "say:hi", "a#b", "(x)", "{y}", "it, too", "-"]), min_size=1).map(" ".join)
LINE = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from([": ", ": ", ":  "]),
    st.one_of(VALUE, VALUE.map("'{}'".format), VALUE.map('"{}"'.format)),
    st.sampled_from(["\n", "\n", "\n", "\r\n"]),
).map("".join)
BELOW = st.lists(LINE.map("  ".__add__), min_size=1, max_size=3).map(lambda lines: "metadata:\n" + "".join(lines))
LINES = st.lists(LINE | BELOW, min_size=1, max_size=4).map("".join)
#: Text of the simple form with something put into it anywhere, or taken out.
BENT = st.builds(
    lambda text, at, width, piece: text[: at % len(text)] + piece + text[at % len(text) + width :],
    LINES,
    st.integers(0, 500),
    st.integers(0, 2),
    st.sampled_from([*SIGNS, *ODD, "\n", "a"]) | st.text(max_size=1),
)


@settings(max_examples=examples(400))
@given(LINES | BENT | BENT | ANY)
@example("name: a\nmetadata:\n  author: x\n  version: '1.0'\nlicense: MIT\n")
@example("metadata:\n  a: b\n    c: d\n")
@example("metadata:\nname: a\n")
@example("a: b\n- c\n")
@example("a: 'b' \n")
@example("a: b\n\nc: d\n")
def test_the_simple_reader_answers_as_guarded_yaml_does(text):
    flat = read_flat(text, source="SKILL.md", first_line=2)
    event("answered" if flat else "left to YAML")
    if flat is None:
        return
    try:
        assert load_yaml_mapping(text, source="SKILL.md", first_line=2) == flat
    except DecodeError as error:
        raise AssertionError(f"YAML refuses {text!r}: {error}") from error
