"""Uploads: they resume where they broke off, belong to one account, and are published whole or not at all."""

import asyncio
import os

import pytest
from blockbuster import blockbuster_ctx
from tests.support.registry_site import API, RegistrySite, skill_archive, skill_files, tar_gz

from skillwire import limits
from skillwire.model.digest import Digest


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    for name in ("ann", "bob"):
        await site.account(name)
    with blockbuster_ctx("skillwire"):  # archives are large
        yield site


def code_of(answer):
    return answer.json()["error"]["code"]


async def begin(site, archive, by="ann"):
    asked = {"size": len(archive), "digest": Digest.of(archive)}
    return await site.call("POST", "/uploads", asked, by=by)


async def write(site, number, data, offset=0, method="PATCH"):
    fields = {"Upload-Offset": str(offset)}
    return await site.call(method, f"/uploads/{number}", body=data, by="ann", fields=fields)


async def test_an_upload_resumes_where_it_broke_off_and_is_published_as_if_sent_at_once(site):
    archive = skill_archive(a_txt=os.urandom(5_000))
    made = await begin(site, archive)
    assert (made.status, made.json()["offset"]) == (201, 0)
    number = made.json()["id"]
    assert (await write(site, number, archive[:1_000])).json()["offset"] == 1_000
    again = (await begin(site, archive)).json()
    assert (again["id"], again["offset"]) == (number, 1_000)
    early = await site.publish("ann", b"", query=f"upload={number}")
    assert (early.status, code_of(early)) == (409, "UPLOAD_OFFSET")
    assert early.json()["error"]["details"]["offset"] == 1_000
    wrong = await write(site, number, archive[:1_000])
    assert (wrong.status, code_of(wrong), wrong.json()["error"]["details"]["offset"]) == (409, "UPLOAD_OFFSET", 1_000)
    assert (await write(site, number, archive[1_000:], 1_000)).json()["offset"] == len(archive)
    head = await site.call("HEAD", f"/uploads/{number}", by="ann")
    assert (head.fields["upload-offset"], head.fields["upload-length"]) == (str(len(archive)), str(len(archive)))
    assert (await site.publish("ann", b"", query=f"upload={number}&dry_run=1")).json()["status"] == "checked"
    published = await site.publish("ann", b"", query=f"upload={number}")
    plain = (await site.publish("bob", archive)).json()
    assert (published.status, published.json()["uploaded"]) == (201, Digest.of(archive))
    assert published.json()["digest"] == plain["digest"]
    assert (await site.call("GET", f"/uploads/{number}", by="ann")).status == 404
    number = (await begin(site, archive)).json()["id"]
    await write(site, number, archive)
    assert (await site.publish("ann", b"", query=f"upload={number}&dry_run=1")).json()["status"] == "repeated"
    assert (await site.call("GET", f"/uploads/{number}", by="ann")).status == 200, "a dry run removes nothing"


async def test_each_of_several_publications_of_an_upload_at_once_succeeds(site):
    archive = skill_archive(a_txt=os.urandom(5_000))
    for expected in (["created", "repeated", "repeated"], ["repeated"] * 3):
        number = (await begin(site, archive)).json()["id"]
        await write(site, number, archive)
        refused, *made = await asyncio.gather(
            site.publish("ann", b"", query=f"upload={number}&name=other"),
            *[site.publish("ann", b"", query=f"upload={number}") for _ in range(3)],
        )
        assert refused.status == 422
        assert sorted(one.json()["status"] for one in made) == expected
        assert (await site.call("GET", f"/uploads/{number}", by="ann")).status == 404


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
@pytest.mark.parametrize("files", [{}, {"a_txt": "1", "skill_toml": "access = 'private'\n"}], ids=["one file", "more"])
async def test_two_servers_that_publish_one_upload_answer_as_for_the_same_bytes(site, monkeypatch, files, meanwhile):
    archive = tar_gz(skill_files(**files), folder="notes")
    number = (await begin(site, archive)).json()["id"]
    await write(site, number, archive)
    other, read = await asyncio.to_thread(site.server_beside), site.parts.uploads.read
    answers = []

    async def read_late(*asked):
        monkeypatch.setattr(site.parts.uploads, "read", read)
        answers.append(await other.publish("ann", b"", query=f"upload={number}"))
        return await read(*asked)

    if meanwhile:
        monkeypatch.setattr(site.parts.uploads, "read", read_late)
    else:
        answers.append(await other.publish("ann", b"", query=f"upload={number}"))
    answers.append(await site.publish("ann", b"", query=f"upload={number}"))
    answers.append(await site.publish("ann", archive))
    assert [one.status for one in answers] == [201, 200, 200]
    assert answers[1].json() == answers[2].json()
    named = await site.publish("ann", b"", query=f"upload={number}&version=2.0.0")
    assert (named.status, named.json()["version"], named.json()["uploaded"]) == (201, "2.0.0", Digest.of(archive))
    assert (await site.publish("ann", b"", query=f"upload={number}&name=other")).status == 422
    assert (await site.publish("bob", b"", query=f"upload={number}")).status == 404


async def test_an_upload_that_another_server_removed_was_published(site, monkeypatch):
    archive = skill_archive(a_txt=os.urandom(5_000))
    number = (await begin(site, archive)).json()["id"]
    await write(site, number, archive)
    publish = site.registry.publish

    async def publish_both(*given, **named):
        await site.parts.uploads.remove("ann", number)
        return await publish(*given, **named)

    monkeypatch.setattr(site.registry, "publish", publish_both)
    assert (await site.publish("ann", b"", query=f"upload={number}")).status == 201


async def test_what_came_before_a_break_stays(site):
    archive = skill_archive(a_txt=os.urandom(5_000))
    number = (await begin(site, archive)).json()["id"]
    scope = site.scope(f"{API}/uploads/{number}", {"Authorization": f"Bearer {site.tokens['ann']}"}, method="PATCH")
    messages = iter([{"type": "http.request", "body": archive[:700], "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    async def send(_):
        pass

    await site.application(scope, receive, send)
    assert (await site.call("GET", f"/uploads/{number}", by="ann")).json()["offset"] == 700


async def test_an_upload_belongs_to_its_account_and_needs_a_token_that_publishes(site):
    archive = skill_archive()
    number = (await begin(site, archive)).json()["id"]
    reader = await site.token("ann", "read")
    for by, status in (("bob", 404), (None, 401), (reader, 403)):
        for method in ("GET", "PATCH", "PUT", "DELETE"):
            answer = await site.call(method, f"/uploads/{number}", by=by, body=archive)
            assert answer.status == status
    assert (await site.publish("bob", b"", query=f"upload={number}")).status == 404
    assert (await site.call("DELETE", f"/uploads/{number}", by="ann")).status == 204


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"size": 0, "digest": Digest.of(b"")}, 400, "UPLOAD_SIZE"),
        ({"size": limits.ARCHIVE_BYTES + 1, "digest": Digest.of(b"")}, 400, "UPLOAD_SIZE"),
        ({"size": 5, "digest": "sha256:" + "A" * 64}, 400, "DIGEST_FORM"),
        ({"size": 5}, 400, "QUERY"),
        ({"size": 5, "digest": Digest.of(b""), "path": "../x"}, 400, "QUERY"),
    ],
)
async def test_what_cannot_be_uploaded_is_refused_when_it_is_begun(site, asked, status, code):
    refused = await site.call("POST", "/uploads", asked, by="ann")
    assert (refused.status, code_of(refused)) == (status, code)


@pytest.mark.parametrize("number", ["x", "..", "%2e%2e%2fskillwire.db", "5-" + "0" * 64, "05-" + "0" * 64])
async def test_other_numbers_are_not_found(site, number):
    for method in ("GET", "PATCH", "DELETE"):
        answer = await site.call(method, f"/uploads/{number}", by="ann", body=b"x")
        assert answer.status == 404


async def test_more_bytes_and_other_bytes_than_were_announced_are_refused(site):
    archive = skill_archive()
    number = (await begin(site, archive)).json()["id"]
    more = await write(site, number, archive + b"x", method="PUT")
    assert (more.status, code_of(more)) == (400, "UPLOAD_SIZE")
    assert (await write(site, number, b"x" * len(archive))).status == 200
    other = await site.publish("ann", b"", query=f"upload={number}")
    assert (other.status, code_of(other)) == (422, "DIGEST_MISMATCH")
    assert (await site.call("GET", f"/uploads/{number}", by="ann")).status == 404  # it begins anew
    for offset in ("-1", "x", "9" * 13):
        assert (await write(site, (await begin(site, archive)).json()["id"], b"x", offset)).status == 400


async def test_an_account_has_a_bounded_number_and_old_ones_go(site, tmp_path):
    archives = [skill_archive(text=f"Do {number}.\n") for number in range(limits.REGISTRY_UPLOADS + 1)]
    for archive in archives[:-1]:
        assert (await begin(site, archive)).status == 201
    full = await begin(site, archives[-1])
    assert (full.status, code_of(full), full.fields["retry-after"]) == (429, "UPLOADS_FULL", "300")
    assert (await begin(site, archives[0])).status == 201
    assert (await begin(site, archives[-1], by="bob")).status == 201
    oldest = min((tmp_path / "home/state/uploads/ann").iterdir())
    os.utime(oldest, (1, 1))
    assert (await site.call("GET", f"/uploads/{oldest.name}", by="ann")).status == 404
    assert (await begin(site, archives[-1])).status == 201
    assert not oldest.exists()
    for path in (tmp_path / "home/state/uploads/ann").iterdir():
        os.utime(path, (1, 1))
    await site.parts.uploads.expire()
    assert list((tmp_path / "home/state/uploads").glob("*/*")) == [
        tmp_path / f"home/state/uploads/bob/{len(archives[-1])}-{Digest.of(archives[-1]).hex}"
    ]


async def test_the_uploads_of_all_accounts_have_a_bound(site, monkeypatch):
    archive = skill_archive(a_txt=os.urandom(5_000))
    number = (await begin(site, archive)).json()["id"]
    assert (await write(site, number, archive[:4_000])).status == 200
    monkeypatch.setattr(limits, "REGISTRY_UPLOADS_BYTES", 4_000)
    refused = [await begin(site, skill_archive("other"), by="bob"), await write(site, number, archive[4_000:], 4_000)]
    assert [(one.status, code_of(one)) for one in refused] == [(429, "UPLOADS_FULL")] * 2
    await site.call("DELETE", f"/uploads/{number}", by="ann")
    assert (await begin(site, skill_archive("other"), by="bob")).status == 201


async def test_of_requests_that_write_one_upload_at_once_one_does(site):
    archive = skill_archive(a_txt=os.urandom(5_000))
    number = (await begin(site, archive)).json()["id"]
    answers = await asyncio.gather(*[write(site, number, archive) for _ in range(4)])
    assert sorted(one.status for one in answers) == [200, 409, 409, 409]
    assert (await site.publish("ann", b"", query=f"upload={number}")).status == 201


async def test_a_large_body_goes_to_the_disk_and_leaves_nothing(site, tmp_path):
    archive = skill_archive(a_bin=os.urandom(limits.REGISTRY_ROW_BYTES + 1))
    assert (await site.publish("ann", archive)).status == 201
    assert list((tmp_path / "home/state/uploads").iterdir()) == []
