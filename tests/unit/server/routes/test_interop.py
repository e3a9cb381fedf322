"""The doors of neighbours: there when they are wanted, and each lists what the one who asks may use."""

import json
import threading

import pytest
from tests.support.opened import open_grants, open_tokens
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.catalog import summarize
from skillwire.server import create_app
from skillwire.server.configuration import read_configuration
from skillwire.server.routes import interop

CATALOG = "/.well-known/ai-catalog.json"
CARD = "/.well-known/agent-card.json"
HOST = {"Host": "skills.example.com"}
ACTION = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
ASKED = '[bridges]\nai_catalog = "1.0"\nagent_card = "1.0"\n'
BOTH = f"{ASKED}[executions]\ngrant_all = true\n"


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens()


@pytest.fixture
async def serve(tmp_path, tokens):  # noqa: ARG001  # made first, so that the state folder is the test's
    running = []

    async def serve(configuration=BOTH, *, action=True, **options):
        folder = tmp_path / "skills"
        write_skill(folder, "open-notes", {"run.sh": "echo"})
        write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'})
        write_skill(
            folder, "omega-plan", {"skill.toml": f'access = "private"\n{ACTION}', "main.py": "def main(a): ..."}
        )
        if action:
            write_skill(folder, "adder", {"skill.toml": ACTION, "main.py": "def main(args):\n    return args\n"})
        read = read_configuration(configuration.encode(), "server.toml")
        application = create_app([folder], blobs=tmp_path / "blobs", publisher="acme", configuration=read, **options)
        await application.startup()
        await application.catalog.first(20)
        running.append(application)
        return Asgi(application)

    yield serve
    for application in running:
        await application.shutdown()


def names(answer):
    return [entry["displayName"] for entry in answer.json()["entries"] if "displayName" in entry]


async def test_they_are_off_unless_asked_for(serve):
    client = await serve("")
    for path in (CATALOG, CARD):
        assert (await client.get(path, HOST)).status == 404
    assert (await client.request("/search", HOST, method="POST", body=b'{"query":{"text":"a"}}')).status == 404


@pytest.mark.parametrize("value", ['"2.0"', "true", "1.0", '""'])
def test_a_version_that_is_not_spoken_is_refused(value):
    with pytest.raises(UsageError, match="SERVER_CONFIGURATION"):
        read_configuration(f"[bridges]\nai_catalog = {value}\n".encode(), "server.toml")


async def test_everybody_sees_what_everybody_may_use(serve):
    client = await serve()
    answer = await client.get(CATALOG, HOST)
    assert answer.status == 200
    assert answer.fields["content-type"] == "application/ai-catalog+json"
    assert answer.fields["access-control-allow-origin"] == "*"
    assert names(answer) == ["adder", "open-notes"]
    assert answer.json()["entries"][-1]["url"] == f"http://skills.example.com{CARD}"
    again = await client.get(CATALOG, {**HOST, "If-None-Match": answer.fields["etag"]})
    assert again.status == 304
    card = await client.get(CARD, HOST)
    assert [skill["id"] for skill in card.json()["skills"]] == ["adder"]
    assert b"omega" not in answer.body + card.body
    assert b"staff" not in answer.body + card.body


async def test_whoever_has_a_grant_sees_more_and_no_cache_keeps_it(serve, tokens):
    client = await serve()
    fields = {**HOST, "X-API-Key": tokens.issue("caller", skills=["omega-plan"]).secret}
    answer = await client.get(CATALOG, fields)
    assert names(answer) == ["adder", "omega-plan", "open-notes"]
    assert "private" in answer.fields["cache-control"]
    card = await client.get(CARD, fields)
    assert [skill["id"] for skill in card.json()["skills"]] == ["adder", "omega-plan"]
    assert "private" in card.fields["cache-control"]
    assert names(await client.get(CATALOG, HOST)) == ["adder", "open-notes"]


async def test_every_url_of_the_catalog_answers_with_what_its_digest_says(serve):
    client = await serve(base_url="https://skills.example.com")
    for entry in (await client.get(CATALOG)).json()["entries"]:
        answer = await client.get(entry["url"].removeprefix("https://skills.example.com"))
        assert answer.status == 200, entry["url"]


async def test_without_anything_to_run_there_is_no_card(serve):
    client = await serve(action=False)
    assert (await client.get(CARD, HOST)).status == 404
    assert all("displayName" in entry for entry in (await client.get(CATALOG, HOST)).json()["entries"])


async def test_what_nobody_granted_is_on_no_card_until_somebody_does(serve, monkeypatch):
    monkeypatch.setattr(interop, "_SECONDS", 0.0)
    client = await serve(ASKED)
    assert (await client.get(CARD, HOST)).status == 404
    assert all("displayName" in entry for entry in (await client.get(CATALOG, HOST)).json()["entries"])
    skills = client.application.catalog.current.public_view.usable.skills
    open_grants().agree(skills["adder"], "anna")
    assert [skill["id"] for skill in (await client.get(CARD, HOST)).json()["skills"]] == ["adder"]
    assert (await client.get(CATALOG, HOST)).json()["entries"][-1]["url"].endswith(CARD)
    open_grants().take_back("adder")
    assert (await client.get(CARD, HOST)).status == 404


async def test_what_runs_is_found_once_and_beside_the_event_loop(serve, monkeypatch):
    threads = []

    def look(skills, name):
        threads.append(threading.current_thread())
        return summarize(skills, name)

    monkeypatch.setattr(interop, "summarize", look)
    client = await serve()
    first = await client.get(CARD, HOST)
    assert first.status == 200
    looked = len(threads)
    for method in ("GET", "HEAD"):
        again = await client.request(CARD, HOST, method=method)
        assert (again.status, again.fields["etag"]) == (200, first.fields["etag"])
    await client.get(CATALOG, HOST)
    assert len(threads) == looked > 0
    assert threading.main_thread() not in threads


async def test_the_card_names_the_skills_protocol_where_it_executes(serve):
    client = await serve(f"{BOTH}[rpc]\nexecute_skill = true\n")
    interfaces = (await client.get(CARD, HOST)).json()["supportedInterfaces"]
    assert [row["url"] for row in interfaces] == [
        "http://skills.example.com/.well-known/skill-sharing",
        "http://skills.example.com/rpc",
    ]


async def search(client, document, fields=HOST):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return await client.request("/search", fields, method="POST", body=body)


class TestSearch:
    async def test_hits_are_entries_page_by_page(self, serve, tokens):
        client = await serve()
        fields = {**HOST, "X-API-Key": tokens.issue("caller", skills=["omega-plan"]).secret}
        found, token = [], None
        for _ in range(2):
            document = {"query": {"text": ""}, "pageSize": 1, **({"pageToken": token} if token else {})}
            answer = await search(client, document, fields)
            assert answer.status == 200
            found += [(row["displayName"], row["score"]) for row in answer.json()["results"]]
            token = answer.json().get("pageToken")
        assert found == [("adder", 100), ("open-notes", 99)]
        assert token is None

    async def test_words(self, serve):
        client = await serve()
        [row] = (await search(client, {"query": {"text": "open notes"}})).json()["results"]
        assert row["identifier"] == "urn:air:skills.example.com:skill:open-notes"
        assert row["source"] == "http://skills.example.com/"

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"[]", b'{"query":{"text":"a"},"pageToken":"1.x"}', b'{"query":{"text":"%s"}}' % (b"a" * 1025)],
    )
    async def test_what_cannot_be_searched_is_said_in_the_form_of_the_text(self, serve, body):
        answer = await search(await serve(), body)
        assert answer.status == 400
        assert answer.json()["errorCode"] == "INVALID_ARGUMENT"

    async def test_other_methods_and_too_much(self, serve):
        client = await serve()
        get = await client.get("/search", HOST)
        assert (get.status, get.fields["allow"]) == (405, "POST, OPTIONS")
        preflight = await client.request("/search", HOST, method="OPTIONS")
        assert (preflight.status, preflight.fields["access-control-allow-methods"]) == (204, "POST, OPTIONS")
        assert (await search(client, b" " * (limits.CATALOG_SEARCH_BYTES + 1))).status == 413
