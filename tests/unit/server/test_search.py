"""Searches and their hits as JSON."""

import json
import re

import pytest
from tests.support.catalogs import make_skill
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.model.catalog import PackedSkills, pack_skill
from skillwire.server import create_app
from skillwire.server.fastpath import FastPath
from skillwire.server.search import encode_hits

SITE = "https://skills.example/a/"
HOSTILE = 'says "\\u0000", \\\\, \0 and \x1f, {"name": 1}, \u2028 and é'


@pytest.mark.parametrize("site", [SITE, 'http://"\\/'])
def test_hits_hold_hostile_text_and_the_address_of_each_site(site):
    names = ("one", "two", "three")
    skills = PackedSkills(
        {name: pack_skill(make_skill(name)._replace(description=f"{name}: {HOSTILE}")) for name in names}
    )
    hits = json.loads(b"[%s]" % encode_hits(skills, ["three", "one"], site))
    assert [(hit["name"], hit["description"]) for hit in hits] == [
        ("three", f"three: {HOSTILE}"),
        ("one", f"one: {HOSTILE}"),
    ]
    assert [hit["source"] for hit in hits] == [site, site]
    for hit in hits:
        assert hit["url"] == f"{site}.well-known/agent-skills/{hit['digest'].replace(':', '/')}.md"
    assert encode_hits(skills, [], site) == b""


SEARCH = "/api/search"


@pytest.fixture
async def site(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "csv-profile", {"scripts/run.py": "print()\n"}, description="Profiles CSV tables.")
    write_skill(folder, "csv-clean", description="Cleans CSV tables.")
    write_skill(folder, "notes", description="Writes notes.")
    write_skill(folder, "csv-secret", {"skill.toml": 'access = "private"\n'}, description="Profiles secret CSV tables.")
    application = create_app([folder], blobs=tmp_path / "blobs", publisher="acme")
    await application.startup()
    revision = await application.catalog.first()
    assert revision is not None
    assert not revision.broken
    yield Asgi(application)
    await application.shutdown()


async def test_hits_say_what_is_needed_to_choose_and_to_fetch(site):
    answer = await site.get(f"{SEARCH}?q=csv+profile", {"Host": "skills.example:8080"})
    document = answer.json()
    [hit] = document["skills"]
    digest = hit["digest"].removeprefix("sha256:")
    assert hit == {
        "id": "acme/csv-profile",
        "name": "csv-profile",
        "source": "http://skills.example:8080/",
        "installs": 0,
        "description": "Profiles CSV tables.",
        "version": "1.0.0",
        "digest": f"sha256:{digest}",
        "url": f"http://skills.example:8080/.well-known/agent-skills/sha256/{digest}.tar.gz",
        "kind": "scripts",
    }
    assert (await site.get(hit["url"].removeprefix("http://skills.example:8080"))).status == 200
    assert document["total"] == 1
    assert document["next"] is None
    assert "facets" not in document
    counted = (await site.get(f"{SEARCH}?q=csv+profile&facets=1")).json()
    assert counted["facets"] == {"kind": [{"value": "scripts", "skills": 1}], "license": [], "tag": []}
    assert answer.fields["content-type"] == "application/json"
    assert answer.fields["access-control-allow-origin"] == "*"
    assert answer.fields["cache-control"].startswith("public")


async def test_pages_follow_each_other_and_facets_narrow(site):
    first = (await site.get(f"{SEARCH}?limit=2")).json()
    second = (await site.get(f"{SEARCH}?limit=2&after={first['next']}")).json()
    assert [hit["name"] for hit in first["skills"] + second["skills"]] == ["csv-clean", "csv-profile", "notes"]
    assert second["next"] is None
    narrowed = (await site.get(f"{SEARCH}?kind=instructions&kind=callable&utm=x")).json()
    assert [hit["name"] for hit in narrowed["skills"]] == ["csv-clean", "notes"]


async def test_tags_of_a_manifest_are_searched_and_narrow(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "vat", {"skill.toml": 'tags = ["Tax", "public money"]\n'}, description="Splits a price.")
    write_skill(folder, "notes", description="Writes notes.")
    application = create_app([folder], blobs=tmp_path / "blobs", publisher="acme")
    await application.startup()
    assert await application.catalog.first() is not None
    site = Asgi(application)
    counted = (await site.get(f"{SEARCH}?q=money&facets=1")).json()
    assert [hit["name"] for hit in counted["skills"]] == ["vat"]
    assert [one["value"] for one in counted["facets"]["tag"]] == ["public money", "tax"]
    for tag in ("Tax", "tax", "public+money"):
        assert [hit["name"] for hit in (await site.get(f"{SEARCH}?tag={tag}")).json()["skills"]] == ["vat"]
    page = (await site.get("/?tag=Tax", {"Accept": "text/html"})).body.decode()
    assert "Splits a price." in page
    assert "Tax" not in re.sub(r"<[^>]*>", "", page)
    assert "Splits a price." in (await site.get("/?q=money", {"Accept": "text/html"})).body.decode()
    listed = (await site.get("/.well-known/agent-skills/index.json")).json()["skills"]
    assert [one.get("tags") for one in listed] == [None, ["Tax", "public money"]]
    await application.shutdown()


async def test_a_callable_skill_with_scripts_has_both_kinds_and_alone_is_no_plural(tmp_path):
    manifest = '[runtime]\nentrypoint = "scripts/main.py"\n'
    files = {"skill.toml": manifest, "scripts/main.py": "def main(args):\n    return {}\n"}
    write_skill(tmp_path / "skills", "vat", files, description="Splits a price.")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", publisher="acme")
    await application.startup()
    assert await application.catalog.first() is not None
    site = Asgi(application)
    for kind in ("callable", "scripts"):
        [hit] = (await site.get(f"{SEARCH}?kind={kind}")).json()["skills"]
        assert hit["kind"] == "callable"
    assert "Show the skill<" in (await site.get("/?q=zzzzqq", {"Accept": "text/html"})).body.decode()
    await application.shutdown()


@pytest.mark.parametrize("query", ["", "?q=secret", "?q=csv-secret", "?q=secert", "?q=csv+secret"])
async def test_what_is_not_public_is_never_found(site, query):
    answer = await site.get(SEARCH + query)
    assert answer.status == 200
    assert b"secret" not in answer.body


async def test_a_tag_that_is_current_gives_304_and_head_no_body(site):
    answer = await site.get(f"{SEARCH}?q=csv")
    tag = answer.fields["etag"]
    held = await site.get(f"{SEARCH}?q=csv", {"If-None-Match": f'"other", {tag}'})
    assert (held.status, held.body, held.fields["etag"]) == (304, b"", tag)
    head = await site.request(f"{SEARCH}?q=csv", method="HEAD")
    assert (head.status, head.body, head.fields) == (200, b"", answer.fields)
    assert (await site.get(f"{SEARCH}?q=notes")).fields["etag"] != tag


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "QUERY"),
        ("limit=101", "QUERY"),
        ("limit=ten", "QUERY"),
        ("limit=", "QUERY"),
        ("q=a&q=b", "QUERY"),
        ("&".join(f"tag={number}" for number in range(65)), "QUERY"),
        ("q=" + "x" * 1025, "QUERY"),
        ("after=nonsense", "CURSOR"),
        ("q=csv&after=nonsense", "CURSOR"),
    ],
)
async def test_parameters_beyond_their_bounds_are_refused(site, query, code):
    answer = await site.get(f"{SEARCH}?{query}")
    assert answer.status == 400
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["details"]["fix"]
    assert answer.fields["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example/path", "a b", '"><script>', "x" * 3 + "@y", ""])
async def test_a_host_that_is_none_is_not_repeated(site, host):
    [hit] = (await site.get(f"{SEARCH}?q=notes", {"Host": host})).json()["skills"]
    assert hit["source"] == "http://127.0.0.1:8000/"  # the socket's own


async def test_another_method_is_refused_and_a_preflight_answered_as_elsewhere(site):
    assert (await site.request(SEARCH, method="POST")).status == 405
    index = await site.request("/.well-known/agent-skills/index.json", method="OPTIONS")
    search = await site.request(SEARCH, method="OPTIONS")
    assert (search.status, search.fields, search.body) == (204, index.fields, b"")


async def test_a_search_waits_for_the_first_revision(tmp_path):
    write_skill(tmp_path / "skills", "notes", description="Writes notes.")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs")
    try:
        [hit] = (await Asgi(application).get(f"{SEARCH}?q=notes")).json()["skills"]
    finally:
        await application.shutdown()
    assert hit["name"] == "notes"


async def test_a_site_that_does_not_load_in_time_says_when_to_ask_again(tmp_path, monkeypatch):
    (tmp_path / "skills").mkdir()
    monkeypatch.setattr(limits, "SERVER_LOADING_SECONDS", 0.01)
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs")
    monkeypatch.setattr(application.catalog, "start", lambda: None)
    answer = await Asgi(application).get(SEARCH)
    assert (answer.status, answer.fields["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    "target",
    [f"{SEARCH}?q=csv", "/api/skills/csv-profile", "/api/skills", "/api/skills?limit=2", "/api/skills?type=task"],
)
async def test_an_answer_at_once_is_the_same(site, target):
    fields = [(b"host", b"testserver")]
    ordinary = await site.get(target, {"Host": "testserver"})
    application = site.application
    fast_path = FastPath(application.services, application.log)
    ready = fast_path.respond(target.encode(), b"GET", fields, None)
    assert ready is not None
    assert (ready.status, ready.body) == (200, ordinary.body)
    told = dict(line.partition(b": ")[::2] for line in ready.head.splitlines()[1:])
    assert {name.decode(): value.decode() for name, value in told.items()} == ordinary.fields
    for url, method, more in [
        (b"/api/search?q=csv", b"POST", []),
        (b"/api/skills/csv-secret", b"GET", []),
        (b"/api/skills/csv-profile", b"DELETE", []),
        (b"/api/skills/csv-profile/download", b"GET", []),
        (b"/api/skills/csv%2dprofile", b"GET", []),
        (b"/api/skills?limit=3", b"GET", []),
        (b"/api/skills?limit=2", b"POST", []),
        (b"/api/skills?limit=2", b"GET", [(b"host", b"another")]),
        (b"/api/skills?task", b"GET", []),
        (b"/api/search?limit=0", b"GET", []),
        (b"/api/search?q=csv", b"GET", [(b"host", b"another")]),
        (b"/api/search?q=csv", b"GET", [(b"x-forwarded-proto", b"https")]),
        (b"/api/search?q=" + b"x" * 3000, b"GET", []),
    ]:
        assert fast_path.respond(url, method, fields + more, None) is None
    current = fast_path.respond(target.encode(), b"GET", [*fields, (b"if-none-match", told[b"etag"])], None, b"head")
    assert current is not None
    assert (current.status, current.body) == (304, b"")
    assert fast_path.respond_again(b"head", None) == current


async def test_words_are_bounded_in_characters_and_with_their_url_in_bytes(site):
    answers = [
        await site.get(f"{SEARCH}?q={words}") for words in ("x" * 1024, "%C3%A9" * 300, "x" * 1025, "%C3%A9" * 500)
    ]
    assert [answer.status for answer in answers] == [200, 200, 400, 414]
    assert [answer.json()["error"]["code"] for answer in answers[2:]] == ["QUERY", "URL_TOO_LONG"]
