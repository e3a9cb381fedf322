"""Blobs in MCP: what a caller hands in, what a skill leaves, and who reads it."""

import pytest
from mcp.shared.exceptions import MCPError
from tests.support.mcp_host import MODES, read_bytes, shouting
from tests.unit.bridges.mcp.conftest import MEMBER


@pytest.fixture
async def host(tmp_path, monkeypatch):
    async with shouting(tmp_path, monkeypatch) as host:
        yield host


@pytest.mark.parametrize("mode", MODES)
async def test_what_was_handed_in_is_read_by_a_skill_whose_files_are_linked_and_read(host, mode):
    async with host.client(mode=mode) as client, host.client(MEMBER, mode=mode) as other:
        kept = (await client.call_tool("create_blob", {"content": "caf\u00e9"})).structured_content
        assert kept["size_bytes"] == 5
        assert await read_bytes(client, kept["blob_id"]) == "caf\u00e9".encode()
        arguments = {"name": "shout", "arguments": {"sheet": kept["blob_id"]}, "wait_seconds": 40}
        result = await client.call_tool("call_skill", arguments)
        assert not result.is_error, result
        (left,) = result.structured_content["output_blobs"]
        (link,) = result.content[1:]
        assert (link.type, link.uri, link.name, link.size) == ("resource_link", left["blob_id"], "loud.txt", 5)
        read = await client.read_resource(link.uri)
        assert (read.contents[0].text, read.contents[0].mime_type) == ("CAF\u00c9", "text/plain")
        assert (read.ttl_ms, read.cache_scope) in [(0, "private"), (None, None)]
        with pytest.raises(MCPError, match="you have no blob"):
            await other.read_resource(link.uri)
