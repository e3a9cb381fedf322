"""Frontmatter as JSON: what hosts read with YAML 1.2 themselves."""

import pytest

from skillwire.bridges.mcp.resources import frontmatter_of
from skillwire.errors import DecodeError

VALUES = {
    "1.0.0": "1.0.0",
    "1.0": 1.0,
    "12": 12,
    "-7": -7,
    "0o17": 15,
    "0x1F": 31,
    "1e3": 1000.0,
    ".5": 0.5,
    "1e999": "1e999",
    ".inf": ".inf",
    "true": True,
    "False": False,
    "null": None,
    "~": None,
    "": None,
    "yes": "yes",
    "2026-11-22": "2026-11-22",
    "12:30:45": "12:30:45",
    '"1.0"': "1.0",
    "'true'": "true",
    "|\n  12": "12\n",
    "[1, a, 'b']": [1, "a", "b"],
    "{a: 1, b: {c: no}}": {"a": 1, "b": {"c": "no"}},
}


@pytest.mark.parametrize("written", VALUES)
def test_scalar_has_the_type_of_the_core_schema(written):
    text = f"---\nname: notes\ndescription: Does it.\nvalue: {written}\n---\nDo it.\n"
    assert frontmatter_of(text.encode()) == {"name": "notes", "description": "Does it.", "value": VALUES[written]}


def test_aliases_are_not_followed():
    with pytest.raises(DecodeError, match="YAML_ALIAS"):
        frontmatter_of(b"---\nname: notes\ndescription: Does it.\na: &x [1]\nb: *x\n---\n")
