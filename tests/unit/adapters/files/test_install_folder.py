"""Installed skills on disk: what is seen of them, how a change is undone, and what a hostile project can do."""

import os
from pathlib import Path

import pytest

from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.errors import ConflictError, StorageError, TrustError
from skillwire.model.ref import InstallLocation, Lock
from skillwire.model.skill import FileContent, Finding

UNIVERSAL, CLAUDE = ".agents/skills", ".claude/skills"
COPIES = InstallLocation((UNIVERSAL, CLAUDE))
LINKED = InstallLocation((UNIVERSAL,), (CLAUDE,))
MD = b"---\nname: one\ndescription: d\n---\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def folder(root):
    return FileSkillsFolder(root)


def staged(placement, content=MD, name="one"):
    return name, [FileContent("SKILL.md", content, False)], placement


def install(folder, placement, content=MD):
    change = folder.change()
    try:
        change.stage(*staged(placement, content))
        change.commit(Lock())
    finally:
        change.close()


def take_away(folder, placement):
    change = folder.change()
    try:
        change.take_away("one", placement)
        change.commit(Lock())
    finally:
        change.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def everything(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def failing_rename(monkeypatch, fails):
    """Make each rename raise what ``fails`` returns for its number, source and destination."""
    rename, count = os.rename, 0

    def maybe(source, destination, **options):
        nonlocal count
        count += 1
        before, error = fails(count, Path(source), Path(destination)) or (False, None)
        if error is not None and before:
            raise error
        rename(source, destination, **options)
        if error is not None:
            raise error

    monkeypatch.setattr(os, "rename", maybe)
    monkeypatch.setattr(os, "replace", maybe)


class TestSeeing:
    def test_a_link_to_a_folder_is_seen(self, folder, root):
        install(folder, InstallLocation((UNIVERSAL,)))
        (root / UNIVERSAL / "one/extra").symlink_to("/etc")
        assert folder.installed_files(InstallLocation((UNIVERSAL,)), "one")["extra"] == "is a link"

    def test_a_fifo_is_seen_and_not_read(self, folder, root):
        install(folder, InstallLocation((UNIVERSAL,)))
        os.mkfifo(root / UNIVERSAL / "one/pipe")
        assert folder.installed_files(InstallLocation((UNIVERSAL,)), "one")["pipe"] == "is not a file"

    @pytest.mark.parametrize("call", ["open", "scandir"])
    def test_what_cannot_be_read_is_said(self, folder, root, monkeypatch, call):
        install(folder, InstallLocation((UNIVERSAL,)))
        (root / UNIVERSAL / "one/sub").mkdir()
        real = getattr(os, call)

        def refusing(path, *arguments, **options):
            if str(path).endswith(("SKILL.md", "sub")):
                raise PermissionError(13, "Permission denied", path)
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, call, refusing)
        with pytest.raises(StorageError) as caught:
            folder.installed_files(InstallLocation((UNIVERSAL,)), "one")
        assert str(root / UNIVERSAL / "one") in str(caught.value.place)

    def test_a_name_that_is_not_utf_8_can_be_printed(self, folder, root):
        install(folder, InstallLocation((UNIVERSAL,)))
        (root / UNIVERSAL / "one" / os.fsdecode(b"a\xff")).write_bytes(b"")
        assert r"a\xff" in folder.installed_files(InstallLocation((UNIVERSAL,)), "one")

    @pytest.mark.parametrize(("placement", "gone"), [(COPIES, UNIVERSAL), (COPIES, CLAUDE), (LINKED, CLAUDE)])
    def test_a_copy_or_link_that_is_gone_is_named(self, folder, root, placement, gone):
        install(folder, placement)
        files = folder.installed_files(placement, "one")
        assert folder.missing_places(placement, "one") == ()
        (root / gone / "one").rename(root / "elsewhere")
        assert folder.missing_places(placement, "one") == (f"{gone}/one",)
        assert folder.installed_files(placement, "one") == files

    def test_a_loop_of_links_is_no_internal_error(self, folder, root):
        (root / ".agents").symlink_to(".agents")
        assert folder.installed_files(LINKED, "one") is None
        with pytest.raises(StorageError):
            install(folder, LINKED)


class TestPlaces:
    @pytest.mark.parametrize("placement", [COPIES, LINKED])
    @pytest.mark.parametrize(("link", "target"), [(CLAUDE, f"../{UNIVERSAL}"), (".claude", ".agents")])
    def test_two_names_of_one_folder_are_one(self, folder, root, placement, link, target):
        (root / UNIVERSAL).mkdir(parents=True)
        (root / link).parent.mkdir(exist_ok=True)
        (root / link).symlink_to(target)
        install(folder, placement)
        install(folder, placement, MD + b"new")
        skill = root / UNIVERSAL / "one"
        assert not skill.is_symlink()
        assert (skill / "SKILL.md").read_bytes() == MD + b"new"
        assert set(folder.installed_files(placement, "one")) == {"SKILL.md"}
        assert folder.missing_places(placement, "one") == ()
        assert names(root / UNIVERSAL) == ["one"]

    def test_moving_to_another_name_of_the_same_folder_keeps_the_skill(self, folder, root):
        install(folder, InstallLocation((UNIVERSAL,)))
        (root / ".claude").symlink_to(".agents")
        change = folder.change()
        change.stage(*staged(InstallLocation((CLAUDE,))))
        change.take_away("one", InstallLocation((UNIVERSAL,)))
        change.commit(Lock())
        change.close()
        assert (root / UNIVERSAL / "one/SKILL.md").read_bytes() == MD

    def test_links_stay_inside_a_root_that_is_itself_reached_through_a_link(self, root, tmp_path):
        (tmp_path / "deep/er").mkdir(parents=True)
        outer = tmp_path / "deep/er/link"
        outer.symlink_to(root)
        install(FileSkillsFolder(outer), LINKED)
        assert str((root / CLAUDE / "one").readlink()) == f"../../{UNIVERSAL}/one"
        assert (outer / CLAUDE / "one/SKILL.md").read_bytes() == MD

    def test_a_folder_that_leads_out_is_refused(self, folder, root, tmp_path):
        (root / ".claude").symlink_to(tmp_path)
        with pytest.raises(TrustError):
            install(folder, LINKED)
        assert everything(root) == [".claude"]


class TestCleaning:
    def test_what_the_user_made_above_a_skills_folder_stays(self, folder, root):
        (root / ".claude").mkdir()
        install(folder, LINKED)
        take_away(folder, LINKED)
        assert everything(root) == [".claude", "skills.lock"]

    def test_what_an_abandoned_change_made_goes(self, folder, root):
        change = folder.change()
        change.stage(*staged(LINKED))
        change.close()
        assert everything(root) == []

    def test_a_project_cannot_block_a_change(self, folder, root, tmp_path):
        (root / UNIVERSAL).mkdir(parents=True)
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious/file").write_bytes(b"")
        (root / UNIVERSAL / ".skillwire-staging-x").symlink_to(tmp_path / "precious")
        (root / UNIVERSAL / ".skillwire-staging-y").write_bytes(b"")
        (root / ".skillwire-busy").mkdir()
        install(folder, LINKED)
        assert names(root / UNIVERSAL) == ["one"]
        assert (tmp_path / "precious/file").exists()

    def test_the_lock_stands_outside_of_the_project_and_is_one_for_all_its_names(self, folder, root, tmp_path):
        (tmp_path / "other name").symlink_to(root)
        change = folder.change()
        try:
            assert everything(root) == []
            with pytest.raises(ConflictError):
                FileSkillsFolder(tmp_path / "other name").change()
        finally:
            change.close()
        assert names(tmp_path / "skillwire/state/locks") == []


class TestKilled:
    """A change whose process ends before it can clean up: what it has let go of is all that is done for it."""

    @staticmethod
    def kill(change):
        os.close(change._root_handle)
        os.close(change._busy)

    def test_a_complete_change_stays_though_the_lock_changes_then(self, folder, root):
        install(folder, LINKED)
        change = folder.change()
        change.stage(*staged(LINKED, MD + b"new"))
        change.commit(Lock())
        self.kill(change)
        folder.lock_path.write_bytes(folder.lock_path.read_bytes() + b"\n")
        (root / UNIVERSAL / "one/SKILL.md").write_bytes(b"edited")
        folder.read_lock()
        assert (root / UNIVERSAL / "one/SKILL.md").read_bytes() == b"edited"
        assert names(root / UNIVERSAL) == ["one"]

    def test_half_a_change_is_kept_and_told_when_the_lock_has_changed(self, root, monkeypatch):
        told: list[Finding] = []
        folder = FileSkillsFolder(root, report=told.append)
        install(folder, COPIES)
        change = folder.change()
        change.stage(*staged(COPIES, MD + b"new"))
        with monkeypatch.context() as patch:
            patch.setattr(change, "_undo", lambda _: [])
            failing_rename(patch, lambda count, *_: (True, KeyboardInterrupt()) if count == 2 else None)
            with pytest.raises(KeyboardInterrupt):
                change.commit(Lock())
        self.kill(change)
        folder.lock_path.write_bytes(folder.lock_path.read_bytes() + b"\n")
        folder.read_lock()
        (kept,) = (root / UNIVERSAL).glob(".skillwire-kept-*")
        assert [(finding.code, finding.place.source) for finding in told] == [("SKILLS_KEPT", str(kept))]
        assert [path.read_bytes() for path in kept.glob("one.*/SKILL.md")] == [MD]
        install(folder, COPIES, MD + b"newer")
        assert names(root / UNIVERSAL) == [kept.name, "one"]
        assert names(root / CLAUDE) == ["one"]

    def test_what_a_change_of_another_state_directory_put_aside_is_kept_and_told(self, root, monkeypatch, tmp_path):
        told: list[Finding] = []
        folder = FileSkillsFolder(root, report=told.append)
        install(folder, COPIES)
        change = folder.change()
        change.stage(*staged(COPIES, MD + b"new"))
        with monkeypatch.context() as patch:
            patch.setattr(change, "_undo", lambda _: [])
            failing_rename(patch, lambda count, *_: (True, KeyboardInterrupt()) if count == 2 else None)
            with pytest.raises(KeyboardInterrupt):
                change.commit(Lock())
        self.kill(change)
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "another"))
        install(folder, COPIES, MD + b"newer")
        (kept,) = (root / UNIVERSAL).glob(".skillwire-kept-*")
        assert [path.read_bytes() for path in kept.glob("one.*/SKILL.md")] == [MD]
        assert [(finding.code, finding.place.source) for finding in told] == [("SKILLS_KEPT", str(kept))]
        assert names(root / CLAUDE) == ["one"]

    def test_a_project_that_brings_what_looks_kept_blocks_nothing(self, folder, root):
        for name in (".skillwire-staging-x/one.1", ".skillwire-kept-x/one.1"):
            (root / UNIVERSAL / name).mkdir(parents=True)
        install(folder, LINKED)
        assert (root / UNIVERSAL / "one/SKILL.md").read_bytes() == MD


class TestUndoing:
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
    def test_an_interruption_just_before_or_after_a_rename_loses_nothing(self, folder, root, monkeypatch, at, before):
        install(folder, LINKED)
        change = folder.change()
        change.stage(*staged(LINKED, b"new"))
        failing_rename(monkeypatch, lambda count, *_: (before, KeyboardInterrupt()) if count == at else None)
        # The fifth rename is the one that writes the lock.
        with pytest.raises(KeyboardInterrupt):
            change.commit(Lock())
        change.close()
        assert (root / UNIVERSAL / "one/SKILL.md").read_bytes() == MD
        assert (root / CLAUDE / "one/SKILL.md").read_bytes() == MD
        assert names(root / UNIVERSAL) == names(root / CLAUDE) == ["one"]

    def test_the_lock_is_put_back(self, folder, root, monkeypatch):
        change = folder.change()
        change.stage(*staged(LINKED))
        failing_rename(monkeypatch, lambda count, *_: (False, KeyboardInterrupt()) if count == 3 else None)
        with pytest.raises(KeyboardInterrupt):
            change.commit(Lock())
        change.close()
        assert everything(root) == []

    def test_one_undo_that_fails_keeps_none_of_the_others_back(self, folder, root, monkeypatch):
        install(folder, COPIES)
        change = folder.change()
        change.stage(*staged(COPIES, b"new"))

        def fails(count, source, destination):
            back = destination == root / CLAUDE / "one" and source.name.startswith("one.")
            return (True, OSError(5, "broken")) if count == 4 or back else None

        with monkeypatch.context() as patch:
            failing_rename(patch, fails)
            with pytest.raises(StorageError) as caught:
                change.commit(Lock())
        change.close()
        assert (root / UNIVERSAL / "one/SKILL.md").read_bytes() == MD
        (kept,) = (root / CLAUDE).glob(".skillwire-kept-*")
        assert str(kept) in str(caught.value.fix)
        assert str(root / CLAUDE / "one") in caught.value.message
        install(folder, COPIES, b"newer")
        (old,) = kept.glob("one.*")
        assert (old / "SKILL.md").read_bytes() == MD

    def test_a_skill_that_could_not_be_staged_is_not_put_in_place(self, folder, root):
        (root / ".claude").write_bytes(b"a file where a folder must be")
        change = folder.change()
        change.stage(*staged(InstallLocation((UNIVERSAL,)), name="two"))
        with pytest.raises(StorageError):
            change.stage(*staged(LINKED))
        change.commit(Lock())
        change.close()
        assert names(root / UNIVERSAL) == ["two"]
