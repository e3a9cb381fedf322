"""Blobs in MCP: what a caller hands in, what a skill leaves, and who reads it."""

import base64
import re

import pytest
from mcp.shared.exceptions import MCPError
from tests.support.mcp_host import shouting

from skillwire import limits


@pytest.fixture
async def host(tmp_path, monkeypatch):
    async with shouting(tmp_path, monkeypatch) as host:
        yield host


async def test_bytes_are_handed_in_and_read_in_base64(host):
    content = b"\x89\xff\x00"
    async with host.client() as client:
        given = {"content": base64.b64encode(content).decode(), "encoding": "base64", "kind": "application/zip"}
        kept = (await client.call_tool("create_blob", given)).structured_content
        (read,) = (await client.read_resource(kept["blob_id"])).contents
        assert (base64.b64decode(read.blob), read.mime_type) == (content, "application/zip")
        assert (await client.call_tool("create_blob", {"content": "x", "kind": "nonsense"})).is_error


async def test_a_blob_is_bounded_and_says_where_it_is_whole(host, monkeypatch):
    monkeypatch.setattr(limits, "MCP_BLOB_BYTES", 3)
    async with host.client() as client:
        kept = (await client.call_tool("create_blob", {"content": "four"})).structured_content
        with pytest.raises(MCPError, match=f"GET /blobs/{kept['blob_id']}"):
            await client.read_resource(kept["blob_id"])


@pytest.mark.parametrize("uri", ["blob:", "blob:x", "blob:../SKILL.md", f"blob:{64 * 'a'}"])
async def test_what_is_no_blob_of_the_caller_is_not_there(host, uri):
    async with host.client() as client:
        with pytest.raises(MCPError, match="you have no blob"):
            await client.read_resource(uri)


async def test_inputs_say_that_they_take_a_blob(host):
    async with host.client(pins=("shout",)) as client:
        described = (await client.call_tool("describe_skill", {"name": "shout"})).structured_content["input_schema"]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["shout"].input_schema == described
    sheet, word = described["properties"]["sheet"], described["properties"]["word"]
    assert re.fullmatch(sheet["pattern"], f"blob:{64 * 'a'}")
    assert sheet["type"] == "string"
    assert sheet["description"].startswith("The sheet. The id of a blob, as create_blob, POST /blobs")
    assert "pattern" not in word


async def test_the_dotted_name_of_the_skills_protocol_is_a_name_too(host):
    async with host.client() as client:
        described = await client.call_tool("describe_skill", {"name": "leads.shout"})
        assert described.structured_content["name"] == "shout"
        assert not (await client.call_tool("read_skill_file", {"name": "leads.shout"})).is_error
        assert (await client.call_tool("describe_skill", {"name": "leads.nothing"})).is_error


@pytest.mark.parametrize("offset", [10_000, 10**12])
async def test_an_offset_past_the_end_is_an_error(host, offset):
    async with host.client() as client:
        refused = await client.call_tool("read_skill_file", {"name": "shout", "offset": offset})
    assert refused.is_error
    assert "past its end" in refused.content[0].text
