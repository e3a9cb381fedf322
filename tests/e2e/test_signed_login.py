"""A login with a signing key at a real server of ours: each request is signed, and the key goes nowhere."""

import asyncio
import json

import pytest
from tests.support.command import run_command
from tests.support.private_origin import private_origin
from tests.support.publishing import serving, write_skill
from tests.support.raw_server import RawServer, answer

from skillwire import AsyncClient, Client
from skillwire.adapters.files.credentials import open_store
from skillwire.errors import NotFoundError
from skillwire.model.credential import Credential


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Give the origin of a server with one private skill, and what makes the ID and secret of a key that opens it."""
    folder = tmp_path_factory.mktemp("company")
    write_skill(folder / "skills", "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_skill(folder / "skills", "merger-plan", {"skill.toml": 'access = "private"\n'}, description="Merges us all.")
    with serving(folder / "skills", folder / "home") as authority:

        def new_key():
            done = run(folder, "token", "create", "robot", "--skill", "merger-plan", "--signing", "--json")
            document = json.loads(done)
            return document["token"]["id"], document["secret"]

        yield f"http://{authority}", new_key


def run(folder, *arguments, stdin="", status=0):
    done = run_command(*arguments, cwd=folder, env={"SKILLWIRE_HOME": str(folder / "home")}, input=stdin)
    assert done.code == status, done.out + done.err
    return done.out if status == 0 else done.err


def test_a_private_skill_is_found_shown_and_added(server, tmp_path):
    url, new_key = server
    key_id, secret = new_key()
    assert "merger-plan" not in run(tmp_path, "find", "merges", "--from", url)
    run(tmp_path, "auth", "login", url, "--key-id", key_id, "--token-stdin", stdin=secret)
    assert "merger-plan" in run(tmp_path, "find", "merges", "--from", url)
    assert "Merges us all." in run(tmp_path, "show", f"{url}/merger-plan")
    run(tmp_path, "add", f"{url}/merger-plan", "--yes", "--agent", "codex")
    assert (tmp_path / ".agents/skills/merger-plan/SKILL.md").is_file()


def test_a_restricted_skill_without_a_login_says_to_log_in(server, tmp_path):
    url, _ = server
    told = run(tmp_path, "add", f"{url}/staff-guide", "--yes", status=5)
    assert "is restricted, and you are not logged in there" in told
    assert f"skillwire auth login {url}" in " ".join(told.split())


@pytest.fixture
def key(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    url, new_key = server
    key_id, secret = new_key()
    open_store().keep(Credential(url, "custom", secret, "login", key_id=key_id))
    return url


async def test_both_clients_sign_equal_requests_of_one_second_anew(key, tmp_path):
    async with AsyncClient(tmp_path, refresh=True) as client:
        found = [*await client.index(key), *await client.index(key)]
    found += await asyncio.to_thread(indexes, key, tmp_path)
    assert {skill.name for skill in found} == {"merger-plan"}
    assert len(found) == 4


def indexes(url, folder):
    with Client(folder, refresh=True) as client:
        return [*client.index(url), *client.index(url)]


def test_no_redirect_carries_a_signature_to_another_origin(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    with private_origin() as other:

        def lead_away(peer):
            while peer.request():
                peer.send(answer(b"", f"Location: {other.url}/x", status="302 Found"))

        with RawServer(lead_away) as origin:
            open_store().keep(Credential(origin.url().rstrip("/"), "custom", "hush", "login", key_id="a" * 16))
            monkeypatch.setenv("SKILLWIRE_ALLOW", other.url)
            with Client(tmp_path) as client, pytest.raises(NotFoundError):
                client.index(origin.url())
            assert b"hush" in origin.requests[0] or b"signature" in origin.requests[0].lower()
        assert {path for path, _ in other.requests} == {"/x"}
        assert {name for _, headers in other.requests for name in headers} <= {
            "accept", "accept-encoding", "host", "user-agent",
        }  # fmt: skip
