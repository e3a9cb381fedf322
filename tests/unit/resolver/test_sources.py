"""A protocol of one's own is a row in the table of sources: it is found, shown, planned and installed."""

import hashlib
import json

import pytest

from skillwire import Client, NotFoundError, UsageError
from skillwire.model.digest import Digest
from skillwire.model.ref import SkillRef
from skillwire.resolver.references import parse_reference, reference_to
from skillwire.resolver.sources import SOURCES, SourceRow
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpRequest

SKILL_MD = b"---\nname: hello\ndescription: Says hello.\n---\nSay hello.\n"
PLACE = "https://toy.example/list"
LIST = [
    {"name": "hello", "about": "Says hello.", "at": "https://toy.example/hello.md"},
    {"name": "other", "about": "Does something else.", "at": "https://toy.example/other.md"},
]


class ToySource:
    """A list of names, texts and addresses."""

    def __init__(self, context):
        self._context = context

    def find(self, lookup, capability_type):
        response = yield HttpRequest(lookup.url)
        if response.status != 200:
            raise NotFoundError("INDEX_NOT_FOUND", "there is no list")
        digest = Digest(f"sha256:{hashlib.sha256(SKILL_MD).hexdigest()}")
        return [
            SkillRef(
                name=row["name"],
                origin=lookup.url,
                description=row["about"],
                version=None,
                digest=digest,
                found_via="toy",
                fetched_at=self._context.clock(),
                artifact_type="skill-md",
                url=row["at"],
                index_url=lookup.url,
            )
            for row in json.loads(response.body)
            if capability_type is None
        ]

    def resolve(self, lookup):
        found = yield from self.find(lookup, None)
        return [skill for skill in found if lookup.name in {None, skill.name}]


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    monkeypatch.setitem(SOURCES, "toy", SourceRow(ToySource))
    publisher = SimulatedPublisher()
    publisher.answer(PLACE, json.dumps(LIST).encode())
    publisher.answer("https://toy.example/hello.md", SKILL_MD)
    with Client(tmp_path) as client:
        client.driver = publisher
        yield client


def test_it_is_found_beside_the_others(client):
    assert [skill.name for skill, _ in client.find("hello", [f"toy:{PLACE}"])] == ["hello"]
    assert client.find("", [f"toy:{PLACE}"], capability_type="api") == []


def test_its_place_need_not_be_a_url(client, monkeypatch):
    class Shelf(ToySource):
        def find(self, lookup, capability_type):
            return (yield from super().find(lookup._replace(url=f"https://toy.example/{lookup.url}"), capability_type))

    monkeypatch.setitem(SOURCES, "toy", SourceRow(Shelf))
    assert [skill.name for skill, _ in client.find("hello", ["toy:list"])] == ["hello"]


def test_its_skills_have_references(client):
    skill = client.show(f"toy:{PLACE}#hello")
    assert (skill.description, skill.body()) == ("Says hello.", "Say hello.\n")
    assert reference_to(skill.ref) == f"toy:{PLACE}#hello"
    assert len(client.index(f"toy:{PLACE}")) == 2
    with pytest.raises(NotFoundError, match="is not published there"):
        client.show(f"toy:{PLACE}#hullo")


def test_it_is_installed_and_verified(client, tmp_path):
    report = client.add(f"toy:{PLACE}#hello", consent=True)
    assert [locked.name for locked in report.installed] == ["hello"]
    assert (tmp_path / ".agents/skills/hello/SKILL.md").read_bytes() == SKILL_MD


def test_without_its_row_it_is_no_reference():
    with pytest.raises(UsageError, match="cannot read the reference"):
        parse_reference(f"toy:{PLACE}#hello")
