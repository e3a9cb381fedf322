"""The application, called as a server calls it: codings, conditions, ranges, methods, errors, mounting."""

import asyncio
import gzip
import json
import os
from types import SimpleNamespace

import brotli
import pytest
import structlog
from blockbuster import blockbuster_ctx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from tests.support.publishing import Asgi, write_skill
from tests.support.sites import DESCRIPTOR, HOST, INDEX, PUBLIC, Site

from skillwire import limits
from skillwire.adapters.files import loading
from skillwire.adapters.files.failing_tasks import read_failing_tasks, write_failing_tasks
from skillwire.adapters.stores import open_stores
from skillwire.errors import FetchError, SourceLocation, StorageError
from skillwire.folder.publish import prepare
from skillwire.protocols.agent_skills.server import CachePolicy, IndexResponse
from skillwire.server import create_app
from skillwire.server.responses import CachedResponse
from skillwire.server.revision import IndexCache, SiteUrlBody

OLD_INDEX = "/.well-known/skills/index.json"
LARGE = bytes(range(256)) * 4_000


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "notes", description="Writes notes. " * 60)
    write_skill(
        folder,
        "tools",
        {
            "scripts/run.sh": "#!/bin/sh\necho ok\n",
            "assets/page.html": "<script>alert(1)</script>",
            "assets/large.bin": LARGE,
            "references/naïve name.md": "# Naïve\n",
            "empty": b"",
        },
    )
    return folder


@pytest.fixture
def application(folder, tmp_path):
    return create_app([folder], blobs=tmp_path / "blobs", publisher="acme")


@pytest.fixture
async def client(application):
    yield Asgi(application)
    await application.shutdown()


async def test_the_index_comes_in_each_coding_with_a_tag_of_its_own(client):
    plain = await client.get(INDEX)
    packed = await client.get(INDEX, {"Accept-Encoding": "gzip"})
    smaller = await client.get(INDEX, {"Accept-Encoding": "gzip, br"})
    assert [entry["name"] for entry in plain.json()["skills"]] == ["notes", "tools"]
    assert gzip.decompress(packed.body) == brotli.decompress(smaller.body) == plain.body
    assert "content-encoding" not in plain.fields
    assert [answer.fields["content-encoding"] for answer in (packed, smaller)] == ["gzip", "br"]
    answers = (plain, packed, smaller)
    assert len({answer.fields["etag"] for answer in answers}) == 3
    for answer in answers:
        assert answer.status == 200
        assert answer.fields["etag"].startswith('"')
        assert answer.fields["vary"] == "Accept-Encoding, Authorization, X-API-Key, X-Signature"
        assert answer.fields["content-type"] == "application/json"
        assert answer.fields["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
        assert answer.fields["access-control-allow-origin"] == "*"
        assert answer.fields["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("target", [INDEX, OLD_INDEX, "/@tools" + INDEX, "/.well-known/skills/tools/SKILL.md"])
@pytest.mark.parametrize("coding", ["", "gzip", "br"])
async def test_who_holds_it_is_told_so_and_head_answers_as_get_does(client, target, coding):
    fields = {"Accept-Encoding": coding}
    answer = await client.get(target, fields)
    head = await client.request(target, fields, method="HEAD")
    assert (head.status, head.fields, head.body) == (200, answer.fields, b"")
    tag = answer.fields["etag"]
    for condition in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        held = await client.get(target, fields | {"If-None-Match": condition})
        assert (held.status, held.body) == (304, b"")
        assert condition == "*" or held.fields["etag"] == tag
        assert held.fields["cache-control"] == answer.fields["cache-control"]
        assert held.fields.get("vary") == answer.fields.get("vary")
    for other in ('"x"', tag.strip('"'), tag[:-2] + '"'):
        assert (await client.get(target, fields | {"If-None-Match": other})).status == 200


async def test_a_tag_of_another_coding_counts_as_held_and_is_named(client):
    tag = (await client.get(INDEX)).fields["etag"]
    held = await client.get(INDEX, {"If-None-Match": tag, "Accept-Encoding": "br"})
    assert (held.status, held.fields["etag"]) == (304, tag)


@pytest.mark.spec("ASD-server-no-coding")
@pytest.mark.spec("ASD-server-digest-url")
async def test_an_artifact_is_immutable_and_never_coded(client):
    for entry in (await client.get(INDEX)).json()["skills"]:
        answer = await client.get(f"/.well-known/agent-skills/{entry['url']}", {"Accept-Encoding": "gzip, br"})
        assert answer.status == 200
        assert answer.fields["cache-control"] == "public, max-age=31536000, immutable"
        assert "content-encoding" not in answer.fields
        assert answer.fields["etag"] == f'"{entry["digest"].removeprefix("sha256:")}"'


@pytest.mark.spec("ASD-server-passive")
@pytest.mark.parametrize("path", ["assets/page.html", "assets/large.bin", "empty", "scripts/run.sh"])
@pytest.mark.parametrize("prefix", ["agent-skills", "skills"])
async def test_files_come_byte_by_byte_and_a_browser_runs_none_of_them(client, folder, path, prefix):
    answer = await client.get(f"/.well-known/{prefix}/tools/{path}", {"Accept-Encoding": "gzip, br"})
    assert answer.body == (folder / "tools" / path).read_bytes()
    assert "content-encoding" not in answer.fields
    assert answer.fields["content-type"] in {"text/plain; charset=utf-8", "application/octet-stream"}
    assert answer.fields["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.fields["x-content-type-options"] == "nosniff"


@pytest.mark.spec("ASD-server-paths")
@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/agent-skills/tools/scripts/run.sh",
        "/.well-known/agent-skills/tools/scripts%2Frun.sh",
        "/.well-known/agent-skills/tools%2fscripts%2frun.sh",
        "/.well-known/agent-skills/tools/references/na%C3%AFve%20name.md",
        "/%40tools/.well-known/agent-skills/tools/SKILL.md",
        "/.well-known/agent-skills/tools/SKILL.md?token=secret",
    ],
)
async def test_percent_encoding_is_decoded_once(client, target):
    assert (await client.get(target)).status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/agent-skills/tools/scripts%252Frun.sh",
        "/.well-known/agent-skills/tools/../notes/SKILL.md",
        "/.well-known/agent-skills/tools/%2e%2e/notes/SKILL.md",
        "/.well-known/agent-skills/tools/..%2f..%2f..%2fetc%2fpasswd",
        "/.well-known/agent-skills/tools/%00",
        "/.well-known/agent-skills/tools/%ff",
        "/nothing",
        "/healthz/",
        "/.well-known/other",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
async def test_what_is_not_there_is_a_404_in_the_one_form_of_errors(client, target, method):
    answer = await client.request(target, method=method)
    assert answer.status == 404
    assert answer.fields["content-type"] == "application/json"
    assert answer.fields["cache-control"] == "no-store"
    if method != "HEAD":
        assert answer.json()["error"].keys() == {"code", "message", "details"}
        assert answer.json()["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("target", [INDEX, "/@tools" + INDEX, "/.well-known/skills/tools/SKILL.md", "/healthz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "BREW"])
async def test_another_method_is_a_405_that_says_what_is_allowed(client, target, method):
    answer = await client.request(target, method=method)
    assert answer.status == 405
    assert {"GET", "HEAD"} <= set(answer.fields["allow"].replace(" ", "").split(","))
    assert answer.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
    assert answer.json()["error"]["details"] == {"method": method, "fix": "Use a method of the Allow field."}


@pytest.mark.parametrize("target", [INDEX, "/.well-known/skills/tools/SKILL.md"])
async def test_a_preflight_is_answered(client, target):
    fields = {"Origin": "https://other.example", "Access-Control-Request-Method": "GET"}
    answer = await client.request(target, fields, method="OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.fields["access-control-allow-origin"] == "*"
    assert answer.fields["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    allowed = answer.fields["access-control-allow-headers"].split(", ")
    # The star does not stand for Authorization: Fetch standard, CORS-safelisted request headers.
    assert {"Authorization", "X-API-Key", "X-Signature", "Content-Type", "Range", "If-None-Match"} <= set(allowed)
    shown = (await client.get(target)).fields["access-control-expose-headers"].split(", ")
    assert {"ETag", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "WWW-Authenticate"} <= set(shown)


async def test_a_url_has_a_length_beyond_which_it_is_not_even_looked_up(client):
    for target in ("/.well-known/agent-skills/" + "x" * limits.URL_LENGTH, "/nothing?" + "x" * limits.URL_LENGTH):
        answer = await client.get(target)
        assert (answer.status, answer.json()["error"]["code"]) == (414, "URL_TOO_LONG")


@pytest.mark.parametrize("path", ["scripts/run.sh", "assets/large.bin"])
async def test_a_download_that_broke_off_goes_on_where_it_broke_off(client, folder, path):
    target = f"/.well-known/agent-skills/tools/{path}"
    whole = (folder / "tools" / path).read_bytes()
    tag = (await client.get(target)).fields["etag"]
    for field, start, stop in (
        ("bytes=5-", 5, len(whole)),
        ("bytes=0-2", 0, 3),
        ("bytes=-4", len(whole) - 4, len(whole)),
        (f"bytes=7-{len(whole) * 2}", 7, len(whole)),
    ):
        answer = await client.get(target, {"Range": field, "If-Range": tag})
        assert answer.status == 206
        assert answer.body == whole[start:stop]
        assert answer.fields["content-range"] == f"bytes {start}-{stop - 1}/{len(whole)}"
    for fields in (
        {"Range": "bytes=5-", "If-Range": '"other"'},
        {"Range": "bytes=5-", "If-Range": f"W/{tag}"},
        {"Range": "bytes=0-1,3-4"},
        {"Range": "nonsense"},
    ):
        answer = await client.get(target, fields)
        assert (answer.status, answer.body) == (200, whole)
        assert answer.fields["accept-ranges"] == "bytes"
    head = await client.request(target, {"Range": "bytes=5-"}, method="HEAD")
    assert (head.status, head.fields["content-length"]) == (200, str(len(whole)))


async def test_a_part_that_does_not_exist_is_a_416_that_says_how_much_there_is(client):
    answer = await client.get("/.well-known/agent-skills/tools/scripts/run.sh", {"Range": "bytes=99-"})
    assert answer.status == 416
    assert answer.fields["content-range"] == "bytes */18"
    assert answer.json()["error"] == {
        "code": "RANGE_UNSATISFIABLE",
        "message": "there are only 18 bytes",
        "details": {"size": 18},
    }


async def test_large_files_are_sent_in_pieces(application):
    sizes = []

    async def spy(scope, receive, send):
        async def counting(message):
            sizes.append(len(message.get("body", b"")))
            await send(message)

        await application(scope, receive, counting)

    answer = await Asgi(spy).get("/.well-known/agent-skills/tools/assets/large.bin")
    assert answer.body == LARGE
    assert max(sizes) <= limits.SERVER_PIECE_BYTES
    await application.shutdown()


async def test_health_readiness_and_metrics(client):
    assert (await client.get("/healthz")).json() == {"status": "alive"}
    await client.get(INDEX)
    ready = await client.get("/readyz")
    assert ready.json() == {
        "status": "ready",
        "watching": True,
        "reason": None,
        "revision": 1,
        "skills": 2,
        "broken": [],
        "failing": {},
        "notes": [],
    }
    assert ready.fields["cache-control"] == "no-store"
    await client.get("/.well-known/agent-skills/tools/SKILL.md?token=secret")
    await client.get("/no-such-thing-secret")
    text = (await client.get("/metrics")).body.decode()
    for line in (
        'skillwire_requests_total{route="index",status="200"} 1.0',
        'skillwire_requests_total{route="file",status="200"} 1.0',
        'skillwire_requests_total{route="none",status="404"} 1.0',
        'skillwire_request_seconds_count{route="file"} 1.0',
        'skillwire_request_seconds_bucket{le="+Inf",route="file"} 1.0',
        "skillwire_catalog_revision 1.0",
        "skillwire_skills 2.0",
        "skillwire_broken_skills 0.0",
        "skillwire_watching 1.0",
        "skillwire_watch_interruptions_total 0.0",
    ):
        assert line in text.splitlines()
    assert "secret" not in text


async def test_what_does_not_work_is_named_while_the_skills_are_served(client):
    background = client.application.services.executions.service.background
    await client.get(INDEX)
    await background.failed("claims", StorageError("DATABASE", "database or disk is full"))
    ready = await client.get("/readyz")
    assert (ready.status, ready.json()["failing"]) == (200, {"claims": "DATABASE"})
    lines = (await client.get("/metrics")).body.decode().splitlines()
    assert 'skillwire_task_failing{task="claims"} 1.0' in lines
    assert 'skillwire_task_failures_total{task="claims"} 1.0' in lines


async def test_a_server_reports_failing_tasks_of_its_own_until_it_stops(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_failing_tasks({"ledger": "DATABASE"})  # as a process that was killed, whose number this one has
    application = create_app([folder], blobs=tmp_path / "blobs")
    assert list(read_failing_tasks()) == []
    no_network = FetchError("LAN_UNAVAILABLE", "no network")
    await application.services.executions.service.background.failed("lan", no_network)
    assert list(read_failing_tasks()) == [(str(os.getpid()), {"lan": "LAN_UNAVAILABLE"})]
    await application.shutdown()  # without a ledger
    assert list(read_failing_tasks()) == []


async def test_it_is_not_ready_before_the_first_catalog_and_requests_wait_for_it(client):
    waiting = asyncio.create_task(client.get(INDEX))
    await asyncio.sleep(0)
    ready = await client.get("/readyz")
    assert (ready.status, ready.json()["error"]["code"]) == (503, "NOT_READY")
    assert ready.fields["retry-after"] == "1"
    assert (await waiting).status == 200
    assert (await client.get("/readyz")).status == 200


async def test_a_request_does_not_wait_for_ever(client, monkeypatch):
    monkeypatch.setattr(limits, "SERVER_LOADING_SECONDS", 0.01)
    monkeypatch.setattr(client.application.catalog, "start", lambda: None)
    answer = await client.get(INDEX)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "NOT_READY")


async def test_a_request_is_logged_without_its_query_or_its_credentials(folder, tmp_path):
    with structlog.testing.capture_logs() as log:
        application = create_app([folder], blobs=tmp_path / "blobs")
        client = Asgi(application)
        await client.get(f"{INDEX}?token=secret", {"Authorization": "Bearer secret"})
        await application.shutdown()
    [request] = [event for event in log if event["event"] == "request"]
    assert request == {
        "event": "request",
        "log_level": "info",
        "method": "GET",
        "path": INDEX,
        "status": 401,
        "bytes": request["bytes"],
        "ms": request["ms"],
        "client": "192.0.2.7",
    }
    assert "secret" not in repr(log)


async def test_a_request_is_not_logged_when_that_is_not_wanted(folder, tmp_path):
    with structlog.testing.capture_logs() as log:
        application = create_app([folder], blobs=tmp_path / "blobs", access_log=False)
        await Asgi(application).get(INDEX)
        await application.shutdown()
    assert [event["event"] for event in log] == ["published"]


async def test_a_failure_inside_is_a_500_that_tells_nothing_and_a_log_that_tells_all(client, monkeypatch):
    await client.get(INDEX)

    def fail(_):
        raise RuntimeError("the reason")

    monkeypatch.setattr(type(client.application.catalog.current.site), "lookup", lambda _, path: fail(path))
    with structlog.testing.capture_logs() as log:
        answer = await client.get("/.well-known/agent-skills/tools/SKILL.md")
    assert (answer.status, answer.json()["error"]["code"]) == (500, "INTERNAL")
    assert b"reason" not in answer.body
    assert [str(event["exc_info"]) for event in log if event["event"] == "a request failed"] == ["the reason"]


async def test_a_disk_or_database_that_fails_is_a_503_to_be_tried_again(client):
    async def fail(*_):
        raise StorageError("DATABASE", "disk I/O error", place=SourceLocation("/state/skillwire.db"))

    client.application.services.authentication.tokens = lambda: SimpleNamespace(authenticate=fail)
    with structlog.testing.capture_logs() as log:
        answer = await client.get(INDEX, {"X-API-Key": "sw_aaaaaaaaaaaaaaaa_" + "a" * 43})
    assert (answer.status, answer.json()["error"]["code"], answer.fields["retry-after"]) == (503, "DATABASE", "2")
    assert b"/state" not in answer.body
    assert [event["error"] for event in log if event["event"] == "a request failed"] == [
        "DATABASE: disk I/O error (/state/skillwire.db)"
    ]


async def test_a_wrong_statement_is_an_internal_error_and_not_to_be_tried_again(client):
    async def authenticate(*_):
        return await open_stores().database.read(lambda connection: connection.value("SELECT absent FROM tokens"))

    client.application.services.authentication.tokens = lambda: SimpleNamespace(authenticate=authenticate)
    with structlog.testing.capture_logs() as log:
        answer = await client.get(INDEX, {"X-API-Key": "sw_aaaaaaaaaaaaaaaa_" + "a" * 43})
    assert (answer.status, answer.json()["error"]["code"], answer.fields.get("retry-after")) == (500, "INTERNAL", None)
    assert [str(event["exc_info"]) for event in log if event["event"] == "a request failed"] == [
        "no such column: absent"
    ]


@pytest.mark.parametrize("root", ["/published", "/deep/er"])
async def test_it_mounts_below_any_path_of_another_application(application, root):
    outer = Starlette(routes=[Mount(root, app=application)], middleware=[Middleware(GZipMiddleware)])
    client = Asgi(outer)
    for _ in range(2):  # what the outer application adds to an answer does not stick to it
        answer = await client.get(root + INDEX, {"Accept-Encoding": "gzip"})
        assert answer.status == 200
    assert (await client.get(root + "/healthz")).json() == {"status": "alive"}
    assert (await client.get(root + "/nothing")).json()["error"]["code"] == "NOT_FOUND"
    assert (await client.get(INDEX)).status == 404
    for entry in json.loads(gzip.decompress(answer.body))["skills"]:
        assert (await client.get(f"{root}/.well-known/agent-skills/{entry['url']}")).status == 200
    await application.shutdown()


async def test_it_respects_the_root_path_that_a_server_was_given(application):
    client = Asgi(application, root_path="/behind/a/proxy")
    assert (await client.get(INDEX)).status == 200
    await application.shutdown()


async def test_it_lives_with_the_lifespan_of_a_server(application):
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    sent = []

    async def send(message):
        sent.append(message["type"])

    living = asyncio.create_task(application({"type": "lifespan"}, events.get, send))
    await events.put({"type": "lifespan.startup"})
    assert (await Asgi(application).get(INDEX)).status == 200
    assert sent == ["lifespan.startup.complete"]
    await events.put({"type": "lifespan.shutdown"})
    await living
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_turned_away(application):
    sent = []

    async def send(message):
        sent.append(message)

    await application({"type": "websocket", "path": INDEX}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]


async def test_no_answer_blocks_the_event_loop(client):
    await client.get(INDEX)
    with blockbuster_ctx(scanned_modules=["skillwire"]):
        for target in (
            INDEX,
            OLD_INDEX,
            "/@acme" + INDEX,
            "/.well-known/agent-skills/tools/SKILL.md",
            "/.well-known/agent-skills/tools/assets/large.bin",
            "/.well-known/agent-skills/tools.tar.gz",
            "/readyz",
            "/metrics",
            "/nothing",
        ):
            assert (await client.get(target)).status in {200, 404}


async def test_the_index_of_a_large_scope_is_made_once_for_all_who_wait_for_it(tmp_path, monkeypatch):
    for number in range(12):
        write_skill(tmp_path / "skills", f"skill-{number}")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", publisher="acme")
    client = Asgi(application)
    await client.get(INDEX)
    made = []
    encode = IndexResponse.encode

    def counting(listing):
        made.append(listing)
        return encode(listing)

    monkeypatch.setattr(IndexResponse, "encode", counting)
    answers = await asyncio.gather(*(client.get("/@acme" + INDEX) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert len(answers[0].json()["skills"]) == 12
    assert (await client.get("/@acme" + INDEX)).body == answers[0].body
    assert len(made) == 1
    await application.shutdown()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_large_index_is_inflated_once_for_clients_without_codings(method):
    content = b"".join(b'{"name":"skill-%d"},' % number for number in range(50_000))
    prepared = CachedResponse(content, "application/json", CachePolicy.BRIEF)

    answer = await Asgi(prepared).request(INDEX, method=method)
    assert answer.status == 200
    assert answer.fields["content-length"] == str(len(content))
    assert answer.body == (content if method == "GET" else b"")
    kept = prepared.ready(method.encode(), [])
    assert kept is not None
    assert kept.body is answer.body  # not inflated for each request
    compressed = prepared.choose([(b"accept-encoding", b"gzip")])[1].body
    assert compressed is not None
    assert gzip.decompress(compressed) == content


async def test_the_index_of_ten_thousand_private_skills_is_kept():
    names = [f"skill-{number}" for number in range(10_000)]
    index = b"".join(
        b'{"name":"%s","digest":"%s"},' % (name.encode(), os.urandom(175).hex().encode()) for name in names
    )
    indexes = IndexCache()
    made = await indexes.prepare(INDEX, SiteUrlBody(names, lambda: index, CachePolicy.PRIVATE))
    assert made.size > 7_000_000
    assert indexes.has(INDEX)


def test_what_does_not_compress_is_kept_as_it_is():
    content = os.urandom(600_000)
    assert (
        CachedResponse(content, "application/json", CachePolicy.BRIEF)
        .choose([(b"accept-encoding", b"gzip, br")])[1]
        .body
        == content
    )


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path, {"skill.toml": PUBLIC})


@pytest.mark.parametrize(
    "manifest",
    [
        'access = "privat"\n',
        "access = true\n",
        'access = "private"\ntagz = ["a"]\n',
        'access = "private\n',
        b'access = "private"\n# \xff\n',
        'acess = "private"\n',
        '[permissions]\nnetwork = []\naccess = "private"\n',
    ],
    ids=["value", "kind", "other key", "syntax", "bytes", "key", "below a table"],
)
async def test_what_is_closed_by_an_edit_that_breaks_it_is_closed(site, manifest):
    assert await site.statuses() == [200, 200]
    assert await site.lists() == [True] * 4
    log = site.write(skill_toml=manifest)
    assert await site.statuses() == [404, 404]
    assert await site.lists() == [False] * 4
    told = [event for event in log if event["event"] == "skill broken"]
    assert {event["log_level"] for event in told} == {"error"}
    assert {event["serving"] for event in told} == {"its last good version, now private"}
    site.write(skill_toml=PUBLIC)
    assert await site.statuses() == [200, 200]


async def test_a_descriptor_closes_what_its_skill_toml_leaves_open(tmp_path):
    site = Site(tmp_path, {})
    served = (await site.client.get(DESCRIPTOR, HOST)).json()
    site = Site(tmp_path, {"skill.toml": PUBLIC, "descriptor.json": json.dumps(served)})
    assert await site.statuses() == [200, 200]
    for text in (json.dumps({**served, "access": "private"}), json.dumps({**served, "access": ["private"]}), "{", "[]"):
        site.write(descriptor_json=text)
        assert await site.statuses() == [404, 404], text
        site.write(descriptor_json=json.dumps(served))
        assert await site.statuses() == [200, 200]


async def test_what_cannot_be_read_any_more_is_private(site):
    (site.folder / "skill.toml").unlink()
    (site.folder / "skill.toml").symlink_to("nowhere")
    site.look()
    assert await site.statuses() == [404, 404]
    (site.folder / "skill.toml").unlink()
    (site.folder / "skill.toml").mkdir()
    (site.folder / "skill.toml" / "a").touch()
    site.write(SKILL_md="no frontmatter")
    assert await site.statuses() == [404, 404]


async def test_what_is_restricted_by_an_edit_that_breaks_it_is_known_and_locked(site):
    site.write(skill_toml='access = "restricted"\n', SKILL_md="no frontmatter")
    assert await site.statuses() == [401, 200]  # its descriptor says how to be let in
    assert await site.lists() == [False, True, True, False]


async def test_what_is_broken_otherwise_goes_on_being_served(site):
    log = site.write(SKILL_md="no frontmatter")
    assert await site.statuses() == [200, 200]
    assert {event["log_level"] for event in log if event["event"] == "skill broken"} == {"warning"}
    site.write(skill_toml='access = "private"\n')
    assert await site.statuses() == [404, 404]
    site.write(skill_toml=PUBLIC)
    assert await site.statuses() == [200, 200]


async def test_what_was_closed_stays_closed_whatever_a_broken_folder_says(tmp_path):
    site = Site(tmp_path, {"skill.toml": 'access = "private"\n'})
    site.write(skill_toml=PUBLIC, SKILL_md="no frontmatter")
    assert await site.statuses() == [404, 404]
    (site.folder / "skill.toml").unlink()
    site.look()
    assert await site.statuses() == [404, 404]


async def test_a_folder_that_goes_on_changing_is_closed_all_the_same(site, monkeypatch):
    (site.folder / "skill.toml").write_text('access = "private"\n')

    def disturb(path, publisher, **_):
        prepared = prepare(path, publisher)
        with (path / "SKILL.md").open("a") as file:
            file.write("More.\n")
        return prepared

    monkeypatch.setattr(loading, "prepare", disturb)
    site.look()
    assert await site.statuses() == [404, 404]


async def test_what_was_closed_before_another_folder_failed_is_not_forgotten(site, monkeypatch):
    (site.folder / "skill.toml").write_text('access = "privat"\n')
    load = loading.load_folders

    def fail_then(job, folders):
        yield from load(job, [folder for folder in folders if folder.endswith("plan")])
        raise StorageError("STORAGE", "no space left on device")

    monkeypatch.setattr("skillwire.adapters.files.published_folders.load_folders", fail_then)
    with pytest.raises(StorageError):
        site.publication.folders.refresh(None)
    monkeypatch.setattr("skillwire.adapters.files.published_folders.load_folders", lambda *_: [])
    site.look()
    assert await site.statuses() == [404, 404]
