import pytest

from skillwire.adapters.files.install_folder import Replacement, mark_committed, recover, write_journal


@pytest.fixture
def scene(tmp_path):
    """One skill to replace, one to add, one to remove; the new ones staged."""
    staging = tmp_path / "skills/.staging"
    for name in ("skills/old", "skills/gone", "skills/.staging/old", "skills/.staging/added"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(name)
    skills = tmp_path / "skills"
    (tmp_path / "lock").write_bytes(b"before")
    return [
        Replacement(skills / "old", staging / "old.1", staging / "old"),
        Replacement(skills / "added", None, staging / "added"),
        Replacement(skills / "gone", staging / "gone.3", None),
    ]


def moves(rows):
    for row in rows:
        if row.aside is not None:
            yield row.place, row.aside
        if row.staged is not None:
            yield row.staged, row.place


def content(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("SKILL.md")}


def journal(tmp_path, rows, after=b"after"):
    write_journal(
        tmp_path / "journal", rows, [tmp_path / "skills/.staging"], before=(tmp_path / "lock").read_bytes(), after=after
    )


@pytest.mark.parametrize("done", range(5))
def test_whatever_was_renamed_is_undone(tmp_path, scene, done):
    journal(tmp_path, scene)
    for source, destination in list(moves(scene))[:done]:
        source.rename(destination)
    recover(tmp_path / "journal", tmp_path / "lock")
    assert content(tmp_path / "skills") == {"old/SKILL.md": "skills/old", "gone/SKILL.md": "skills/gone"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "skills"]


def test_a_complete_change_stays_and_is_cleaned_up_after(tmp_path, scene):
    journal(tmp_path, scene)
    for source, destination in moves(scene):
        source.rename(destination)
    (tmp_path / "lock").write_bytes(b"after")
    recover(tmp_path / "journal", tmp_path / "lock")
    assert content(tmp_path / "skills") == {
        "old/SKILL.md": "skills/.staging/old",
        "added/SKILL.md": "skills/.staging/added",
    }
    assert not (tmp_path / "journal").exists()


def test_a_complete_change_stays_whatever_the_lock_says_later(tmp_path, scene):
    journal(tmp_path, scene)
    for source, destination in moves(scene):
        source.rename(destination)
    (tmp_path / "lock").write_bytes(b"after")
    mark_committed(tmp_path / "journal")
    (tmp_path / "lock").write_bytes(b"pulled")
    (tmp_path / "skills/old/SKILL.md").write_text("edited")
    assert recover(tmp_path / "journal", tmp_path / "lock") == []
    assert content(tmp_path / "skills") == {"old/SKILL.md": "edited", "added/SKILL.md": "skills/.staging/added"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "skills"]


def test_a_complete_change_needs_no_lock_to_be_cleaned_up_after(tmp_path, scene):
    journal(tmp_path, scene)
    for source, target in moves(scene):
        source.rename(target)
    mark_committed(tmp_path / "journal")
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").mkdir()
    assert recover(tmp_path / "journal", tmp_path / "lock") == []
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("done", range(1, 6))
def test_a_lock_of_somebody_else_tells_nothing_so_that_all_is_kept(tmp_path, scene, done):
    journal(tmp_path, scene)
    for source, destination in list(moves(scene))[:done]:
        source.rename(destination)
    before = sorted(path.read_text() for path in tmp_path.rglob("SKILL.md"))
    (tmp_path / "lock").write_bytes(b"pulled")
    (kept,) = recover(tmp_path / "journal", tmp_path / "lock")
    assert kept.name.startswith(".skillwire-kept-")
    assert (kept / "old.1/SKILL.md").read_text() == "skills/old"
    assert sorted(path.read_text() for path in tmp_path.rglob("SKILL.md")) == before
    assert not (tmp_path / "journal").exists()
    assert recover(tmp_path / "journal", tmp_path / "lock") == []


def test_a_change_that_had_not_begun_leaves_nothing_to_keep(tmp_path, scene):
    journal(tmp_path, scene)
    (tmp_path / "lock").write_bytes(b"pulled")
    assert recover(tmp_path / "journal", tmp_path / "lock") == []
    assert sorted(path.name for path in (tmp_path / "skills").iterdir()) == ["gone", "old"]


def test_a_lock_that_says_the_same_before_and_after_proves_nothing(tmp_path, scene):
    journal(tmp_path, scene, after=b"before")
    first, *_ = moves(scene)
    first[0].rename(first[1])
    recover(tmp_path / "journal", tmp_path / "lock")
    assert content(tmp_path / "skills")["old/SKILL.md"] == "skills/old"


def test_half_a_journal_is_of_a_change_that_had_not_begun(tmp_path, scene):
    journal(tmp_path, scene)
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes()[:-20])
    before = content(tmp_path / "skills")
    recover(path, tmp_path / "lock")
    assert content(tmp_path / "skills") == before
    assert not path.exists()


def test_without_a_journal_nothing_happens(tmp_path):
    recover(tmp_path / "journal", tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_paths_that_are_no_text_survive(tmp_path):
    place = tmp_path / b"\xff".decode("utf-8", "surrogateescape")
    aside = tmp_path / "aside"
    aside.mkdir()
    write_journal(tmp_path / "journal", [Replacement(place, aside, None)], [], before=None, after=b"x")
    recover(tmp_path / "journal", tmp_path / "lock")
    assert place.is_dir()
