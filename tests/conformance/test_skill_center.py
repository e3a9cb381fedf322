"""SDP section 7: the text's request and response, and what it says of the four endpoints."""

import json
import re

import pytest
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.stores import open_stores
from skillwire.server import create_app

SITE = "https://skillcenter.ooder.net"
REQUEST = b"""{
  "capabilities": ["org-data-read", "user-auth"],
  "scenes": ["auth"],
  "types": ["enterprise-skill"],
  "keywords": ["feishu"],
  "version": ">=0.7.0"
}
"""
RESPONSE = """{
  "total": 2,
  "skills": [
    {
      "id": "skill-org-feishu",
      "name": "Feishu Organization Service",
      "version": "0.7.0",
      "type": "enterprise-skill",
      "capabilities": ["org-data-read", "user-auth"],
      "scenes": ["auth"],
      "endpoint": "https://skillcenter.ooder.net/skills/skill-org-feishu",
      "downloadUrl": "https://skillcenter.ooder.net/api/skills/skill-org-feishu/download"
    },
    {
      "id": "skill-org-dingding",
      "name": "Dingding Organization Service",
      "version": "0.7.0",
      "type": "enterprise-skill",
      "capabilities": ["org-data-read", "user-auth"],
      "scenes": ["auth"],
      "endpoint": "https://skillcenter.ooder.net/skills/skill-org-dingding",
      "downloadUrl": "https://skillcenter.ooder.net/api/skills/skill-org-dingding/download"
    }
  ]
}
"""


def write(folder, name, title="", *, version="0.7.0", about="Does something.", **tables):
    head = f'---\nname: {name}\ndescription: "{about}"\nmetadata:\n  version: {version}\n'
    files = {"SKILL.md": f"{head}  title: {title or name}\n---\n\nDo it.\n"}
    facts = {"capabilities": ["org-data-read"], **tables}
    files["skill.toml"] = "".join(f"{key} = {json.dumps(value)}\n" for key, value in facts.items())
    write_skill(folder, name, files)


@pytest.fixture
async def site(tmp_path):
    both = {"capabilities": ["org-data-read", "user-auth"], "scenes": ["auth"], "skill_type": "enterprise-skill"}
    skills = tmp_path / "skills"
    write(skills, "skill-org-feishu", "Feishu Organization Service", about="Reads organizations.", **both)
    about = "Reads organizations, as the service of Feishu does."
    write(skills, "skill-org-dingding", "Dingding Organization Service", about=about, **both)
    write(skills, "old-feishu", version="0.6.9", about="Feishu.", **both)
    write(skills, "feishu-tool", about="Feishu.", capabilities=["org-data-read", "user-auth"], scenes=["auth"])
    write(skills, "feishu-mail", about="Feishu.", **{**both, "scenes": ["mail"]})
    write(skills, "feishu-staff", about="Feishu.", **{**both, "capabilities": ["user-auth"]})
    write(skills, "lark", skill_id="skill.lark")
    write(skills, "feishu-hidden", about="Feishu.", access="private", **both)
    write(skills, "feishu-paid", about="Feishu.", access="restricted", tags=["Treasury"], **both)
    application = create_app([skills], blobs=tmp_path / "blobs", publisher="ooder", base_url=SITE, access_log=False)
    application.catalog._refresh(None)
    return Asgi(application)


async def search(site, asked, path="/api/skills/search"):
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    return await site.request(path, method="POST", body=body)


async def ids(site, asked):
    return [one["id"] for one in (await search(site, asked)).json()["skills"]]


@pytest.mark.spec("SDP-center-response", "SDP-center-search", "SDP-center-paths")
@pytest.mark.parametrize("path", ["/api/skills/search", "/api/v1/skills/search"])
async def test_the_request_of_the_text_gets_the_response_of_the_text(site, path):
    answer = await search(site, REQUEST, path)
    assert answer.status == 200
    compact = json.dumps(json.loads(RESPONSE), separators=(",", ":"))  # the text is indented; all else is its bytes
    assert re.sub(rb',"digest":"sha256:[0-9a-f]{64}"', b"", answer.body) == compact.encode(), "beside the digest"


@pytest.mark.spec("SDP-center-search")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"types": ["tool-skill"]}, ["feishu-tool", "skill.lark"]),
        ({"capabilities": ["org-data-read"], "types": ["tool-skill"], "scenes": ["auth"]}, ["feishu-tool"]),
        ({"scenes": ["mail", "nowhere"]}, ["feishu-mail"]),
        ({"capabilities": ["org-data-read", "nothing"]}, []),
        ({"types": ["integration-skill", "infrastructure-skill"]}, []),
        ({"version": "<0.7.0"}, ["old-feishu"]),
        ({"version": "0.6.9"}, ["old-feishu"]),
        ({"version": "~0.6.0"}, ["old-feishu"]),
        ({"version": ">=0.6.0 <0.7.0"}, ["old-feishu"]),
        ({"version": "^1.0"}, []),
        ({"keywords": ["feishu", "mail"]}, ["feishu-mail"]),
        ({"keywords": ["feishu"], "version": "<=0.6.9"}, ["old-feishu"]),
        ({"keywords": ["!"]}, []),
        ({"keywords": ["lark"], "unknown": 1}, ["skill.lark"]),
    ],
)
async def test_all_criteria_hold_at_once(site, asked, found):
    assert await ids(site, asked) == found
    assert (await search(site, asked)).json()["total"] == len(found)


@pytest.mark.spec("SDP-center-search")
@pytest.mark.parametrize("criteria", [{}, {"keywords": ["feishu"]}])
async def test_pages_follow_each_other_by_cursor(site, criteria):
    everything = await ids(site, criteria)
    found, after = [], None
    while True:
        page = (await search(site, {**criteria, "limit": 2, "after": after})).json()
        assert page["total"] == len(everything)
        found += [one["id"] for one in page["skills"]]
        if (after := page.get("next")) is None:
            break
        other = await search(site, {"limit": 2, "after": after, "scenes": ["auth"]})
        assert other.json()["error"]["code"] == "CURSOR"
    assert found == everything
    assert len(found) > 4


@pytest.mark.spec("SDP-center-search")
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (b"{", "JSON_SYNTAX"),
        (b"[]", "QUERY"),
        ({"capabilities": "auth"}, "QUERY"),
        ({"limit": 0}, "QUERY"),
        ({"limit": 101}, "QUERY"),
        ({"after": "x"}, "CURSOR"),
        ({"version": "newest"}, "VERSION_RANGE"),
        ({"keywords": ["x"] * 65}, "QUERY"),
        ({"keywords": ["long " * 20] * 20}, "QUERY"),
    ],
)
async def test_a_malformed_search_is_refused(site, asked, code):
    answer = await search(site, asked)
    assert (answer.status, answer.json()["error"]["code"]) == (400, code)


@pytest.mark.spec("SDP-center-paths", "SDP-center-response")
@pytest.mark.parametrize("base", ["/api/skills", "/api/v1/skills"])
async def test_skills_are_listed_described_and_downloaded(site, base):
    listed = (await site.get(base)).json()
    assert listed["total"] == len(listed["skills"]) == 7
    assert (await site.get(f"{base}?limit=0000001009")).status == 400
    row = listed["skills"][-1]
    assert row == {**json.loads(RESPONSE)["skills"][0], "digest": row["digest"]}
    details = (await site.get(f"{base}/{row['id']}")).json()
    assert {key: details.pop(key) for key in row} == row
    digest = row["digest"]
    assert details.pop("size") > 0
    assert details == {
        "description": "Reads organizations.",
        "publisher": "ooder",
        "skill": "skill-org-feishu",
        "versionsUrl": f"{SITE}/@ooder/skill-org-feishu/versions.json",
    }
    download = await site.get(f"{base}/{row['id']}/download")
    assert (download.status, download.fields["content-type"]) == (200, "application/gzip")
    assert download.fields["etag"] == f'"{digest.removeprefix("sha256:")}"'
    assert (await site.get(f"{base}/{row['id']}/download?version=0.7.0")).body == download.body
    assert (await site.get(f"{base}/{row['id']}/download?version=0.7.1")).json()["error"]["code"] == "DISC_002"


@pytest.mark.spec("SDP-center-paths")
async def test_a_skill_with_an_id_of_its_own_is_found_by_it(site):
    assert (await site.get("/api/skills/skill.lark")).json()["skill"] == "lark"
    assert (await site.get("/api/skills/skill.lark/download")).status == 200


@pytest.mark.spec("SDP-center-search")
async def test_a_search_sees_what_was_published_since_the_last_one(site, tmp_path):
    assert await ids(site, {"scenes": ["new"]}) == []
    for name in ("first", "search"):
        write(tmp_path / "skills", name, scenes=["new"])
        site.application.catalog._refresh(None)
        assert name in await ids(site, {"scenes": ["new"]})
        assert name in await ids(site, {"keywords": [name]})
        assert (await site.get(f"/api/skills/{name}")).json()["id"] == name


@pytest.mark.spec("SDP-center-errors", "SDP-center-access")
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/skills/nothing", 404, "DISC_002"),
        ("/api/skills/nothing/download", 404, "DISC_002"),
        ("/api/skills/feishu-hidden", 404, "DISC_002"),
        ("/api/skills/feishu-hidden/download", 404, "DISC_002"),
        ("/api/skills/feishu-paid", 401, "AUTH_REQUIRED"),
        ("/api/skills/feishu-paid/download", 401, "AUTH_REQUIRED"),
    ],
)
async def test_what_cannot_be_had_is_an_error(site, path, status, code):
    answer = await site.get(path)
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.spec("SDP-center-access")
async def test_lists_and_searches_hold_what_the_caller_may_use(site):
    hidden = {"feishu-hidden", "feishu-paid"}
    key = {"X-API-Key": (await open_stores().tokens().issue("ann", skills=sorted(hidden))).secret}
    for fields, seen in (({}, set()), (key, hidden)):
        listed = {one["id"] for one in (await site.get("/api/skills", fields)).json()["skills"]}
        body = json.dumps({"keywords": ["FEISHU"], "scenes": ["auth"]}).encode()
        answer = (await site.request("/api/skills/search", fields, method="POST", body=body)).json()
        assert listed & hidden == {one["id"] for one in answer["skills"]} & hidden == seen
        assert answer["total"] == len(answer["skills"])
        tagged = await site.request("/api/skills/search", fields, method="POST", body=b'{"keywords": ["treasury"]}')
        assert [one["id"] for one in tagged.json()["skills"]] == (["feishu-paid"] if fields else [])
    details = await site.get("/api/skills/feishu-hidden", key)
    assert details.json()["skill"] == "feishu-hidden"
    assert details.fields["cache-control"] == "private, no-cache"
    assert (await site.get("/api/skills/feishu-hidden/download", key)).status == 200


@pytest.mark.spec("SDP-center-response")
async def test_lists_and_details_are_kept_by_caches(site):
    for path in ("/api/skills", "/api/skills/lark", "/api/skills/feishu-tool", "/api/skills?type=knowledge"):
        answer = await site.get(path.replace("lark", "skill.lark"))
        tag = answer.fields["etag"]
        assert tag.startswith('"')
        assert answer.fields["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
        assert (await site.get(path.replace("lark", "skill.lark"), {"If-None-Match": tag})).status == 304


@pytest.mark.spec("SSP-registry")
async def test_a_list_by_capability_type_is_that_of_skill_sharing(site):
    entries = (await site.get("/api/skills?type=knowledge")).json()
    assert entries == (await site.get("/skills?type=knowledge")).json()
    assert {entry["capability_type"] for entry in entries} == {"knowledge"}
    assert (await site.get("/api/skills?type=magic")).status == 400
