"""Whether a folder changed, without reading it."""

import subprocess
from collections.abc import Generator
from typing import cast

import pytest
from tests.support.publishing import write_skill

from skillwire.adapters.files import loading
from skillwire.adapters.files.loading import LoadJob, LoadResult, load_folders
from skillwire.errors import StorageError


@pytest.fixture
def folders(tmp_path):
    folders = [str(write_skill(tmp_path / "skills", f"skill-{n}", {"a.md": f"# {n}\n"})) for n in range(7)]
    broken = tmp_path / "skills" / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("nothing")
    return [*folders, str(broken)]


def _without_signature(loaded):
    return sorted(one._replace(signature="") for one in loaded)


def test_worker_processes_find_what_this_process_finds(folders, tmp_path, monkeypatch):
    here = list(load_folders(LoadJob("acme", "blobs", (str(tmp_path / "here"),)), folders))
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 2)
    monkeypatch.setattr(loading, "_BATCH", 2)
    aside = list(load_folders(LoadJob("acme", "blobs", (str(tmp_path / "aside"),)), folders))
    assert _without_signature(here) == _without_signature(aside)
    assert len(here) == 8
    assert [(one.packed, [finding.level for finding in one.findings]) for one in here if not one.packed] == [
        (None, ["error"])
    ]
    blobs = [{path.name for path in (tmp_path / store).glob("??/*")} for store in ("here", "aside")]
    assert blobs[0] == blobs[1]
    assert len(blobs[0]) == 3 * 7  # two files and an artifact


def test_a_disk_that_fails_in_a_worker_fails_here(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 2)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as raised:
        list(load_folders(LoadJob("acme", "blobs", (str(tmp_path / "file"),)), folders))
    assert raised.value.code == "STORAGE"
    assert raised.value.place is not None


def test_a_worker_that_ends_early_is_an_error_and_not_a_wait(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 2)
    monkeypatch.setattr(loading, "_MODULE", "this")
    with pytest.raises(StorageError) as raised:
        list(load_folders(LoadJob("acme", "blobs", (str(tmp_path / "blobs"),)), folders))
    assert raised.value.code == "WORKER_LOST"


def test_who_stops_listening_ends_the_workers(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 2)
    monkeypatch.setattr(loading, "_BATCH", 1)
    workers = []

    class Worker(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            workers.append(self)

    monkeypatch.setattr(subprocess, "Popen", Worker)
    loaded = load_folders(LoadJob("acme", "blobs", (str(tmp_path / "blobs"),)), folders)
    assert next(loaded).folder in folders
    cast("Generator[LoadResult]", loaded).close()
    assert len(workers) > 1
    assert [worker.returncode for worker in workers] == [0] * len(workers)  # ended, and waited for
