"""What load_toml reads, what it refuses, and where it says the fault is."""

import pytest

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.trust.guarded_toml import load_toml


def refusal(text):
    with pytest.raises(DecodeError) as caught:
        load_toml(text if isinstance(text, bytes) else text.encode(), source="skill.toml")
    return caught.value


def test_reads_a_manifest():
    text = (
        'name = "a.b" # [[[[[[[[[[[[[[[[[[\n[runtime]\nlanguage = "python"\r\n'
        '[inputs.city]\ntype = "string"\ndescription = """\nA [city]\\\n  """""\n'
        "[a.\"b.c.d\"]\nx = [1.5, '''[[[''', true]\n"
    )
    assert load_toml(text.encode()) == {
        "name": "a.b",
        "runtime": {"language": "python"},
        "inputs": {"city": {"type": "string", "description": 'A [city]""'}},
        "a": {"b.c.d": {"x": [1.5, "[[[", True]}},
    }


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a = 1\nb = \n", "TOML_SYNTAX", ":2:5"),
        ("a = 1\na = 2\n", "TOML_SYNTAX", ":2:6"),
        ('a = "x\n', "TOML_SYNTAX", ":1:7"),
        ("a = [", "TOML_SYNTAX", ":1"),
        ("a = 1\n" + ".".join("a" * 17) + " = 1", "TOML_DEPTH", ":2"),
        (" . ".join(['"x.y"'] * 17) + " = 1", "TOML_DEPTH", ":1"),
        ("[" + ".".join("a" * 17) + "]", "TOML_DEPTH", ":1"),
        ("[[" + ".".join("a" * 17) + "]]", "TOML_DEPTH", ":1"),
        ('s = """\n\n"""\nx = ' + "[" * 17, "TOML_DEPTH", ":4"),
        ("x = " + "{a = " * 17, "TOML_DEPTH", ":1"),
        ("x = " + "[\n" * 17, "TOML_DEPTH", ":17"),
        ("x = " + "9" * 4000, "TOML_NUMBER", ""),
        ("x = 9223372036854775808", "TOML_NUMBER", ""),
        ("x = [{y = inf}]", "TOML_NUMBER", ""),
        ("x = nan", "TOML_NUMBER", ""),
        (b'a = 1\nb = "\xff"', "ENCODING", ":2"),
        (b'\xef\xbb\xbfa = "x"', "TOML_SYNTAX", ":1:1"),
        ("# x\n" * limits.TOML_BYTES, "LIMIT_SIZE", ""),
    ],
)
def test_refuses_with_the_place(text, code, place):
    error = refusal(text)
    assert (error.code, str(error.place)) == (code, "skill.toml" + place)


def test_a_syntax_error_carries_the_line():
    error = refusal("a = 1\r\nb = nope\r\n")
    assert error.message == "invalid value"
    assert error.place is not None
    assert error.place.excerpt == "b = nope"


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{i} = {{a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p = 1}}" for i in range(1200)),
        "\n".join(f"[{'.'.join('abcdefghijklmnop')}.x{i}]"[0:60] for i in range(1500)),
        "a = [" + "[1,2],\n" * 8000 + "]",
        '"""' * 20_000,
        "'" * 60_000,
        '"\\' * 30_000,
        "#" * 4000,
        "a = '''" + "''\n" * 20_000,
    ],
)
def test_the_largest_documents_cost_little(text):
    try:
        load_toml(text.encode()[: limits.TOML_BYTES])
    except DecodeError as error:
        assert error.code in {"TOML_SYNTAX", "TOML_DEPTH", "LIMIT_SIZE"}  # noqa: PT017  # either outcome is right
