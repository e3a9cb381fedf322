"""A download of a real process is killed on the way; the next process goes on where it was."""

import hashlib
import io
import random
import re
import signal
import subprocess
import tarfile
from queue import SimpleQueue

import pytest
from tests.support.eventually import PATIENCE
from tests.support.processes import skillwire
from tests.support.raw_server import RawServer, answer, index_of

from skillwire import limits


def pack():
    buffer = io.BytesIO()
    files = {
        "SKILL.md": b"---\nname: large\ndescription: Large.\n---\n",
        "data": random.Random(9).randbytes(2_000_000),  # noqa: S311 - bytes that do not compress
    }
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


ARTIFACT = pack()
CUT = 1_500_000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_add_goes_on_in_the_next_process(tmp_path, number):
    starts: list[int] = []
    started: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    kept = tmp_path / "home/cache/blobs/partial" / hashlib.sha256(ARTIFACT).hexdigest()

    def talk(peer):
        while head := peer.request():
            if b"index.json" in head:
                row = {"name": "large", "type": "archive", "description": "Large.", "url": "/large.tar.gz"}
                row["digest"] = "sha256:" + hashlib.sha256(ARTIFACT).hexdigest()
                peer.send(answer(index_of(row)))
                continue
            asked = re.search(rb"(?i)\r\nrange: bytes=(\d+)-", head)
            starts.append(int(asked[1]) if asked else 0)
            if len(starts) == 1:
                peer.send(answer(ARTIFACT)[:CUT])
                while not kept.exists() or kept.stat().st_size < CUT - 2 * limits.DOWNLOAD_PIECE_BYTES:
                    assert not server.stopping.wait(0.01)  # until the process has written what it got
                process = started.get(timeout=PATIENCE)  # it may ask before its start has returned
                process.send_signal(number)
                process.wait(PATIENCE)
                return
            size = len(ARTIFACT)
            part = f"Content-Range: bytes {starts[-1]}-{size - 1}/{size}"
            peer.send(answer(ARTIFACT[starts[-1] :], part, status="206 Partial Content"))

    (tmp_path / "project").mkdir()
    with RawServer(talk) as server:
        for expected in ({signal.SIGKILL: -9, signal.SIGINT: 130}[number], 0):
            words = ("add", server.url("/large"), "--yes")
            process = skillwire(*words, home=tmp_path / "home", cwd=tmp_path / "project")
            started.put(process)
            process.communicate(timeout=PATIENCE)
            assert process.returncode == expected
    assert starts[0] == 0
    assert starts[1] >= CUT - 2 * limits.DOWNLOAD_PIECE_BYTES
    assert (tmp_path / "project/.agents/skills/large/data").stat().st_size == 2_000_000
    assert not kept.exists()
