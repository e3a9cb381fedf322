"""``skillwire mcp`` as a host starts it: on its standard input and output, until it is ended."""

import os
import signal
import subprocess
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.support.eventually import PATIENCE
from tests.support.publishing import write_skill
from tests.unit.bridges.mcp.conftest import MAIN, MANIFEST

from skillwire.cli.main import run


@pytest.fixture
def skills(tmp_path):
    write_skill(tmp_path / "skills", "double", {"skill.toml": MANIFEST, "main.py": MAIN})
    write_skill(tmp_path / "skills", "omega-plan", {"skill.toml": 'access = "private"\n'})
    return tmp_path / "skills"


def surrounding(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKILLWIRE_HOME": str(tmp_path / "home")}


async def test_host_uses_every_skill_of_the_folder_and_calls_what_it_was_told_to(skills, tmp_path):
    arguments = ["-m", "skillwire", "mcp", str(skills), "--execute", "--grant-all", "--pin", "double"]
    started = StdioServerParameters(command=sys.executable, args=arguments, env=surrounding(tmp_path))
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][-1] == "double"
            found = await client.call_tool("find_skills", {"query": "useful"})
            assert {one["name"] for one in found.structured_content["skills"]} == {"double", "omega-plan"}
            assert (await client.call_tool("double", {"number": 2})).structured_content["output"] == {"double": 4}
    assert "published" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_while_its_input_is_open(skills, tmp_path, number):
    command = [sys.executable, "-m", "skillwire", "mcp", str(skills)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surrounding(tmp_path)
    ) as process:
        assert process.stderr
        assert process.stdout
        for line in process.stderr:
            if b"published" in line:
                break
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""


@pytest.mark.parametrize(
    "more", [["--execute"], ["--grant-all"], ["--pin", "double"], ["--config", __file__], ["--publisher", "local"]]
)
def test_what_a_relay_cannot_do_is_refused(more, capsys):
    assert run(["mcp", "--server", "http://127.0.0.1:9/mcp", *more]) == 2
    assert f"{more[0]} applies to folders" in capsys.readouterr().err


def test_missing_extra_is_said_with_what_to_install(skills, monkeypatch, capsys):
    monkeypatch.setattr("skillwire.bridges.mcp.find_spec", lambda _: None)
    assert run(["mcp", str(skills)]) == 2
    assert "skillwire[mcp]" in capsys.readouterr().err
