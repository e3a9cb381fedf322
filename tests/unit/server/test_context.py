"""The doors: each request comes to the one that answers it, and what goes wrong behind one is answered for it."""

from __future__ import annotations

import json

import pytest
from tests.support.publishing import Asgi, write_skill

from skillwire.server import app
from skillwire.server.addressed import SiteUrlBody, SiteUrlCache
from skillwire.server.auth.authentication import ProblemError
from skillwire.server.context import RequestContext, ResponseRecorder, path_of
from skillwire.server.doors import Doors, door
from skillwire.server.http import site_of
from skillwire.server.problems import NOT_FOUND, NOT_READY


@pytest.fixture
async def application(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "skills"
    write_skill(folder, "notes")
    write_skill(folder, "secret", {"skill.toml": 'access = "private"\n'})
    application = app([folder], blobs=tmp_path / "blobs", access_log=False)
    application.publication.start()
    await application.publication.first(20)
    yield application
    await application.shutdown()


@pytest.fixture
def counted():
    """Return what the requests are counted as."""
    return []


@pytest.fixture
def behind(application, counted):
    """Return what makes a client of doors alone."""

    def behind(at, chain=()):
        async def answer(scope, receive, send):
            visit = RequestContext(path_of(scope), scope, receive, ResponseRecorder(send), application._reception)
            counted.append(await Doors(at, chain).answer(visit))

        return Asgi(answer)

    return behind


def saying(word):
    async def say(visit):
        await visit.send({"type": "http.response.start", "status": 200, "headers": []})
        await visit.send({"type": "http.response.body", "body": word.encode()})
        return word

    return say


async def test_a_row_is_found_before_the_chain_is_asked(behind):
    client = behind({"/rpc": saying("rpc"), "/blobs/": saying("one"), "/blobs": saying("all")}, (saying("chain"),))
    told = [(await client.get(path)).body.decode() for path in ("/rpc", "/blobs/ab", "/blobs")]
    assert told == ["rpc", "one", "all"]
    for path in ("/rpc/", "/rpc/a", "/blobs/", "/blobs/a/b", "/", "/rp"):
        assert (await client.get(path)).body == b"chain", path


async def test_a_door_that_declines_leaves_the_request_to_the_next(behind, counted):
    async def decline(_):
        return None

    client = behind({"/rpc": decline}, (decline, door("page", saying("x"), lambda _: False), saying("last")))
    assert (await client.get("/rpc")).body == b"last"
    assert counted == ["last"]


async def test_what_goes_wrong_behind_a_door_is_answered(behind, counted):
    async def fail(_):
        raise ValueError

    async def refuse(_):
        raise ProblemError(NOT_READY)

    async def miss(visit):
        await NOT_FOUND.send(visit.send)
        return "rpc"

    client = behind({"/fail": fail, "/refuse": refuse, "/miss": miss, "/long": miss})
    answers = [await client.get(path) for path in ("/fail", "/refuse", "/miss", f"/long?{'x' * 3000}")]
    assert [answer.status for answer in answers] == [500, 503, 404, 414]
    assert counted == ["none"] * 4


async def test_who_asks_is_recognised_before_a_plain_door_answers(behind, counted):
    client = behind({"/card": door("service", saying("card"))})
    assert (await client.get("/card")).body == b"card"
    assert (await client.get("/card", {"X-API-Key": "swk_wrong"})).status == 401
    assert counted == ["service", "none"]


async def test_a_document_is_made_once_for_each_audience_and_address(behind):
    made, addressed = [], SiteUrlCache("")

    async def tell(visit):
        audience, site = await visit.audience(), site_of(visit.scope, "")

        def encode():
            made.append(site)
            return json.dumps([site, sorted(audience.visible.skills)]).encode()

        document = SiteUrlBody(audience.visible.skills, encode, audience.cache)
        await addressed.send(visit.path, document, audience, visit.scope, visit.send)
        return "service"

    client = behind({"/.well-known/card.json": tell})
    host = {"Host": "a.example.com"}
    first = await client.get("/.well-known/card.json", host)
    again = await client.get("/.well-known/card.json", {**host, "If-None-Match": first.fields["etag"]})
    other = await client.get("/.well-known/card.json", {"Host": "b.example.com"})
    assert first.json() == ["http://a.example.com", ["notes"]]
    assert (again.status, other.json()[0]) == (304, "http://b.example.com")
    assert made == ["http://a.example.com", "http://b.example.com"]
    assert first.fields["content-type"] == "application/json"
    assert first.fields["access-control-allow-origin"] == "*"
