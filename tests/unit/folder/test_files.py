"""Which files of a folder are published, which are left out, which are refused."""

import os

import pytest

from skillwire import limits
from skillwire.folder.files import read_files
from skillwire.folder.rules import Findings


def read(folder):
    findings = Findings("strict")
    files = read_files(str(folder), findings)
    assert [file.path for file in files] == sorted(
        (file.path for file in files), key=lambda path: (path != "SKILL.md", path)
    )
    codes = [f"{finding.code} {finding.place.source.removeprefix(f'{folder}/')}" for finding in findings]
    return {file.path: bytes(file.content) for file in files}, sorted(codes)


def test_files_come_sorted_with_their_bytes_and_bits(write):
    folder = write(**{"Zebra.md": "z", "scripts/run.py": b"\x00\xff", "a/b/c.txt": ""})
    (folder / "scripts/run.py").chmod(0o744)
    files = read_files(str(folder), Findings("strict"))
    assert [file.path for file in files] == ["SKILL.md", "Zebra.md", "a/b/c.txt", "scripts/run.py"]
    assert [bytes(file.content) for file in files[1:]] == [b"z", b"", b"\x00\xff"]
    assert [file.executable for file in files] == [False, False, False, True]


@pytest.mark.parametrize(
    "path",
    [".DS_Store", ".git/config", "__pycache__/a.pyc", "a.pyc", "notes.md~", "#notes.md#", ".a.md.swp", "Thumbs.db",
     "node_modules/x/index.js", "._SKILL.md", "scripts/.venv/bin/python", "a.orig"],
)  # fmt: skip
def test_what_belongs_to_tools_is_left_out_with_a_note(write, path):
    files, codes = read(write(**{path: "x"}))
    assert list(files) == ["SKILL.md"]
    assert [code.split()[0] for code in codes] == ["FILE_EXCLUDED"]


@pytest.mark.parametrize(
    "path", [".env", ".env.local", ".netrc", ".npmrc", "keys/id_rsa", "key.p12", ".aws/credentials"]
)
def test_what_usually_holds_secrets_is_left_out_with_a_warning(write, path):
    files, codes = read(write(**{path: "x"}))
    assert list(files) == ["SKILL.md"]
    assert [code.split()[0] for code in codes] == ["FILE_PRIVATE"]


@pytest.mark.parametrize("path", [".env.example", ".gitignore", "assets/.prettierrc", "environment.md", "a.backup"])
def test_other_hidden_files_belong_to_the_skill(write, path):
    assert read(write(**{path: "x"})) == (read(write())[0] | {path: b"x"}, [])


def test_links_within_the_folder_become_copies(write):
    folder = write(**{"shared/a.md": "a", "shared/b.md": "b"})
    (folder / "link.md").symlink_to("shared/a.md")
    (folder / "more").symlink_to("shared")
    files, codes = read(folder)
    assert files["link.md"] == b"a"
    assert (files["more/a.md"], files["more/b.md"]) == (b"a", b"b")
    assert codes == ["LINK_COPIED link.md", "LINK_COPIED more"]


def test_links_out_of_the_folder_and_to_nothing_are_refused(write, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("s")
    (tmp_path / "demo-2").mkdir()
    folder = write()
    (folder / "a").symlink_to(tmp_path / "outside/secret")
    (folder / "b").symlink_to("../outside")
    (folder / "c").symlink_to("absent")
    (folder / "d").symlink_to("d")
    (folder / "e").symlink_to("../demo-2")
    (folder / "f").symlink_to("a")
    files, codes = read(folder)
    assert list(files) == ["SKILL.md"]
    assert codes == [f"LINK_OUTSIDE {name}" for name in "abcdef"]


def test_a_link_to_a_folder_around_it_is_refused(write):
    folder = write(**{"a/b/c.md": "c"})
    (folder / "a/b/up").symlink_to("..")
    (folder / "root").symlink_to(".")
    files, codes = read(folder)
    assert list(files) == ["SKILL.md", "a/b/c.md"]
    assert codes == ["LINK_CIRCLE a/b/up", "LINK_CIRCLE root"]


def test_a_link_to_what_is_left_out_is_left_out(write):
    folder = write(**{".env": "TOKEN=x"})
    (folder / "settings").symlink_to(".env")
    files, codes = read(folder)
    assert list(files) == ["SKILL.md"]
    assert codes == ["FILE_EXCLUDED settings", "FILE_PRIVATE .env"]


def test_links_that_multiply_end_at_the_bound(write):
    folder = write(**{f"d{level}/f.md": "x" for level in range(16)})
    for level in range(15):
        for name in "ab":
            (folder / f"d{level}" / name).symlink_to(f"../d{level + 1}")
    files, codes = read(folder)
    assert len(files) == limits.ARCHIVE_ENTRIES
    assert codes[0].startswith("ARCHIVE_ENTRIES")


def test_special_files_are_refused_without_waiting_for_them(write):
    folder = write()
    os.mkfifo(folder / "pipe")
    assert read(folder)[1] == ["FILE_SPECIAL pipe"]


def test_paths_that_cannot_be_installed_elsewhere_are_refused(write):
    folder = write(**{"NUL.txt": "x", "a:b": "x", "a\u202eb": "x", "README.md": "x", "readme.md": "x", "dir./x": "x"})
    (folder / "x").mkdir()
    os.close(os.open(os.fsencode(folder / "x") + b"/\xff", os.O_CREAT | os.O_WRONLY))
    files, codes = read(folder)
    assert sorted(files) == ["README.md", "SKILL.md", "readme.md"]
    assert [code.split()[0] for code in codes] == [
        "PATH_COLLISION",
        "PATH_INVALID",
        "PATH_INVALID",
        "PATH_WINDOWS",
        "PATH_WINDOWS",
        "PATH_WINDOWS",
    ]


def test_folders_nest_within_a_bound(write):
    files, codes = read(write(**{"a/" * 40 + "x.md": "x"}))
    assert list(files) == ["SKILL.md"]
    assert [code.split()[0] for code in codes] == ["PATH_TOO_DEEP"]


def test_files_have_bounds_in_size(write):
    folder = write()
    for name, size in (("big", limits.ARCHIVE_FILE_BYTES + 1), ("half-1", limits.ARCHIVE_FILE_BYTES), ("half-2", 1)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    files, codes = read(folder)
    assert set(files) <= {"SKILL.md", "half-1", "half-2"}
    assert codes[0] == "ARCHIVE_FILE_SIZE big"


def test_an_unreadable_file_is_said(write, monkeypatch):
    folder = write(a="x")

    def refuse(path, _flags):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("skillwire.folder.files.os.open", refuse)
    assert read(folder) == ({}, ["FILE_UNREADABLE SKILL.md", "FILE_UNREADABLE a"])


def test_a_folder_that_is_not_there_is_said(tmp_path):
    assert read(tmp_path / "absent") == ({}, ["FILE_UNREADABLE "])
