"""Folders to judge: a skill is written in one line and has no findings until a test spoils it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillwire.folder.load import check_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = (
    "---\nname: {name}\ndescription: Does it. Use when it is to be done.\nmetadata:\n  version: '1.0.0'\n---\n\n# Do\n"
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the files of a skill; ``SKILL.md`` is a good one unless it is given, or given as None."""

    def write_skill(name: str = "demo", /, **files: str | bytes | None) -> Path:
        folder = tmp_path / name
        for path, content in {"SKILL.md": GOOD.format(name=folder.name), **files}.items():
            if content is not None:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write_skill


@pytest.fixture
def found(write: Callable[..., Path]) -> Callable[..., list[str]]:
    """Write a skill and return its findings as ``level CODE path:line:column``."""

    def find(level: str = "strict", /, name: str = "demo", **files: str | bytes | None) -> list[str]:
        folder = write(name, **files)
        findings = check_folder(folder, level=level).findings  # type: ignore[arg-type]  # the tests pass the two levels
        return [f"{one.level} {one.code} {one.place}".replace(f"{folder}/", "") for one in findings]

    return find
