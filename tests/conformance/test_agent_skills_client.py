"""Agent Skills Discovery, what a client must do: each test's name says the sentence, its mark the clause."""

import io
import json
import zipfile

import pytest

from skillwire import Client, SkillwireError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.decoder import decode_index
from skillwire.protocols.agent_skills.messages import SCHEMA_URI, Generation
from skillwire.testing.publisher import SimulatedPublisher

ORIGIN = "https://example.com"
INDEX = f"{ORIGIN}/.well-known/agent-skills/index.json"
SKILL_MD = b"---\nname: one\ndescription: Does one thing.\n---\nDo it.\n"


def entry(**fields):
    base = {"name": "one", "type": "skill-md", "description": "d", "url": "/one.md", "digest": Digest.of(SKILL_MD)}
    return {**base, **fields}


def index(*entries, **fields):
    return json.dumps({"$schema": SCHEMA_URI, "skills": list(entries), **fields}).encode()


@pytest.fixture
def publisher():
    publisher = SimulatedPublisher()
    publisher.answer(INDEX, index(entry()))
    publisher.answer(f"{ORIGIN}/one.md", SKILL_MD)
    return publisher


@pytest.fixture
def client(publisher, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    client = Client(project)
    client.driver = publisher
    return client


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


@pytest.mark.spec("ASD-client-index")
def test_the_index_is_fetched_from_the_well_known_path(client, publisher):
    client.index("example.com")
    assert [request.url for request in publisher.requests] == [INDEX]


@pytest.mark.spec("ASD-client-schema")
@pytest.mark.parametrize("schema", ["https://schemas.agentskills.io/discovery/0.3.0/schema.json", SCHEMA_URI + "#", ""])
def test_schema_is_matched_as_an_opaque_identifier_and_an_unknown_one_is_not_processed(schema):
    with pytest.raises(SkillwireError) as caught:
        decode_index(index(entry(), **{"$schema": schema}), INDEX)
    assert caught.value.code == "INDEX_SCHEMA_UNKNOWN"


@pytest.mark.spec("ASD-client-schema-absent")
def test_an_absent_schema_is_treated_as_0_1_0():
    document = json.dumps({"skills": [{"name": "one", "description": "d", "files": ["SKILL.md", "a/b.md"]}]}).encode()
    decoded = decode_index(document, f"{ORIGIN}/.well-known/skills/index.json")
    assert decoded.generation is Generation.V0_1_0
    assert [file.url for file in decoded.entries["one"].files] == [
        f"{ORIGIN}/.well-known/skills/one/SKILL.md",
        f"{ORIGIN}/.well-known/skills/one/a/b.md",
    ]


@pytest.mark.spec("ASD-client-unknown-fields")
def test_unrecognised_fields_are_ignored():
    plain = decode_index(index(entry()), INDEX)
    extended = decode_index(index(entry(stars=5, nested={"a": [1]}), note="x"), INDEX)
    assert extended.entries == plain.entries


@pytest.mark.spec("ASD-client-url")
@pytest.mark.parametrize(
    ("reference", "resolved"),
    [
        ("https://cdn.example.net/a.md", "https://cdn.example.net/a.md"),
        ("/s/a.md", f"{ORIGIN}/s/a.md"),
        ("a.md", f"{ORIGIN}/.well-known/agent-skills/a.md"),
        ("../a.md", f"{ORIGIN}/.well-known/a.md"),
        ("//cdn.example.net/a.md", "https://cdn.example.net/a.md"),
        ("a.md?v=1", f"{ORIGIN}/.well-known/agent-skills/a.md?v=1"),
    ],
)
def test_urls_are_resolved_against_the_url_of_the_index(reference, resolved):
    assert decode_index(index(entry(url=reference)), INDEX).entries["one"].url == resolved


@pytest.mark.spec("ASD-client-type")
def test_an_entry_of_an_unknown_type_is_skipped_with_a_warning():
    decoded = decode_index(index(entry(name="two", type="wasm"), entry()), INDEX)
    assert list(decoded.entries) == ["one"]
    assert [finding.level for finding in decoded.findings] == ["warning"]


@pytest.mark.spec("ASD-client-verify")
def test_unverified_content_is_not_used(client, publisher):
    publisher.answer(f"{ORIGIN}/one.md", SKILL_MD + b"tampered")
    skill = client.show("example.com/one")
    for use in (skill.body, lambda: skill.open("SKILL.md"), lambda: client.add("example.com/one", consent=True)):
        with pytest.raises(SkillwireError) as caught:
            use()
        assert caught.value.code == "DIGEST_MISMATCH"
    assert not any(client.root.iterdir())


@pytest.mark.spec("ASD-client-digest-cache")
def test_a_skill_whose_digest_is_unchanged_is_not_downloaded_again(client, publisher):
    client.show("example.com/one").body()
    publisher.forget(f"{ORIGIN}/one.md")
    assert client.show("example.com/one").body() == "Do it.\n"


@pytest.mark.spec("ASD-client-formats")
@pytest.mark.parametrize("media_type", ["application/zip", "application/octet-stream"])
def test_zip_is_supported_and_told_by_content_type_or_bytes(client, publisher, media_type):
    content = zipped(**{"SKILL.md": SKILL_MD, "a/b.md": b"B"})
    publisher.answer(INDEX, index(entry(type="archive", url="/one", digest=Digest.of(content))))
    publisher.answer(f"{ORIGIN}/one", content, content_type=media_type)
    assert client.show("example.com/one").open("a/b.md") == b"B"


@pytest.mark.spec("ASD-client-formats")
def test_an_archive_that_is_not_what_its_content_type_says_is_refused(client, publisher):
    content = zipped(**{"SKILL.md": SKILL_MD})
    publisher.answer(INDEX, index(entry(type="archive", url="/one.zip", digest=Digest.of(content))))
    publisher.answer(f"{ORIGIN}/one.zip", content, content_type="application/gzip")
    with pytest.raises(SkillwireError) as caught:
        client.show("example.com/one").body()
    assert caught.value.code == "CONTENT_TYPE"


@pytest.mark.spec("ASD-client-archive")
@pytest.mark.parametrize("path", ["../out.md", "/out.md", "a/../../out.md"])
def test_an_archive_with_traversal_is_rejected(client, publisher, tmp_path, path):
    content = zipped(**{"SKILL.md": SKILL_MD, path: b"x"})
    publisher.answer(INDEX, index(entry(type="archive", url="/one.zip", digest=Digest.of(content))))
    publisher.answer(f"{ORIGIN}/one.zip", content)
    with pytest.raises(SkillwireError):
        client.add("example.com/one", consent=True)
    assert not list(tmp_path.rglob("out.md"))


@pytest.mark.spec("ASD-client-redirects")
def test_redirects_are_followed(client, publisher):
    moved = f"{ORIGIN}/elsewhere/index.json"
    publisher.answer(INDEX, b"", status=302, location="/elsewhere/index.json")
    publisher.answer(moved, index(entry(url="one.md")), cache_control="max-age=60")
    publisher.answer(f"{ORIGIN}/elsewhere/one.md", SKILL_MD)
    assert [skill.name for skill in client.index("example.com")] == ["one"]
    assert [request.url for request in publisher.requests] == [INDEX, moved]
    assert client.show("example.com/one").body() == "Do it.\n", "relative to the URL that answered, from the cache too"


@pytest.mark.spec("ASD-client-cache")
def test_cache_headers_are_respected(client, publisher):
    publisher.answer(INDEX, index(entry()), cache_control="max-age=60")
    client.index("example.com")
    client.index("example.com")
    assert len(publisher.requests) == 1


@pytest.mark.spec("ASD-client-cache")
def test_the_age_that_an_answer_has_from_other_caches_counts(client, publisher):
    publisher.answer(INDEX, index(entry()), cache_control="max-age=60", age="60")
    client.index("example.com")
    publisher.answer(INDEX, index(entry()), cache_control="max-age=60")
    client.index("example.com")
    assert len(publisher.requests) == 2
    assert "If-None-Match" in publisher.requests[-1].headers
    client.index("example.com")
    assert len(publisher.requests) == 2, "what was just confirmed is fresh"


@pytest.mark.spec("ASD-client-progressive")
def test_only_names_and_descriptions_are_loaded_at_discovery(client, publisher):
    (skill,) = client.index("example.com")
    assert (skill.name, skill.description) == ("one", "d")
    assert len(publisher.requests) == 1
    skill.body()
    assert len(publisher.requests) == 2


@pytest.mark.spec("ASD-client-no-execution")
def test_files_under_scripts_are_installed_and_not_executed(client, publisher, tmp_path):
    trace = tmp_path / "was-run"
    script = f"#!/bin/sh\ntouch {trace}\n".encode()
    content = zipped(**{"SKILL.md": SKILL_MD, "scripts/setup.sh": script, "scripts/__init__.py": b"1/0"})
    publisher.answer(INDEX, index(entry(type="archive", url="/one.zip", digest=Digest.of(content))))
    publisher.answer(f"{ORIGIN}/one.zip", content)
    client.add("example.com/one", consent=True)
    client.verify()
    assert (client.root / ".agents/skills/one/scripts/setup.sh").is_file()
    assert not trace.exists()
