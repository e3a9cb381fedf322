"""The application, called as a server calls it: codings, conditions, ranges, methods, errors, mounting."""

import pytest
import structlog
from tests.support.eventually import eventually_async
from tests.support.publishing import Asgi, write_skill
from tests.support.sites import INDEX, PUBLIC, Site

from skillwire.adapters.files import loading
from skillwire.errors import StorageError
from skillwire.server import create_app
from skillwire.server.app import make_components

LARGE = bytes(range(256)) * 4_000


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "notes", description="Writes notes. " * 60)
    write_skill(
        folder,
        "tools",
        {
            "scripts/run.sh": "#!/bin/sh\necho ok\n",
            "assets/page.html": "<script>alert(1)</script>",
            "assets/large.bin": LARGE,
            "references/naïve name.md": "# Naïve\n",
            "empty": b"",
        },
    )
    return folder


@pytest.fixture
def application(folder, tmp_path):
    return create_app([folder], blobs=tmp_path / "blobs", publisher="acme")


@pytest.fixture
async def client(application):
    yield Asgi(application)
    await application.shutdown()


async def test_bytes_that_vanished_from_the_store_are_made_again(client, tmp_path, folder):
    target = "/.well-known/agent-skills/tools/scripts/run.sh"
    await client.get(INDEX)
    for blob in (tmp_path / "blobs").glob("??/*"):
        blob.write_bytes(b"x" * blob.stat().st_size)
    with structlog.testing.capture_logs() as log:
        answer = await client.get(target)
        assert (answer.status, answer.json()["error"]["code"], answer.fields["retry-after"]) == (503, "STORAGE", "2")
        answer = await eventually_async(lambda: client.get(target), lambda answer: answer.status != 503)
    assert [one["blob"][:7] for one in log if one["event"].startswith("a blob is damaged")] == ["sha256:"]
    assert "skillwire_lost_blobs_total 1.0" in (await client.get("/metrics")).body.decode().splitlines()
    assert answer.body == (folder / "tools" / "scripts" / "run.sh").read_bytes()


async def test_a_large_file_with_wrong_bytes_is_made_again_and_never_sent(client, tmp_path):
    target = "/.well-known/agent-skills/tools/assets/large.bin"
    await client.get(INDEX)
    for blob in (tmp_path / "blobs").glob("??/*"):
        blob.write_bytes(b"x" * blob.stat().st_size)
    answer = await eventually_async(lambda: client.get(target), lambda answer: answer.status != 503)
    assert answer.body == LARGE
    assert "skillwire_lost_blobs_total 1.0" in (await client.get("/metrics")).body.decode().splitlines()


async def test_a_worker_hands_on_who_may_see_what_it_refuses(tmp_path, monkeypatch):
    site = Site(tmp_path, {"skill.toml": PUBLIC})
    (site.folder / "skill.toml").write_text('access = "restricted"\ntagz = 1\n')
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    (tmp_path / "skills" / "other" / "SKILL.md").write_text("no frontmatter")
    site.look()
    assert await site.statuses() == [401, 200]  # its descriptor says how to be let in


def test_a_registry_does_not_start_with_a_key_that_others_can_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    state = tmp_path / "state"
    state.mkdir(0o700)
    (state / "server.key").write_bytes(bytes(range(32)))
    (state / "server.key").chmod(0o644)
    with pytest.raises(StorageError) as caught:
        make_components((), is_registry=True)
    assert caught.value.code == "SERVER_KEY"
