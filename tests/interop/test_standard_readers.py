"""The archives that we publish are read by every common tool, which finds in them what was published."""

import json
import sys
import tarfile
from typing import NamedTuple

import pytest
from tests.interop.peers import find_peer, run, skillwire
from tests.interop.skill_samples import copy_examples, write_samples
from tests.interop.trees import executables, tree

WELL_KNOWN = ".well-known/agent-skills"
# The option came with 3.11.4 and the filter itself; later versions warn where it is not given.
TARFILE_FILTER = ("--filter", "data") if hasattr(tarfile, "data_filter") else ()


class Reader(NamedTuple):
    """A command that says nothing when no problems found; ``{}`` stands for the archive."""

    tool: str
    suffix: str
    arguments: tuple[str, ...]
    keeps_modes: bool = True

    def __str__(self) -> str:
        return " ".join((self.tool, *self.arguments)).format(self.suffix)


READERS = [
    Reader("tar", ".tar.gz", ("-xzf", "{}")),
    Reader("bsdtar", ".tar.gz", ("-xf", "{}")),
    Reader("bsdtar", ".zip", ("-xf", "{}")),
    Reader("unzip", ".zip", ("-q", "{}")),
    Reader("python", ".tar.gz", ("-m", "tarfile", *TARFILE_FILTER, "-e", "{}")),
    Reader("python", ".zip", ("-m", "zipfile", "-e", "{}", "."), keeps_modes=False),
    Reader("npm_tar", ".tar.gz", ("extract", "{}", ".")),
]
TESTERS = [
    Reader("gzip", ".tar.gz", ("-t", "{}")),
    Reader("unzip", ".zip", ("-tqq", "{}")),
    Reader("zip", ".zip", ("-Tq", "{}")),
]


@pytest.fixture(scope="module")
def skills(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills")
    copy_examples(folder)
    write_samples(folder)
    return folder


@pytest.fixture(scope="module")
def archives(skills, tmp_path_factory):
    """Give the archives of a built site by the names of their skills."""
    work = tmp_path_factory.mktemp("build")
    run(skillwire("build", skills, "-o", work / "site"), cwd=work, home=work)
    folder = work / "site" / WELL_KNOWN
    entries = json.loads((folder / "index.json").read_bytes())["skills"]
    return {entry["name"]: folder / entry["url"] for entry in entries if entry["type"] == "archive"}


def read(reader, archive, folder, home):
    start = [sys.executable] if reader.tool == "python" else find_peer(reader.tool)
    arguments = [argument.format(archive) for argument in reader.arguments]
    assert run([*start, *arguments], cwd=folder, home=home) == ""


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_it_finds_what_was_published(reader, skills, archives, tmp_path):
    chosen = {name: archive for name, archive in archives.items() if archive.name.endswith(reader.suffix)}
    assert chosen
    for name, archive in chosen.items():
        folder = tmp_path / name
        folder.mkdir()
        read(reader, archive, folder, tmp_path)
        assert tree(folder) == tree(skills / name)
        assert executables(folder) == (executables(skills / name) if reader.keeps_modes else set())


@pytest.mark.parametrize("reader", TESTERS, ids=str)
def test_it_says_that_the_archive_is_whole(reader, archives, tmp_path):
    chosen = [archive for archive in archives.values() if archive.name.endswith(reader.suffix)]
    assert chosen
    for archive in chosen:
        read(reader, archive, tmp_path, tmp_path)
