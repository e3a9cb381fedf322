"""The registry API of APM: each route in the shape that its client reads, and who may use it."""

import hashlib
import shutil

import pytest
from tests.support.client_apis import APM, publish_to_apm, unzipped
from tests.support.openapi import check_answer, check_openapi
from tests.support.registry_site import skill_archive, skill_files, zipped

from skillwire import limits
from skillwire.server import openapi

VERSIONS = f"{APM}/ann/notes/versions"


def problem_of(answer):
    assert answer.fields["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == answer.status
    assert document["type"] == "about:blank"
    return answer.status, document["code"]


@pytest.mark.parametrize("files", [skill_files(), skill_files(a_txt="x")], ids=["one file", "two"])
async def test_what_is_published_is_listed_with_the_digest_of_its_download(site, files):
    made = await publish_to_apm(site, zipped(files), by="ann")
    assert made.status == 201, made.body
    row = made.json()
    assert (row.pop("package"), row["version"]) == ("ann/notes", "1.0.0")
    assert row["published_at"].endswith("+00:00")
    assert (await site.get(VERSIONS)).json() == {"package": "ann/notes", "versions": [row]}
    sent = await site.get(f"{VERSIONS}/1.0.0/download")
    assert sent.fields["content-type"] == ("application/gzip" if len(files) > 1 else "application/zip")
    assert row["digest"] == f"sha256:{hashlib.sha256(sent.body).hexdigest()}"
    if len(files) == 1:
        assert unzipped(sent.body) == {path: text.encode() for path, text in files.items()}


async def test_a_list_makes_archives_of_the_highest_versions_and_stores_none(site, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "REGISTRY_APM_VERSIONS", 2)
    for number in range(3):
        await publish_to_apm(site, zipped(skill_files(text=f"{number}\n")), by="ann", version=f"1.{number}.0")
    shutil.rmtree(tmp_path / "blobs", ignore_errors=True)
    site.parts.downloads._zips.clear()
    rows = (await site.get(VERSIONS)).json()["versions"]
    assert [one["version"] for one in rows] == ["1.2.0", "1.1.0"]
    assert not list(tmp_path.glob("blobs/*/*"))
    sent = await site.get(f"{VERSIONS}/1.1.0/download")
    assert rows[1]["digest"] == f"sha256:{hashlib.sha256(sent.body).hexdigest()}"
    assert (await site.get(f"{VERSIONS}/1.0.0/download")).status == 200


async def test_a_problem_has_no_type_that_resolves_below_the_api(site, monkeypatch):
    refused = (await publish_to_apm(site, b"x", by=None)).json()
    assert (refused["type"], refused["title"]) == ("about:blank", "Unauthorized")
    assert refused["detail"].endswith("Run skillwire auth login with the provider's address.")
    monkeypatch.setenv("SKILLWIRE_DOCS_URL", "https://docs.example.com")
    refused = (await publish_to_apm(site, b"x", by=None)).json()
    assert refused["type"] == "https://docs.example.com/reference/codes.html#auth_required"
    assert refused["title"] == "The provider requires authentication"


async def test_the_version_of_the_path_stands_above_that_of_the_skill(site):
    assert (await publish_to_apm(site, skill_archive(), by="ann", version="2.0.0")).json()["version"] == "2.0.0"
    assert problem_of(await publish_to_apm(site, skill_archive(), by="ann", version="x")) == (400, "PACKAGE_VERSION")


async def test_a_version_is_published_once(site):
    await publish_to_apm(site, skill_archive(), by="ann")
    for archive in (skill_archive(), skill_archive(text="Other.\n")):
        assert problem_of(await publish_to_apm(site, archive, by="ann")) == (409, "VERSION_EXISTS")


async def test_the_one_skill_of_a_package_of_apm_is_published(site):
    package = {"apm.yml": "name: notes\n", "README.md": "x"}
    skill = {f".apm/skills/notes/{path}": text for path, text in skill_files(a_txt="x").items()}
    assert (await publish_to_apm(site, zipped({**package, **skill}), by="ann")).status == 201
    files = (await site.call("GET", "/packages/ann/notes/1.0.0")).json()["files"]
    assert [one["path"] for one in files] == ["SKILL.md", "a.txt"]
    more = {**package, **skill, ".apm/skills/memo/SKILL.md": "x"}
    assert problem_of(await publish_to_apm(site, zipped(more), by="ann", version="2.0.0")) == (422, "SKILL_OUTSIDE")


async def test_a_refusal_names_file_line_rule_and_fix_and_leaves_nothing(site):
    refused = await publish_to_apm(site, zipped({"SKILL.md": "---\nname: notes\n---\n"}), by="ann")
    assert problem_of(refused) == (422, "SKILL_INVALID")
    assert "notes/SKILL.md:1: DESCRIPTION_FORM: " in refused.json()["detail"]
    assert "Describe in one or two sentences" in refused.json()["detail"]
    other = await publish_to_apm(site, skill_archive("memo"), by="ann")
    assert problem_of(other) == (422, "SKILL_INVALID")
    large = await publish_to_apm(site, bytes(limits.ARCHIVE_BYTES + 1), by="ann")
    assert problem_of(large) == (413, "ARCHIVE_SIZE")
    assert (await site.store.statistics(with_private=True))["packages"] == 0


async def test_who_may_not_publish_is_refused_before_the_body_is_read(site):
    await publish_to_apm(site, skill_archive(), by="ann")
    for by, status in ((None, 401), ("bob", 403), (await site.token("ann", "read"), 403)):
        assert problem_of(await publish_to_apm(site, b"x", by=by))[0] == status
    assert problem_of(await publish_to_apm(site, b"x", by="ann", package="nowhere/notes"))[0] == 404


async def test_yanked_versions_are_sent_and_not_listed_and_quarantined_ones_neither(site):
    for version in ("1.0.0", "1.1.0"):
        await publish_to_apm(site, skill_archive(), by="ann", version=version)
    await site.call("PATCH", "/packages/ann/notes/1.1.0", {"status": "yanked", "reason": "loses data"}, by="ann")
    assert [one["version"] for one in (await site.get(VERSIONS)).json()["versions"]] == ["1.0.0"]
    assert (await site.get(f"{VERSIONS}/1.1.0/download")).status == 200
    state = {"status": "quarantined", "reason": "steals keys"}
    await site.call("PATCH", "/packages/ann/notes/1.0.0", state, by="root")
    assert (await site.get(VERSIONS)).json()["versions"] == []
    refused = await site.get(f"{VERSIONS}/1.0.0/download")
    assert (problem_of(refused), "steals keys" in refused.json()["detail"]) == ((403, "QUARANTINED"), True)


async def test_a_private_package_is_invisible_on_every_route(site):
    await publish_to_apm(site, skill_archive(), by="ann")
    await site.call("PATCH", "/packages/ann/notes", {"access": "private"}, by="ann")
    for path in ("", "/1.0.0/download"):
        hidden = await site.ask("GET", f"{VERSIONS}{path}", by="bob")
        absent = await site.ask("GET", f"{APM}/ann/absent/versions{path}", by="bob")
        assert (hidden.status, hidden.body.replace(b"notes", b"absent")) == (404, absent.body)
        assert (await site.ask("GET", f"{VERSIONS}{path}", by="ann")).status == 200


async def test_answers_fit_the_description_of_the_api(site):
    document = openapi.document(site.application.routes)
    check_openapi(document)
    await publish_to_apm(site, skill_archive(), by="ann")
    answers = document["paths"][f"{APM}/{{namespace}}/{{package}}/versions"]["get"]["responses"]
    for status, media_type, path in (
        ("200", "application/json", VERSIONS),
        ("404", "application/problem+json", f"{VERSIONS}/9.9.9/download"),
    ):
        check_answer((await site.get(path)).json(), answers[status]["content"][media_type]["schema"], document)
