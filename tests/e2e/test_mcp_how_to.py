"""What the page on MCP has hosts read: every form is sound, and every command that it starts is one of ours."""

import json
import tomllib
from pathlib import Path

import pytest
from tests.support.pages import boxes

from skillwire.cli.mcp import serve

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-from-mcp.md"
ENDPOINT = "https://skills.example.com/mcp"
READERS = {"json": json.loads, "toml": tomllib.loads}


@pytest.mark.parametrize("box", boxes(PAGE), ids=lambda box: f"{box.kind}-{box.title}")
def test_what_hosts_read_starts_a_command_that_exists_or_names_an_endpoint(box):
    (server,) = READERS[box.kind](box.text)[box.title].values()
    if "command" in server:
        name, *arguments = server["args"]
        assert (server["command"], name) == ("skillwire", "mcp")
        given = serve.make_context("serve", arguments).params
        assert (given["folders"], given["server"]) in [(("/home/me/skills",), None), ((), ENDPOINT)]
    else:
        assert server["url"] == ENDPOINT
