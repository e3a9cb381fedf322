"""Folders to judge: a skill is written in one line and has no findings until a test spoils it."""

import pytest

from skillwire.folder.load import check_folder

GOOD = (
    "---\nname: {name}\ndescription: Does it. Use when it is to be done.\nmetadata:\n  version: '1.0.0'\n---\n\n# Do\n"
)


@pytest.fixture
def write(tmp_path):
    """Write the files of a skill; ``SKILL.md`` is a good one unless it is given, or given as None."""

    def write_skill(name="demo", /, **files):
        folder = tmp_path / name
        for path, content in {"SKILL.md": GOOD.format(name=folder.name), **files}.items():
            if content is not None:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write_skill


@pytest.fixture
def found(write):
    """Write a skill and return its findings as ``level CODE path:line:column``."""

    def find(level="strict", /, name="demo", **files):
        folder = write(name, **files)
        findings = check_folder(folder, level=level).findings
        return [f"{one.level} {one.code} {one.place}".replace(f"{folder}/", "") for one in findings]

    return find
