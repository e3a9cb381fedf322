"""A protocol of one's own is a class and two rows: it is served, described, part of static sites, and found."""

import json

import pytest
from click.testing import CliRunner
from tests.support.publishing import Asgi, write_skill

from skillwire import Client, NotFoundError
from skillwire.cli.build import command
from skillwire.model.digest import Digest
from skillwire.model.ref import SkillRef
from skillwire.resolver.sources import SOURCES, SourceRow
from skillwire.server import create_app
from skillwire.server.app import PROTOCOLS
from skillwire.server.components import Interface, Protocol
from skillwire.server.openapi import CONDITION, kept, listed
from skillwire.server.problems import Problem
from skillwire.server.responses import json_response
from skillwire.server.routing import Operation, Route
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpRequest

PATH = "/.well-known/toy.json"
PLACE = f"https://toy.example{PATH}"


def encode(skills):
    rows = [{"name": skill.name, "about": skill.description, "digest": str(skill.artifact.digest)} for skill in skills]
    return json.dumps(rows).encode()


class ToyProtocol(Protocol):
    """A list of names, texts and digests."""

    name = "Toy"

    def routes(self, _):
        async def answer(context):
            if context.scope["query_string"]:
                raise NotFoundError("SKILL_NOT_FOUND", "there is one list")
            return json_response(encode(context.view.visible.skills.values()))

        operation = Operation("The list", kept(listed({"type": "object"})), (CONDITION,))
        return [Route(PATH, answer, "service", describes=operation)]

    def static_files(self, view):
        return {PATH[1:]: encode(view.catalog.skills.values())}

    def announce(self, _):
        return [Interface(PATH, "urn:x-toy:binding")]

    def error_table(self, error):
        return Problem(418, error.code, error.message)


class ToySource:
    def __init__(self, context):
        self._context = context

    def find(self, lookup, _):
        response = yield HttpRequest(lookup.url)
        return [
            SkillRef(
                name=row["name"],
                origin=lookup.url,
                description=row["about"],
                version=None,
                digest=Digest(row["digest"]),
                found_via="toy",
                fetched_at=self._context.clock(),
                artifact_type="skill-md",
                url=f"https://toy.example/{row['name']}.md",
                index_url=lookup.url,
            )
            for row in json.loads(response.body)
        ]

    def resolve(self, lookup):
        found = yield from self.find(lookup, None)
        return [skill for skill in found if lookup.name in {None, skill.name}]


@pytest.fixture
def skills(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(SOURCES, "toy", SourceRow(ToySource))
    PROTOCOLS.append(ToyProtocol())
    write_skill(tmp_path / "skills", "hello", description="Says hello.")
    write_skill(tmp_path / "skills", "secret", {"skill.toml": 'access = "private"\n'})
    yield tmp_path / "skills"
    del PROTOCOLS[-1]


@pytest.fixture
async def client(skills, tmp_path):
    application = create_app([skills], blobs=tmp_path / "blobs", access_log=False)
    await application.startup()
    await application.catalog.first(20)
    yield Asgi(application)
    await application.shutdown()


async def test_it_is_served_and_described(client):
    answer = await client.get(PATH)
    assert [row["name"] for row in answer.json()] == ["hello"]
    assert (await client.get(f"{PATH}?x")).status == 418
    assert (await client.request(PATH, method="POST")).fields["allow"] == "GET, HEAD, OPTIONS"
    described = (await client.get("/openapi.json")).json()["paths"][PATH]
    assert described["get"]["tags"] == ["Toy"]
    assert (PATH, "urn:x-toy:binding") in client.application.services.interfaces


async def test_it_is_found_where_it_is_served(client, tmp_path):
    publisher = SimulatedPublisher()
    publisher.answer(PLACE, (await client.get(PATH)).body)
    with Client(tmp_path) as consumer:
        consumer.driver = publisher
        assert [skill.name for skill, _ in consumer.find("hello", [f"toy:{PLACE}"])] == ["hello"]


def test_it_is_part_of_a_static_site(skills, tmp_path):
    built = CliRunner().invoke(command, [str(skills), "-o", str(tmp_path / "site")], catch_exceptions=False)
    assert built.exit_code == 0
    assert [row["name"] for row in json.loads((tmp_path / "site" / PATH[1:]).read_bytes())] == ["hello"]
    assert (tmp_path / "site/.well-known/agent-skills/index.json").exists()
