"""Skill Sharing, what a consumer does: a test's name says the sentence, its mark the clause; data are of the text."""

import json
from typing import Any

import pytest
from tests.conformance import sharing_examples as example

from skillwire import Client, FetchError, TrustError, ValidationError
from skillwire.protocols.skill_sharing.client import fetch_document, index_url, registry_url
from skillwire.protocols.skill_sharing.errors import decode_error
from skillwire.protocols.skill_sharing.judge import validate_document
from skillwire.protocols.skill_sharing.validation import parse
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse

WELL_KNOWN = "/.well-known/skill-sharing"


@pytest.fixture
def publisher():
    return SimulatedPublisher()


@pytest.fixture
def findings():
    return []


@pytest.fixture
def client(publisher, findings, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    client = Client(project, report=findings.append)
    client.driver = publisher
    return client


@pytest.mark.spec("SSP-client-paths")
def test_the_three_paths_are_asked_as_the_text_writes_them():
    asked: list[Any] = [
        next(fetch_document(index_url("https://a.example"))),
        next(fetch_document(index_url("https://a.example", "api"))),
        next(fetch_document("https://a.example/any/descriptor")),
        next(fetch_document(registry_url("https://a.example/registry", "task"))),
    ]
    assert [(request.method, request.url) for request in asked] == [
        ("GET", "https://a.example/.well-known/skill-sharing"),
        ("GET", "https://a.example/.well-known/skill-sharing?type=api"),
        ("GET", "https://a.example/any/descriptor"),
        ("GET", "https://a.example/registry/skills?type=task"),
    ]
    assert {request.headers["Accept"] for request in asked} == {"application/json"}


@pytest.mark.spec("SSP-client-paths")
def test_the_workflow_of_the_text_leads_from_a_domain_to_a_descriptor(client, publisher):
    origin = "https://skills.example.com"
    publisher.answer(origin + WELL_KNOWN, example.WORKFLOW_INDEX)
    (found,) = client.index("skills.example.com")
    assert (found.name, found.version, found.url) == (
        "example/text-summarizer",
        "1.2.0",
        f"{origin}/skills/text-summarizer.json",
    )
    descriptor = json.loads(example.DESCRIPTOR) | {"id": "example/text-summarizer", "version": "1.2.0"}
    publisher.answer(found.url, json.dumps(descriptor).encode())
    assert found.descriptor().endpoint.url == descriptor["endpoint"]["url"]


@pytest.mark.spec("SSP-client-paths")
def test_the_example_index_is_read_whole(client, publisher, findings):
    publisher.answer(f"https://example.com{WELL_KNOWN}", example.INDEX)
    found = client.index("example.com")
    assert [(skill.name, skill.shared.capability_type, skill.shared.access) for skill in found] == [
        ("example-corp/weather-forecast", "api", "public"),
        ("example-corp/document-translator", "task", "restricted"),
        ("example-corp/internal-analytics", "plugin", "private"),
    ]
    assert not findings


@pytest.mark.spec("SSP-client-forms")
def test_the_example_index_of_the_blueprint_is_read_whole(client, publisher, findings):
    publisher.answer(f"https://example.com{WELL_KNOWN}", example.BLUEPRINT_INDEX)
    assert [skill.name for skill in client.index("example.com")] == [
        "com.example.translate-v1",
        "com.example.sentiment-v1",
    ]
    assert client.show("example.com/com.example.translate-v1").shared.title == "Universal Translator"
    assert not findings


@pytest.mark.spec("SSP-client-forms")
@pytest.mark.parametrize("retry", [{}, {"max_attempts": 3}, {"backoff_ms": 5}])
def test_a_descriptor_may_leave_fields_of_retry_out_as_in_the_blueprint(client, publisher, retry):
    document = json.loads(example.DESCRIPTOR)
    document["endpoint"]["retry"] = retry
    publisher.answer("https://example.com/weather.json", json.dumps(document).encode())
    found = client.show("https://example.com/weather.json").descriptor().endpoint.retry
    assert (found.max_attempts, found.backoff_ms) == (retry.get("max_attempts", 0), retry.get("backoff_ms", 0))


@pytest.mark.spec("SSP-client-forms")
def test_violations_of_the_blueprint_are_read_as_those_of_the_text():
    violations = [{"field": "/inputs", "expected": "array", "actual": "string"}]
    body = {"error": {"code": "EXECUTION_TIMEOUT", "message": "late", "details": {"violations": violations}}}
    error = decode_error(json.dumps(body).encode(), status=504, source="https://a.example")
    assert error.code == "INVOCATION_TIMEOUT"
    assert error.details["details"] == [
        {"path": "/inputs", "message": "is not valid", "expected": "array", "actual": "string"}
    ]


@pytest.mark.spec("SSP-client-forms")
def test_a_registry_may_answer_a_list_or_an_index(client, publisher):
    entries = json.loads(example.INDEX)["skills"]
    for body in (example.INDEX, json.dumps(entries).encode()):
        publisher.answer("https://registry.example/skills?type=api", body)
        found = client.find("", ["https://registry.example/skills"], capability_type="api")
        assert [skill.name for skill, _ in found] == ["example-corp/weather-forecast"]


@pytest.mark.spec("SSP-client-forms")
def test_skills_of_other_domains_are_read_in_either_form_of_a_registry(client, publisher):
    entries = json.loads(example.BLUEPRINT_INDEX)["skills"]
    for body in (example.BLUEPRINT_INDEX, json.dumps(entries).encode()):
        publisher.answer("https://registry.example/skills", body)
        found = client.find("", ["https://registry.example/skills"])
        assert [(skill.name, skill.ref.origin, skill.ref.found_via) for skill, _ in found] == [
            ("com.example.translate-v1", "https://example.com", "skill-sharing registry"),
            ("com.example.sentiment-v1", "https://example.com", "skill-sharing registry"),
        ]


@pytest.mark.spec("SSP-client-filter")
def test_entries_of_another_type_than_was_asked_for_are_left_out_and_told(client, publisher, findings):
    publisher.answer(f"https://example.com{WELL_KNOWN}?type=task", example.INDEX)
    found = client.find("", ["example.com"], capability_type="task")
    assert [skill.name for skill, _ in found] == ["example-corp/document-translator"]
    assert [finding.code for finding in findings] == ["FILTER_IGNORED"]


@pytest.mark.spec("SSP-client-validates")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"capability_type": "invalid_type"}, "VALIDATION_ERROR"),
        ({"protocol": {"version": "2.0.0"}}, "VERSION_INCOMPATIBLE"),
        ({"id": "../climbs"}, "DESCRIPTOR"),
    ],
)
def test_nothing_of_an_invalid_or_incompatible_descriptor_is_used(client, publisher, change, code):
    publisher.answer("https://example.com/weather.json", json.dumps(json.loads(example.DESCRIPTOR) | change).encode())
    with pytest.raises(ValidationError) as caught:
        client.show("https://example.com/weather.json")
    assert caught.value.code == code


@pytest.mark.spec("SSP-client-validates")
def test_the_versions_and_the_range_are_told(client, publisher):
    document = json.loads(example.DESCRIPTOR) | {"protocol": {"version": "2.0.0"}}
    publisher.answer("https://example.com/weather.json", json.dumps(document).encode())
    with pytest.raises(ValidationError) as caught:
        client.show("https://example.com/weather.json")
    told = caught.value
    assert told.message == "Protocol version 2.0.0 is not compatible with consumer version 1.0.0"
    assert told.fix is not None
    assert told.fix.startswith("Versions <2.0.0 of the protocol are read here, and the document wants 2.0.0.")
    assert told.details["supported_major"] == 1


@pytest.mark.spec("SSP-client-credential")
def test_a_credential_is_sent_with_discovery_and_what_is_missing_is_told(client, publisher):
    publisher.answer(f"https://example.com{WELL_KNOWN}", example.AUTH_REQUIRED, status=401)
    client.set_token("https://example.com", "hush")
    with pytest.raises(FetchError) as caught:
        client.index("example.com")
    assert caught.value.code == "AUTH_REQUIRED"
    assert caught.value.details["details"] == {"required_auth_type": "api_key", "header": "X-API-Key"}
    assert publisher.requests[-1].headers["Authorization"] == "Bearer hush"


@pytest.mark.spec("SSP-client-credential")
def test_a_credential_does_not_follow_a_redirect_to_another_origin():
    away = HttpResponse("https://a.example/", 302, {"location": "https://b.example/"}, b"")
    flow: Any = fetch_document("https://a.example/", authorization="Bearer hush")
    assert next(flow).headers["Authorization"] == "Bearer hush"
    redirected = flow.send(away)
    assert (redirected.url, redirected.headers) == ("https://b.example/", {"Accept": "application/json"})


@pytest.mark.spec("SSP-client-no-digest")
def test_what_nothing_gives_a_digest_of_is_never_installed(client, publisher):
    publisher.answer(f"https://example.com{WELL_KNOWN}", example.INDEX)
    with pytest.raises(TrustError) as caught:
        client.add("example.com/weather-forecast", consent=True)
    assert caught.value.code == "NO_DIGEST"


@pytest.mark.spec("SSP-client-one-skill")
def test_what_both_indexes_of_an_origin_list_in_one_version_is_one_skill(client, publisher):
    publisher.answer(f"https://example.com{WELL_KNOWN}", example.INDEX)
    schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    same = {"name": "weather-forecast", "version": "2.1.0"}
    other = {"name": "document-translator", "version": "9.9.9"}
    rest = {"type": "skill-md", "description": "d", "url": "/a.md", "digest": f"sha256:{'0' * 64}"}
    listed = {"$schema": schema, "skills": [same | rest, other | rest]}
    publisher.answer("https://example.com/.well-known/agent-skills/index.json", json.dumps(listed).encode())
    found = {skill.name: skill.ref.found_via for skill, _ in client.find("", ["example.com"])}
    assert found == {
        "weather-forecast": "agent-skills 0.2.0, skill-sharing",
        "document-translator": "agent-skills 0.2.0",
        "example-corp/document-translator": "skill-sharing",
        "example-corp/internal-analytics": "skill-sharing",
    }


@pytest.mark.spec("SSP-validate-command")
@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (example.DESCRIPTOR, "descriptor"),
        (example.INDEX, "index"),
        (example.BLUEPRINT_INDEX, "index"),
        (example.WORKFLOW_INDEX, "index"),
        (example.REQUEST, "request"),
        (example.OTHER_REQUEST, "request"),
        (example.ACCEPTED, "response"),
        (example.COMPLETED, "response"),
    ],
)
def test_every_example_of_the_texts_is_valid(document, kind):
    assert validate_document(document, "example") == ("example", kind, True, ())


def test_the_example_descriptor_is_parsed():
    assert parse(example.DESCRIPTOR).id == "example-provider/weather-forecast"
