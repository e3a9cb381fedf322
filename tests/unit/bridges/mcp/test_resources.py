"""Files of skills as resources: the right bytes, to the right caller, and nothing from anywhere else."""

import base64
import contextlib
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, BlobResourceContents, TextResourceContents
from tests.support.mcp_host import MODES
from tests.unit.bridges.mcp.conftest import MEMBER, PNG

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
