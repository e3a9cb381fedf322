"""``skillwire validate``: every error of a document, with its place; and what it says of valid ones."""

import io
import json
import sys
from typing import Any

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.cli.main import run
from skillwire.protocols.skill_sharing.judge import DOCUMENT_KINDS, guess_document_kind, validate_document

INDEX = {"protocol": {"version": "1.0.0"}, "provider": {"name": "P"}, "skills": [ENTRY]}
REQUEST = {"caller": {"id": "a", "type": "agent"}, "skill_id": "a/b", "inputs": {}}
RESPONSE = {
    "execution_id": "e",
    "status": "accepted",
    "skill_id": "a/b",
    "timestamps": {"created_at": "2025-07-01T12:00:00Z", "updated_at": "2025-07-01T12:00:00Z"},
}
SAMPLES = {"descriptor": DESCRIPTOR, "index": INDEX, "request": REQUEST, "response": RESPONSE}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))

    def write(document, name="document.json"):
        (tmp_path / name).write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
        return name

    return write


@pytest.fixture
def report(capsys):
    def report(*arguments, code):
        assert run(["validate", *arguments, "--json"]) == code
        return json.loads(capsys.readouterr().out)["documents"]

    return report


@pytest.mark.parametrize("kind", DOCUMENT_KINDS)
def test_each_kind_is_told_by_its_fields(write, report, kind):
    (document,) = report(write(SAMPLES[kind]), code=0)
    assert document == {"source": "document.json", "type": kind, "valid": True, "errors": []}


def test_a_list_is_what_a_registry_answers(write, report):
    (document,) = report(write([ENTRY, ENTRY | {"id": 3}]), code=1)
    assert [(error["path"], error["code"]) for error in document["errors"]] == [("/1/id", "VALIDATION_ERROR")]


@pytest.mark.spec("SSP-validate-command")
def test_every_error_of_the_schema_has_its_place(write, report):
    broken = {
        **DESCRIPTOR,
        "capability_type": "invalid_type",
        "endpoint": {"url": "https://a.example", "method": "PATCH"},
    }
    (document,) = report(write(broken), code=1)
    errors = {error["path"]: error for error in document["errors"]}
    assert errors.keys() == {"/capability_type", "/endpoint/method"}
    assert errors["/capability_type"]["expected"] == ["plugin", "api", "knowledge", "task"]
    assert errors["/endpoint/method"]["actual"] == "PATCH"
    lines = json.dumps(broken, indent=2).splitlines()
    for path, error in errors.items():
        assert f'"{path.rpartition("/")[2]}":' in lines[error["place"]["line"] - 1]


def test_the_rules_are_judged_once_the_schema_holds(write, report):
    twice = {"name": "a", "type": "string", "description": "d", "required": True}
    (document,) = report(write({**DESCRIPTOR, "inputs": [twice, twice]}), code=1)
    assert [(error["code"], error["path"]) for error in document["errors"]] == [("DESCRIPTOR", "/inputs/1/name")]


INPUT = {"name": "a", "type": "string", "description": "d", "required": True}


@pytest.mark.parametrize(
    ("fields", "path", "actual"),
    [
        ({"inputs": [INPUT, {**INPUT, "name": "b", "type": "str"}]}, "/inputs/1/type", "str"),
        ({"created_at": "yesterday"}, "/created_at", "yesterday"),
        ({"updated_at": "2026-13-01"}, "/updated_at", "2026-13-01"),
        ({"documentation_url": "javascript:alert(1)"}, "/documentation_url", "javascript:alert(1)"),
        ({"documentation_url": "/docs"}, "/documentation_url", "/docs"),
    ],
)
def test_forms_that_the_text_names_are_judged(write, report, fields, path, actual):
    (document,) = report(write({**DESCRIPTOR, **fields}), code=1)
    assert [(error["code"], error["path"], error["actual"]) for error in document["errors"]] == [
        ("FIELD", path, actual)
    ]


def test_forms_that_the_text_names_are_valid(write, report):
    fields = {
        "created_at": "2026-01-31T12:00:00.5+02:00",
        "updated_at": "2026-01-31",
        "documentation_url": "http://a.example/",
    }
    assert report(write({**DESCRIPTOR, **fields}), code=0)
    timestamps: Any = RESPONSE["timestamps"]
    (document,) = report(write({**RESPONSE, "timestamps": {**timestamps, "updated_at": "now"}}), code=1)
    assert [error["path"] for error in document["errors"]] == ["/timestamps/updated_at"]


def test_a_newer_version_is_not_judged_further(write, report):
    (document,) = report(write({"protocol": {"version": "2.0.0"}}), code=1)
    (error,) = document["errors"]
    assert (error["code"], error["expected"], error["actual"]) == ("VERSION_INCOMPATIBLE", "<2.0.0", "2.0.0")


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([ENTRY, ENTRY], [("ID_DUPLICATE", "/skills/1/id")]),
        ([ENTRY | {"id": "no id"}], [("FIELD", "/skills/0/id")]),
        ([ENTRY | {"descriptor_url": "/forecast.json"}], [("FIELD", "/skills/0/descriptor_url")]),
    ],
)
def test_an_index_has_unique_ids_and_full_urls(write, report, entries, found):
    (document,) = report(write({**INDEX, "skills": entries}), code=1)
    assert [(error["code"], error["path"]) for error in document["errors"]] == found


def test_what_is_no_json_is_an_error_with_its_line(write, report):
    (document,) = report(write('{\n "id": }'), code=1)
    assert (document["type"], document["errors"][0]["code"]) == (None, "JSON_SYNTAX")
    assert document["errors"][0]["place"]["line"] == 2


def test_the_kind_may_be_said(write, report):
    (document,) = report(write({}), "--type", "request", code=1)
    assert document["type"] == "request"
    assert {error["path"] for error in document["errors"]} == {"/caller", "/skill_id", "/inputs"}


def test_several_documents_are_judged_at_once(write, capsys):
    assert run(["validate", write(DESCRIPTOR, "good.json"), write({}, "bad.json")]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("good.json  valid descriptor\nbad.json  descriptor with ")
    assert "error[VALIDATION_ERROR]: /id is required\n  --> bad.json:1:1\n" in said.out
    assert said.err == "read more: skillwire explain VALIDATION_ERROR\n"


def test_standard_input_is_read(monkeypatch, report):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(INDEX).encode())))
    (document,) = report("-", code=0)
    assert (document["source"], document["type"]) == ("-", "index")


def test_a_file_that_cannot_be_read_is_another_error(tmp_path, capsys):
    assert run(["validate", str(tmp_path / "missing.json")]) == 7
    assert "error[STORAGE]" in capsys.readouterr().err


def test_places_in_a_large_document_do_not_cost_a_reading_each():
    entries = [ENTRY | {"id": f"a/b{number}", "access": "nobody"} for number in range(10_000)]
    judgement = validate_document(json.dumps({**INDEX, "skills": entries}).encode(), "index.json")
    assert len(judgement.errors) == 100
    assert judgement.errors[0].place.line == 1
    assert judgement.errors[-1].place.line is None


@pytest.mark.parametrize("value", [None, 3, "text", {}, {"skills": 1}, [[]], [None]])
def test_any_json_value_is_judged(value):
    assert guess_document_kind(value) in DOCUMENT_KINDS
    for kind in (None, *DOCUMENT_KINDS):
        assert validate_document(json.dumps(value).encode(), "x", kind).errors or value == {"skills": []}
