"""Whether a folder changed, without reading it."""

from __future__ import annotations

import os
import time

import pytest

from skillwire.adapters.files.signature import sign_folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a" / "scripts").mkdir(parents=True)
    (tmp_path / "a" / "SKILL.md").write_text("one")
    (tmp_path / "a" / "scripts" / "run.sh").write_text("two")
    return tmp_path / "a"


def _touch_back(path, change):
    """Make a change that keeps size and modification time."""
    before = path.stat()
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new.md").write_text(""),
        lambda folder: (folder / "SKILL.md").unlink(),
        lambda folder: (folder / "SKILL.md").rename(folder / "skill.md"),
        lambda folder: (folder / "SKILL.md").write_text("longer"),
        lambda folder: (folder / "scripts" / "run.sh").chmod(0o755),
        lambda folder: (folder / "scripts" / "new").mkdir(),
        lambda folder: _touch_back(folder / "SKILL.md", lambda path: path.write_text("eno")),
        lambda folder: (folder / "SKILL.md").unlink() or (folder / "SKILL.md").symlink_to("scripts/run.sh"),
    ],
)
def test_every_change_shows(folder, change):
    # Older than the clock's tick, so that a change within the same one cannot hide.
    for path in (folder, folder / "SKILL.md", folder / "scripts", folder / "scripts" / "run.sh"):
        os.utime(path, ns=(1, 1))
    before = sign_folder(str(folder)).value
    assert sign_folder(str(folder)).value == before
    change(folder)
    assert sign_folder(str(folder)).value != before


def test_what_never_belongs_to_a_skill_does_not_count(folder):
    before = sign_folder(str(folder)).value
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    (folder / "__pycache__").mkdir()
    (folder / ".DS_Store").write_text("")
    assert sign_folder(str(folder)).value == before


def test_it_does_not_follow_links(folder, tmp_path):
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    before = sign_folder(str(folder)).value
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("")
    assert sign_folder(str(folder)).value == before


def test_it_settles_when_a_tick_of_the_clock_has_passed(folder, monkeypatch):
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*"))
    for later, settled in ((0, False), (40_000_000, False), (60_000_000, True)):
        monkeypatch.setattr(time, "time_ns", lambda later=later: newest + later)
        assert sign_folder(str(folder)).settled is settled


def test_a_time_of_modification_in_the_future_does_not_keep_it_from_settling(folder, monkeypatch):
    os.utime(folder / "SKILL.md", ns=(2**62, 2**62))
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*"))
    monkeypatch.setattr(time, "time_ns", lambda: newest + 60_000_000)
    assert sign_folder(str(folder)).settled


def test_a_folder_that_is_gone_has_a_signature_of_its_own(folder, tmp_path):
    gone = sign_folder(str(tmp_path / "gone")).value
    assert gone == sign_folder(str(tmp_path / "also-gone")).value
    (tmp_path / "empty").mkdir()
    assert gone not in {sign_folder(str(folder)).value, sign_folder(str(tmp_path / "empty")).value}
