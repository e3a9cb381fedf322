"""Rules about skill.toml and descriptor.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = Callable[..., list[str]]

RUNTIME = '[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'


def test_unknown_fields(found: Found) -> None:
    files = {"skill.toml": f'nmae = "x"\n{RUNTIME}mode = 1\n', "main.py": "def main(args): ...\n"}
    places = ["MANIFEST_UNKNOWN skill.toml:1:1", "MANIFEST_UNKNOWN skill.toml:5:1"]
    assert found(**files) == [f"error {place}" for place in places]
    assert found("lenient", **files) == [f"warning {place}" for place in places]


def test_the_entry_point_must_be_there(found: Found) -> None:
    assert found(**{"skill.toml": RUNTIME}) == ["error ENTRYPOINT_ABSENT skill.toml:3:1"]
    assert found(**{"main.py": ""}) == []


def test_two_versions(found: Found) -> None:
    assert found(**{"skill.toml": 'version = "1.0.0"\n'}) == []
    assert found(**{"skill.toml": 'version = "1.1.0"\n'}) == ["warning MANIFEST_DIFFERS skill.toml:1:1"]
    assert found("lenient", **{"skill.toml": 'version = "1.1.0"\n'}) == ["note MANIFEST_DIFFERS skill.toml:1:1"]


@pytest.mark.parametrize(
    ("field", "same", "other"),
    [("id", "a/b", "a/c"), ("access", "private", "public"), ("capability_type", "task", "api")],
)
def test_what_both_files_say_is_the_same(found: Found, field: str, same: str, other: str) -> None:
    descriptor = json.dumps({field: same})
    assert found(**{"descriptor.json": descriptor, "skill.toml": f'{field} = "{same}"\n'}) == []
    assert found(**{"descriptor.json": descriptor, "skill.toml": f'{field} = "{other}"\n'}) == [
        "error DESCRIPTOR_DIFFERS descriptor.json:1"
    ]
