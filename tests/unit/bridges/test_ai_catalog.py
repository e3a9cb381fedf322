"""The AI Catalog: entries as its text wants them, and searches that say what they cannot do."""

import json
import re

import pytest
from tests.support.catalogs import make_skill

from skillwire import limits
from skillwire.bridges.listings import encode_catalog, encode_hits, encode_refusal, read_search
from skillwire.errors import DecodeError, UsageError
from skillwire.model.catalog import SearchQuery

SITE = "https://skills.example.com"
#: What Agentic Resource Discovery demands of an identifier.
URN = re.compile(r"urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+")


def catalog(*skills, site=SITE, **more):
    return json.loads(encode_catalog(skills, "acme", site, **more))


def search(**document):
    return read_search(json.dumps(document).encode())


def test_a_skill_is_an_entry_by_its_digest():
    skill = make_skill("csv-profile", "run.sh", metadata={"tags": "csv, data"})
    document = catalog(skill)
    assert document["specVersion"] == "1.0"
    assert document["host"] == {"displayName": "acme", "identifier": "skills.example.com"}
    [entry] = document["entries"]
    assert entry == {
        "identifier": "urn:air:skills.example.com:skill:csv-profile",
        "displayName": "csv-profile",
        "type": "application/agent-skills+gzip",
        "url": f"{SITE}/.well-known/agent-skills/sha256/{skill.artifact.digest.hex}.tar.gz",
        "description": "Does csv-profile.",
        "tags": ["csv", "data"],
        "version": "1.0.0",
        "extensions": {"https://ai-catalog.org/extensions/metadata": {"digest": str(skill.artifact.digest)}},
    }


def test_entries_are_in_the_order_of_their_names_and_the_card_is_the_last():
    document = catalog(make_skill("b"), make_skill("a"), card="/.well-known/agent-card.json")
    assert [entry["identifier"].rpartition(":")[2] for entry in document["entries"]] == ["a", "b", "acme"]
    assert document["entries"][-1]["type"] == "application/a2a-agent-card+json"
    assert document["entries"][0]["type"] == "application/agent-skills+md"


@pytest.mark.parametrize("site", ["http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost/below"])
def test_an_address_of_a_machine_names_no_publisher(site):
    for entry in catalog(make_skill("a"), site=site, card="/card")["entries"]:
        assert entry["identifier"].startswith(f"{site}/")


def test_a_domain_does():
    assert all(URN.fullmatch(entry["identifier"]) for entry in catalog(make_skill("a"), card="/card")["entries"])


def test_a_search_is_read():
    asked = search(
        query={"text": "csv", "filter": {"tags": ["a", "b"], "type": "application/agent-skills+md"}},
        pageSize=5,
        pageToken="5.cursor",
        federation="none",
    )
    assert asked.query == SearchQuery("csv", {"tag": frozenset("ab")}, 5, "cursor", counted=False)
    assert asked.types == {"application/agent-skills+md"}
    assert asked.before == 5
    assert search(query={"text": ""}).query.limit == 10


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"query": "csv"},
        {"query": {}},
        {"query": {"text": 5}},
        {"query": {"text": "a"}, "pageSize": 0},
        {"query": {"text": "a"}, "pageSize": 101},
        {"query": {"text": "a"}, "pageSize": True},
        {"query": {"text": "a", "filter": []}},
        {"query": {"text": "a", "filter": {"trustManifest.identity": "x"}}},
        {"query": {"text": "a", "filter": {"type": [1]}}},
        {"query": {"text": "a"}, "pageToken": "cursor"},
        {"query": {"text": "a"}, "pageToken": "-1.cursor"},
        {"query": {"text": "a"}, "pageToken": "99999999.cursor"},
        {"query": {"text": "a"}, "pageToken": 3},
        [],
    ],
)
def test_a_search_that_cannot_be_made_is_refused(document):
    with pytest.raises(UsageError):
        read_search(json.dumps(document).encode())


def test_searches_are_bounded():
    with pytest.raises(DecodeError, match="LIMIT_SIZE"):
        search(query={"text": "a" * limits.CATALOG_SEARCH_BYTES})


def test_hits_have_a_score_that_falls_and_a_source():
    asked = search(query={"text": "x"}, pageToken="98.c")
    answer = json.loads(encode_hits(asked, [make_skill(name) for name in "abc"], "next", SITE))
    assert [(row["displayName"], row["score"]) for row in answer["results"]] == [("a", 2), ("b", 1), ("c", 1)]
    assert {row["source"] for row in answer["results"]} == {f"{SITE}/"}
    assert answer["pageToken"] == "101.next"
    assert "pageToken" not in json.loads(encode_hits(asked, [], None, SITE))


def test_a_filter_by_type():
    asked = search(query={"text": "x", "filter": {"type": ["application/agent-skills+md"]}})
    answer = json.loads(encode_hits(asked, [make_skill("a"), make_skill("b", "run.sh")], None, SITE))
    assert [row["displayName"] for row in answer["results"]] == ["a"]


def test_a_refusal_has_the_form_of_the_text():
    told = json.loads(encode_refusal(UsageError("QUERY", "the text is too long")))
    assert told == {"errorCode": "INVALID_ARGUMENT", "message": "the text is too long (QUERY)"}
