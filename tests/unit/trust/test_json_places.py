"""Finding the place of a value by its path."""

from __future__ import annotations

import pytest

from skillwire.trust import json_places

TEXT = """{
  "$schema": "x",
  "skills": [
    {"name": "a", "files": ["SKILL.md", "b\\"]"]},
    {"digest": {"name": 1}, "name": "b"}
  ]
}
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 1, 1),
        (("$schema",), 2, 14),
        (("skills",), 3, 13),
        (("skills", 0), 4, 5),
        (("skills", 0, "name"), 4, 14),
        (("skills", 0, "files", 1), 4, 41),
        (("skills", 1, "name"), 5, 37),
        (("skills", 1, "absent"), 5, 5),
        (("skills", 7, "name"), 3, 13),
        (("absent", "name"), 1, 1),
        (("$schema", "deeper"), 2, 14),
    ],
)
def test_member(path: tuple[str | int, ...], line: int, column: int) -> None:
    place = json_places.member(TEXT, path, "index.json")
    assert (place.source, place.line, place.column) == ("index.json", line, column)


def test_member_of_nothing() -> None:
    assert str(json_places.member("", ("a",), "x")) == "x"
