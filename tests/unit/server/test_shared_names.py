"""Packages of one name in several namespaces: which one has the name at the root, and where the others are found."""

import pytest
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire.model.package import PackageName, State, Status
from skillwire.registry.accounts import Actor

ROOT = "/.well-known/agent-skills/index.json"


async def make_site(folder):
    site = RegistrySite(folder)
    for name in ("zeta", "acme"):
        await site.account(name)
    await site.account("root", is_operator=True)
    return site


async def root_names(site):
    index = (await site.get(ROOT)).json()
    names = [one["name"] for one in index["skills"]]
    return {name: (await site.get(f"/.well-known/agent-skills/{name}/SKILL.md")).body for name in names}


async def ids(site, by=None):
    found = (await site.ask("GET", "/api/skills", by=by)).json()
    return [one["id"] for one in found["skills"]]


async def test_each_package_is_listed_searched_and_downloaded_by_an_id_of_its_own(tmp_path):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive(text="First.\n", notes_txt="x"))
    await site.publish("acme", skill_archive(text="Second.\n", notes_txt="x"))
    site.look()
    assert list(await root_names(site)) == ["notes"]
    assert await ids(site) == ["acme.notes", "notes"]
    first, second = [(await site.get(f"/api/skills/{one}")).json() for one in ("notes", "acme.notes")]
    assert (first["publisher"], second["publisher"]) == ("zeta", "acme")
    assert second["endpoint"].endswith("/packages/acme/notes")
    assert second["downloadUrl"].endswith("/api/skills/acme.notes/download")
    for one in (first, second):
        assert (await site.get(f"/api/skills/{one['id']}/download")).status == 200
    page = (await site.get("/api/skills?limit=1")).json()
    more = (await site.get(f"/api/skills?limit=1&after={page['next']}")).json()
    assert [one["id"] for one in page["skills"] + more["skills"]] == ["acme.notes", "notes"]
    found = (await site.ask("POST", "/api/skills/search", {"keywords": ["notes"]})).json()
    assert {one["id"] for one in found["skills"]} == {"notes", "acme.notes"}
    hits = (await site.get("/api/search?q=notes")).json()["skills"]
    assert {(one["id"], one["source"]) for one in hits} == {
        ("zeta/notes", "http://127.0.0.1:8000/"),
        ("acme/notes", "http://127.0.0.1:8000/@acme"),
    }
    html = (await site.get("/", {"Accept": "text/html"})).body.decode()
    assert "packages/acme/notes" in html
    assert "packages/zeta/notes" in html


@pytest.mark.parametrize("status", [Status.DELETED, Status.QUARANTINED])
async def test_a_name_at_the_root_is_never_handed_on(tmp_path, status):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive(text="First.\n"))
    await site.publish("acme", skill_archive(text="Second.\n"))
    site.look()
    before = await root_names(site)
    zeta = await site.store.package(PackageName("zeta", "notes"))
    actor = Actor("root", frozenset({"admin"}), is_operator=True)
    await site.registry.change_package(actor, zeta, state=State(status, "bad"))
    for one in (site, RegistrySite(tmp_path)):  # and so after a restart
        one.look()
        assert await root_names(one) == {}
        assert await ids(one) == ["acme.notes"]
    if status is Status.QUARANTINED:
        await site.registry.change_package(actor, zeta, state=State())
        site.look()
        assert await root_names(site) == before


async def test_a_private_package_takes_no_name_and_gets_none_by_becoming_public(tmp_path):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive(text="Hidden.\n", skill_toml='access = "private"\n'))
    site.look()
    assert (await ids(site), await ids(site, "zeta")) == ([], ["notes"])  # members have it until the name is owned
    await site.publish("acme", skill_archive(text="Open.\n"))
    site.look()
    assert (await ids(site), await ids(site, "zeta")) == (["notes"], ["notes", "zeta.notes"])
    (content,) = (await root_names(site)).values()
    assert (await site.call("PATCH", "/packages/zeta/notes", {"access": "public"}, by="zeta")).status == 200
    site.look()
    assert await ids(site) == ["notes", "zeta.notes"]
    assert list((await root_names(site)).values()) == [content]


async def test_a_redirect_of_equal_name_takes_the_name_along(tmp_path):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive(text="First.\n"))
    assert (await site.call("POST", "/namespaces", {"name": "apex"}, by="zeta")).status == 201
    await site.publish("apex", skill_archive(text="Moved.\n"), by="zeta")
    moved = await site.call("PATCH", "/packages/zeta/notes", {"renamed_to": "apex/notes"}, by="zeta")
    assert moved.status == 200
    site.look()
    assert [content.decode()[-7:] for content in (await root_names(site)).values()] == ["Moved.\n"]
    assert await ids(site) == ["notes"]


async def test_quarantine_is_answered_once_nothing_serves_the_package(tmp_path):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive())
    site.look()
    catalog = site.application.catalog
    catalog.start()
    try:
        document = {"status": "quarantined", "reason": "malware"}
        answer = await site.call("PATCH", "/packages/zeta/notes", document, by="root")
        assert answer.status == 200
        assert (await site.get("/.well-known/agent-skills/notes/SKILL.md")).status == 404
    finally:
        catalog.stop()
    refused = await site.call("PATCH", "/packages/zeta/notes", {"status": "quarantined"}, by="root")
    assert (refused.status, refused.json()["error"]["code"]) == (400, "REASON_FORM")


async def test_a_bare_grant_opens_no_package(tmp_path):
    site = await make_site(tmp_path)
    await site.publish("zeta", skill_archive(skill_toml='access = "private"\n'))
    site.look()
    tokens = site.application.services.authentication.tokens()
    for grant, status in (("notes", 404), ("zeta/notes", 200)):
        secret = (await tokens.issue("agent", skills=[grant])).secret
        for path in ("/api/skills/notes", "/@zeta/notes/versions.json", "/.well-known/agent-skills/notes/SKILL.md"):
            assert (await site.ask("GET", path, by=secret)).status == status, (grant, path)


async def test_a_skill_id_of_another_namespace_is_refused(tmp_path):
    site = await make_site(tmp_path)
    for skill_id, status in (("wanted", 400), ("zeta.notes", 400), ("acme.tool", 201)):
        answer = await site.publish("acme", skill_archive("tool", skill_toml=f'skill_id = "{skill_id}"\n'))
        assert answer.status == status, answer.body
