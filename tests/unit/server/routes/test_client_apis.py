"""The APIs of a registry side by side: what holds in each of them, in the form of its own errors."""

import pytest
from tests.support.registry_site import skill_archive

#: Each way to a package of one version that names no version, and the type of its refusals.
UNNAMED = {
    "/@ann/notes/.well-known/agent-skills/index.json": "application/json",
    "/@ann/notes/.well-known/skills/index.json": "application/json",
    "/@ann/.well-known/agent-skills/notes/SKILL.md": "application/json",
    "/api/v1/download?slug=notes": "text/plain; charset=utf-8",
    "/api/v1/download?slug=notes&ownerHandle=ann&tag=latest": "text/plain; charset=utf-8",
    "/api/v1/skills/notes/file?path=SKILL.md": "text/plain; charset=utf-8",
    "/v1/skills/ann--notes/content": "application/json",
    "/v1/skills/ann--notes/versions/latest": "application/json",
    "/v1/skills/ann--notes/versions/latest/content": "application/json",
}
#: The same with the version, and by digest.
NAMED = (
    "/@ann/notes@1.0.0/.well-known/agent-skills/index.json",
    "/api/v1/download?slug=notes&version=1.0.0",
    "/api/v1/skills/notes/file?path=SKILL.md&version=1.0.0",
    "/v1/skills/ann--notes/versions/1.0.0/content",
    "/v1/packages/ann/notes/versions/1.0.0/download",
    "/api/registry/packages/ann/notes/1.0.0/download",
    "/packages/ann/notes@1.0.0/raw/SKILL.md",
)


@pytest.mark.parametrize(
    ("status", "http", "reason"),
    [
        ("yanked", 404, "ann/notes 1.0.0 is yanked, and no other version is resolved: it loses data"),
        ("quarantined", 403, "ann/notes 1.0.0 is in quarantine: it loses data"),
    ],
)
async def test_a_package_without_another_version_has_no_latest(site, status, http, reason):
    await site.publish("ann", skill_archive())
    for path in UNNAMED:
        assert (await site.get(path)).status == 200, path
    state = {"status": status, "reason": "it loses data"}
    changed = await site.call("PATCH", "/packages/ann/notes/1.0.0", state, by="root")
    digest = changed.json()["digest"].removeprefix("sha256:")
    site.look()
    for path, media_type in UNNAMED.items():
        answer = await site.get(path)
        assert (answer.status, answer.fields["content-type"]) == (http, media_type), path
        assert reason in answer.body.decode()
        if status == "yanked":
            assert "To use the yanked one nevertheless, name its version, 1.0.0." in answer.body.decode()
    for path in (*NAMED, f"/.well-known/agent-skills/sha256/{digest}.md"):
        assert (await site.get(path)).status == {"yanked": 200, "quarantined": 303 if "raw" in path else 403}[status]


async def test_a_successor_of_the_yanked_version_is_named(site):
    await site.publish("ann", skill_archive())
    await site.publish("ann", skill_archive("diary"))
    state = {"status": "yanked", "reason": "old", "successor": "ann/diary"}
    await site.call("PATCH", "/packages/ann/notes/1.0.0", state, by="ann")
    assert "Use ann/diary instead." in (await site.get("/api/v1/download?slug=notes")).body.decode()
    await site.call("PATCH", "/packages/ann/diary", {"access": "private"}, by="ann")
    for path in UNNAMED:
        assert "diary" not in (await site.get(path)).body.decode(), "a private one is not named"


async def test_a_version_that_cannot_be_deleted_as_the_latest_changes_nothing(site):
    await site.publish("ann", skill_archive())
    latest = "/v1/skills/ann--notes/versions/latest"
    deleted = await site.ask("DELETE", latest, by="ann")
    kind = {"type": "skill_version_deleted", "object": "skill.version.deleted"}
    assert deleted.json() == {"id": "1.0.0", "version": "1.0.0", **kind, "deleted": True}
    again = await site.ask("DELETE", latest, by="ann")
    assert (again.status, again.json()["error"]["code"]) == (404, "YANKED")
    changes = [one.change for one in await site.store.audit(0, 99)]
    assert [one.target for one in changes if one.action == "version.yanked"] == ["ann/notes@1.0.0"]


async def test_the_page_shows_a_yanked_version_and_its_files_by_version_alone(site):
    await site.publish("ann", skill_archive())
    assert (await site.get("/packages/ann/notes/raw/SKILL.md")).status == 200
    await site.call("PATCH", "/packages/ann/notes/1.0.0", {"status": "yanked", "reason": "it loses data"}, by="ann")
    page = await site.get("/packages/ann/notes")
    assert (page.status, "it loses data" in page.body.decode()) == (200, True)
    for part in ("raw", "files"):
        answer = await site.get(f"/packages/ann/notes/{part}/SKILL.md")
        assert (answer.status, answer.fields["location"]) == (303, "/packages/ann/notes")
        assert (await site.get(f"/packages/ann/notes@1.0.0/{part}/SKILL.md")).status == 200
    assert (await site.get("/packages/ann/notes/diff?from=1.0.0")).status == 200


async def test_what_the_caller_may_not_use_is_refused_before_a_version_is(site):
    await site.publish("ann", skill_archive())
    await site.call("PATCH", "/packages/ann/notes", {"access": "restricted"}, by="ann")
    await site.call("PATCH", "/packages/ann/notes/1.0.0", {"status": "yanked", "reason": "it loses data"}, by="ann")
    assert (await site.get("/@ann/notes/.well-known/agent-skills/index.json")).status == 401
    assert (await site.ask("GET", "/api/v1/download?slug=notes", by="bob")).status == 403
