"""What the Python executor gives a sandbox, and what it makes of its end; and the skills unpacked for it."""

import asyncio
import errno
import os
import stat
import threading
from pathlib import Path
from typing import cast

import pytest
from tests.support.eventually import PATIENCE
from tests.support.sandbox_driver import make_attempt, make_skill

from skillwire.adapters.executors.python import LockedFolder, PythonExecutor, Shown, UnpackedSkills, outcome_of
from skillwire.adapters.executors.secrets import SecretMask, Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox import Sandbox
from skillwire.adapters.sandbox.process import Ending
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.errors import StorageError
from skillwire.model.digest import Digest
from skillwire.model.skill import Action, Artifact, Permissions, Skill, SkillFile

ENDED = Ending(b"", None, 0, b"", is_log_cut=False, started=0.1)


class RecordingSandbox:
    """Keeps the jobs that it is given, and runs none."""

    def __init__(self):
        self.jobs = []
        self.report = b'{"output": 1}'

    async def run(self, job):
        self.jobs.append(job)
        return ENDED._replace(report=self.report)


@pytest.mark.parametrize("seconds", [0.9, 1.5, 5.0])
async def test_a_skill_has_its_whole_time(tmp_path, seconds):
    blobs, sandbox = FileBlobs(tmp_path / "blobs"), RecordingSandbox()
    skill = make_skill(blobs, {"main.py": b"def main(args): pass"}, Action("python", "main.py", "main", Permissions()))
    executor = PythonExecutor(
        blobs, folder=tmp_path / "unpacked", secrets=Secrets({}), sandbox=cast("Sandbox", sandbox)
    )
    assert (await executor.execute(make_attempt(skill, {}, seconds))).output == 1
    assert [job.bounds.seconds for job in sandbox.jobs] == [seconds]


async def test_a_call_whose_blob_is_missing_may_be_tried_again(tmp_path):
    blobs, sandbox = FileBlobs(tmp_path / "blobs"), RecordingSandbox()
    files = {"main.py": b"def main(args): pass"}
    skill = make_skill(blobs, files, Action("python", "main.py", "main", Permissions()))
    blobs.remove(Digest.of(files["main.py"]))
    executor = PythonExecutor(
        blobs, folder=tmp_path / "unpacked", secrets=Secrets({}), sandbox=cast("Sandbox", sandbox)
    )
    attempt = make_attempt(skill, {}, 5.0)
    failure = (await executor.execute(attempt)).failure
    assert failure is not None
    assert (failure.reason, failure.is_passing) == ("unavailable", True)
    blobs.put(files["main.py"])
    assert (await executor.execute(attempt)).output == 1


async def test_a_report_is_read_and_searched_beside_the_event_loop(tmp_path, monkeypatch):
    """One of 8 MiB whose message is to be searched for secrets held the loop for seconds."""
    blobs, sandbox, threads = FileBlobs(tmp_path / "blobs"), RecordingSandbox(), []
    sandbox.report = b'{"exception": "Sorry", "message": "my-secret-value"}'
    action = Action("python", "main.py", "main", Permissions(secrets=("A_KEY",)))
    executor = PythonExecutor(
        blobs,
        folder=tmp_path / "unpacked",
        secrets=Secrets({"A_KEY": "my-secret-value"}),
        sandbox=cast("Sandbox", sandbox),
    )
    search = SecretMask.text

    def recorded(mask, text):
        threads.append(threading.current_thread())
        return search(mask, text)

    monkeypatch.setattr(SecretMask, "text", recorded)
    skill = make_skill(blobs, {"main.py": b"def main(args): pass"}, action)
    failure = (await executor.execute(make_attempt(skill, {}, 5.0))).failure
    assert failure is not None
    assert failure.message == "the skill raised Sorry: [secret]"
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    "report",
    [
        {"exception": "MemoryError", "message": "", "errno": None, "memory": True},
        {"exception": "OSError", "message": "", "errno": errno.ENOMEM, "memory": False},
    ],
)
def test_a_memory_error_is_no_use_of_memory(report):
    failure = outcome_of(ENDED, report, ResourceLimits(5.0), Shown((), "the skill")).failure
    assert failure is not None
    assert failure.message == "the skill got no more memory: one process has at most 1,073,741,824 bytes of addresses"
    assert (failure.reason, failure.details) == ("limit", {"limit": "address_bytes"})


def test_what_was_stopped_for_its_memory_is_told_so():
    ending = ENDED._replace(limit="memory_bytes", code=137)
    failure = outcome_of(ending, None, ResourceLimits(5.0), Shown((), "the skill")).failure
    assert failure is not None
    assert failure.message == "the skill used more than 536,870,912 bytes of memory"


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "blobs")


def skill_of(blobs, **files):
    rows = []
    for name, content in files.items():
        path = name.replace("__", "/") + ".py"
        rows.append(SkillFile(path, len(content), blobs.put(content), executable=path.startswith("run")))
    digest = Digest.of(repr(files).encode())
    return Skill("p", "s", "1.0.0", "d", tuple(rows), Artifact("archive", "application/gzip", ".tar.gz", 1, digest))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_skill_is_unpacked_for_everybody_to_read_and_nobody_to_write(tmp_path, blobs, mask):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs)
    before = os.umask(mask)
    try:
        held = unpacked.lock(skill_of(blobs, main=b"print(1)", deep__er__lib=b"x = 1", run=b"#!"))
    finally:
        os.umask(before)
    assert (held.path / "deep/er/lib.py").read_bytes() == b"x = 1"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [held.path, *held.path.rglob("*")]}
    assert modes.pop("run.py") == 0o555
    assert modes.pop("main.py") == modes.pop("lib.py") == 0o444
    assert set(modes.values()) == {0o755}
    assert stat.S_IMODE((tmp_path / "unpacked").stat().st_mode) == 0o700
    held.close()


def test_a_skill_is_made_once_and_shared(tmp_path, blobs):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs)
    skill = skill_of(blobs, main=b"1")
    first, second = unpacked.lock(skill), UnpackedSkills(tmp_path / "unpacked", blobs).lock(skill)
    assert first.path == second.path
    assert len(names(tmp_path / "unpacked")) == 1
    first.close()
    second.close()


def test_many_at_once_make_one(tmp_path, blobs):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs)
    skill = skill_of(blobs, main=b"1" * 1000, other=b"2" * 1000)
    held = []
    threads = [threading.Thread(target=lambda: held.append(unpacked.lock(skill))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.path for one in held}) == 1
    assert len(names(tmp_path / "unpacked")) == 1
    for one in held:
        one.close()


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"3")])
def test_a_missing_or_damaged_blob_leaves_nothing_half_made_and_may_be_tried_again(tmp_path, blobs, damage):
    skill = skill_of(blobs, main=b"1", other=b"2")
    damage(blobs.path(Digest.of(b"2")))
    with pytest.raises(StorageError) as raised:
        UnpackedSkills(tmp_path / "unpacked", blobs).lock(skill)
    assert (raised.value.code, raised.value.retryable) == ("STORAGE", True)
    assert names(tmp_path / "unpacked") == []


def test_the_longest_unused_goes_and_never_one_that_is_held(tmp_path, blobs):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs, keep=2)
    holds = [unpacked.lock(skill_of(blobs, main=str(number).encode())) for number in range(2)]
    holds[1].close()
    for number, one in enumerate(holds):
        os.utime(one.path, (number, number))
    third = unpacked.lock(skill_of(blobs, main=b"3"))
    assert holds[0].path.exists()  # the longest unused, but held
    assert third.path.exists()
    holds[0].close()
    third.close()
    os.utime(holds[0].path, (0, 0))
    fourth = unpacked.lock(skill_of(blobs, main=b"4"))
    assert not holds[0].path.exists()
    assert len(names(tmp_path / "unpacked")) == 2
    fourth.close()


def test_bytes_have_a_bound_too(tmp_path, blobs):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs, keep_bytes=250)
    for number in range(4):
        held = unpacked.lock(skill_of(blobs, main=str(number).encode() * 100))
        os.utime(held.path, (number, number))
        held.close()
    assert len(names(tmp_path / "unpacked")) == 2


def test_what_a_killed_process_left_half_made_goes(tmp_path, blobs):
    unpacked = UnpackedSkills(tmp_path / "unpacked", blobs)
    (tmp_path / "unpacked" / ".making-old").mkdir(parents=True)
    os.utime(tmp_path / "unpacked" / ".making-old", (0, 0))
    (tmp_path / "unpacked" / ".going-old").mkdir()
    (tmp_path / "unpacked" / ".making-new").mkdir()
    unpacked.lock(skill_of(blobs, main=b"1")).close()
    assert ".making-old" not in names(tmp_path / "unpacked")
    assert ".going-old" not in names(tmp_path / "unpacked")
    assert ".making-new" in names(tmp_path / "unpacked")


def test_every_file_and_folder_is_on_the_disk_before_the_skill_is_at_its_place(tmp_path, blobs, monkeypatch):
    synced: set[int] = set()
    missed: list[str] = []
    sync, rename = os.fsync, Path.rename

    def note(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def move(self, target):
        missed.extend(str(path) for path in [self, *self.rglob("*")] if path.stat().st_ino not in synced)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", move)
    held = UnpackedSkills(tmp_path / "unpacked", blobs).lock(skill_of(blobs, main=b"print(1)", deep__er__lib=b"x = 1"))
    held.close()
    assert synced
    assert not missed


def test_a_folder_that_cannot_be_moved_to_its_place_is_an_error(tmp_path, blobs, monkeypatch):
    tries = []

    def move(self, _):
        tries.append(self)
        if len(tries) > 3:
            pytest.fail("it is tried again and again")
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", move)
    with pytest.raises(StorageError, match="Permission denied"):
        UnpackedSkills(tmp_path / "unpacked", blobs).lock(skill_of(blobs, main=b"1"))
    assert len(tries) == 1


async def test_an_attempt_that_is_cancelled_while_its_skill_is_unpacked_lets_go_of_it(tmp_path, blobs, monkeypatch):
    begun, go, closed = threading.Event(), threading.Event(), threading.Event()
    hold, close = UnpackedSkills.lock, LockedFolder.close

    def slow(self, skill):
        begun.set()
        go.wait(PATIENCE)
        return hold(self, skill)

    def let_go(self):
        close(self)
        closed.set()

    monkeypatch.setattr(UnpackedSkills, "lock", slow)
    monkeypatch.setattr(LockedFolder, "close", let_go)
    skill = make_skill(blobs, {"main.py": b"def main(args): pass"}, Action("python", "main.py", "main", Permissions()))
    executor = PythonExecutor(blobs, folder=tmp_path / "unpacked", secrets=Secrets({}))
    task = asyncio.create_task(executor.execute(make_attempt(skill, {}, PATIENCE)))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await asyncio.to_thread(closed.wait, PATIENCE)
