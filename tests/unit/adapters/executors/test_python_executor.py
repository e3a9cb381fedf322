"""What the Python executor gives a sandbox, and what it makes of its end; no sandbox is started."""

import errno
import threading
from typing import cast

import pytest
from tests.support.sandbox_driver import make_attempt, make_skill

from skillwire.adapters.executors.python import PythonExecutor, Shown, outcome_of
from skillwire.adapters.executors.secrets import SecretMask, Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox.process import Ending
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.sandbox.sandbox import Sandbox
from skillwire.model.digest import Digest
from skillwire.model.skill import Action, Permissions

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
