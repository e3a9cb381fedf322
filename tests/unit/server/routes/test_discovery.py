"""Scopes of a registry: namespaces, packages and their versions over Agent Skills Discovery."""

from urllib.parse import urljoin

import pytest
from tests.support.publishing import write_skill
from tests.support.registry_site import RegistrySite, skill_archive

INDEX = "/.well-known/agent-skills/index.json"


@pytest.fixture
async def site(tmp_path):
    write_skill(tmp_path / "skills", "acme")
    write_skill(tmp_path / "skills", "from-folder")
    made = RegistrySite(tmp_path, folders=[tmp_path / "skills"])
    for name in ("acme", "zeta", "bob"):
        await made.account(name)
    await made.publish("acme", skill_archive("notes", "1.0.0"))
    await made.publish("acme", skill_archive("notes", "1.2.0", "Do it better.\n", extra_txt="More.\n"))
    await made.publish("acme", skill_archive("notes", "2.0.0-rc.1", "Do it soon.\n"))
    await made.publish("zeta", skill_archive("notes", "0.1.0", "Others' notes.\n"))
    await made.publish("zeta", skill_archive("tools", scenes="", text="Tools.\n", skill_toml='scenes = ["acme"]\n'))
    made.look()
    yield made
    await made.parts.downloads.close()


async def names(site, path, fields=None):
    return [(one["name"], one["version"]) for one in (await site.get(path, fields)).json()["skills"]]


async def test_a_namespace_lists_its_own_packages_also_those_whose_name_another_one_took(site):
    assert await names(site, INDEX) == [
        ("acme", "1.0.0"),
        ("from-folder", "1.0.0"),
        ("notes", "1.2.0"),
        ("tools", "1.0.0"),
    ]
    assert await names(site, f"/@acme{INDEX}") == [("notes", "1.2.0")]
    assert await names(site, f"/@zeta{INDEX}") == [("notes", "0.1.0"), ("tools", "1.0.0")]
    assert await names(site, f"/@zeta/notes{INDEX}") == [("notes", "0.1.0")]
    old = (await site.get("/@zeta/.well-known/skills/index.json")).json()
    assert [one["name"] for one in old["skills"]] == ["notes", "tools"]


VERSIONS = {
    "@acme/notes@1.0.0": "1.0.0",
    "@acme/notes@1.2.0": "1.2.0",
    "@notes@1.0.0": "1.0.0",
    "@notes@2.0.0-rc.1": "2.0.0-rc.1",
    "@zeta/notes": "0.1.0",
    "@zeta": "0.1.0",
}


async def test_everything_that_a_scope_lists_is_there(site):
    for scope, version in VERSIONS.items():
        path = f"/{scope}{INDEX}"
        answer = await site.get(path)
        entry = answer.json()["skills"][0]
        assert (entry["name"], entry["version"]) == ("notes", version)
        artifact = await site.get(urljoin(path, entry["url"]))
        assert (artifact.status, artifact.fields["etag"]) == (200, f'"{entry["digest"].removeprefix("sha256:")}"')
        for base in ("agent-skills", "skills"):
            for file in entry["files"]:
                found = await site.get(f"/{scope}/.well-known/{base}/notes/{file}")
                assert (found.status, found.fields["cache-control"][:18]) == (200, "public, max-age=60")
            assert (await site.get(f"/{scope}/.well-known/{base}/notes/nothing.md")).status == 404
        assert (await site.get(path, {"If-None-Match": answer.fields["etag"]})).status == 304
        assert answer.fields["cache-control"] == "public, max-age=60, stale-while-revalidate=300"


async def test_versions_are_listed_with_their_states(site):
    await site.call("PATCH", "/packages/acme/notes/1.0.0", {"status": "yanked", "reason": "broken"}, by="acme")
    await site.call("PATCH", "/packages/acme/notes", {"status": "deprecated", "successor": "zeta/tools"}, by="acme")
    for path in ("/@acme/notes/versions.json", "/@notes/versions.json"):
        answer = await site.get(path)
        found = answer.json()
        versions = found.pop("versions")
        state = {"status": "deprecated", "successor": "zeta/tools"}
        assert found == {"publisher": "acme", "name": "notes", "latest": "1.2.0", "status": state}
        assert [one["version"] for one in versions] == ["2.0.0-rc.1", "1.2.0", "1.0.0"]
        assert versions[2]["status"] == {"status": "yanked", "reason": "broken"}
        assert versions[1]["published_by"] == "acme"
        assert versions[1]["published"] > 0
        for one in versions:  # a yanked one, too, for locks
            artifact = await site.get(urljoin(path, one["url"]))
            assert (artifact.status, len(artifact.body)) == (200, one["size"])
        assert (await site.get(path, {"If-None-Match": answer.fields["etag"]})).status == 304


async def test_a_folder_keeps_its_scope_and_has_one_version(site):
    assert await names(site, f"/@from-folder{INDEX}") == [("from-folder", "1.0.0")]
    assert [one["version"] for one in (await site.get("/@from-folder/versions.json")).json()["versions"]] == ["1.0.0"]
    assert (await site.get("/@local/from-folder/versions.json")).status == 200
    assert (await site.get("/@acme/versions.json")).json()["publisher"] == "local"  # a namespace has no versions


ABSENT = (
    "/@acme/nothing/versions.json",
    "/@acme/notes@9.9.9/.well-known/agent-skills/index.json",
    "/@acme/notes@x/.well-known/agent-skills/index.json",
    "/@zeta/versions.json",
    "/@acme/tools/.well-known/agent-skills/index.json",
    "/@nobody/notes/versions.json",
    "/@acme/.well-known/agent-skills/tools/SKILL.md",
    f"/.well-known/agent-skills/sha256/{'0' * 64}.md",
)


async def test_what_is_not_there_is_not_found(site):
    for path in ABSENT:
        answer = await site.get(path)
        assert (answer.status, answer.json()["error"]["code"]) == (404, "NOT_FOUND"), path


async def test_an_old_name_redirects(site):
    await site.publish("acme", skill_archive("minutes"))
    await site.call("PATCH", "/packages/acme/notes", {"renamed_to": "acme/minutes"}, by="acme")
    moved = await site.get("/@acme/notes@1.0.0/versions.json")
    assert (moved.status, moved.fields["location"]) == (308, "/@acme/minutes@1.0.0/versions.json")
    site.look()
    assert await names(site, f"/@acme{INDEX}") == [("minutes", "1.0.0")]
    await site.call("POST", "/namespaces/acme/rename", {"to": "apex"}, by="acme")
    site.look()
    moved = await site.get("/@acme/minutes@1.0.0/.well-known/skills/index.json")
    assert (moved.status, moved.fields["location"]) == (308, "/@apex/minutes@1.0.0/.well-known/skills/index.json")
    assert await names(site, "/@apex/minutes@1.0.0" + INDEX) == [("minutes", "1.0.0")]


async def test_quarantine_refuses_the_artifact_at_once_and_says_why(site):
    index = f"/@acme/notes@1.0.0{INDEX}"
    [entry] = (await site.get(index)).json()["skills"]
    await site.account("root", is_operator=True)
    refused = {"status": "quarantined", "reason": "steals keys"}
    await site.call("PATCH", "/packages/acme/notes/1.0.0", refused, by="root")
    for path in (index, urljoin(index, entry["url"])):
        answer = await site.get(path)
        assert (answer.status, answer.json()["error"]["code"]) == (403, "QUARANTINED")
        assert "steals keys" in answer.json()["error"]["message"]


async def test_downloads_by_digest_are_counted(site):
    [entry] = (await site.get(f"/@acme/notes{INDEX}")).json()["skills"]
    await site.get(f"/.well-known/agent-skills/sha256/{entry['digest'].removeprefix('sha256:')}.tar.gz")
    await site.parts.downloads.close()
    assert list((await site.call("GET", "/packages/acme/notes")).json()["downloads"].values()) == [1]


async def test_members_see_what_is_private_and_others_what_they_may_use(site):
    await site.publish("acme", skill_archive("secret", skill_toml='access = "private"\n'))
    await site.publish("acme", skill_archive("paid", skill_toml='access = "restricted"\n'))
    site.look()
    own = {"Authorization": f"Bearer {site.tokens['acme']}"}
    assert await names(site, f"/@acme{INDEX}") == [("notes", "1.2.0")]
    assert [name for name, _ in await names(site, f"/@acme{INDEX}", own)] == ["notes", "paid", "secret"]
    assert (await site.get("/@acme/secret/versions.json")).status == 404
    assert (await site.get("/@acme/paid/versions.json")).status == 401
    answer = await site.get("/@acme/secret/versions.json", own)
    assert (answer.status, answer.fields["cache-control"]) == (200, "private, no-cache")


async def test_pushed_skills_are_entries_and_descriptors_of_skill_sharing(site):
    host = {"Host": "skills.example.com"}
    entries = (await site.get("/skills?type=knowledge", host)).json()
    assert [one["id"] for one in entries] == ["local/acme", "local/from-folder", "acme/notes", "zeta/tools"]
    assert (await site.get("/api/skills?type=knowledge", host)).json() == entries
    for entry in entries:
        descriptor = (await site.get(entry["descriptor_url"].removeprefix("http://skills.example.com"))).json()
        assert (descriptor["id"], descriptor["version"]) == (entry["id"], entry["version"])
        assert descriptor["provider"]["name"] == entry["id"].partition("/")[0]
        assert (await site.get(descriptor["endpoint"]["url"].removeprefix("http://127.0.0.1:8000"))).status == 200


async def test_any_version_is_downloaded_from_the_skill_center(site):
    details = (await site.get("/api/skills/notes")).json()
    assert (details["publisher"], details["version"]) == ("acme", "1.2.0")
    for query, version in (("", "1.2.0"), ("?version=1.0.0", "1.0.0")):
        answer = await site.get(f"/api/skills/notes/download{query}")
        [entry] = (await site.get(f"/@acme/notes@{version}{INDEX}")).json()["skills"]
        assert (answer.status, answer.fields["etag"]) == (200, f'"{entry["digest"].removeprefix("sha256:")}"')
    await site.account("root", is_operator=True)
    await site.call("PATCH", "/packages/acme/notes/1.0.0", {"status": "quarantined", "reason": "bad"}, by="root")
    refused = await site.get("/api/skills/notes/download?version=1.0.0")
    assert (refused.status, refused.json()["error"]["code"]) == (403, "DISC_006")
    absent = await site.get("/api/skills/notes/download?version=9.0.0")
    assert (absent.status, absent.json()["error"]["code"]) == (404, "DISC_002")


async def test_requests_are_counted_for_each_address_and_token_on_every_api_of_a_registry(tmp_path):
    settings = tmp_path / "server.toml"
    limit = "{0}_per_minute = 60\n{0}_burst = 5\n"
    settings.write_text("[rate_limit]\n" + limit.format("anonymous") + limit.format("principal"))
    site = RegistrySite(tmp_path, configuration=settings)
    await site.account("acme")
    site.look()
    await site.publish("acme")
    own = {"Authorization": f"Bearer {site.tokens['acme']}"}
    paths = (
        "/api/skills",
        f"/@acme{INDEX}",
        "/@acme/notes/versions.json",
        "/api/registry/packages/acme/notes",
        "/skills",
    )
    for fields, left in (({}, 5), (own, 4)):
        for number, path in enumerate(paths[:left], 1):
            answer = await site.get(path, fields)
            assert answer.status == 200
            assert answer.fields["ratelimit-limit"] == "5"
            assert int(answer.fields["ratelimit-remaining"]) == left - number
            assert answer.fields["ratelimit-reset"].isdigit()
        refused = await site.get("/api/skills", fields)
        assert (refused.status, refused.fields["retry-after"]) == (429, "1")
