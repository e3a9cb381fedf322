"""What load_yaml_mapping reads, what it refuses, and where it says the fault is."""

import pytest

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.trust.guarded_yaml import load_yaml_mapping


def refusal(text, first_line=1):
    with pytest.raises(DecodeError) as caught:
        load_yaml_mapping(text, source="SKILL.md", first_line=first_line)
    return caught.value


def test_every_scalar_is_text():
    document = load_yaml_mapping("name: no\nat: 12:30:45\nday: 2026-01-01\nn: 1\nnothing:\nnull: ~\n0x1F: 1e3\n")
    assert document.values == {
        "name": "no",
        "at": "12:30:45",
        "day": "2026-01-01",
        "n": "1",
        "nothing": "",
        "null": "~",
        "0x1F": "1e3",
    }


def test_lists_maps_and_block_scalars():
    text = "a: >\n  one\n  two\nb: |-\n  x\n  y\nc: [1, {d: e}]\nf:\n- g\n-\n  h: i\n"
    assert load_yaml_mapping(text).values == {
        "a": "one two\n",
        "b": "x\ny",
        "c": ["1", {"d": "e"}],
        "f": ["g", {"h": "i"}],
    }


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_nothing_is_an_empty_mapping(text):
    assert load_yaml_mapping(text).values == {}


def test_a_merge_key_is_a_key_like_any_other():
    assert load_yaml_mapping("<<: {a: b}").values == {"<<": {"a": "b"}}


def test_each_key_has_its_place():
    places = load_yaml_mapping("a: 1\r\nmetadata:\r\n  author: x\r\n", source="SKILL.md", first_line=2).places
    assert [(path, str(place)) for path, place in places.items()] == [
        (("a",), "SKILL.md:2:1"),
        (("metadata",), "SKILL.md:3:1"),
        (("metadata", "author"), "SKILL.md:4:3"),
    ]
    assert places["metadata", "author"].excerpt == "  author: x"
    assert places["metadata", "author"].end_column == 9


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a: &x b", "YAML_ALIAS", ":1:4"),
        ("a: b\nc: [*x]", "YAML_ALIAS", ":2:5"),
        ("a: &x [*x]", "YAML_ALIAS", ":1:4"),
        ("a: !foo b", "YAML_TAG", ":1:4"),
        ("a: !!str b", "YAML_TAG", ":1:4"),
        ("a: ! b", "YAML_TAG", ":1:4"),
        ("a: !!python/object/apply:os.system [id]", "YAML_TAG", ":1:4"),
        ("a: 1\nb: 2\na: 3", "YAML_DUPLICATE_KEY", ":3:1"),
        ("a: {b: 1, b: 2}", "YAML_DUPLICATE_KEY", ":1:11"),
        ("a: " + "[" * 17, "YAML_DEPTH", ":1:19"),
        ("a: " + "- " * 16 + "x", "YAML_SYNTAX", ":1:4"),
        ("a:\n " + "- " * 16 + "x", "YAML_DEPTH", ":2:32"),
        ("? a\n? [b]\n", "YAML_SYNTAX", ":2:3"),
        ("- a", "YAML_SYNTAX", ":1:1"),
        ("a", "YAML_SYNTAX", ":1:1"),
        ("a: b: c", "YAML_SYNTAX", ":1:5"),
        ("a: [b\n", "YAML_SYNTAX", ":2:1"),
        ("a: b\n...\n", "YAML_SYNTAX", ":2:1"),
        ("a: b\n--- \nc: d\n", "YAML_SYNTAX", ":2:1"),
        ("%YAML 1.1\n--- # x\na: b\n", "YAML_SYNTAX", ":1:1"),
        ('a: "\\ud800"', "YAML_SYNTAX", ":1:7"),
        ("a: \x07", "YAML_SYNTAX", ":1"),
        ("\tb: c", "YAML_SYNTAX", ":1:1"),
    ],
)
def test_refuses_with_the_place(text, code, place):
    error = refusal(text)
    assert (error.code, str(error.place)) == (code, "SKILL.md" + place)


@pytest.mark.parametrize("text", ["udp: [\n", "a: {b: 1\nc: 2\n", "a: [1, 2\nb: 3\n"])
def test_a_list_that_is_not_closed_is_answered_with_that(text):
    assert "Close the list" in str(refusal(text).diagnostics().fix)
    assert "Close" not in str(refusal("a: b: c").diagnostics().fix)


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028", "\u2029"])
def test_no_key_begins_behind_a_line_end_that_other_readers_do_not_see(end):
    error = refusal(f"a: b{end}name: c\n", first_line=5)
    assert (error.code, str(error.place)) == ("YAML_SYNTAX", "SKILL.md:5:1")


def test_odd_line_ends_within_a_value_stay_text_and_do_not_shift_the_lines():
    document = load_yaml_mapping('a: "x\u2028y"\nb: c\n', source="SKILL.md")
    assert document.values == {"a": "x\u2028y", "b": "c"}
    assert str(document.places["b",]) == "SKILL.md:2:1"


def test_bounds_size_and_nodes():
    assert refusal("a: " + "x" * limits.FRONTMATTER_BYTES).code == "LIMIT_SIZE"
    assert refusal("a: [" + "1," * limits.YAML_NODES + "1]").code == "LIMIT_ENTRIES"


def test_a_long_line_is_not_carried_into_the_message():
    error = refusal("a: " + "[" * 200)
    assert error.place is not None
    assert error.place.excerpt is None
