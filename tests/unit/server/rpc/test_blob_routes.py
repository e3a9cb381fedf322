"""``/blobs``: bytes handed in and given back as they are, to their owner alone."""

import asyncio
import hashlib

import pytest

from skillwire import limits
from skillwire.model.execution import RunSettings
from skillwire.server.configuration import ServerConfiguration

CONTENT = b"name,age\nann,31\n"
ID = f"blob:{hashlib.sha256(CONTENT).hexdigest()}"


async def create(rpc, content=CONTENT, kind="text/csv", fields=None):
    own = {"Content-Type": kind, **(fields or {})}
    return await rpc.caller.request("/blobs", own, method="POST", body=content)


async def get(rpc, blob_id=ID, fields=None, **more):
    return await rpc.caller.request(f"/blobs/{blob_id}", fields, **more)


@pytest.mark.spec("SKP-blob-routes")
async def test_a_blob_is_handed_in_and_given_back(rpc):
    created = await create(rpc)
    assert (created.status, created.fields["location"]) == (201, f"/blobs/{ID}")
    assert created.json() == {"blob_id": ID, "size_bytes": len(CONTENT)}
    given = await get(rpc)
    assert (given.status, given.body, given.fields["content-type"]) == (200, CONTENT, "text/csv")
    assert (await get(rpc, method="HEAD")).fields == given.fields
    assert (await rpc.call("read_blob", {"blob_id": ID}))["content"] == CONTENT.decode()


async def test_what_was_handed_in_is_run_by_no_browser(rpc):
    created = await create(rpc, b"<script>alert(1)</script>", "text/html")
    given = await get(rpc, created.json()["blob_id"])
    assert given.fields["content-disposition"] == "attachment"
    assert "sandbox" in given.fields["content-security-policy"]
    assert given.fields["x-content-type-options"] == "nosniff"
    assert given.fields["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=5-7", 206, b"age", "bytes 5-7/16"),
        ("bytes=-3", 206, b"31\n", "bytes 13-15/16"),
        ("bytes=9-", 206, b"ann,31\n", "bytes 9-15/16"),
        ("bytes=16-", 416, None, "bytes */16"),
        ("lines=1-2", 200, CONTENT, None),
    ],
)
async def test_a_part_may_be_asked_for(rpc, asked, status, body, told):
    await create(rpc)
    given = await get(rpc, fields={"Range": asked})
    assert (given.status, given.fields.get("content-range")) == (status, told)
    if body is not None:
        assert given.body == body


async def test_who_holds_it_is_not_sent_it_again(rpc):
    await create(rpc)
    tag = (await get(rpc)).fields["etag"]
    assert (await get(rpc, fields={"If-None-Match": tag})).status == 304
    whole = await get(rpc, fields={"If-Range": '"another"', "Range": "bytes=0-1"})
    assert (whole.status, whole.body) == (200, CONTENT)


async def test_an_empty_blob_is_one(rpc):
    created = await create(rpc, b"")
    given = await get(rpc, created.json()["blob_id"])
    assert (created.json()["size_bytes"], given.status, given.body) == (0, 200, b"")


@pytest.mark.spec("SKP-blob-routes")
async def test_another_callers_blob_is_not_there(rpc, key):
    await create(rpc, fields=key)
    for blob_id in (ID, f"blob:{'0' * 64}", "blob:x", ID.removeprefix("blob:")):
        refused = await get(rpc, blob_id)
        assert (refused.status, refused.json()["error"]["code"]) == (404, "BLOB_NOT_FOUND")
    assert (await get(rpc, fields=key)).body == CONTENT


@pytest.mark.spec("SKP-blob-routes")
async def test_a_blob_is_removed_by_its_owner(rpc, key):
    await create(rpc, fields=key)
    page = {"Host": "127.0.0.1:8000", "Origin": "http://evil.example"}
    refused = [await get(rpc, fields=fields, method="DELETE") for fields in ({}, page)]
    assert [one.status for one in refused] == [404, 403]
    await create(rpc)
    removed = await get(rpc, fields=key, method="DELETE")
    assert (removed.status, removed.body) == (204, b"")
    assert (await get(rpc, fields=key)).status == (await get(rpc, fields=key, method="DELETE")).status == 404
    assert (await get(rpc)).body == CONTENT  # another caller's row of the same bytes


async def test_a_blob_is_bounded_while_it_comes(speaking):
    rpc = await speaking(ServerConfiguration(runs=RunSettings(execute_skill=True, blob_bytes=100_000)))
    refused = await create(rpc, b"x" * 100_001)
    assert (refused.status, refused.json()["error"]["code"]) == (413, "LIMIT_SIZE")
    assert refused.json()["error"]["details"]["fix"] == "Hand it in as several blobs, each of them smaller."


@pytest.mark.parametrize("kind", ["", "text", "text/csv\u00e9", "a/b, c/d"])
async def test_a_blob_has_a_media_type(rpc, kind):
    refused = await create(rpc, kind=kind)
    assert (refused.status, refused.json()["error"]["code"]) == (415, "BLOB_KIND")


async def test_nobody_hands_in_what_nothing_could_read(speaking):
    refused = await create(await speaking())
    assert refused.status == 403
    assert "[rpc]" in refused.json()["error"]["details"]["fix"]


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [("/blobs", "GET", "POST, OPTIONS"), (f"/blobs/{ID}", "POST", "GET, HEAD, DELETE, OPTIONS")],
)
async def test_each_path_has_its_methods(rpc, path, method, allowed):
    refused = await rpc.caller.request(path, method=method)
    assert (refused.status, refused.fields["allow"]) == (405, allowed)
    asked = await rpc.caller.request(path, method="OPTIONS")
    assert (asked.status, asked.fields["allow"]) == (204, allowed)


@pytest.mark.parametrize(
    "page",
    [
        {"Host": "127.0.0.1:8000", "Origin": "http://evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1:8000", "Origin": "null"},
    ],
)
async def test_pages_of_other_sites_have_no_blobs_without_a_credential(rpc, key, page):
    await create(rpc)
    for refused in (await create(rpc, fields=page), await get(rpc, fields=page)):
        assert (refused.status, refused.json()["error"]["code"]) == (403, "PAGE_REFUSED")
    assert (await get(rpc, fields=page, method="HEAD")).status == 403
    assert (await rpc.caller.request("/blobs", page, method="OPTIONS")).status == 204
    assert (await create(rpc, fields={**page, **key})).status == 201
    assert (await get(rpc, fields={**page, **key})).body == CONTENT


async def test_pages_of_this_machine_and_of_known_sites_have_blobs(speaking):
    rpc = await speaking(execute_skill=True, origins=("https://app.example.com",))
    for page in ({"Origin": "https://app.example.com"}, {"Host": "localhost:8000", "Origin": "http://127.0.0.1:3000"}):
        assert (await create(rpc, fields=page)).status == 201
        assert (await get(rpc, fields=page)).body == CONTENT


async def test_credentials_are_looked_at(rpc):
    assert (await create(rpc, fields={"X-API-Key": "nonsense"})).status == 401
    assert (await get(rpc, fields={"X-API-Key": "nonsense"})).status == 401


async def test_what_its_sender_left_unfinished_is_no_blob(rpc, home):
    messages = [{"type": "http.request", "body": CONTENT, "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        raise AssertionError(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/blobs",
        "query_string": b"",
        "headers": [(b"content-type", b"text/csv")],
        "client": ("192.0.2.7", 1),
    }
    await rpc.caller.application(scope, receive, send)
    assert (await get(rpc)).status == 404
    assert rpc.caller.application.services.metrics.requests["rpc", 499] == 1
    assert not [file for file in home.rglob("*") if file.is_file() and file.read_bytes() == CONTENT]


async def test_many_senders_at_once_take_turns(rpc, monkeypatch):
    monkeypatch.setattr(limits, "BLOB_UPLOADS_OWNER", 1)
    answers = await asyncio.gather(*(create(rpc, b"%d" % number) for number in range(3)))
    statuses = sorted(answer.status for answer in answers)
    assert statuses[0] == 201
    assert statuses[-1] == 429


async def test_who_does_not_read_a_blob_is_cut_off(rpc, monkeypatch):
    monkeypatch.setattr(limits, "SERVER_REQUEST_SECONDS", 0.1)
    await create(rpc)
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)
        if len(sent) > 1:
            await asyncio.Event().wait()

    async with asyncio.timeout(20):
        await rpc.caller.application(rpc.caller.scope(f"/blobs/{ID}", {}, method="GET"), receive, send)
    assert len(sent) == 2
    assert sent[-1]["more_body"]
