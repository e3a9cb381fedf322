"""The Skills extension: entries that hold, for whoever may have the skills."""

import base64

import pytest
from mcp.shared.exceptions import MCPError
from tests.support.mcp_host import hosting, list_skills
from tests.support.publishing import write_skill


async def test_pages_hold_every_skill_once(tmp_path):
    names = [f"skill-{number:03}" for number in range(103)]
    for name in names:
        write_skill(tmp_path / "skills", name)
    async with hosting(tmp_path / "skills", tmp_path) as host, host.client() as client:
        found, cursor = [], None
        while True:
            page = await list_skills(client, cursor)
            found += [skill.frontmatter.name for skill in page.skills]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == names
        resources, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            resources += [resource.name for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert resources == ["index.json", *names]
        for wrong in ("x", "###", "é", base64.urlsafe_b64encode(b"No Name").decode()):
            with pytest.raises(MCPError, match="cursor"):
                await list_skills(client, wrong)
