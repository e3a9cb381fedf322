"""The API of hosted skills over the registry: each route in the shape that SDKs read, and who may use it."""

import asyncio
from datetime import datetime
from unittest.mock import AsyncMock

import pytest
from tests.support.client_apis import HOSTED, form, host, unzipped
from tests.support.openapi import check_answer, check_openapi
from tests.support.registry_site import skill_files, tar_gz, zipped

from skillwire import limits
from skillwire.server import openapi
from skillwire.server.routes import hosted_skills

#: Files of a skill that states no version.
PLAIN = {"SKILL.md": '---\nname: notes\ndescription: "Does something useful."\n---\n\nDo it.\n', "a.py": "1"}
NOTES = f"{HOSTED}/ann--notes"
#: What the SDK sends that reads times as text.
AS_TEXT = {"Anthropic-Version": "2023-06-01"}


def error_of(answer):
    document = answer.json()
    assert document["type"] == "error"
    return answer.status, document["error"]["type"], document["error"]["code"]


class TestReading:
    async def test_a_skill_and_its_versions_are_described(self, site):
        made = await host(site, skill_files(), by="ann")
        assert made.status == 200, made.body
        skill = made.json()
        del skill["created_at"], skill["updated_at"]
        assert skill == {
            "id": "ann--notes",
            "type": "skill",
            "object": "skill",
            "name": "notes",
            "display_name": "notes",
            "description": "Does something useful.",
            "latest_version": "1.0.0",
            "latest_version_id": "1.0.0",
            "default_version": "1.0.0",
            "source": {"type": "custom"},
        }
        assert (await site.get(NOTES)).json()["id"] == "ann--notes"
        version = (await site.get(f"{NOTES}/versions/1.0.0")).json()
        del version["created_at"]
        assert version == {
            "id": "1.0.0",
            "version": "1.0.0",
            "type": "skill_version",
            "object": "skill.version",
            "skill_id": "ann--notes",
            "name": "notes",
            "description": "Does something useful.",
        }
        assert (await site.get(f"{NOTES}/versions/latest")).json()["id"] == "1.0.0"

    @pytest.mark.parametrize("path", [HOSTED, NOTES, f"{NOTES}/versions", f"{NOTES}/versions/latest"])
    async def test_times_are_text_for_the_sdk_that_reads_text_and_seconds_for_others(self, site, path):
        await host(site, PLAIN, by="ann")

        def times(answer):
            [row] = answer.json()["data"] if "data" in answer.json() else [answer.json()]
            return [row[name] for name in ("created_at", "updated_at") if name in row]

        seconds, text = await site.get(path), await site.ask("GET", path, by=None, fields=AS_TEXT)
        assert all(type(one) is int for one in times(seconds))
        assert [int(datetime.fromisoformat(one).timestamp()) for one in times(text)] == times(seconds)
        assert all(one.endswith("Z") for one in times(text))
        held = await site.ask("GET", path, by=None, fields={**AS_TEXT, "If-None-Match": text.fields["etag"]})
        own = await site.ask("GET", path, by="ann", fields=AS_TEXT)
        assert (held.status, own.json()) == (304, text.json())
        for answer in (seconds, text, held, own):
            assert {"Anthropic-Version", "Authorization"} <= set(answer.fields["vary"].split(", "))

    async def test_content_of_a_skill_is_that_of_its_latest_version(self, site):
        await host(site, PLAIN, by="ann")
        latest, content = await site.get(f"{NOTES}/versions/latest/content"), await site.get(f"{NOTES}/content")
        assert (content.status, content.body) == (200, latest.body)
        assert all(content.fields[name] == latest.fields[name] for name in ("etag", "cache-control"))
        assert error_of(await site.get(f"{NOTES}x/content")) == (404, "not_found_error", "PACKAGE_NOT_FOUND")

    async def test_content_is_in_a_folder_named_as_the_skill(self, site):
        await host(site, PLAIN, by="ann")
        content = await site.get(f"{NOTES}/versions/latest/content")
        assert content.fields["content-type"] == "application/zip"
        assert unzipped(content.body) == {f"notes/{path}": text.encode() for path, text in PLAIN.items()}
        assert "immutable" not in content.fields["cache-control"]
        fixed = await site.get(f"{NOTES}/versions/0.1.0/content")
        assert (fixed.body, "immutable" in fixed.fields["cache-control"]) == (content.body, True)

    async def test_lists_go_on_at_their_page(self, site):
        for name in ("a", "b", "c"):
            await host(site, skill_files(name), by="ann", folder=name)
        first = (await site.get(f"{HOSTED}?beta=true&limit=2")).json()
        assert ([one["id"] for one in first["data"]], first["has_more"]) == (["ann--a", "ann--b"], True)
        last = (await site.get(f"{HOSTED}?limit=2&page={first['next_page']}")).json()
        assert ([one["id"] for one in last["data"]], last["next_page"], last["has_more"]) == (["ann--c"], None, False)
        for version in ("1.1.0", "1.2.0"):
            await host(site, skill_files("a", version), by="ann", folder="a")
        first = (await site.get(f"{HOSTED}/ann--a/versions?limit=2")).json()
        assert [one["id"] for one in first["data"]] == ["1.2.0", "1.1.0"]
        last = (await site.get(f"{HOSTED}/ann--a/versions?page={first['next_page']}")).json()
        assert ([one["id"] for one in last["data"]], last["has_more"]) == (["1.0.0"], False)
        assert (await site.get(f"{HOSTED}?source=anthropic")).json()["data"] == []
        for bad in ("?page=x", "?after=x", "?limit=0", "?order=asc"):
            assert (await site.get(f"{HOSTED}{bad}")).status == 400
        for bad in ("?page=9", "?after=9", "?order=x"):
            assert (await site.get(f"{HOSTED}/ann--a/versions{bad}")).status == 400

    async def test_lists_go_on_behind_their_last_row(self, site):
        for name in ("a", "b", "c", "d"):
            await host(site, skill_files(name), by="ann", folder=name)
        await site.ask("DELETE", f"{HOSTED}/ann--b/versions/1.0.0", by="ann")  # then it has none to show
        first = (await site.get(f"{HOSTED}?limit=1")).json()
        edges = {"object": "list", "first_id": "ann--a", "last_id": "ann--a", "next_page": "ann--a", "has_more": True}
        assert {name: first[name] for name in edges} == edges
        second = (await site.get(f"{HOSTED}?limit=1&after=ann--a")).json()
        assert ([one["id"] for one in second["data"]], second["has_more"]) == (["ann--c"], True)
        last = (await site.get(f"{HOSTED}?limit=1&after=ann--c")).json()
        assert ([one["id"] for one in last["data"]], last["next_page"], last["has_more"]) == (["ann--d"], None, False)
        after = (await site.get(f"{HOSTED}?after=ann--d")).json()
        assert after == {**edges, "data": [], "first_id": None, "last_id": None, "next_page": None, "has_more": False}
        for version in ("1.1.0", "1.2.0"):
            await host(site, skill_files("a", version), by="ann", folder="a")
        found = (await site.get(f"{HOSTED}/ann--a/versions?order=asc&after=1.0.0&limit=1")).json()
        assert ([one["version"] for one in found["data"]], found["has_more"]) == (["1.1.0"], True)

    async def test_a_short_page_reads_past_many_yanked_skills_at_once(self, site, monkeypatch):
        for name in "abcdef":
            await host(site, skill_files(name), by="ann", folder=name)
        for name in "bcde":
            await site.ask("DELETE", f"{HOSTED}/ann--{name}/versions/1.0.0", by="ann")
        monkeypatch.setattr(limits, "REGISTRY_PAGE", 2)
        find = AsyncMock(side_effect=site.store.find_packages)
        monkeypatch.setattr(site.store, "find_packages", find)
        found = (await site.get(f"{HOSTED}?limit=1&after=ann--a")).json()
        assert ([one["id"] for one in found["data"]], found["has_more"]) == (["ann--f"], False)
        assert find.await_count == 1


class TestPublishing:
    async def test_an_upload_without_a_version_makes_the_next_one(self, site):
        assert (await host(site, PLAIN, by="ann")).json()["latest_version_id"] == "0.1.0"
        again = await host(site, PLAIN, by="ann", skill="ann--notes")
        assert (again.status, again.json()["id"]) == (200, "0.1.0")
        changed = await host(site, {**PLAIN, "a.py": "2"}, by="ann", skill="ann--notes")
        assert (changed.status, changed.json()["id"]) == (200, "0.1.1")
        assert (await host(site, {**PLAIN, "a.py": "3"}, by="ann")).json()["latest_version_id"] == "0.1.2"

    async def test_a_version_of_another_form_counts_as_none(self, site):
        for number, version in enumerate(("0.1.0", "0.1.1")):
            files = skill_files(version="notaversion", a_py=str(number))
            assert (await host(site, files, by="ann")).json()["latest_version_id"] == version
        stated = skill_files(version="notaversion", skill_toml='version = "2.0.0"\n')
        assert (await host(site, stated, by="ann")).json()["latest_version_id"] == "2.0.0"

    @pytest.mark.parametrize("pack", [tar_gz, zipped])
    @pytest.mark.parametrize("inside", ["", "notes"])
    async def test_a_skill_is_uploaded_as_one_archive(self, site, pack, inside):
        archive = {"notes.bin": pack(PLAIN, inside)}
        assert (await host(site, archive, by="ann", folder="")).json()["latest_version_id"] == "0.1.0"
        content = await site.get(f"{NOTES}/versions/latest/content")
        assert unzipped(content.body) == {f"notes/{path}": text.encode() for path, text in PLAIN.items()}
        changed = {"notes.bin": pack({**PLAIN, "a.py": "2"}, inside)}
        assert (await host(site, changed, by="ann", skill="ann--notes", folder="")).json()["id"] == "0.1.1"
        several = await host(site, {**archive, "more.bin": pack(PLAIN)}, by="ann", folder="")
        assert error_of(several)[2] == "NO_SKILL_MD"

    async def test_a_version_that_is_stated_never_changes(self, site):
        await host(site, skill_files(), by="ann")
        other = await host(site, skill_files(text="Other.\n"), by="ann", skill="ann--notes")
        assert error_of(other) == (409, "conflict_error", "VERSION_EXISTS")
        assert other.fields["x-should-retry"] == "false"  # otherwise SDKs upload it twice more

    @pytest.mark.parametrize("skill", ["", "ann--notes"])
    async def test_uploads_at_once_that_state_no_version_get_one_each(self, site, skill):
        if skill:
            await host(site, PLAIN, by="ann")
        changed = [{**PLAIN, "a.py": f"new {number}"} for number in range(8)]
        made = await asyncio.gather(*[host(site, files, by="ann", skill=skill) for files in changed])
        assert [one.status for one in made] == [200] * 8
        found = (await site.get(f"{NOTES}/versions")).json()["data"]
        assert {one["id"] for one in found} == {f"0.1.{number}" for number in range(9 if skill else 8)}

    async def test_a_version_is_chosen_again_some_times(self, site, monkeypatch):
        await host(site, PLAIN, by="ann")
        monkeypatch.setattr(hosted_skills.HostedSkillRoutes, "_free_version", AsyncMock(return_value="0.1.0"))
        refused = await host(site, {**PLAIN, "a.py": "2"}, by="ann", skill="ann--notes")
        assert error_of(refused) == (409, "conflict_error", "VERSION_EXISTS")

    async def test_the_default_version_is_the_latest(self, site):
        for version in ("1.0.0", "1.1.0"):
            await host(site, skill_files(version=version), by="ann")

        def ask(default, by="ann"):
            return site.ask("POST", NOTES, {"default_version": default}, by=by)

        kept = await ask("1.1.0")
        assert (kept.status, kept.json()["default_version"]) == (200, "1.1.0")
        refused = await ask("1.0.0")
        assert error_of(refused) == (400, "invalid_request_error", "QUERY")
        message = refused.json()["error"]["message"]
        assert message.startswith("the default version is always the latest: 1.1.0. Leave the default out, or delete")
        assert error_of(await ask("2.0.0"))[2] == "VERSION_NOT_FOUND"
        assert [error_of(await ask("1.1.0", by))[0] for by in ("bob", None)] == [403, 401]
        await site.ask("DELETE", f"{NOTES}/versions/1.1.0", by="ann")
        assert (await ask("1.0.0")).json()["default_version"] == "1.0.0"

    @pytest.mark.parametrize(
        ("version", "default", "status"),
        [("1.2.0", "true", 200), ("1.2.0", "false", 400), ("1.0.0", "true", 400), ("1.0.0", "false", 200)],
    )
    async def test_a_version_that_would_not_be_the_default_as_asked_is_not_published(
        self, site, version, default, status
    ):
        await host(site, skill_files(version="1.1.0"), by="ann")
        fields, body = form(skill_files(version=version), default=default)
        answer = await site.ask("POST", f"{NOTES}/versions", by="ann", body=body, fields=fields)
        assert answer.status == status
        assert (await site.get(f"{NOTES}/versions/{version}")).status == (200 if status == 200 else 404)

    async def test_a_namespace_can_be_named(self, site):
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        made = await host(site, PLAIN, by="ann", query="&namespace=acme")
        assert made.json()["id"] == "acme--notes"
        assert (await host(site, PLAIN, by="bob", query="&namespace=acme")).status == 403
        assert (await host(site, PLAIN, by="bob", skill="acme--notes")).status == 403
        unknown = await host(site, PLAIN, by=None)
        assert error_of(unknown) == (401, "authentication_error", "AUTH_REQUIRED")
        assert unknown.json()["error"]["message"].endswith("Run skillwire auth login with the provider's address.")

    async def test_a_refusal_names_file_line_rule_and_fix_and_leaves_nothing(self, site):
        refused = await host(site, {"SKILL.md": "---\nname: notes\n---\n"}, by="ann")
        assert error_of(refused) == (422, "invalid_request_error", "SKILL_INVALID")
        message = refused.json()["error"]["message"]
        assert "notes/SKILL.md:1: DESCRIPTION_FORM: " in message
        assert "Describe in one or two sentences" in message
        other = await host(site, skill_files("memo"), by="ann")
        assert error_of(other)[0] == 422
        await host(site, PLAIN, by="ann")
        renamed = await host(site, skill_files("memo"), by="ann", skill="ann--notes", folder="memo")
        assert error_of(renamed) == (422, "invalid_request_error", "NO_SKILL_MD")
        assert (await site.store.statistics(with_private=True))["versions"] == 1

    @pytest.mark.parametrize(
        ("fields", "body", "status", "code"),
        [
            ({}, b"x", 400, "MULTIPART_SYNTAX"),
            ({"Content-Type": "application/json"}, b"{}", 400, "MULTIPART_SYNTAX"),
            ({"Content-Type": "multipart/form-data"}, b"x", 400, "MULTIPART_SYNTAX"),
            ({"Content-Type": "multipart/form-data; boundary=b"}, b"x", 400, "MULTIPART_SYNTAX"),
            ({"Content-Type": "multipart/form-data; boundary=b"}, b"", 422, "NO_SKILL_MD"),
            ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nx: y\r\n\r\n", 400, "MULTIPART_SYNTAX"),
            ({"Content-Encoding": "gzip"}, b"x", 415, "MEDIA_TYPE"),
            ({}, bytes(limits.ARCHIVE_BYTES + 1), 413, "ARCHIVE_SIZE"),
        ],
    )
    async def test_a_body_that_is_no_form_is_refused(self, site, fields, body, status, code):
        answer = await site.ask("POST", HOSTED, by="ann", body=body, fields=fields)
        assert (error_of(answer)[0], error_of(answer)[2]) == (status, code)
        if "boundary" not in fields.get("Content-Type", "") and code == "MULTIPART_SYNTAX":
            assert b"the body is no form with a boundary" in answer.body

    @pytest.mark.parametrize(
        ("path", "code"),
        [("../x", "PATH_TRAVERSAL"), ("/etc/x", "PATH_ABSOLUTE"), ("a\\\\b", "PATH_WINDOWS"), ("x/", "PATH_INVALID")],
    )
    async def test_a_hostile_path_is_refused(self, site, path, code):
        fields, body = form({"SKILL.md": PLAIN["SKILL.md"], path: "x"}, "")
        assert error_of(await site.ask("POST", HOSTED, by="ann", body=body, fields=fields)) == (
            422,
            "invalid_request_error",
            code,
        )

    async def test_a_form_has_a_bounded_number_of_files(self, site):
        fields, body = form({f"{number}": "x" for number in range(int(limits.ARCHIVE_ENTRIES) + 1)})
        answer = await site.ask("POST", HOSTED, by="ann", body=body, fields=fields)
        assert error_of(answer) == (400, "invalid_request_error", "MULTIPART_SYNTAX")


class TestStates:
    async def test_a_deleted_version_is_yanked(self, site):
        for version in ("1.0.0", "1.1.0"):
            await host(site, skill_files(version=version), by="ann")
        path = f"{NOTES}/versions/1.1.0"
        assert error_of(await site.ask("DELETE", path, by="bob"))[0] == 403
        assert (await site.ask("DELETE", path, by="ann")).json() == {
            "id": "1.1.0",
            "version": "1.1.0",
            "type": "skill_version_deleted",
            "object": "skill.version.deleted",
            "deleted": True,
        }
        assert (await site.get(NOTES)).json()["latest_version_id"] == "1.0.0"
        assert [one["id"] for one in (await site.get(f"{NOTES}/versions")).json()["data"]] == ["1.0.0"]
        assert (await site.get(f"{path}/content")).status == 200

    async def test_a_deleted_skill_is_gone(self, site):
        await host(site, PLAIN, by="ann")
        assert error_of(await site.ask("DELETE", NOTES, by="bob"))[0] == 403
        kind = {"type": "skill_deleted", "object": "skill.deleted"}
        assert (await site.ask("DELETE", NOTES, by="ann")).json() == {"id": "ann--notes", **kind, "deleted": True}
        assert error_of(await site.get(NOTES)) == (404, "not_found_error", "PACKAGE_NOT_FOUND")
        assert error_of(await host(site, PLAIN, by="ann"))[2] == "PACKAGE_CLOSED"

    async def test_quarantine_refuses_content_with_the_reason(self, site):
        await host(site, PLAIN, by="ann")
        state = {"status": "quarantined", "reason": "steals keys"}
        await site.call("PATCH", "/packages/ann/notes/0.1.0", state, by="root")
        refused = await site.ask("GET", f"{NOTES}/versions/0.1.0/content", by="ann")
        assert error_of(refused) == (403, "permission_error", "QUARANTINED")
        assert "steals keys" in refused.json()["error"]["message"]
        assert (await site.get(f"{NOTES}/versions")).json()["data"] == []

    async def test_a_private_skill_is_invisible_on_every_route(self, site):
        await host(site, PLAIN, by="ann")
        await site.call("PATCH", "/packages/ann/notes", {"access": "private"}, by="ann")
        assert (await site.ask("GET", HOSTED, by="bob")).json()["data"] == []
        paths = ("", "/content", "/versions", "/versions/0.1.0", "/versions/latest", "/versions/0.1.0/content")
        for path in paths:
            hidden = await site.ask("GET", f"{NOTES}{path}", by="bob")
            absent = await site.ask("GET", f"{HOSTED}/ann--absent{path}", by="bob")
            assert (hidden.status, hidden.body.replace(b"notes", b"absent")) == (404, absent.body)
            assert (await site.ask("GET", f"{NOTES}{path}", by="ann")).status == 200
        for path in ("", "/versions/0.1.0"):
            assert (await site.ask("DELETE", f"{NOTES}{path}", by="bob")).status == 404
        assert (await host(site, PLAIN, by="bob", skill="ann--notes")).status == 404
        assert (await site.ask("POST", NOTES, {"default_version": "0.1.0"}, by="bob")).status == 404
        assert (await site.get(f"{HOSTED}/notes")).status == 404


async def test_answers_fit_the_description_of_the_api(site):
    document = openapi.document(site.application.routes)
    check_openapi(document)
    await host(site, PLAIN, by="ann")
    found = {path: item for path, item in document["paths"].items() if path.startswith(HOSTED)}
    assert len(found) == 6
    for path, item in found.items():
        if not path.endswith("/content"):
            for status, asked in (("200", path.format(hosted="ann--notes", version="0.1.0")), ("404", f"{NOTES}x")):
                for fields in ({}, AS_TEXT):
                    answer = await site.ask("GET", asked, by=None, fields=fields)
                    schema = item["get"]["responses"][status]["content"]["application/json"]["schema"]
                    check_answer(answer.json(), schema, document)
    for path, method, body in (
        (NOTES, "POST", {"default_version": "0.1.0"}),
        (f"{NOTES}/versions/0.1.0", "DELETE", None),
        (NOTES, "DELETE", None),
    ):
        answer = await site.ask(method, path, body, by="ann")
        described = found[path.replace("ann--notes", "{hosted}").replace("0.1.0", "{version}")][method.lower()]
        check_answer(answer.json(), described["responses"]["200"]["content"]["application/json"]["schema"], document)
