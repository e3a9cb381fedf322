"""Rules about skill.toml and descriptor.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def test_a_descriptor_needs_an_id_and_a_name(found: Found) -> None:
    assert found(**{"descriptor.json": '{"id": "a/b", "name": "B", "more": [1]}'}) == []
    assert found(**{"descriptor.json": '{"id": 5}'}) == ["error DESCRIPTOR_FORM descriptor.json:1"] * 2


def test_one_id_in_both_files(found: Found) -> None:
    descriptor = '{"id": "a/b", "name": "B"}'
    assert found(**{"descriptor.json": descriptor, "skill.toml": 'id = "a/b"\n'}) == []
    assert found(**{"descriptor.json": descriptor, "skill.toml": 'id = "a/c"\n'}) == [
        "error DESCRIPTOR_DIFFERS descriptor.json:1"
    ]
