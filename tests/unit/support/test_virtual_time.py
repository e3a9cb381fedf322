"""The helpers that other tests stand on: virtual time, the rules for unit tests, and commands in this process."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time


async def test_an_hour_passes_at_once_and_its_timers_come_in_order():
    seen = []

    async def note(name, seconds):
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    begun = virtual_loop().moment()
    await asyncio.gather(note("hour", 3600), note("minute", 60), note("second", 1))
    assert seen == [("second", 1), ("minute", 60), ("hour", 3600)]
    assert virtual_loop().moment().wall - begun.wall == 3600


async def test_what_a_thread_does_takes_no_time():
    release = threading.Event()
    timer = asyncio.create_task(asyncio.sleep(60))
    working = asyncio.create_task(asyncio.to_thread(release.wait))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(release.set)
    assert await working
    assert not timer.done()
    await timer
    assert virtual_loop().time() == 60


async def test_a_deadline_ends_what_never_comes():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()
    assert virtual_loop().time() == 30


@pytest.mark.parametrize(
    "act",
    [
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.socket().bind(("127.0.0.1", 0)),
        lambda: subprocess.run([sys.executable, "-c", ""], check=False),
        lambda: os.fork(),  # noqa: PLW0108  # what it is by then
        lambda: time.sleep(0.01),
    ],
    ids=["connect", "bind", "subprocess", "fork", "sleep"],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_unit_test_reaches_nothing_outside(act):
    with pytest.raises(pytest.fail.Exception, match=r"a unit test .*: move it to tests/integration"):
        act()


def test_a_command_has_streams_a_folder_and_an_environment_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "elsewhere"))
    before = Path.cwd(), dict(os.environ), sys.stdout
    done = run_command("init", "notes", cwd=tmp_path, env={"SKILLWIRE_HOME": str(tmp_path / "home")})
    assert done.code == 0, done.err
    assert (tmp_path / "notes" / "SKILL.md").is_file()
    refused = run_command("init", "notes", "--json", cwd=tmp_path)
    assert refused.code != 0
    assert refused.document()["error"]["code"]
    assert (Path.cwd(), dict(os.environ), sys.stdout) == before
