"""The rows of the skills in folders: kept while somebody reads them, moved when most are no longer needed."""

from __future__ import annotations

from tests.support.publishing import write_skill

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.server import folders as module
from skillwire.server.folders import PublishedFolders


def test_rows_that_are_no_longer_needed_are_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_DEAD_ROWS", 0)
    root = tmp_path / "skills"
    folders = PublishedFolders([str(root)], "acme", FileBlobs(tmp_path / "blobs"))
    for name in ("one", "two"):
        write_skill(root, name, description=f"Does {name}.")
    folders.refresh()
    before = seen = folders.public_skills()
    files = {id(before.rows)}
    held = [before]  # so that no two files share an id
    for number in range(5):
        write_skill(root, "two", description=f"Does two, {number}.")
        folders.refresh([str(root / "two" / "SKILL.md")])
        now = folders.public_skills()
        assert now.changes_since(seen) == ((), ("two",), ())
        assert now["two"].description == f"Does two, {number}."
        assert now["one"] == before["one"]
        assert now.number("two") < 4
        files.add(id(now.rows))
        held.append(now)
        seen = now
    assert len(files) > 1
    assert before["two"].description == "Does two."


def test_a_skill_that_is_loaded_again_as_it_was_keeps_its_row(tmp_path):
    write_skill(tmp_path / "skills", "one", description="Does one.")
    folders = PublishedFolders([str(tmp_path / "skills")], "acme", FileBlobs(tmp_path / "blobs"))
    folders.refresh()
    first = folders.public_skills()
    (tmp_path / "skills" / "one" / "SKILL.md").touch()
    assert not folders.refresh([str(tmp_path / "skills" / "one")])
    assert folders.public_skills().number("one") == first.number("one")
