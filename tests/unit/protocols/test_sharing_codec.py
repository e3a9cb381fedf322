"""Indexes, descriptors, versions and errors of Skill Sharing, as a consumer reads them."""

import json
from typing import Any

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.codes import CODES
from skillwire.errors import (
    ConflictError,
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.codec import (
    VERSION_RULES,
    check_version,
    decode_descriptor,
    decode_index,
    execution_url,
)
from skillwire.protocols.skill_sharing.errors import ERRORS, code_for, decode_error, encode_error
from skillwire.protocols.skill_sharing.messages import PROTOCOL_VERSION, Retry
from skillwire.protocols.skill_sharing.validation import validate
from skillwire.trust.address import AddressPolicy

URL = "https://skills.example.com/.well-known/skill-sharing"


def index(*entries, **fields):
    document = {"protocol": {"version": "1.0.0"}, "provider": {"name": "P"}, "skills": list(entries), **fields}
    return json.dumps(document).encode()


def descriptor(**fields):
    return json.dumps({**DESCRIPTOR, **fields}).encode()


def endpoint(**fields):
    return {"endpoint": {**DESCRIPTOR["endpoint"], **fields}}


def paths_of(error):
    return [violation["path"] for violation in error.details["errors"]]


def output(**schema):
    return {"output": {"content_type": "a/b", "schema": schema}}


class TestIndex:
    @pytest.mark.spec("SSP-index-structure")
    def test_entries_come_by_id(self):
        found = decode_index(index(ENTRY), URL)
        assert list(found.entries) == ["example-corp/forecast"]
        assert found.provider is not None
        assert found.provider.name == "P"
        assert not found.findings

    def test_blueprint_id_of_the_domain_is_taken(self):
        found = decode_index(index(ENTRY | {"id": "com.example.forecast-v1"}), URL)
        assert list(found.entries) == ["com.example.forecast-v1"]

    def test_blueprint_id_of_another_domain_is_refused_by_a_site_and_doubted_in_a_registry(self):
        entry = ENTRY | {"id": "com.other.forecast-v1"}
        assert not decode_index(index(entry), URL).entries
        registry = decode_index(json.dumps([entry]).encode(), URL)
        assert list(registry.entries) == ["com.other.forecast-v1"]
        assert [finding.code for finding in registry.findings] == ["UNVERIFIED"]

    def test_a_bad_field_is_reported_in_the_words_of_validate(self):
        (finding,) = decode_index(index(ENTRY | {"version": "1"}), URL).findings
        assert finding.message.endswith("/version must be a version such as 1.0.0")

    @pytest.mark.spec("SSP-index-unique")
    @pytest.mark.parametrize("change", [{"name": "Other"}, {"version": "1"}, {"capability_type": "magic"}])
    @pytest.mark.parametrize("order", [1, -1])
    def test_one_id_twice_makes_the_index_invalid(self, change, order):
        with pytest.raises(ValidationError) as caught:
            decode_index(index(*[ENTRY, ENTRY | change][::order]), URL)
        assert caught.value.code == "ID_DUPLICATE"

    @pytest.mark.parametrize(
        "document", [{}, [], 3, None, {"skills": []}, {"protocol": {"version": "1.0.0"}, "provider": {"name": "P"}}]
    )
    def test_what_is_no_index_is_refused_or_an_empty_list(self, document):
        if document == []:
            assert not decode_index(b"[]", URL).entries
            return
        with pytest.raises(ValidationError) as caught:
            decode_index(json.dumps(document).encode(), URL)
        assert caught.value.code == "VALIDATION_ERROR"

    def test_descriptor_url_may_be_relative(self):
        found = decode_index(index(ENTRY | {"descriptor_url": "/skills/forecast.json"}), URL)
        (entry,) = found.entries.values()
        assert entry.descriptor_url == "https://skills.example.com/skills/forecast.json"

    def test_hidden_text_is_shown(self):
        found = decode_index(index(ENTRY | {"description": "a\u202eb", "name": "x\x1b[2J"}), URL)
        (entry,) = found.entries.values()
        assert "\u202e" not in entry.description
        assert "\x1b" not in entry.name
        assert [finding.code for finding in found.findings] == ["HIDDEN_TEXT"]

    def test_named_local_origin_may_publish_local_descriptors(self):
        local = "http://127.0.0.1:8000/.well-known/skill-sharing"
        entry = ENTRY | {"descriptor_url": "http://127.0.0.1:8000/skills/forecast.json", "id": "com.example.a-v1"}
        assert decode_index(index(entry), local).entries


class TestDescriptor:
    @pytest.mark.spec("SSP-descriptor-required")
    @pytest.mark.parametrize("field", sorted(DESCRIPTOR))
    def test_every_required_field_is_demanded(self, field):
        document = {key: value for key, value in DESCRIPTOR.items() if key != field}
        assert [error.path for error in validate(document).errors] == [f"/{field}"]

    @pytest.mark.spec("SSP-auth-required-by-type")
    @pytest.mark.parametrize("kind", ["oauth2", "custom"])
    def test_configuration_is_required_where_the_type_says_so(self, kind):
        (error,) = validate({**DESCRIPTOR, "auth": {"type": kind}}).errors
        assert (error.path, error.message) == (f"/auth/{kind}", "is required")

    @pytest.mark.spec("SSP-validation-details")
    def test_violations_are_as_the_text_shows_them(self):
        document = {
            **DESCRIPTOR,
            "capability_type": "invalid_type",
            "endpoint": {"url": "https://example.com/i", "method": "PATCH"},
        }
        assert [error._asdict() for error in validate(document).errors] == [
            {
                "path": "/capability_type",
                "message": "must be equal to one of the allowed values",
                "expected": ["plugin", "api", "knowledge", "task"],
                "actual": "invalid_type",
            },
            {
                "path": "/endpoint/method",
                "message": "must be equal to one of the allowed values",
                "expected": ["GET", "POST", "PUT", "DELETE"],
                "actual": "PATCH",
            },
        ]

    def test_blueprint_retry_may_lack_a_field(self):
        endpoint = {**DESCRIPTOR["endpoint"], "retry": {"max_attempts": 2}}
        read = decode_descriptor(descriptor(endpoint=endpoint), URL)
        assert read.endpoint.retry == Retry(max_attempts=2, backoff_ms=0)

    @pytest.mark.spec("SSP-version-incompatible")
    def test_newer_version_is_told_before_anything_else(self):
        with pytest.raises(ValidationError) as caught:
            decode_descriptor(json.dumps({"protocol": {"version": "2.0.0"}, "unknown": []}).encode(), URL)
        assert caught.value.code == "VERSION_INCOMPATIBLE"
        assert caught.value.details == {
            "descriptor_version": "2.0.0",
            "consumer_version": "1.0.0",
            "supported_major": 1,
            "supported_range": "<2.0.0",
        }

    def test_another_id_than_the_index_gave_is_refused(self):
        with pytest.raises(ValidationError) as caught:
            decode_descriptor(descriptor(), URL, expected_id="example-corp/other")
        assert caught.value.code == "ID_DIFFERS"

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"id": "../x"}, "/id"),
            ({"endpoint": {"url": "ftp://example.com/", "method": "GET"}}, "/endpoint/url"),
            ({"endpoint": {"url": "http://example.com/", "method": "GET"}}, "/endpoint/url"),
            (endpoint(timeout_ms=0), "/endpoint/timeout_ms"),
            (endpoint(timeout_ms=1e300), "/endpoint/timeout_ms"),
            (endpoint(retry={"max_attempts": 1e9, "backoff_ms": 1}), "/endpoint/retry/max_attempts"),
            (endpoint(retry={"max_attempts": 1, "backoff_ms": -1}), "/endpoint/retry/backoff_ms"),
            (endpoint(status_url="https://{execution_id}.example.com/"), "/endpoint/status_url"),
            (endpoint(result_url="https://example.com/%2e%2e/{execution_id}"), "/endpoint/result_url"),
            ({"auth": {"type": "api_key", "header": "Host"}}, "/auth/header"),
            ({"auth": {"type": "api_key", "header": "X\r\nY"}}, "/auth/header"),
            (output(**{"$id": "https://x.example/"}), "/output/schema/$id"),
            (output(patternProperties={"(a+)+": {}}), "/output/schema/patternProperties"),
            (output(type="nothing"), "/output/schema/type"),
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_dangerous_or_senseless_is_named(self, fields, path):
        with pytest.raises(ValidationError) as caught:
            decode_descriptor(descriptor(**fields), URL)
        assert caught.value.code == "DESCRIPTOR"
        assert paths_of(caught.value) == [path]
        json.dumps(caught.value.details)

    def test_inputs_have_names_of_their_own_and_defaults_that_fit(self):
        one = {"name": "a", "type": "integer", "description": "d", "required": False}
        with pytest.raises(ValidationError) as caught:
            decode_descriptor(descriptor(inputs=[one, one | {"default": "x"}]), URL)
        paths = paths_of(caught.value)
        assert paths == ["/inputs/1/name", "/inputs/1/default"]
        flaw = caught.value.details["errors"][1]  # type: ignore[index]  # a list
        assert (flaw["expected"], flaw["actual"]) == ("integer", "x")

    def test_property_that_is_named_like_a_keyword_is_none(self):
        schema = {"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}, "enum": [{"$ref": "x"}]}
        assert decode_descriptor(descriptor(output={"content_type": "a/b", "schema": schema}), URL)

    def test_local_provider_is_taken_when_the_user_named_it(self):
        local = {"url": "http://127.0.0.1:8000/invoke", "method": "POST"}
        with pytest.raises(ValidationError):
            decode_descriptor(descriptor(endpoint=local), URL)
        policy = AddressPolicy().naming(parse_url("http://127.0.0.1:8000/"))
        assert decode_descriptor(descriptor(endpoint=local), URL, addresses=policy)


class TestVersions:
    @pytest.mark.spec("SSP-version-table")
    @pytest.mark.parametrize(
        ("document", "consumer", "compatible"),
        [("2.0.0", "1.5.0", False), ("1.9.9", "1.0.0", True), ("1.0.0", "1.9.9", True), ("0.9.0", "1.0.0", True),
         ("1.0.0", "3.0.0", True), ("10.0.0", "9.9.9", False)],
    )  # fmt: skip
    def test_rule(self, document, consumer, compatible):
        if compatible:
            check_version(document, consumer=consumer)
            return
        with pytest.raises(ValidationError) as caught:
            check_version(document, consumer=consumer)
        assert caught.value.message == f"Protocol version {document} is not compatible with consumer version {consumer}"

    def test_table_has_a_row_for_each_case(self):
        assert set(VERSION_RULES) == {-1, 0, 1}
        check_version(PROTOCOL_VERSION)

    @pytest.mark.spec("SSP-version-semver")
    @pytest.mark.parametrize(
        "version", ["", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0\n", "1.0.0-", "1." * 40, "\u0661.0.0"]
    )
    def test_what_is_no_version_is_refused(self, version):
        with pytest.raises(ValidationError) as caught:
            check_version(version)
        assert caught.value.code == "VALIDATION_ERROR"


class TestErrors:
    @pytest.mark.spec("SSP-error-codes")
    def test_there_are_seven_and_each_has_a_row_of_ours(self):
        assert set(ERRORS) == {
            "VALIDATION_ERROR", "AUTH_REQUIRED", "PERMISSION_DENIED", "SKILL_NOT_FOUND", "INVOCATION_TIMEOUT",
            "ENDPOINT_UNREACHABLE", "VERSION_INCOMPATIBLE",
        }  # fmt: skip
        assert set(ERRORS) <= set(CODES)

    @pytest.mark.parametrize(
        "kind",
        [UsageError, DecodeError, ValidationError, TrustError, FetchError, NotFoundError, ConflictError, StorageError,
         SkillwireError],
    )  # fmt: skip
    def test_every_error_of_ours_can_be_told(self, kind):
        for code in CODES:
            status, body = encode_error(kind(code, "why"))
            told = json.loads(body)["error"]
            assert told["code"] in ERRORS
            assert status in ERRORS[told["code"]].statuses
            assert code_for(kind(code, "why")) == told["code"]

    @pytest.mark.spec("SSP-error-form")
    @pytest.mark.parametrize("code", sorted(ERRORS))
    def test_what_was_told_is_read_as_it_was(self, code):
        status, body = encode_error(FetchError(code, "why", details={"a": 1}))
        read = decode_error(body, status=status, source=URL)
        facts: Any = read.details["details"]
        if code == "VALIDATION_ERROR":
            assert facts == [{"path": "", "message": "why", "expected": None, "actual": None, "a": 1}]
            (facts,) = facts
        assert (read.code, read.message, facts["a"]) == (code, "why", 1)
        row = ERRORS[code].retry
        assert read.details["retry"] == (
            {"suggested_delay_ms": row.suggested_delay_ms, "max_attempts": row.max_attempts} if row else None
        )

    def test_blueprint_spelling_is_read(self):
        violations = [{"field": "/a", "expected": "string", "actual": 3}]
        body = {
            "error": {"code": "EXECUTION_TIMEOUT", "message": "m", "details": {"violations": violations}, "retry": {}}
        }
        read = decode_error(json.dumps(body).encode(), status=408, source=URL)
        assert read.code == "INVOCATION_TIMEOUT"
        assert read.details["details"] == [{"path": "/a", "message": "is not valid", "expected": "string", "actual": 3}]
        assert read.details["retry"] == {}

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 3}', b'{"error": {"code": 5, "message": []}}'])
    @pytest.mark.parametrize(
        ("status", "code"),
        [(401, "AUTH_REQUIRED"), (403, "PERMISSION_DENIED"), (404, "SKILL_NOT_FOUND"), (408, "INVOCATION_TIMEOUT"),
         (504, "INVOCATION_TIMEOUT"), (502, "ENDPOINT_UNREACHABLE"),
         (500, "ENDPOINT_UNREACHABLE"), (418, "ENDPOINT_UNREACHABLE")],
    )  # fmt: skip
    def test_status_tells_what_the_body_does_not(self, body, status, code):
        assert decode_error(body, status=status, source=URL).code == code

    def test_hostile_message_is_bounded_and_shown(self):
        body = json.dumps({"error": {"code": "AUTH_REQUIRED", "message": "\x1b]0;x\x07" + "a" * 100_000}}).encode()
        read = decode_error(body, status=401, source=URL)
        assert len(read.message) < 2_000
        assert "\x1b" not in read.message


class TestExecutionUrl:
    @pytest.mark.spec("SSP-execution-template")
    def test_placeholder_is_replaced(self):
        assert execution_url("https://a.example/x/{execution_id}?y=1", "e/1") == "https://a.example/x/e%2F1?y=1"

    def test_blueprint_form_without_placeholder_gets_it_behind(self):
        assert execution_url("https://a.example/status/", "exec-1") == "https://a.example/status/exec-1"
