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
    assert found(**{"main.py": "def main(args): ...\n"}) == []


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("def main(args:\n", "main.py:1:9"),
        ("print 'x'\n", "main.py:1:1"),
        ("", "skill.toml:3:1"),
        ("def run(args): ...\n", "skill.toml:3:1"),
        ("class A:\n    def main(self): ...\n", "skill.toml:3:1"),
        ("(" * 5000 + ")" * 5000, "main.py:1:201"),
    ],
)
def test_code_that_can_never_run(found: Found, code: str, place: str) -> None:
    files = {"skill.toml": RUNTIME, "main.py": code}
    assert found(**files) == [f"error ENTRYPOINT_BROKEN {place}"]
    assert found("lenient", **files) == [f"warning ENTRYPOINT_BROKEN {place}"]


@pytest.mark.parametrize(
    "code",
    [
        "async def main(args): ...\n",
        "main = lambda args: args\n",
        "from work import main\n",
        "from work import *\n",
        "try:\n    import main\nexcept ImportError:\n    pass\n",
        "globals()['main'] = print\n",
        "\ufeffdef main(args): ...\n",
        "def main(args): '\\d'\n",
    ],
)
def test_code_that_may_run(found: Found, code: str) -> None:
    assert found(**{"skill.toml": RUNTIME, "main.py": code}) == []


def test_the_export_is_what_is_looked_for(found: Found) -> None:
    files = {"skill.toml": f'{RUNTIME}export = "run"\n', "main.py": "def main(args): ...\n"}
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:4:1"]
    assert found(**{"main.py": "def run(args): ...\n"}) == []


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
