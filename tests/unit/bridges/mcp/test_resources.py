"""Files of skills as resources: the right bytes, to the right caller, and nothing from anywhere else."""

import base64
import contextlib
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, BlobResourceContents, TextResourceContents
from tests.support.mcp_host import MODES
from tests.unit.bridges.mcp.conftest import MEMBER, PNG

from skillwire import limits
from skillwire.bridges.mcp.resources import frontmatter_of
from skillwire.errors import DecodeError

CASES = json.loads((Path(__file__).parents[3] / "corpus" / "documents" / "file-path.json").read_bytes())
OPEN = "skill://open-notes"


@pytest.mark.parametrize("mode", MODES)
async def test_index_has_the_shape_of_discovery_0_2_0_and_its_urls_are_read(host, mode):
    async with host.client(mode=mode) as client:
        (contents,) = (await client.read_resource("skill://index.json")).contents
        assert contents.mime_type == "application/json"
        index = json.loads(contents.text)
        assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
        assert [(one["name"], one["type"]) for one in index["skills"]] == [
            ("double", "skill-md"),
            ("open-notes", "skill-md"),
        ]
        for one in index["skills"]:
            (read,) = (await client.read_resource(one["url"])).contents
            assert read.mime_type == "text/markdown"
            assert f"name: {one['name']}" in read.text


@pytest.mark.parametrize("mode", MODES)
async def test_skills_are_listed_with_their_own_names_and_descriptions(host, mode):
    async with host.client(MEMBER, mode=mode) as client:
        listed = (await client.list_resources()).resources
        assert [one.name for one in listed] == ["index.json", "double", "omega-plan", "open-notes", "staff-guide"]
        assert (listed[2].uri, listed[2].description) == ("skill://omega-plan/SKILL.md", "Plans the omega release.")
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["skill://{name}/{+path}", "blob:{sha256}"]


@pytest.mark.parametrize(("caller", "scope"), [(None, "public"), (MEMBER, "private")])
async def test_results_tell_caches_how_long_and_for_whom_they_hold(host, caller, scope):
    async with host.client(*[caller] if caller else []) as client:
        results = [
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.read_resource(f"{OPEN}/SKILL.md"),
            await client.list_tools(),
        ]
    expected = (1000 * limits.MCP_FRESH_SECONDS, scope)
    assert [(one.ttl_ms, one.cache_scope) for one in results] == [expected] * 4


async def test_what_is_no_utf_8_comes_in_base64(host):
    async with host.client() as client:
        (logo,) = (await client.read_resource(f"{OPEN}/logo.png")).contents
        (latin,) = (await client.read_resource(f"{OPEN}/latin.txt")).contents
        (guide,) = (await client.read_resource(f"{OPEN}/docs/deep/guide.md")).contents
    assert isinstance(logo, BlobResourceContents)
    assert (logo.mime_type, base64.b64decode(logo.blob)) == ("image/png", PNG)
    assert isinstance(latin, BlobResourceContents)
    assert base64.b64decode(latin.blob) == b"caf\xe9"
    assert isinstance(guide, TextResourceContents)


async def read_or_none(client, uri):
    try:
        (contents,) = (await client.read_resource(uri)).contents
    except MCPError as error:
        return error.error.code
    except UnicodeError:  # half of a surrogate pair can be in no message
        return INVALID_PARAMS
    return contents.uri


async def test_hostile_path_gives_no_byte(host):
    async with host.client(MEMBER) as client:
        for case in CASES:
            with contextlib.suppress(UnicodeError):
                for path in (case["data"], quote(case["data"]), quote(quote(case["data"]))):
                    uri = f"{OPEN}/{path}"
                    found = await read_or_none(client, uri)
                    assert found == INVALID_PARAMS or (case["expect"], found) == ("accept", uri)


async def test_what_the_caller_may_not_use_is_not_there(host):
    async with host.client() as client:
        for uri in ("skill://omega-plan/SKILL.md", "skill://staff-guide/SKILL.md", "skill://open-notes"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert (caught.value.error.code, caught.value.error.data) == (INVALID_PARAMS, {"uri": uri})


async def test_bytes_are_handed_in_and_read_in_base64(shout):
    content = b"\x89\xff\x00"
    async with shout.client() as client:
        given = {"content": base64.b64encode(content).decode(), "encoding": "base64", "kind": "application/zip"}
        kept = (await client.call_tool("create_blob", given)).structured_content
        (read,) = (await client.read_resource(kept["blob_id"])).contents
        assert (base64.b64decode(read.blob), read.mime_type) == (content, "application/zip")
        assert (await client.call_tool("create_blob", {"content": "x", "kind": "nonsense"})).is_error


async def test_a_blob_is_bounded_and_says_where_it_is_whole(shout, monkeypatch):
    monkeypatch.setattr(limits, "MCP_BLOB_BYTES", 3)
    async with shout.client() as client:
        kept = (await client.call_tool("create_blob", {"content": "four"})).structured_content
        with pytest.raises(MCPError, match=f"GET /blobs/{kept['blob_id']}"):
            await client.read_resource(kept["blob_id"])


@pytest.mark.parametrize("uri", ["blob:", "blob:x", "blob:../SKILL.md", f"blob:{64 * 'a'}"])
async def test_what_is_no_blob_of_the_caller_is_not_there(shout, uri):
    async with shout.client() as client:
        with pytest.raises(MCPError, match="you have no blob"):
            await client.read_resource(uri)


async def test_inputs_say_that_they_take_a_blob(shout):
    async with shout.client(pins=("shout",)) as client:
        described = (await client.call_tool("describe_skill", {"name": "shout"})).structured_content["input_schema"]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["shout"].input_schema == described
    sheet, word = described["properties"]["sheet"], described["properties"]["word"]
    assert re.fullmatch(sheet["pattern"], f"blob:{64 * 'a'}")
    assert sheet["type"] == "string"
    assert sheet["description"].startswith("The sheet. The id of a blob, as create_blob, POST /blobs")
    assert "pattern" not in word


async def test_the_dotted_name_of_the_skills_protocol_is_a_name_too(shout):
    async with shout.client() as client:
        described = await client.call_tool("describe_skill", {"name": "leads.shout"})
        assert described.structured_content["name"] == "shout"
        assert not (await client.call_tool("read_skill_file", {"name": "leads.shout"})).is_error
        assert (await client.call_tool("describe_skill", {"name": "leads.nothing"})).is_error


@pytest.mark.parametrize("offset", [10_000, 10**12])
async def test_an_offset_past_the_end_is_an_error(shout, offset):
    async with shout.client() as client:
        refused = await client.call_tool("read_skill_file", {"name": "shout", "offset": offset})
    assert refused.is_error
    assert "past its end" in refused.content[0].text


VALUES = {
    "1.0.0": "1.0.0",
    "1.0": 1.0,
    "12": 12,
    "-7": -7,
    "0o17": 15,
    "0x1F": 31,
    "1e3": 1000.0,
    ".5": 0.5,
    "1e999": "1e999",
    ".inf": ".inf",
    "true": True,
    "False": False,
    "null": None,
    "~": None,
    "": None,
    "yes": "yes",
    "2026-11-22": "2026-11-22",
    "12:30:45": "12:30:45",
    '"1.0"': "1.0",
    "'true'": "true",
    "|\n  12": "12\n",
    "[1, a, 'b']": [1, "a", "b"],
    "{a: 1, b: {c: no}}": {"a": 1, "b": {"c": "no"}},
}


@pytest.mark.parametrize("written", VALUES)
def test_scalar_has_the_type_of_the_core_schema(written):
    text = f"---\nname: notes\ndescription: Does it.\nvalue: {written}\n---\nDo it.\n"
    assert frontmatter_of(text.encode()) == {"name": "notes", "description": "Does it.", "value": VALUES[written]}


def test_aliases_are_not_followed():
    with pytest.raises(DecodeError, match="YAML_ALIAS"):
        frontmatter_of(b"---\nname: notes\ndescription: Does it.\na: &x [1]\nb: *x\n---\n")
