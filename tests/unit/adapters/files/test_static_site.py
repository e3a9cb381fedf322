"""Building a static site: what is reported of the whole."""

import os

import pytest
from tests.support.catalogs import make_skill
from tests.support.invoking import write_action
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.adapters.files.static_site import (
    MANIFEST,
    SiteBuild,
    SiteFolder,
    SiteOptions,
    file_line,
    line_paths,
    read_manifest,
    skill_line,
    write_manifest,
)
from skillwire.errors import ConflictError, StorageError, TrustError


@pytest.mark.parametrize(("most", "warned"), [(2, []), (1, ["INDEX_ENTRIES"])])
def test_more_skills_than_clients_read_are_built_with_a_warning(tmp_path, monkeypatch, most, warned):
    monkeypatch.setattr(limits, "INDEX_ENTRIES", most)
    for name in ("one", "two"):
        write_skill(tmp_path / "skills", name)
    write_skill(tmp_path / "skills", "three", {"skill.toml": 'access = "private"\n'})
    report = SiteBuild(SiteOptions((str(tmp_path / "skills"),), tmp_path / "site")).run(lambda _: None)
    assert [(one.code, one.level) for one in report.findings] == [(code, "warning") for code in warned]
    assert (report.public, report.errors) == (2, 0)
    assert report.changes is not None


@pytest.mark.parametrize("base_url", ["https://example.com", ""])
def test_descriptors_that_promise_calls_are_built_with_a_warning(tmp_path, base_url):
    write_action(tmp_path / "skills", "greet")
    write_action(tmp_path / "skills", "hidden", more='access = "private"')
    write_skill(tmp_path / "skills", "read")
    site = SiteOptions((str(tmp_path / "skills"),), tmp_path / "site", base_url=base_url)
    for _ in ("new", "unchanged"):
        found = [one for one in SiteBuild(site).run(lambda _: None).findings if one.code == "NOT_CALLABLE"]
        assert [(one.level, one.message.partition(": ")[2]) for one in found] == [("warning", "greet")] * bool(base_url)
        assert all("skillwire serve FOLDER --base-url https://example.com" in one.fix for one in found)


@pytest.fixture
def site(tmp_path):
    return tmp_path / "site"


def commit(site, files, *, force=False):
    """Build a site that holds ``files``: path → content; return what changed."""
    with SiteFolder(site, force=force) as folder:
        for path, content in files.items():
            target = folder.stage / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        return folder.commit(frozenset(map(file_line, files)))


def tree(site):
    return {
        str(path.relative_to(site)): path.read_text()
        for path in site.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def test_what_was_staged_is_in_place_and_nothing_else(site):
    files = {"a/b/c.md": "1", ".well-known/x": "2", "d": "3"}
    assert commit(site, files) == (3, 0)
    assert tree(site) == files
    assert {path.name for path in site.iterdir()} == {"a", ".well-known", "d", MANIFEST}
    assert set(line_paths(read_manifest(site) or ())) == set(files)


def test_a_later_build_replaces_adds_and_removes(site):
    commit(site, {"same": "1", "changed": "1", "gone/deep/file": "1", "kept/a": "1"})
    before = (site / "same").stat().st_ino
    assert commit(site, {"same": "1", "changed": "2", "new": "2", "kept/a": "1"}) == (2, 1)
    assert tree(site) == {"same": "1", "changed": "2", "new": "2", "kept/a": "1"}
    assert (site / "same").stat().st_ino == before
    assert not (site / "gone").exists()


def test_what_is_not_staged_again_and_still_listed_stays(site):
    commit(site, {"a": "1", "b": "1"})
    with SiteFolder(site) as folder:
        (folder.stage / "b").write_text("2")
        assert folder.commit(frozenset({file_line("a"), file_line("b")})) == (1, 0)
    assert tree(site) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"x": "1"}, {"x/y": "2", "x/z/a": "2"}),
        ({"x/y": "1", "x/z/a": "1"}, {"x": "2"}),
        ({"d/x": "1"}, {"d/x/y": "2"}),
        ({"d/x/y": "1", "e": "1"}, {"d/x": "2", "e": "1"}),
    ],
)
def test_a_file_may_become_a_folder_and_a_folder_a_file(site, before, after):
    commit(site, before)
    commit(site, after)
    assert tree(site) == after


def test_a_folder_with_other_things_in_it_is_not_taken_over(site):
    site.mkdir()
    (site / "index.html").write_text("of someone")
    with pytest.raises(ConflictError) as raised:
        commit(site, {"a": "1"})
    assert raised.value.code == "SITE_FOREIGN"
    assert tree(site) == {"index.html": "of someone"}
    commit(site, {"a": "1"}, force=True)
    commit(site, {"b": "1"})
    assert tree(site) == {"index.html": "of someone", "b": "1"}


@pytest.mark.parametrize("path", ["_headers", ".well-known/skills/mine.txt", "x"])
def test_a_file_of_someone_else_in_the_way_stops_the_build_before_anything_changes(site, path):
    commit(site, {"a": "1", ".well-known/skills/b": "1"})
    (site / path).write_text("of someone")
    before = tree(site)
    wanted = {"a": "2", "x/new": "2"} if path == "x" else {"a": "2", path: "2"}
    with pytest.raises(ConflictError) as raised:
        commit(site, wanted)
    assert raised.value.code == "SITE_FOREIGN"
    assert path in raised.value.message
    assert tree(site) == before
    commit(site, wanted, force=True)
    assert tree(site) == wanted


def test_a_foreign_file_equal_to_ours_is_no_conflict(site):
    commit(site, {"a": "1"})
    (site / "b").write_text("1")
    assert commit(site, {"a": "1", "b": "1"}).removed == 0


def test_a_foreign_file_in_a_folder_of_ours_stays(site):
    commit(site, {"folder/ours": "1"})
    (site / "folder" / "theirs").write_text("of someone")
    commit(site, {})
    assert tree(site) == {"folder/theirs": "of someone"}


def test_a_link_in_the_place_of_a_folder_is_not_followed(site, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("of someone")
    commit(site, {"a": "1"})
    (site / "folder").symlink_to(outside)
    with pytest.raises(ConflictError):
        commit(site, {"a": "1", "folder/file": "2"})
    commit(site, {"a": "1", "folder/file": "2"}, force=True)
    assert (outside / "file").read_text() == "of someone"
    assert not (site / "folder").is_symlink()


@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "/etc/outside", "folder/outside"])
def test_a_manifest_that_leads_out_of_the_site_removes_nothing(site, tmp_path, path):
    outside = tmp_path / "outside"
    outside.write_text("of someone")
    commit(site, {"a": "1"})
    (site / "folder").symlink_to(tmp_path)
    write_manifest(site, {file_line(path.replace("/etc", str(tmp_path)))}, tmp_path)
    with pytest.raises(TrustError) as raised:
        commit(site, {})
    assert raised.value.code == "SITE_MANIFEST"
    assert outside.read_text() == "of someone"


@pytest.mark.parametrize(
    "content", [b"", b"other\n", b"skillwire site 99\n", b"skillwire site 1\nskill\n", b"\xff\xfe"]
)
def test_what_is_not_a_manifest_of_ours_is_not_guessed_at(site, content):
    site.mkdir()
    (site / MANIFEST).write_bytes(content)
    with pytest.raises(TrustError) as raised:
        commit(site, {"a": "1"})
    assert raised.value.code == "SITE_MANIFEST"


def test_a_build_that_breaks_off_leaves_the_old_site_and_no_rest(site):
    commit(site, {"a": "1"})
    with SiteFolder(site) as folder:  # it ends without a commit
        (folder.stage / "a").write_text("2")
    assert tree(site) == {"a": "1"}
    assert {path.name for path in site.iterdir()} == {"a", MANIFEST}


@pytest.mark.parametrize("when", range(1, 9))
def test_the_next_build_finishes_what_a_crash_at_any_moment_left(site, monkeypatch, when):
    """A crash is a rename or removal that never comes back, and nothing after it either."""
    commit(site, {"a": "1", "b": "1", "gone": "1"})
    wanted = {"a": "2", "b": "2", "new/file": "2"}
    calls = []

    def crash_at(real):
        def call(*arguments, **options):
            calls.append(real)
            if len(calls) >= when:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for module, name in ((os, "replace"), (os, "unlink")):
            patched.setattr(module, name, crash_at(getattr(module, name)))
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        try:
            commit(site, wanted)
        except KeyboardInterrupt:
            present = {path for path in tree(site) if not path.startswith(".skillwire-stage")}
            assert present <= set(line_paths(read_manifest(site) or ()))
    commit(site, wanted)
    assert tree(site) == wanted


def test_two_builds_of_one_site_do_not_mix(site):
    with SiteFolder(site), pytest.raises(ConflictError) as raised:
        commit(site, {"a": "1"})
    assert raised.value.code == "FOLDER_BUSY"
    commit(site, {"a": "1"})


def test_a_site_that_cannot_be_written_is_an_error_with_the_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as raised:
        commit(tmp_path / "file" / "site", {"a": "1"})
    assert raised.value.code == "STORAGE"


def test_the_line_of_a_skill_stands_for_all_its_files():
    skill = make_skill("tools", "scripts/run.sh")
    paths = set(line_paths([skill_line(skill, described=False)]))
    assert {
        ".well-known/agent-skills/tools/scripts/run.sh",
        ".well-known/skills/tools/SKILL.md",
        ".well-known/agent-skills/tools.tar.gz",
        f".well-known/agent-skills/sha256/{skill.artifact.digest.hex}.tar.gz",
        "@tools/versions.json",
        "@tools/.well-known/agent-skills/index.json",
        "@tools/.well-known/skills/index.json",
        "@tools/.well-known/skills/tools/SKILL.md",
    } < paths
    assert len(paths) == 2 * 3 + 5
    assert set(line_paths([skill_line(skill, described=True)])) == {*paths, "skills/tools.json"}
