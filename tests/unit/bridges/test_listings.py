"""The AI Catalog and its search, the agent card, and the files of a site with bridges."""

import json
import re
from pathlib import Path

import pytest
from tests.support.catalogs import make_skill
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.bridges.listings import (
    RPC_BINDING,
    SHARING_BINDING,
    encode_card,
    encode_catalog,
    encode_hits,
    encode_refusal,
    read_search,
)
from skillwire.cli.main import run
from skillwire.errors import DecodeError, UsageError
from skillwire.model.catalog import SearchQuery
from skillwire.model.skill import Action

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


CATALOG = Path("site/.well-known/ai-catalog.json")
MARKETPLACE = Path("site/.claude-plugin/marketplace.json")


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "notes", {"run.sh": "echo"})
    write_skill(tmp_path / "skills", "omega-plan", {"skill.toml": 'access = "private"\n'})


def build(*options):
    return run(["build", "skills", "-o", "site", "-q", *options])


def test_nothing_is_written_unasked():
    assert build() == 0
    assert not CATALOG.exists()
    assert not MARKETPLACE.parent.exists()


def test_each_url_and_each_path_leads_to_a_file_of_the_site():
    both = ("--bridge", "ai-catalog", "--bridge", "marketplace")
    assert build(*both, "--base-url", "https://x.example/below/", "--publisher", "acme") == 0
    [entry] = json.loads(CATALOG.read_text())["entries"]
    assert entry["identifier"] == "urn:air:x.example:skill:notes"
    assert Path("site", entry["url"].removeprefix("https://x.example/below/")).is_file()
    document = json.loads(MARKETPLACE.read_text())
    [plugin] = document["plugins"]
    assert document["name"] == "acme"
    assert Path("site", plugin["source"], plugin["skills"][0], "SKILL.md").is_file()


def test_what_is_no_longer_asked_for_goes_away():
    assert build("--bridge", "marketplace") == 0
    assert MARKETPLACE.exists()
    assert build() == 0
    assert not MARKETPLACE.parent.exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--bridge", "ai-catalog"], "USAGE"),
        (["--bridge", "marketplace", "--publisher", "npm"], "MARKETPLACE_NAME"),
        (["--bridge", "agent-card"], "USAGE"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(capsys, options, code):
    assert build(*options) == 2
    assert f"error[{code}]" in capsys.readouterr().err
    assert not Path("site").exists()


ACTION = Action("python", "main.py")
INTERFACES = [("/.well-known/skill-sharing", SHARING_BINDING), ("/rpc", RPC_BINDING)]


def card(*skills, **more):
    return json.loads(encode_card(skills, "acme", SITE, **more))


def test_the_required_fields_are_there_and_no_interface_claims_a_binding_of_a2a():
    skills = [make_skill("days", kind="action", action=ACTION), make_skill("a", metadata={"tags": "dates, work"})]
    document = card(*skills, interfaces=INTERFACES)
    required = "name description supportedInterfaces version capabilities defaultInputModes defaultOutputModes skills"
    assert set(required.split()) <= document.keys()
    assert document["skills"][0] == {"id": "days", "name": "days", "description": "Does days.", "tags": ["action"]}
    assert document["skills"][1]["tags"] == ["dates", "work"]
    bindings = {row["url"]: row["protocolBinding"] for row in document["supportedInterfaces"]}
    assert bindings == {f"{SITE}{path}": binding for path, binding in INTERFACES}
    assert all(binding.startswith("urn:") for binding in bindings.values())
