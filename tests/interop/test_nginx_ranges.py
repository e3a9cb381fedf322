"""A download that broke off goes on behind nginx, which compresses whatever it may."""

import random

import pytest
from tests.interop.hosting import Nginx
from tests.interop.peers import find_peer
from tests.interop.skill_samples import copy_examples

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.http.sync import SyncDriver
from skillwire.model.digest import Digest
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_artifact
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.trust.address import AddressPolicy

CONTENT = b"\x1f\x8b" + random.Random(5).randbytes(3_000_000)  # noqa: S311 - bytes that do not compress
DIGEST = Digest.of(CONTENT)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    find_peer("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    copy_examples(folder / "skills")
    with Nginx(folder / "skills", folder / "work") as site:
        (site.site / "large.tar.gz").write_bytes(CONTENT)
        yield f"{site.url}/large.tar.gz"


@pytest.mark.parametrize("kept", [CONTENT[:2_000_000], CONTENT[:1], b"\x1f\x8bother" * 1000, CONTENT + b"more"])
def test_the_whole_comes_whatever_was_kept(url, tmp_path, kept):
    blobs = FileBlobs(tmp_path)
    partial = tmp_path / "partial" / DIGEST.hex
    partial.parent.mkdir()
    partial.write_bytes(kept)
    received = []
    download = blobs.download(DIGEST)
    with SyncDriver(AddressPolicy().naming(parse_url(url))) as driver:
        driver.on_traffic = lambda _, size: received.append(size)
        assert driver.run(fetch_artifact(IndexEntry("a", "A.", "archive", url, DIGEST), sink=download)) is None
    download.keep()
    download.close()
    assert blobs.read(DIGEST) == CONTENT
    if CONTENT.startswith(kept):
        assert sum(received) < len(CONTENT) - len(kept) + 2000
