"""``skillwire mcp --server``: a host that starts programs uses a server over HTTP, as somebody."""

import asyncio
import os
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from tests.support.eventually import eventually_async
from tests.support.mcp_host import EXECUTES, MODES
from tests.support.opened import open_ledger, open_tokens
from tests.support.publishing import serving, write_skill
from tests.unit.bridges.mcp.conftest import MAIN, MANIFEST

from skillwire.cli.main import run
from skillwire.model.execution import ExecutionQuery


@pytest.fixture
def server(tmp_path):
    """Give the address of a server with a private skill, and a key that opens it."""
    write_skill(tmp_path / "skills", "double", {"skill.toml": 'access = "private"\n' + MANIFEST, "main.py": MAIN})
    (tmp_path / "server.toml").write_text(EXECUTES)
    with serving(tmp_path / "skills", tmp_path / "home", "--config", tmp_path / "server.toml") as address:
        yield address


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens().issue("caller", skills=["double"]).secret


@pytest.fixture
def host(server, tmp_path):
    def host(token, mode):
        variables = {"PATH": os.environ["PATH"], "SKILLWIRE_HOME": str(tmp_path / "user")}
        variables["SKILLWIRE_TOKENS"] = f"http://{server}={token}"
        arguments = ["-m", "skillwire", "mcp", "--server", f"http://{server}"]
        started = StdioServerParameters(command=sys.executable, args=arguments, env=variables, cwd=tmp_path)
        return Client(stdio_client(started), mode=mode)

    return host


@pytest.mark.parametrize("mode", MODES)
async def test_host_gets_what_the_stored_credential_opens(host, key, mode):
    async with host(key, mode) as client:
        assert [one.name for one in (await client.list_resources()).resources] == ["index.json", "double"]
        calls = [client.call_tool("call_skill", {"name": "double", "arguments": {"number": n}}) for n in range(4)]
        runs = await asyncio.gather(*calls)
        assert [run.structured_content["output"]["double"] for run in runs] == [0, 2, 4, 6]
        with pytest.raises(MCPError, match="nothing is served"):
            await client.read_resource("skill://nothing/SKILL.md")


async def test_wrong_credential_is_told_to_the_host(host):
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="AUTH_REQUIRED"), flatten_subgroups=True):
        async with host("skw_wrong", "legacy"):
            pass


async def test_run_that_a_host_takes_back_is_cancelled_at_the_server(host, key):
    ledger = open_ledger()

    def runs():
        return ledger.search(ExecutionQuery()).executions

    async with host(key, "auto") as client:
        arguments = {"name": "double", "arguments": {"number": 1, "seconds": 40}}
        calling = asyncio.create_task(client.call_tool("call_skill", arguments))
        await eventually_async(runs)
        calling.cancel()
        await eventually_async(lambda: runs()[0].status.is_final)
    assert runs()[0].failure.reason == "cancelled"


@pytest.mark.parametrize(
    ("line", "code"),
    [("mcp", 2), ("mcp skills --server https://example.com", 2), ("mcp --server ftp://example.com", 1)],
)
def test_call_that_makes_no_sense_is_refused(line, code, capsys):
    assert run(line.split()) == code
    assert "error[U" in capsys.readouterr().err
