"""The API of hosted skills over the registry: each route in the shape that SDKs read, and who may use it."""

import pytest
from tests.support.client_apis import HOSTED, form, host, unzipped
from tests.support.openapi import check_answer, check_openapi
from tests.support.registry_site import skill_files, tar_gz, zipped

from skillwire import limits
from skillwire.server import openapi

#: Files of a skill that states no version.
PLAIN = {"SKILL.md": '---\nname: notes\ndescription: "Does something useful."\n---\n\nDo it.\n', "a.py": "1"}
NOTES = f"{HOSTED}/ann--notes"


def error_of(answer):
    document = answer.json()
    assert document["type"] == "error"
    return answer.status, document["error"]["type"], document["error"]["code"]


class TestReading:
    async def test_a_skill_and_its_versions_are_described(self, site):
        made = await host(site, skill_files(), by="ann")
        assert made.status == 200, made.body
        skill = made.json()
        created = skill.pop("created_at")
        assert created.endswith("Z")
        assert skill.pop("updated_at").startswith(created[:10])
        assert skill == {
            "id": "ann--notes",
            "type": "skill",
            "display_name": "notes",
            "latest_version_id": "1.0.0",
            "source": {"type": "custom"},
        }
        assert (await site.get(NOTES)).json()["id"] == "ann--notes"
        version = (await site.get(f"{NOTES}/versions/1.0.0")).json()
        del version["created_at"]
        assert version == {
            "id": "1.0.0",
            "type": "skill_version",
            "skill_id": "ann--notes",
            "name": "notes",
            "description": "Does something useful.",
        }
        assert (await site.get(f"{NOTES}/versions/latest")).json()["id"] == "1.0.0"

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
        for bad in (f"{HOSTED}?page=x", f"{HOSTED}?limit=0", f"{HOSTED}/ann--a/versions?page=9"):
            assert (await site.get(bad)).status == 400


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
        assert (await site.ask("DELETE", path, by="ann")).json() == {"id": "1.1.0", "type": "skill_version_deleted"}
        assert (await site.get(NOTES)).json()["latest_version_id"] == "1.0.0"
        assert [one["id"] for one in (await site.get(f"{NOTES}/versions")).json()["data"]] == ["1.0.0"]
        assert (await site.get(f"{path}/content")).status == 200

    async def test_a_deleted_skill_is_gone(self, site):
        await host(site, PLAIN, by="ann")
        assert error_of(await site.ask("DELETE", NOTES, by="bob"))[0] == 403
        assert (await site.ask("DELETE", NOTES, by="ann")).json() == {"id": "ann--notes", "type": "skill_deleted"}
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
        for path in ("", "/versions", "/versions/0.1.0", "/versions/latest", "/versions/0.1.0/content"):
            hidden = await site.ask("GET", f"{NOTES}{path}", by="bob")
            absent = await site.ask("GET", f"{HOSTED}/ann--absent{path}", by="bob")
            assert (hidden.status, hidden.body.replace(b"notes", b"absent")) == (404, absent.body)
            assert (await site.ask("GET", f"{NOTES}{path}", by="ann")).status == 200
        for path in ("", "/versions/0.1.0"):
            assert (await site.ask("DELETE", f"{NOTES}{path}", by="bob")).status == 404
        assert (await host(site, PLAIN, by="bob", skill="ann--notes")).status == 404
        assert (await site.get(f"{HOSTED}/notes")).status == 404


async def test_answers_fit_the_description_of_the_api(site):
    document = openapi.document(site.application.routes)
    check_openapi(document)
    await host(site, PLAIN, by="ann")
    found = {path: item for path, item in document["paths"].items() if path.startswith(HOSTED)}
    assert len(found) == 5
    for path, item in found.items():
        if not path.endswith("/content"):
            for status, asked in (("200", path.format(hosted="ann--notes", version="0.1.0")), ("404", f"{NOTES}x")):
                answer = await site.get(asked)
                schema = item["get"]["responses"][status]["content"]["application/json"]["schema"]
                check_answer(answer.json(), schema, document)
