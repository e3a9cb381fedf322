"""Writing a plan: whole or not at all, nothing overwritten, nothing followed."""

import os
import resource
import stat
from pathlib import Path

import pytest

from skillwire.errors import ConflictError, StorageError, TrustError
from skillwire.model.skill import FileContent
from skillwire.trust.archive import plan_files, unpack

FILES = (
    FileContent("SKILL.md", b"# a skill"),
    FileContent("a/b/c.md", memoryview(b"c")),
    FileContent("a/b.md", b""),
    FileContent("a-b/run.sh", b"#!", executable=True),
    FileContent("a.md", b"a"),
    FileContent("z/日本.md", b"z"),
)


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_files_are_there_and_nothing_else(tmp_path):
    unpack(plan_files(FILES), tmp_path / "skill")
    assert tree(tmp_path) == {f"skill/{file.path}": bytes(file.content) for file in FILES}
    assert names(tmp_path) == ["skill"]


def test_plain_files_are_planned_first(tmp_path):
    unpack(FILES, tmp_path / "skill")
    assert len(tree(tmp_path)) == len(FILES)
    with pytest.raises(TrustError):
        unpack([*FILES, FileContent("../evil", b"")], tmp_path / "other")
    assert names(tmp_path) == ["skill"]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [(0o022, (0o755, 0o755, 0o644)), (0o000, (0o755, 0o755, 0o644)), (0o077, (0o700, 0o700, 0o600))],
)
def test_the_umask_has_the_last_word(tmp_path, umask, mask, expected):
    umask(mask)
    unpack(FILES, tmp_path / "skill")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "skill").rglob("*")}
    assert (modes["a"], modes["run.sh"], modes["SKILL.md"]) == expected
    assert stat.S_IMODE((tmp_path / "skill").stat().st_mode) == expected[0]


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dangling"])
def test_nothing_is_overwritten(tmp_path, kind):
    destination = tmp_path / "skill"
    (tmp_path / "elsewhere").mkdir()
    if kind == "folder":
        destination.mkdir()
    elif kind == "file":
        destination.touch()
    else:
        destination.symlink_to("elsewhere" if kind == "link" else "nowhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConflictError) as caught:
        unpack(FILES, destination)
    assert caught.value.code == "DESTINATION_EXISTS"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")])
@pytest.mark.parametrize("call", ["write", "mkdir", "open", "rename"])
@pytest.mark.parametrize("after", [1, 2])
def test_a_failure_leaves_everything_as_it_was(tmp_path, monkeypatch, error, call, after):
    destination = tmp_path / "skill"
    unpack([FileContent("SKILL.md", b"other")], tmp_path / "other")
    real = getattr(os, call)
    calls = 0

    def fail(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == after:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, fail)
    expected = StorageError if isinstance(error, OSError) else error
    if (call, after) == ("rename", 2):  # one renaming is all it takes
        unpack(FILES, destination)
        assert len(tree(destination)) == len(FILES)
        return
    with pytest.raises(expected):
        unpack(FILES, destination)
    monkeypatch.undo()
    assert tree(tmp_path) == {"other/SKILL.md": b"other"}
    assert names(tmp_path) == ["other"]


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, bytes(content)[:3]))
    unpack([FileContent("SKILL.md", b"0123456789")], tmp_path / "skill")
    assert tree(tmp_path) == {"skill/SKILL.md": b"0123456789"}


def test_a_folder_that_turns_into_a_link_meanwhile_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "outside").mkdir()
    real = os.mkdir

    def swap(name, mode, *, dir_fd):
        if name == "a":
            os.symlink(tmp_path / "outside", name, dir_fd=dir_fd)
        else:
            real(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(StorageError):
        unpack(FILES, tmp_path / "skill")
    assert names(tmp_path) == ["outside"]
    assert names(tmp_path / "outside") == []


def test_the_staging_folder_is_closed_to_others(tmp_path, monkeypatch):
    modes = []
    real = os.write

    def look(handle, content):
        (staging,) = tmp_path.iterdir()
        modes.append(stat.S_IMODE(staging.stat().st_mode))
        return real(handle, content)

    monkeypatch.setattr(os, "write", look)
    unpack(FILES, tmp_path / "skill")
    assert set(modes) == {0o700}


def test_a_missing_parent_is_reported_with_its_place(tmp_path):
    with pytest.raises(StorageError) as caught:
        unpack(FILES, tmp_path / "none" / "skill")
    assert caught.value.place is not None
    assert caught.value.place.source == str(tmp_path / "none" / "skill")


def test_few_handles_are_open_at_once(tmp_path):
    files = [FileContent("SKILL.md", b""), *(FileContent(f"d{n}/f", b"") for n in range(100))]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit bounds the numbers of handles, and those that other tests left open may be freed meanwhile.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, names(Path("/proc/self/fd")))) + 32, hard))
    try:
        unpack(files, tmp_path / "skill")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(tree(tmp_path)) == 101
    assert not [handle for handle in Path("/proc/self/fd").iterdir() if handle.resolve().is_relative_to(tmp_path)]
