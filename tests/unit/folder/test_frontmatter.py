"""What the reader of the simple form answers, and what it leaves to YAML."""

import pytest

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation, ValidationError
from skillwire.folder.frontmatter import parse_skill_md, read_flat

PLAIN = """\
name: pdf-forms
description: Fills PDF forms (AcroForm). Use it when a user asks "fill this"; see https://example.com/a#b
license: 'Apache-2.0'
allowed-tools: "Bash(git:*) Read"
metadata:
  author: example-corp
  version: "1.0"
compatibility: Needs Python 3.11+ — and nothing else
"""


def test_a_usual_frontmatter_is_read():
    document = read_flat(PLAIN, source="SKILL.md", first_line=2)
    assert document is not None
    assert document.values == {
        "name": "pdf-forms",
        "description": 'Fills PDF forms (AcroForm). Use it when a user asks "fill this"; see https://example.com/a#b',
        "license": "Apache-2.0",
        "allowed-tools": "Bash(git:*) Read",
        "metadata": {"author": "example-corp", "version": "1.0"},
        "compatibility": "Needs Python 3.11+ — and nothing else",
    }
    assert document.places["metadata", "version"] == SourceLocation("SKILL.md", 8, 3, 10, '  version: "1.0"')


def test_line_ends_may_be_those_of_windows():
    document = read_flat("name: a\r\ndescription: d\r\n")
    assert document is not None
    assert document.values == {"name": "a", "description": "d"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: a",  # no line end
        "name:\n",
        "name: a\n\nb: c\n",
        "# comment\nname: a\n",
        "name: a # comment\n",
        "name: a: b\n",
        "name: a:\n",
        "name: >\n  a\n",
        "name: |\n  a\n",
        "name: [a]\n",
        "name: {a: b}\n",
        "name: &x a\n",
        "name: *x\n",
        "name: !t a\n",
        "name: a\n  more\n",
        "name: a\nname: b\n",
        'name: "a\\n"\n',
        'name: "a" b\n',
        "name: 'it''s'\n",
        "name: a\tb\n",
        "name: a \n",
        "name: - a\n",
        "- name: a\n",
        '"name": a\n',
        "metadata:\n",
        "metadata:\nname: a\n",
        "metadata: a: b\n  c: d\n",
        "metadata:\n  a: b\n   c: d\n",
        "metadata:\n  a:\n    b: c\n",
        "other:\n  a: b\n",
        "name: a\n  b: c\n",
        "name: a\u2028b\n",
        "name: a\x85b\n",
        "name: a\rb: c\n",
        "name: \ufeffa\n",
        "".join(f"k{number}: v\n" for number in range(65)),
    ],
)
def test_everything_else_is_left_to_yaml(text):
    assert read_flat(text) is None


def parse(text):
    return parse_skill_md(text.encode(), source="a/SKILL.md")


def refusal(data):
    with pytest.raises((DecodeError, ValidationError)) as caught:
        parse_skill_md(data if isinstance(data, bytes) else data.encode(), source="a/SKILL.md")
    return caught.value


def test_all_fields():
    skill = parse(
        "---\nname: a\ndescription: ' d '\nlicense: MIT\ncompatibility: any\nallowed-tools: Read Bash(ls:*)\n"
        "metadata:\n  author: x\nhomepage: https://example.com\n---\n\n# Body\n---\n"
    )
    assert (skill.name, skill.description, skill.license) == ("a", "d", "MIT")
    assert (skill.compatibility, skill.allowed_tools) == ("any", "Read Bash(ls:*)")
    assert skill.metadata == {"author": "x"}
    assert skill.unknown == {"homepage": "https://example.com"}
    assert next(iter(skill.fields)) == "name"
    assert (skill.body, skill.body_line) == ("\n# Body\n---\n", 11)
    assert skill.flaws == ()
    assert skill.place("homepage") == SourceLocation("a/SKILL.md", 9, 1, 9, "homepage: https://example.com")
    assert str(skill.place("license")) == "a/SKILL.md:4:1"
    assert str(skill.place("absent")) == "a/SKILL.md:1"


def test_absent_optional_fields_are_none():
    skill = parse("---\nname: a\ndescription: d\nlicense:\nmetadata:\n---\n")
    assert (skill.license, skill.compatibility, skill.allowed_tools, skill.metadata) == (None, None, None, {})
    assert (skill.body, skill.body_line, skill.flaws) == ("", 7, ())


def test_the_frontmatter_ends_at_the_first_line_that_is_exactly_three_hyphens():
    skill = parse("---\r\nname: a\r\ndescription: a --- b ---\r\n--- \r\n---\r\n# B\r\n".replace("--- \r\n---", "---"))
    assert skill.description == "a --- b ---"
    assert skill.body == "# B\r\n"
    assert parse("---\nname: a\ndescription: |\n  x\n  ---\n  y\n---").description == "x\n---\ny"


def test_a_byte_order_mark_is_skipped():
    assert parse_skill_md(b"\xef\xbb\xbf---\nname: a\ndescription: d\n---\n").name == "a"


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        ("", "FRONTMATTER", ":1:1"),
        ("# Body\n", "FRONTMATTER", ":1:1"),
        (" ---\nname: a\n---\n", "FRONTMATTER", ":1:1"),
        ("--- \nname: a\n---\n", "FRONTMATTER", ":1:1"),
        ("---\nname: a\ndescription: d\n", "FRONTMATTER", ":1:1"),
        ("---\nname: a\ndescription: d\n--- \n", "FRONTMATTER", ":1:1"),
        ("---\n- a\n---\n", "YAML_SYNTAX", ":2:1"),
        ("---\nname: a\ndescription: d: e\n---\n", "YAML_SYNTAX", ":3:15"),
        ("---\ndescription: d\n---\n", "NAME_FORM", ":1"),
        ("---\nname:\ndescription: d\n---\n", "NAME_FORM", ":2:1"),
        ("---\nname: [a]\ndescription: d\n---\n", "NAME_FORM", ":2:1"),
        ("---\nname: a/b\ndescription: d\n---\n", "NAME_FORM", ":2:1"),
        ("---\nname: .a\ndescription: d\n---\n", "NAME_FORM", ":2:1"),
        ("---\nname: 'C:x'\ndescription: d\n---\n", "NAME_FORM", ":2:1"),
        ('---\nname: "a\\nb"\ndescription: d\n---\n', "NAME_FORM", ":2:1"),
        ("---\nname: a\n---\n", "DESCRIPTION_FORM", ":1"),
        ("---\nname: a\ndescription: ' '\n---\n", "DESCRIPTION_FORM", ":3:1"),
        ("---\nname: a\ndescription:\n  x: y\n---\n", "DESCRIPTION_FORM", ":3:1"),
        (b"---\nname: a\ndescription: d\n---\n\n\xff", "ENCODING", ":6"),
        ("---\nname: a\ndescription: d\nx: " + "y" * limits.FRONTMATTER_BYTES + "\n---\n", "LIMIT_SIZE", ":2"),
        ("x" * (limits.SKILL_MD_BYTES + 1), "LIMIT_SIZE", ""),
    ],
)
def test_what_no_reader_can_live_with(data, code, place):
    error = refusal(data)
    assert (error.code, str(error.place)) == (code, "a/SKILL.md" + place)


def test_optional_fields_of_the_wrong_form_are_flaws_not_refusals():
    skill = parse(
        "---\nname: a\ndescription: d\nlicense: [MIT]\ncompatibility: {os: linux}\n"
        "allowed-tools:\n- Read\n- Write\nmetadata:\n  ok: x\n  nested: {a: b}\n---\n"
    )
    assert (skill.license, skill.compatibility) == (None, None)
    assert skill.allowed_tools == "Read Write"
    assert skill.metadata == {"ok": "x"}
    assert [(flaw.code, str(flaw.place), flaw.message) for flaw in skill.flaws] == [
        ("FIELD", "a/SKILL.md:4:1", "license is a list; it is text"),
        ("FIELD", "a/SKILL.md:5:1", "compatibility is a map; it is text"),
        ("FIELD", "a/SKILL.md:11:3", "metadata.nested is a map; it is text"),
        ("FIELD", "a/SKILL.md:6:1", "allowed-tools is a list; it is one text, the tools separated by spaces"),
    ]


@pytest.mark.parametrize(("field", "shape"), [("metadata: [a]", "a list"), ("metadata: a", "text")])
def test_metadata_that_is_no_map(field, shape):
    skill = parse(f"---\nname: a\ndescription: d\n{field}\n---\n")
    assert skill.metadata == {}
    assert [flaw.message for flaw in skill.flaws] == [f"metadata is {shape}; it is a map from text to text"]


def test_an_error_about_a_hidden_name_does_not_repeat_it():
    assert "\u202e" not in refusal("---\nname: a/\u202eb\ndescription: d\n---\n").message
