"""The API of ClawHub over the registry: each route in the shape that its client reads, and who may use it."""

import asyncio
import hashlib
import json

import pytest
from tests.support.client_apis import HUB, publish_to_hub, unzipped
from tests.support.openapi import check_answer, check_openapi
from tests.support.registry_site import skill_archive, skill_files

from skillwire import limits
from skillwire.adapters.files.atomic import state_directory
from skillwire.model.package import PackageName
from skillwire.server import openapi
from skillwire.server.problems import too_many
from skillwire.server.quotas import Allowance
from skillwire.server.routes.clawhub import ClawHub

FILES = {**skill_files(), "_a.md": "1", "B.md": "2", "a-b.md": "3", "a.md": "4", "scripts/run.py": "5"}
#: The order of ``paths.sort((a, b) => a.localeCompare(b))``.
IN_JAVASCRIPT = ("_a.md", "a-b.md", "a.md", "B.md", "scripts/run.py", "SKILL.md")


class Hub:
    """Asks for documents of the API."""

    def __init__(self, site):
        self.site = site

    async def __call__(self, path, status=200, **more):
        answer = await self.site.ask("GET", f"{HUB}{path}", **more)
        assert answer.status == status, answer.body
        return answer.json() if status == 200 else answer.body.decode()


@pytest.fixture
def hub(site):
    return Hub(site)


class TestReading:
    async def test_the_client_finds_the_api_and_its_account(self, site, hub):
        assert (await site.get("/.well-known/clawhub.json")).json() == {"apiBase": "http://127.0.0.1:8000"}
        user = {"handle": "ann", "displayName": "ann", "image": None, "role": "user"}
        assert await hub("/whoami", by="ann") == {"user": user}
        assert (await hub("/whoami", by="root"))["user"]["role"] == "admin"
        assert "needs the token of an account" in await hub("/whoami", 401)

    async def test_a_skill_is_described_with_its_versions_and_files(self, site, hub):
        await publish_to_hub(site, FILES, by="ann")
        await publish_to_hub(site, skill_files(text="Do more.\n"), by="ann", version="1.1.0")
        found = await hub("/skills/notes")
        head = {key: found["skill"][key] for key in ("slug", "displayName", "summary", "tags", "stats")}
        assert head == {
            "slug": "notes",
            "displayName": "notes",
            "summary": "Does something useful.",
            "tags": {"latest": "1.1.0"},
            "stats": {},
        }
        assert (found["latestVersion"]["version"], found["latestVersion"]["license"]) == ("1.1.0", None)
        assert found["latestVersion"]["createdAt"] > 1e12
        assert (found["owner"]["handle"], found["moderation"]) == ("ann", None)
        assert await hub("/skills/notes?ownerHandle=@ann") == found
        listed = await hub("/skills/notes/versions")
        assert ([one["version"] for one in listed["items"]], listed["nextCursor"]) == (["1.1.0", "1.0.0"], None)
        version = await hub("/skills/notes/versions/1.0.0")
        assert version["skill"] == {"slug": "notes", "displayName": "notes"}
        assert sorted(one["path"] for one in version["version"]["files"]) == sorted(FILES)
        assert "no version" in await hub("/skills/notes/versions/9.0.0", 404)

    async def test_files_and_archives_are_sent(self, site, hub):
        await publish_to_hub(site, FILES, by="ann")
        await publish_to_hub(site, {"SKILL.md": skill_files()["SKILL.md"]}, by="ann", version="1.1.0")
        file = await site.get(f"{HUB}/skills/notes/file?path=scripts/run.py&version=1.0.0")
        assert (file.status, file.body) == (200, b"5")
        assert "has no file" in await hub("/skills/notes/file?path=scripts/run.py", 404)
        archive = await site.get(f"{HUB}/download?slug=notes&ownerHandle=ann&version=1.0.0")
        assert archive.fields["content-type"] == "application/zip"
        assert unzipped(archive.body) == {path: text.encode() for path, text in FILES.items()}
        assert "immutable" in archive.fields["cache-control"]
        latest = await site.get(f"{HUB}/download?slug=notes&tag=latest")
        assert list(unzipped(latest.body)) == ["SKILL.md"]
        assert "immutable" not in latest.fields["cache-control"]
        await hub("/download?slug=notes&tag=beta", 404)
        held = await site.get(f"{HUB}/download?slug=notes", {"If-None-Match": latest.fields["etag"]})
        assert held.status == 304

    async def test_an_archive_that_was_made_before_is_made_again_when_its_bytes_are_lost(self, site, tmp_path):
        await publish_to_hub(site, FILES, by="ann")
        path = f"{HUB}/download?slug=notes&version=1.0.0"
        first = await site.get(path)
        digest = first.fields["etag"].strip('"')
        (tmp_path / "blobs" / digest[:2] / digest[2:]).unlink()
        assert (await site.get(path)).body == first.body

    async def test_a_fingerprint_of_files_names_their_version(self, site, hub):
        await publish_to_hub(site, FILES, by="ann")
        await publish_to_hub(site, skill_files(text="Do more.\n"), by="ann", version="1.1.0")
        lines = [f"{path}:{hashlib.sha256(FILES[path].encode()).hexdigest()}" for path in IN_JAVASCRIPT]
        fingerprint = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert (await site.store.version(PackageName("ann", "notes"), "1.0.0")).uploaded.hex == fingerprint
        found = await hub(f"/resolve?slug=notes&hash={fingerprint}")
        assert found == {"match": {"version": "1.0.0"}, "latestVersion": {"version": "1.1.0"}}
        assert (await hub(f"/resolve?slug=notes&hash={'0' * 64}"))["match"] is None
        assert (await hub("/resolve?slug=none&hash=0", 404)).startswith("Skill not found")

    async def test_lists_go_on_at_their_cursor(self, site, hub):
        for owner, name in (("ann", "notes"), ("bob", "notes"), ("bob", "memo"), ("ann", "note-taker")):
            await site.publish(owner, skill_archive(name))
        first = await hub("/skills?limit=2")
        assert [(one["slug"], one["ownerHandle"]) for one in first["items"]] == [("memo", "bob"), ("note-taker", "ann")]
        second = await hub(f"/skills?limit=2&cursor={first['nextCursor']}")
        assert [one["ownerHandle"] for one in second["items"]] == ["ann", "bob"]
        assert second["nextCursor"] is None
        assert [one["slug"] for one in (await hub("/skills?prefix=note&limit=200"))["items"]] == [
            "note-taker",
            "notes",
            "notes",
        ]
        for bad in ("cursor=x", "limit=0", "limit=x"):
            await hub(f"/skills?{bad}", 400)

    async def test_names_are_found_before_words(self, site, hub):
        await site.publish("ann", skill_archive("useful"))
        await site.publish("bob", skill_archive("notes"))
        site.look()
        found = (await hub("/search?q=useful"))["results"]
        assert [(one["slug"], one["version"], one["score"]) for one in found] == [
            ("useful", "1.0.0", 1.0),
            ("notes", "1.0.0", 0.5),
        ]
        assert [one["slug"] for one in (await hub("/search?q=useful&mode=exact"))["results"]] == ["useful"]
        assert (await hub("/search?q=use&mode=exact"))["results"] == []


class TestSlugs:
    async def test_one_of_several_owners_is_refused_with_the_list_that_the_client_prints(self, site, hub):
        for owner in ("ann", "bob"):
            await site.publish(owner)
        refused = json.loads(await hub("/skills/notes", 409))
        assert refused["code"] == "AMBIGUOUS_SKILL_SLUG"
        assert [one["ref"] for one in refused["matches"]] == ["@ann/notes", "@bob/notes"]
        assert {"ownerHandle", "slug", "ref", "url"} <= refused["matches"][0].keys()
        assert (await hub("/skills/notes?ownerHandle=bob"))["owner"]["handle"] == "bob"

    async def test_what_the_caller_may_not_know_of_makes_nothing_ambiguous(self, site, hub):
        for owner in ("ann", "bob"):
            await site.publish(owner)
        await site.call("PATCH", "/packages/bob/notes", {"access": "private"}, by="bob")
        assert (await hub("/skills/notes"))["owner"]["handle"] == "ann"
        await hub("/skills/notes", 409, by="bob")

    async def test_a_renamed_namespace_answers_to_its_old_name(self, site, hub):
        await site.publish("ann")
        await site.call("POST", "/namespaces/ann/rename", {"to": "apex"}, by="ann")
        assert (await hub("/skills/notes?ownerHandle=ann"))["owner"]["handle"] == "apex"

    async def test_a_renamed_package_answers_to_its_old_name(self, site, hub):
        for name in ("notes", "diary"):
            await site.publish("ann", skill_archive(name))
        await site.call("PATCH", "/packages/ann/notes", {"renamed_to": "ann/diary"}, by="ann")
        assert (await hub("/skills/notes"))["skill"]["slug"] == "diary"
        assert (await hub("/resolve?slug=notes&hash=0"))["latestVersion"] == {"version": "1.0.0"}
        new = await site.get(f"{HUB}/download?slug=diary")
        assert (await site.get(f"{HUB}/download?slug=notes")).body == new.body
        refused = await site.ask("DELETE", f"{HUB}/skills/notes", by="ann")
        assert (refused.status, b"name ann/diary" in refused.body) == (409, True)
        await hub("/skills/note", 404)

    async def test_an_old_name_that_another_package_has_too_is_ambiguous(self, site, hub):
        for name in ("notes", "diary"):
            await site.publish("ann", skill_archive(name))
        await site.publish("bob")
        await site.call("PATCH", "/packages/ann/notes", {"renamed_to": "ann/diary"}, by="ann")
        refused = json.loads(await hub("/skills/notes", 409))
        assert [one["ref"] for one in refused["matches"]] == ["@bob/notes", "@ann/diary"]
        assert (
            await site.ask("DELETE", f"{HUB}/skills/notes", by="bob")
        ).status == 200  # a change means the present one

    async def test_a_package_that_moved_to_another_namespace_is_one(self, site, hub):
        await site.call("POST", "/namespaces", {"name": "apex"}, by="ann")
        for namespace in ("ann", "apex"):
            await site.publish(namespace, by="ann")
        await site.call("PATCH", "/packages/ann/notes", {"renamed_to": "apex/notes"}, by="ann")
        assert (await hub("/skills/notes"))["owner"]["handle"] == "apex"

    @pytest.mark.parametrize("private", ["notes", "diary"])
    async def test_an_old_name_shows_nothing_that_is_private(self, site, hub, private):
        for name in ("notes", "diary"):
            await site.publish("ann", skill_archive(name))
        await site.call("PATCH", f"/packages/ann/{private}", {"access": "private"}, by="ann")
        absent = await hub("/skills/diaries", 404)
        await site.call("PATCH", "/packages/ann/notes", {"renamed_to": "ann/diary"}, by="ann")
        for by in (None, "bob"):
            assert (await hub("/skills/notes", 404, by=by)).replace("notes", "diaries") == absent
        assert (await hub("/skills/notes", by="ann"))["skill"]["slug"] == "diary"
        await site.publish("bob")
        assert (await hub("/skills/notes"))["owner"]["handle"] == "bob"


class TestPublishing:
    async def test_a_version_is_made_of_files_in_the_namespace_of_the_account(self, site):
        made = await publish_to_hub(site, FILES, by="ann")
        assert made.json() == {
            "ok": True,
            "skillId": "ann/notes",
            "versionId": "ann/notes@1.0.0",
            "slug": "notes",
            "version": "1.0.0",
            "publicationStatus": "published",
        }
        assert (await publish_to_hub(site, FILES, by="ann")).status == 200
        other = await publish_to_hub(site, skill_files(text="Other.\n"), by="ann")
        assert (other.status, other.fields["content-type"]) == (409, "text/plain; charset=utf-8")
        assert b"published with other bytes. Raise the version" in other.body
        assert (await publish_to_hub(site, FILES, by="ann", owner="bob")).status == 404

    async def test_a_refusal_names_file_line_rule_and_fix_and_leaves_nothing(self, site):
        files = {"SKILL.md": "---\nname: notes\n---\n"}
        refused = await publish_to_hub(site, files, by="ann")
        text = refused.body.decode()
        assert refused.status == 422
        assert "notes/SKILL.md:1: DESCRIPTION_FORM: " in text
        assert "Describe in one or two sentences" in text
        other = await publish_to_hub(site, skill_files("memo"), by="ann")
        assert (other.status, b"NAME" in other.body) == (422, True)
        assert (await site.store.statistics(with_private=True))["packages"] == 0

    async def test_a_request_without_a_slug_is_malformed(self, site):
        answer = await site.ask("GET", f"{HUB}/resolve?hash={'0' * 64}")
        assert (answer.status, b"slug is missing" in answer.body) == (400, True)

    async def test_files_are_those_that_were_announced(self, site):
        def announce(path="a", size=1, digest="0" * 64, by="ann"):
            document = {"path": path, "size": size, "sha256": digest}
            return site.ask("POST", f"{HUB}/skills/-/upload-url", document, by=by)

        assert (await announce(by=None)).status == 401
        assert (await announce(by=await site.token("ann", "read"))).status == 403
        assert (await site.ask("POST", f"{HUB}/skills", body=b"{", by=None)).status == 401  # not 400: it is not read
        assert (await announce(digest="x")).status == 400
        assert (await announce(size=limits.ARCHIVE_FILE_BYTES + 1)).status == 413
        where = (await announce()).json()["uploadUrl"].removeprefix("http://127.0.0.1:8000")
        assert (await site.ask("POST", where, by="ann", body=b"x")).status == 422
        assert (await site.ask("POST", where, by="bob", body=b"x")).status == 422
        assert (await site.ask("POST", where, body=b"x")).status == 401
        document = {"slug": "notes", "version": "1.0.0", "files": [{"storageId": where.rpartition("/")[2]}]}
        missing = await site.ask("POST", f"{HUB}/skills", document, by="ann")
        assert (missing.status, b"were not received" in missing.body) == (422, True)

    async def test_received_files_are_on_the_disk_until_they_are_published(self, site):
        held = state_directory() / "uploads"
        for content, status in ((b"Do it.\n", 422), (skill_files()["SKILL.md"].encode(), 200)):
            document = {"path": "SKILL.md", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            asked = (await site.ask("POST", f"{HUB}/skills/-/upload-url", document, by="ann")).json()
            where = asked["uploadUrl"].removeprefix("http://127.0.0.1:8000")
            for _ in range(2):
                assert (await site.ask("POST", where, by="ann", body=content)).status == 200
            assert [one.read_bytes() for one in held.glob("*/*")] == [content]
            document = {"slug": "notes", "version": "1.0.0", "files": [{"storageId": asked["uploadTicket"]}]}
            assert (await site.ask("POST", f"{HUB}/skills", document, by="ann")).status == status
            assert not list(held.iterdir())

    async def test_a_file_that_came_in_part_is_completed_when_it_is_sent_again(self, site):
        content = skill_files()["SKILL.md"].encode()
        document = {"path": "SKILL.md", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        asked = (await site.ask("POST", f"{HUB}/skills/-/upload-url", document, by="ann")).json()
        ticket, where = asked["uploadTicket"], asked["uploadUrl"].removeprefix("http://127.0.0.1:8000")
        await site.ask("POST", where, by="ann", body=content)
        (held,) = (state_directory() / "uploads" / ticket).iterdir()
        held.write_bytes(content[:20])  # as a full disk leaves it
        assert (await site.ask("POST", where, by="ann", body=content)).status == 200
        assert held.read_bytes() == content
        document = {"slug": "notes", "version": "1.0.0", "files": [{"storageId": ticket}]}
        assert (await site.ask("POST", f"{HUB}/skills", document, by="ann")).status == 200

    @pytest.mark.parametrize(("size", "status"), [(-1, 400), (limits.ARCHIVE_FILE_BYTES + 1, 413)])
    async def test_an_announced_size_is_one_that_a_file_can_have(self, site, size, status):
        announced = {"path": "a", "size": int(size), "sha256": "0" * 64}
        refused = await site.ask("POST", f"{HUB}/skills/-/upload-url", announced, by="ann")
        assert refused.status == status

    async def test_an_empty_file_is_announced_with_the_digest_of_no_bytes(self, site):
        for content, status in ((b"other", 422), (b"", 200)):
            document = {"path": "a", "size": 0, "sha256": hashlib.sha256(content).hexdigest()}
            answer = await site.ask("POST", f"{HUB}/skills/-/upload-url", document, by="ann")
            assert (answer.status, b"these are not the bytes of 'a'" in answer.body) == (status, status == 422)

    async def test_announced_files_have_a_bound(self, site):
        size = int(limits.ARCHIVE_FILE_BYTES)
        document = {"path": "a", "size": size, "sha256": "0" * 64}
        path = f"{HUB}/skills/-/upload-url"
        for account in ("ann", "bob"):
            answers = [await site.ask("POST", path, document, by=account) for _ in range(3)]
            assert [one.status for one in answers] == [200, 200, 503]
            assert limits.REGISTRY_UPLOADED_SECONDS - 60 < int(answers[2].fields["retry-after"]) <= 900
            assert b"would have announced more than 2,000 files or 67,108,864 bytes" in answers[2].body
        await site.account("eve")
        assert (await site.ask("POST", path, document, by="eve")).status == 200, "what others announced takes no room"

    async def test_of_many_that_publish_one_version_one_makes_it(self, site):
        made = await asyncio.gather(
            *[publish_to_hub(site, skill_files(text=f"Do {number}.\n"), by="ann") for number in range(8)]
        )
        assert sorted(one.status for one in made) == [200, *[409] * 7]


class TestStates:
    async def test_a_deleted_version_is_yanked_and_can_be_restored(self, site, hub):
        for version in ("1.0.0", "1.1.0"):
            await publish_to_hub(site, skill_files(), by="ann", version=version)
        path = f"{HUB}/skills/notes/versions/1.1.0"
        assert (await site.ask("DELETE", path, by="bob")).status == 403
        assert (await site.ask("DELETE", path, {"ownerHandle": "ann"}, by="ann")).json() == {"ok": True}
        assert (await hub("/skills/notes"))["latestVersion"]["version"] == "1.0.0"
        assert [one["version"] for one in (await hub("/skills/notes/versions"))["items"]] == ["1.0.0"]
        assert (await site.get(f"{HUB}/download?slug=notes&version=1.1.0")).status == 200
        assert (await site.ask("POST", f"{path}/restore", by="ann")).json() == {"ok": True}
        assert (await hub("/skills/notes"))["latestVersion"]["version"] == "1.1.0"

    async def test_lists_leave_out_a_skill_whose_versions_are_all_deleted(self, site, hub):
        for slug, versions in (("notes", ("1.0.0", "1.1.0")), ("notes-2", ("1.0.0",))):
            for version in versions:
                await publish_to_hub(site, skill_files(slug), by="ann", slug=slug, version=version)
                await site.ask("DELETE", f"{HUB}/skills/{slug}/versions/{version}", by="ann")
        await site.ask("POST", f"{HUB}/skills/notes-2/versions/1.0.0/restore", by="ann")
        assert [one["slug"] for one in (await hub("/skills"))["items"]] == ["notes-2"]
        for mode in ("", "&mode=exact"):
            slugs = [one["slug"] for one in (await hub(f"/search?q=notes{mode}"))["results"]]
            assert slugs == ([] if mode else ["notes-2"])
        assert (await hub("/skills/notes"))["latestVersion"] is None
        assert (await site.get(f"{HUB}/download?slug=notes&version=1.0.0")).status == 200

    async def test_a_deleted_skill_is_gone_and_its_name_stays_taken(self, site, hub):
        await publish_to_hub(site, skill_files(), by="ann")
        assert (await site.ask("DELETE", f"{HUB}/skills/notes", by="bob")).status == 403
        assert (await site.ask("DELETE", f"{HUB}/skills/notes", {"reason": "old"}, by="ann")).json() == {"ok": True}
        await hub("/skills/notes", 404, by="ann")
        assert (await publish_to_hub(site, skill_files(), by="ann", version="2.0.0")).status == 409

    async def test_quarantine_refuses_downloads_with_the_reason(self, site, hub):
        await publish_to_hub(site, skill_files(), by="ann")
        for path in ("/packages/ann/notes/1.0.0", "/packages/ann/notes"):
            await site.call("PATCH", path, {"status": "quarantined", "reason": "steals keys"}, by="root")
            for asked in ("/download?slug=notes&version=1.0.0", "/skills/notes/file?path=SKILL.md&version=1.0.0"):
                assert "steals keys" in await hub(asked, 403)
            for found in (await hub("/skills/notes"), await hub("/skills/notes/moderation")):
                moderation = found["moderation"]
                assert (moderation["isMalwareBlocked"], moderation["summary"]) == (True, "steals keys")
            await site.call("PATCH", path, {"status": "active"}, by="root")
        assert (await hub("/skills/notes/moderation"))["moderation"] is None

    async def test_a_private_skill_is_invisible_on_every_route(self, site, hub):
        await publish_to_hub(site, skill_files(), by="ann")
        await site.call("PATCH", "/packages/ann/notes", {"access": "private"}, by="ann")
        site.look()
        assert (await hub("/skills", by="bob"))["items"] == []
        assert (await hub("/search?q=notes", by="bob"))["results"] == []
        for path in (
            *("/skills/notes", "/skills/notes/versions", "/skills/notes/versions/1.0.0", "/skills/notes/moderation"),
            *("/skills/notes/file?path=SKILL.md", "/download?slug=notes", "/resolve?slug=notes&hash=0"),
        ):
            joined = "&" if "?" in path else "?"
            for asked in (path, f"{path}{joined}ownerHandle=ann"):
                hidden = await hub(asked, 404, by="bob")
                assert hidden == (await hub(asked.replace("notes", "none"), 404, by="bob")).replace("none", "notes")
                assert (await site.ask("GET", f"{HUB}{asked}", by="ann")).status == 200
        for method, path in (("DELETE", "/skills/notes"), ("DELETE", "/skills/notes/versions/1.0.0")):
            assert (await site.ask(method, f"{HUB}{path}", {"ownerHandle": "ann"}, by="bob")).status == 404
        assert [one["slug"] for one in (await hub("/skills", by="ann"))["items"]] == ["notes"]
        assert [one["slug"] for one in (await hub("/search?q=notes", by="ann"))["results"]] == ["notes"]

    async def test_a_restricted_skill_is_shown_and_not_sent(self, site, hub):
        await publish_to_hub(site, skill_files(), by="ann")
        await site.call("PATCH", "/packages/ann/notes", {"access": "restricted"}, by="ann")
        await hub("/skills/notes")
        for status, by in ((401, None), (403, "bob")):
            await hub("/download?slug=notes", status, by=by)
        assert (await site.ask("GET", f"{HUB}/download?slug=notes", by="ann")).status == 200


async def test_answers_fit_the_description_of_the_api(site):
    document = openapi.document(site.application.routes)
    check_openapi(document)
    await publish_to_hub(site, skill_files(), by="root")
    described = {path: item for path, item in document["paths"].items() if path.startswith(HUB)}
    for path, item in described.items():
        if "application/json" in item.get("get", {}).get("responses", {}).get("200", {}).get("content", {}):
            asked = path.format(slug="notes", version="1.0.0") + "?slug=notes"
            answer = await site.ask("GET", asked, by="root")
            schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            check_answer(answer.json(), schema, document)


def test_the_refusal_of_too_many_requests_names_its_fix():
    problem = ClawHub().shape(
        too_many("requests come too often", Allowance(allowed=False, limit=1, remaining=0, reset=7, retry_after=7))
    )
    assert problem.body() == b"requests come too often. Wait for the seconds in Retry-After."
