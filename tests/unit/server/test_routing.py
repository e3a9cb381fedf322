"""The route table: each request comes to the first row of its path, and what goes wrong in a handler is answered."""

import json
from typing import Any

import pytest
from starlette import routing
from starlette.responses import PlainTextResponse
from tests.support.publishing import Asgi, write_skill

from skillwire.errors import UsageError
from skillwire.server import create_app
from skillwire.server.problems import NOT_FOUND, NOT_READY, Problem, ProblemError
from skillwire.server.responses import json_response
from skillwire.server.revision import SiteUrlBody
from skillwire.server.routing import Route, SiteUrlCache


@pytest.fixture
async def application(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "skills"
    write_skill(folder, "notes")
    write_skill(folder, "secret", {"skill.toml": 'access = "private"\n'})
    application = create_app([folder], blobs=tmp_path / "blobs", access_log=False)
    application.catalog.start()
    await application.catalog.first(20)
    yield application
    await application.shutdown()


@pytest.fixture
def behind(application):
    """Return what makes a client of these rows alone; it knows what the requests are counted as."""

    def behind(*rows):
        application.router.routes = list(rows)
        client: Any = Asgi(application)
        client.counted = lambda: sorted(label for label, _ in application.services.metrics.requests.elements())
        return client

    return behind


def saying(word):
    async def say(_):
        return json_response(word.encode())

    return say


async def test_only_rows_that_the_first_part_of_a_path_leaves_are_tried(behind, monkeypatch):
    tried = []
    matches = Route.matches

    def remember(row, scope):
        tried.append(row.path)
        return matches(row, scope)

    monkeypatch.setattr(Route, "matches", remember)
    rows = ("/@{scope}/a", "/rpc", "/skills", "/skills/{name}", "/skills/{name}/runs", "/", "/{rest:path}")
    client = behind(*(Route(path, saying(path), "rpc") for path in rows))
    for path, expected in {
        "/skills/a/runs": ["/@{scope}/a", "/skills", "/skills/{name}", "/skills/{name}/runs"],
        "/rpc": ["/@{scope}/a", "/rpc"],
        "/": ["/@{scope}/a", "/"],
        "/@x/a": ["/@{scope}/a"],
        "/{": ["/@{scope}/a", "/{rest:path}"],
        "//rpc": ["/@{scope}/a", "/", "/{rest:path}"],
    }.items():
        tried.clear()
        assert (await client.get(path)).body == expected[-1].encode()
        assert tried == expected


async def test_the_first_row_of_a_path_answers_whatever_the_method_is(behind):
    client = behind(
        Route("/rpc", saying("rpc"), "rpc"),
        Route("/blobs/{blob}", saying("one"), "rpc"),
        Route("/blobs", saying("all"), "rpc"),
        Route("/nowhere", None, "rpc"),
        Route("/{rest:path}", saying("last"), "service", methods=()),
    )
    assert [(await client.get(path)).body for path in ("/rpc", "/blobs/ab", "/blobs")] == [b"rpc", b"one", b"all"]
    for path in ("/rpc/", "/rpc/a", "/rpc%0a", "/blobs/", "/blobs/a/b", "/", "/rp", "/nowhere"):
        assert (await client.get(path)).body == b"last", path
    refused = await client.request("/rpc", method="POST")
    assert (refused.status, refused.fields["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert refused.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
    preflight = await client.request("/rpc", method="OPTIONS")
    assert (preflight.status, preflight.fields["access-control-allow-methods"]) == (204, "GET, HEAD, OPTIONS")
    assert (await client.request("/x", method="PUT")).body == b"last"


async def test_rows_of_the_library_answer_as_in_its_own_router(behind):
    async def say(_):
        return PlainTextResponse("theirs")

    theirs = routing.Route("/theirs", say)
    client = behind(Route("/rpc", saying("rpc"), "rpc"), theirs)
    assert [(await client.get(path)).body for path in ("/rpc", "/theirs")] == [b"rpc", b"theirs"]
    assert [(await client.request(path, method="POST")).status for path in ("/theirs", "/a")] == [405, 404]
    client = behind(routing.Mount("/", routes=[theirs]), Route("/{rest:path}", saying("last"), "service"))
    assert (await client.get("/theirs")).body == b"theirs"


async def test_what_goes_wrong_in_a_handler_is_answered(behind):
    async def fail(_):
        raise ValueError

    async def refuse(_):
        raise ProblemError(NOT_READY)

    async def miss(_):
        return NOT_FOUND

    async def mistake(_):
        raise UsageError("QUERY", "there are two")

    rows = [Route(f"/{handler.__name__}", handler, "rpc") for handler in (fail, refuse, miss, mistake)]
    client = behind(*rows)
    paths = ("/fail", "/refuse", "/miss", f"/miss?{'x' * 3000}", "/nothing", "/mistake")
    answers = [await client.get(path) for path in paths]
    assert [answer.status for answer in answers] == [500, 503, 404, 414, 404, 400]
    assert client.counted() == [*["none"] * 5, "rpc"]
    rows[-1].error_table = lambda error: Problem(418, error.code, error.message)
    assert (await client.get("/mistake")).status == 418


async def test_the_caller_is_authenticated_before_a_handler_runs_and_before_a_405(behind):
    client = behind(Route("/card", saying("card"), "service"))
    assert (await client.get("/card")).body == b"card"
    for method in ("GET", "PUT", "OPTIONS"):
        assert (await client.request("/card", {"X-API-Key": "swk_wrong"}, method=method)).status == 401
    assert client.counted() == ["none", "none", "none", "service"]


async def test_a_document_is_made_once_for_each_view_and_address(behind):
    made, documents = [], SiteUrlCache("")

    async def card(context):
        view, site = context.view, context.site

        def encode():
            made.append(site)
            return json.dumps([site, sorted(view.visible.skills)]).encode()

        return await documents.respond(context, context.path, SiteUrlBody(view.visible.skills, encode, view.cache))

    client = behind(Route("/.well-known/card.json", card, "service"))
    host = {"Host": "a.example.com"}
    first = await client.get("/.well-known/card.json", host)
    again = await client.get("/.well-known/card.json", {**host, "If-None-Match": first.fields["etag"]})
    other = await client.get("/.well-known/card.json", {"Host": "b.example.com"})
    assert first.json() == ["http://a.example.com", ["notes"]]
    assert (again.status, other.json()[0]) == (304, "http://b.example.com")
    assert made == ["http://a.example.com", "http://b.example.com"]
    assert first.fields["content-type"] == "application/json"
    assert first.fields["access-control-allow-origin"] == "*"
