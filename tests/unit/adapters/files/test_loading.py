"""Whether a folder changed, without reading it."""

import os
import time

import pytest
from tests.support.catalogs import make_skill

from skillwire.adapters.files.loading import BuildRecord, FolderRecord, published_roots, sign_folder
from skillwire.errors import SourceLocation, UsageError
from skillwire.folder.publish import check_publisher
from skillwire.model.access import Access
from skillwire.model.catalog import PackedSkills, pack_skill, unpack_skill
from skillwire.model.skill import Finding


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


def test_roots_have_to_be_folders(tmp_path):
    (tmp_path / "skills").mkdir()
    assert published_roots([tmp_path / "x" / ".." / "skills"]) == [str(tmp_path / "skills")]
    (tmp_path / "file").write_text("")
    for wrong in ("nothing", "file"):
        with pytest.raises(UsageError) as raised:
            published_roots([tmp_path / "skills", tmp_path / wrong])
        assert raised.value.code == "FOLDER_MISSING"
        assert raised.value.place == SourceLocation(str(tmp_path / wrong))


@pytest.mark.parametrize("publisher", ["acme", "example.com", "A-1", "x"])
def test_a_publisher_is_a_name(publisher):
    assert check_publisher(publisher) == publisher


@pytest.mark.parametrize("publisher", ["", "-a", "a-", ".", "a/b", "a b", "ä", "a\n", "x" * 65, "../x"])
def test_what_could_not_stand_in_a_url_is_no_publisher(publisher):
    with pytest.raises(UsageError) as raised:
        check_publisher(publisher)
    assert raised.value.code == "PUBLISHER_FORM"


FINDING = Finding(
    "NO_VERSION", "warning", "there is none", SourceLocation("/x/SKILL.md", 3, 1, None, "text"), "Write one."
)


@pytest.mark.parametrize(
    "skill",
    [
        make_skill("plain"),
        make_skill("full", "a/日本.md", "b", scenes=("auth", "x"), capabilities=("c",), findings=(FINDING, FINDING)),
        make_skill(
            "odd",
            license="MIT",
            compatibility="Linux",
            allowed_tools="Read",
            metadata={"a": "b"},
            access=Access.PRIVATE,
            kind="action",
        ),
    ],
)
def test_a_packed_skill_is_the_same_skill(skill):
    assert unpack_skill(pack_skill(skill)) == skill


def test_packed_skills_are_a_mapping_that_knows_what_changed():
    skills = {name: make_skill(name) for name in ("a", "b", "c")}
    packed = {name: pack_skill(skill) for name, skill in skills.items()}
    before = PackedSkills(packed)
    assert dict(before) == skills
    assert list(before) == ["a", "b", "c"]
    assert len(before) == 3
    assert "a" in before
    assert "d" not in before
    assert before.get("d") is None
    changed = pack_skill(make_skill("b", content="2"))
    for kept in (packed["c"], bytes(bytearray(packed["c"]))):  # the same bytes, and equal ones
        after = PackedSkills({"b": changed, "c": kept, "d": b""})
        assert after.changes_since(before) == (("d",), ("b",), ("a",))
    assert before.changes_since(before) == ((), (), ())


def test_a_record_is_read_as_it_was_written_and_only_in_its_context(tmp_path):
    records = {"/skills/a": FolderRecord("sig", pack_skill(make_skill("a")))}
    record = BuildRecord(tmp_path, "acme")
    assert record.read() == {}
    record.write(records)
    assert BuildRecord(tmp_path, "acme").read() == records
    assert BuildRecord(tmp_path, "other").read() == {}
    assert BuildRecord(tmp_path / "elsewhere", "acme").read() == {}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage", [b"", b"\x00", b"\xc1", b"\x92\x90\x81\xa1a\x01", b"\x92\x90\x81\xa1\xff\x92\xa0\xc4\x00"]
)
def test_a_damaged_record_is_as_good_as_none(tmp_path, damage):
    record = BuildRecord(tmp_path, "acme")
    record.write({})
    record.path.write_bytes(damage)
    assert record.read() == {}


def test_a_folder_that_is_not_utf_8_is_not_recorded(tmp_path):
    record = BuildRecord(tmp_path, "acme")
    record.write({"/skills/\udcff": FolderRecord("sig", b"")})
    assert record.read() == {}
