"""A change of installed skills happens as a whole or not at all, and the folder shows what it has become."""

import os

import pytest

from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.errors import ConflictError, SkillwireError
from skillwire.model.ref import InstallLocation, Lock, LockedSkill
from skillwire.model.skill import FileContent
from skillwire.resolver.plan import hash_files

UNIVERSAL, CLAUDE = ".agents/skills", ".claude/skills"
ONE = InstallLocation((UNIVERSAL,))
COPIES = InstallLocation((UNIVERSAL, CLAUDE))
LINKED = InstallLocation((UNIVERSAL,), (CLAUDE,))
FILES = (
    FileContent("SKILL.md", b"---\nname: one\ndescription: d\n---\n"),
    FileContent("scripts/deep/er/run.sh", b"#!/bin/sh\n", executable=True),
    FileContent("assets/empty", b""),
    FileContent("assets/é ü.bin", bytes(range(256)) * 8_000),
)


@pytest.fixture(params=["project", "user"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    (tmp_path / "root").mkdir()
    lock = tmp_path / "elsewhere" / "skills.lock" if request.param == "user" else None
    return FileSkillsFolder(tmp_path / "root", lock)


def locked(name="one", placement=ONE, files=FILES):
    facts = (name, "https://a.example", "https://a.example/index.json", f"https://a.example/{name}.tar.gz", None)
    return LockedSkill(*facts, "archive", "1.0.0", "2026-01-01T00:00:00Z", ("claude",), placement, hash_files(files))


def change(folder, *staged, away=(), ends=True):
    """Put skills in place and take others away, unless the change does not end."""
    begun = folder.change()
    try:
        for skill, files in staged:
            begun.stage(skill.name, files, skill.placement)
        for skill in away:
            begun.take_away(skill.name, skill.placement)
        if ends:
            begun.commit(folder.read_lock().without([one.name for one in away]).with_skills([one for one, _ in staged]))
    finally:
        begun.close()


def everything(folder):
    found = (path for path in folder.root.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(folder.root)) for path in found if path != folder.lock_path)


def test_nothing_is_installed_in_an_empty_folder(folder):
    assert folder.read_lock() == Lock()
    for placement in (ONE, COPIES, LINKED):
        places = tuple(f"{one}/one" for one in (*placement.folders, *placement.links))
        assert folder.installed_files(placement, "one") is None
        assert folder.missing_places(placement, "one") == places
    assert folder.read_files(locked()) == ()
    assert everything(folder) == []


@pytest.mark.parametrize("placement", [ONE, COPIES, LINKED], ids=["one", "copies", "linked"])
def test_what_was_put_in_place_is_seen_there_until_it_is_taken_away(folder, placement):
    skill, other = locked(placement=placement), locked("other", placement, FILES[:1])
    change(folder, (skill, FILES), (other, FILES[:1]))
    assert folder.read_lock() == Lock({"one": skill, "other": other})
    for one in (skill, other):
        assert folder.installed_files(placement, one.name) == one.files
        assert folder.missing_places(placement, one.name) == ()
    assert {file.path: file for file in folder.read_files(skill)} == {file.path: file for file in FILES}
    change(folder, away=[skill])
    assert folder.read_lock() == Lock({"other": other})
    assert folder.installed_files(placement, "one") is None
    assert folder.installed_files(placement, "other") == other.files
    change(folder, away=[skill, other])
    assert everything(folder) == []


def test_a_skill_takes_the_place_of_its_earlier_files(folder):
    change(folder, (locked(placement=LINKED), FILES))
    skill = locked(placement=COPIES, files=FILES[:1])
    change(folder, (skill, FILES[:1]), away=[locked(placement=LINKED)])
    assert folder.installed_files(COPIES, "one") == skill.files
    assert folder.read_lock() == Lock({"one": skill})


@pytest.mark.parametrize("placement", [ONE, COPIES, LINKED], ids=["one", "copies", "linked"])
def test_a_change_that_does_not_end_leaves_everything_as_it_was(folder, placement):
    change(folder, (locked(placement=placement), FILES), ends=False)
    assert (everything(folder), folder.read_lock()) == ([], Lock())
    change(folder, (locked(placement=placement), FILES))
    before = everything(folder)
    change(folder, (locked(placement=placement), FILES[:1]), (locked("two"), FILES), ends=False)
    change(folder, away=[locked(placement=placement)], ends=False)
    assert everything(folder) == before
    assert folder.installed_files(placement, "one") == hash_files(FILES)


def test_one_change_at_a_time(folder):
    begun = folder.change()
    with pytest.raises(ConflictError, match="FOLDER_BUSY"):
        folder.change()
    assert folder.read_lock() == Lock()
    begun.close()
    change(folder, (locked(), FILES))
    assert folder.installed_files(ONE, "one") == hash_files(FILES)


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "", ".", "a\0b", "x" * 300])
def test_a_hostile_path_changes_nothing(folder, path):
    files = [*FILES[:1], FileContent(path, b"hostile")]
    with pytest.raises(SkillwireError):
        change(folder, (locked(files=files), files))
    assert everything(folder) == []
    assert not (folder.root.parent / "out").exists()


def test_a_hostile_lock_reads_nothing_from_outside(folder):
    (folder.root.parent / "secret").write_bytes(b"secret")
    change(folder, (locked(), FILES))
    (folder.root / UNIVERSAL / "one" / "link").symlink_to(folder.root.parent / "secret")
    os.mkfifo(folder.root / UNIVERSAL / "one" / "pipe")
    paths = ("../../../../secret", "/etc/passwd", "link", "pipe", "assets", "absent")
    assert folder.read_files(locked()._replace(files=dict.fromkeys(paths, "0" * 64))) == ()
