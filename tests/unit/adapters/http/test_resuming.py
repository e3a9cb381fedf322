"""Downloads that break off, over both drivers and real sockets."""

from __future__ import annotations

import random
import re

import pytest
from tests.support.raw_server import RawServer, answer, serving

from skillwire import limits
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.errors import FetchError, TrustError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.client import fetch_artifact
from skillwire.protocols.agent_skills.messages import IndexEntry

CONTENT = b"\x1f\x8b" + random.Random(7).randbytes(1_500_000)  # noqa: S311 - bytes that do not compress
DIGEST = Digest.of(CONTENT)
CUT = 900_000


class Origin:
    """Sends ``CONTENT``, cuts the first answers after ``CUT`` bytes, and answers ranges as ``ranges`` says."""

    def __init__(self, *, cuts=1, ranges="kept"):
        self.cuts, self.ranges = cuts, ranges
        self.starts: list[int | None] = []

    def __call__(self, peer):
        while head := peer.request():
            asked = re.search(rb"(?i)\r\nrange: bytes=(\d+)-", head)
            start = int(asked[1]) if asked else None
            self.starts.append(start)
            message = self.answer(start)
            if self.cuts:
                self.cuts -= 1
                peer.send(message[: message.index(b"\r\n\r\n") + 4 + CUT])
                return
            peer.send(message)

    def answer(self, start):
        total = len(CONTENT)
        if start is None or self.ranges == "ignored":
            return answer(CONTENT, "Content-Type: application/gzip")
        if self.ranges == "unsatisfiable":
            return answer(b"", f"Content-Range: bytes */{total}", status="416 Range Not Satisfiable")
        if self.ranges == "other part":
            return answer(CONTENT, f"Content-Range: bytes 0-{total - 1}/{total}", status="206 Partial Content")
        if self.ranges == "without saying which":
            return answer(CONTENT[start:], status="206 Partial Content")
        part = CONTENT[start:] if self.ranges == "kept" else bytes(total - start)
        extra = ["Content-Encoding: gzip"] if self.ranges == "encoded" else []
        return answer(part, f"Content-Range: bytes {start}-{total - 1}/{total}", *extra, status="206 Partial Content")


@pytest.fixture(autouse=True)
def _wait_little(monkeypatch):
    monkeypatch.setattr("skillwire.wire.download._FIRST_WAIT", 0.01)


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "blobs")


def fetch(drive, server, blobs):
    download = blobs.download(DIGEST)
    url = server.url("/x.tar.gz")
    drive.naming(url)
    try:
        body = drive.run(fetch_artifact(IndexEntry("a", "A.", "archive", url, DIGEST), sink=download))
        assert body is None
        download.keep()
    finally:
        download.close()
    return blobs.read(DIGEST)


def test_a_cut_download_goes_on_in_one_run(drive, blobs):
    origin = Origin(cuts=1)
    with RawServer(origin) as server:
        assert fetch(drive, server, blobs) == CONTENT
    assert origin.starts[0] is None
    assert CUT - limits.DOWNLOAD_PIECE_BYTES <= (origin.starts[1] or 0) <= CUT
    assert len(origin.starts) == 2


def test_a_cut_download_goes_on_in_the_next_run(drive, blobs, monkeypatch):
    monkeypatch.setattr(limits, "DOWNLOAD_TRIES", 0)
    monkeypatch.setattr(limits, "DOWNLOAD_REQUESTS", 0)
    origin = Origin(cuts=1)
    with RawServer(origin) as server:
        with pytest.raises(FetchError, match="CONNECTION_LOST"):
            fetch(drive, server, blobs)
        assert fetch(drive, server, blobs) == CONTENT
    assert (origin.starts[1] or 0) >= CUT - limits.DOWNLOAD_PIECE_BYTES


@pytest.mark.parametrize(
    "ranges", ["ignored", "unsatisfiable", "other part", "without saying which", "encoded", "wrong"]
)
def test_whatever_a_server_makes_of_a_range_the_whole_comes(drive, blobs, ranges):
    with RawServer(Origin(cuts=1, ranges=ranges)) as server:
        assert fetch(drive, server, blobs) == CONTENT


def test_kept_bytes_are_not_trusted(drive, blobs):
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\x1f\x8bevil" * 1000)
    with RawServer(Origin(cuts=0)) as server:
        assert fetch(drive, server, blobs) == CONTENT
    partial.write_bytes(CONTENT + b"more")
    with RawServer(Origin(cuts=0, ranges="unsatisfiable")) as server:
        assert fetch(drive, server, blobs) == CONTENT


def test_bytes_that_are_whole_already_are_not_asked_for(drive, blobs):
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT)
    with RawServer(Origin(cuts=0)) as server:
        assert fetch(drive, server, blobs) == CONTENT
        assert not server.requests


def test_a_whole_that_is_another_one_is_refused_and_nothing_kept(drive, blobs):
    def talk(peer):
        while peer.request():
            peer.send(answer(bytes(len(CONTENT)), "Content-Type: application/gzip"))

    with RawServer(talk) as server, pytest.raises(TrustError, match="DIGEST_MISMATCH"):
        fetch(drive, server, blobs)
    assert len(server.requests) == 1
    assert not list((blobs.directory / "partial").iterdir())


def test_a_continued_download_keeps_to_its_bound(drive, blobs, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", CUT + 100_000)
    partial = blobs.directory / "partial" / DIGEST.hex
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:CUT])
    with RawServer(Origin(cuts=0)) as server, pytest.raises(FetchError, match="BODY_TOO_LARGE"):
        fetch(drive, server, blobs)


def test_a_small_artifact_touches_no_file(drive, blobs):
    content = b"\x1f\x8b" + bytes(1000)
    digest = Digest.of(content)
    download = blobs.download(digest)
    with RawServer(serving(answer(content))) as server:
        drive.naming(server.url("/"))
        entry = IndexEntry("a", "A.", "archive", server.url("/x.tar.gz"), digest)
        assert drive.run(fetch_artifact(entry, sink=download)) == content
    assert not blobs.directory.exists()
