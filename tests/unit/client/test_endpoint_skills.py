"""Skills of an endpoint through the client: what is asked, what a hostile endpoint cannot do, what a call gives."""

import base64
import json
from typing import Any

import pytest

from skillwire import AsyncClient, Client, limits
from skillwire.errors import (
    DecodeError,
    ExecutionError,
    FetchError,
    NotFoundError,
    SkillwireError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.resolver.sources.skills_rpc import Pages
from skillwire.rpc import BlobPart, ListedSkill, RunResult, SkillPage
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse, TimeLimit

ORIGIN = "https://skills.example.com"
ENDPOINT = f"{ORIGIN}/rpc"
SYNC = {
    "name": "salesforce.leads.sync",
    "version": "0.1.0",
    "description": "Sync leads from a sheet blob into Salesforce.",
    "kind": "action",
    "namespace": "salesforce",
    "runtime": {"language": "python", "entrypoint": "code/main.py", "export": "main"},
    "inputs": {
        "sheet_blob": {"type": "blob", "description": "Blob id of the source sheet", "required": True},
        "env": {"type": "string", "description": "Which Salesforce env", "default": "dev"},
        "days": {"type": "integer"},
    },
    "permissions": {"network": ["https://*.salesforce.com"], "secrets": ["SALESFORCE_API_KEY"]},
}
EXPORT = {"name": "salesforce.contacts.export", "version": "0.2.1", "kind": "instruction"}
FRONTMATTER = {"name": "Salesforce Lead Sync", "short_description": "Sync leads."}
REFERENCE = "skills.example.com/rpc#salesforce.leads.sync"
BLOB = f"blob:{'0' * 64}"


class Endpoint(SimulatedPublisher):
    """Answers methods by functions of their parameters; what is an answer already is given as it is."""

    def __init__(self, **methods):
        super().__init__()
        self.calls = []
        self.methods = {
            "list_skills": lambda _: {"skills": [{**SYNC}, {**EXPORT, "description": "Export."}], "next_cursor": None},
            "describe_skill": self.describe,
            **methods,
        }

    def describe(self, params):
        found = {one["name"]: one for one in (SYNC, EXPORT)}.get(params["name"])
        if found is None:
            return refusal(-32001, "Skill not found")
        return {"skill": {"manifest": found, "skill_md_frontmatter": FRONTMATTER}}

    def _ask(self, request):
        if request.url != ENDPOINT or request.method != "POST":
            return super()._ask(request)
        self.requests.append(request)
        asked = json.loads(request.body)
        self.calls.append((asked["method"], asked["params"]))
        given = self.methods[asked["method"]](asked["params"])
        if isinstance(given, HttpResponse | SkillwireError):
            return given
        return http({"jsonrpc": "2.0", "id": asked["id"], "result": given})

    @property
    def asked(self):
        return [method for method, _ in self.calls]


def http(body, status=200, content_type="application/json", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpResponse(ENDPOINT, status, {"content-type": content_type, **headers}, data)


def refusal(number, message, **data):
    error = {"code": number, "message": message, **({"data": data} if data else {})}
    return http({"jsonrpc": "2.0", "id": 1, "error": error})


@pytest.fixture
def findings():
    return []


@pytest.fixture
def opened(tmp_path, findings):
    def begin(**methods):
        client = Client(tmp_path, report=findings.append)
        client.driver = Endpoint(**methods)
        return client

    return begin


def failing(call, *arguments, **options):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments, **options)
    assert caught.value.diagnostics().fix
    return caught.value


class TestLooking:
    def test_a_reference_asks_for_one_description(self, opened):
        client = opened()
        skill = client.show(REFERENCE)
        assert client.driver.calls == [("describe_skill", {"name": "salesforce.leads.sync"})]
        assert (skill.name, skill.version, skill.digest) == ("salesforce.leads.sync", "0.1.0", None)
        assert (skill.artifact_type, skill.url, skill.ref.found_via) == ("files", ENDPOINT, "skills-rpc")
        assert tuple(skill.rpc) == (ENDPOINT, "salesforce", "action")
        assert skill.described().manifest["permissions"] == SYNC["permissions"]
        assert len(client.driver.calls) == 1

    @pytest.mark.parametrize("text", [ENDPOINT, f"{ENDPOINT}#", f"{ENDPOINT}#."])
    def test_an_endpoint_alone_means_all_of_its_skills(self, opened, text):
        assert [skill.name for skill in opened().index(text)] == [SYNC["name"], EXPORT["name"]]

    def test_a_namespace_narrows(self, opened):
        client = opened()
        client.find("leads", [f"{ENDPOINT}#salesforce."])
        assert client.driver.calls[0][1]["namespace"] == "salesforce"

    def test_a_search_reads_the_list_and_ranks(self, opened):
        client = opened()
        (best, score), *_ = client.find("sheet", [f"{ENDPOINT}#"])
        assert (best.name, best.rpc.kind, score > 0) == ("salesforce.leads.sync", "action", True)
        assert client.find("", [f"{ENDPOINT}#"], capability_type="api") == []

    def test_a_name_that_is_none_is_told_with_those_alike(self, opened):
        error = failing(opened().show, "skills.example.com/rpc#salesforce.lead.sync")
        assert (error.code, error.fix) == ("SKILL_NOT_FOUND", "Did you mean salesforce.leads.sync?")
        assert isinstance(error, NotFoundError)

    def test_which_says_how_it_was_found_and_that_there_is_no_question_of_trust(self, opened):
        resolution = opened().which(REFERENCE, explain=True)
        assert resolution.why == "its endpoint describes it"
        (step,) = resolution.steps
        assert (step.attempt.url, step.attempt.generation, step.attempt.entries) == (ENDPOINT, "skills-rpc", 1)
        assert resolution.standing is None

    def test_it_is_not_installed(self, opened):
        error = failing(opened().add, REFERENCE)
        assert (type(error), error.code) == (TrustError, "NO_DIGEST")
        assert failing(opened().show(REFERENCE).files).code == "USAGE"
        assert failing(opened().show(REFERENCE).descriptor).code == "SKILL_NOT_FOUND"

    def test_offline_nothing_is_asked(self, tmp_path):
        client = Client(tmp_path, offline=True)
        client.driver = Endpoint()
        for call in (client.show, client.index):
            assert failing(call, REFERENCE).code == "OFFLINE"
        assert failing(client.rpc(ENDPOINT).create_blob, b"a").code == "OFFLINE"
        assert client.driver.requests == []

    def test_an_address_that_is_none_of_an_endpoint_is_told_as_an_absent_index(self, opened):
        client = opened(list_skills=lambda _: http(b"<html>", content_type="text/html"))
        assert failing(client.index, ENDPOINT).code == "INDEX_NOT_FOUND"
        assert failing(client.index, f"{ENDPOINT}#").code == "CONTENT_TYPE"

    def test_a_skill_of_an_index_that_is_named_rpc_comes_first(self, opened):
        client = opened()
        entry = {
            "name": "rpc",
            "type": "skill-md",
            "description": "Calls.",
            "url": "/rpc.md",
            "digest": f"sha256:{BLOB[5:]}",
        }
        index = {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": [entry]}
        client.driver.answer(f"{ORIGIN}/.well-known/agent-skills/index.json", json.dumps(index).encode())
        assert client.show("skills.example.com/rpc").ref.found_via == "agent-skills 0.2.0"
        assert client.driver.calls == []


class TestCredentials:
    def test_a_token_goes_to_the_origin_of_the_endpoint_alone(self, opened):
        client = opened(describe_skill=lambda _: http(b"", 307, location="https://other.example/rpc"))
        client.set_token("skills.example.com", "secret")  # as show takes it
        error = failing(client.show, REFERENCE)
        assert (type(error), error.code) == (TrustError, "REDIRECT_REFUSED")
        assert [request.url for request in client.driver.requests] == [ENDPOINT]
        assert client.driver.requests[0].headers["Authorization"] == "Bearer secret"

    def test_a_token_of_another_origin_is_not_sent(self, opened):
        client = opened()
        client.set_token("https://other.example", "secret")
        client.show(REFERENCE)
        assert "Authorization" not in client.driver.requests[0].headers

    @pytest.mark.parametrize(("status", "code"), [(401, "AUTH_REQUIRED"), (403, "PERMISSION_DENIED")])
    def test_who_has_to_be_known_is_told_how(self, opened, status, code):
        error = failing(opened(describe_skill=lambda _: http(b"", status)).show, REFERENCE)
        assert error.code == code
        if status == 401:
            assert error.fix == f"Run skillwire auth login {ORIGIN}."


class TestHostile:
    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (http({"jsonrpc": "2.0", "id": 2, "result": {}}), "RPC_ANSWER"),
            (http({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}}), "RPC_ANSWER"),
            (http({"jsonrpc": "2.0", "id": 1}), "RPC_ANSWER"),
            (http([{"jsonrpc": "2.0", "id": 1, "result": {}}]), "RPC_ANSWER"),
            (http({"id": 1, "result": {}}), "RPC_ANSWER"),
            (http({"jsonrpc": "2.0", "id": 1, "result": {"skill": []}}), "RPC_ANSWER"),
            (http({"jsonrpc": "2.0", "id": 1, "result": None}), "RPC_ANSWER"),
            (http(b"not JSON"), "JSON_SYNTAX"),
            (http(b"[" * 100_000), "JSON_DEPTH"),
            (http(b'{"jsonrpc": "2.0", "id": 1, "id": 1, "result": 1}'), "JSON_DUPLICATE_KEY"),
            (http(b'{"jsonrpc": "2.0", "id": 1, "result": "\\ud800"}'), "JSON_UNICODE"),
            (http(b"<html></html>", content_type="text/html"), "CONTENT_TYPE"),
            (http(b"GIF89a", content_type="image/gif"), "CONTENT_TYPE"),
            (http(b"no", 500), "HTTP_STATUS"),
            (FetchError("LIMIT_SIZE", "too much"), "LIMIT_SIZE"),
        ],
    )
    def test_an_answer_that_is_none_is_an_error_of_ours(self, opened, answer, code):
        error = failing(opened(describe_skill=lambda _: answer).show, REFERENCE)
        assert error.code == code
        assert isinstance(error, DecodeError | ValidationError | FetchError)

    def test_another_skill_than_the_one_that_was_asked_for_is_refused(self, opened):
        client = opened(describe_skill=lambda _: {"skill": {"manifest": {**SYNC, "name": "evil\u202e.skill"}}})
        error = failing(client.show, REFERENCE)
        assert error.code == "ID_DIFFERS"
        assert "\u202e" not in error.message

    @pytest.mark.parametrize("name", ["../../etc", "a b", "\x1b[31mred", "A.B", "", "a..b", "a" * 300, "cafe\u0301.x"])
    def test_a_name_that_is_none_is_left_out_and_told(self, opened, findings, name):
        listed = {"skills": [{"name": name, "version": "1"}, {**SYNC}], "next_cursor": None}
        assert [skill.name for skill in opened(list_skills=lambda _: listed).index(f"{ENDPOINT}#")] == [SYNC["name"]]
        assert [finding.code for finding in findings] == ["NAME_FORM"]
        assert "\x1b" not in findings[0].message

    def test_a_name_that_comes_twice_is_taken_once_and_told(self, opened, findings):
        listed = {"skills": [{**SYNC}, {**SYNC, "description": "Another."}]}
        (skill,) = opened(list_skills=lambda _: listed).index(f"{ENDPOINT}#")
        assert skill.description == SYNC["description"]
        assert [finding.code for finding in findings] == ["NAME_DUPLICATE"]

    def test_texts_are_bounded_and_hide_nothing(self, opened):
        told = "Be nice.\U000e0069\x1b]0;x\x07" + "x" * 5_000
        client = opened(
            list_skills=lambda _: {"skills": [{**SYNC, "description": told, "version": "1" * 500, "kind": "evil"}]},
            describe_skill=lambda _: {"skill": {"manifest": {**SYNC, "description": told, "version": {"a": 1}}}},
        )
        for skill in (client.index(f"{ENDPOINT}#")[0], client.show(REFERENCE)):
            assert len(skill.description) <= limits.DESCRIPTION_LENGTH
            assert skill.description.isprintable()
            assert len(skill.version or "") <= 64
        assert client.index(f"{ENDPOINT}#")[0].rpc.kind == ""

    def test_a_list_that_goes_in_a_circle_ends(self, opened):
        client = opened(list_skills=lambda _: {"skills": [], "next_cursor": "again"})
        error = failing(client.index, f"{ENDPOINT}#")
        assert (error.code, error.message) == ("RPC_ANSWER", "the list of skills goes in a circle: a cursor came twice")
        assert client.driver.asked == ["list_skills"] * 2
        assert failing(list, client.rpc(ENDPOINT).iterate()).code == "RPC_ANSWER"

    @pytest.mark.parametrize("timeout", ["30s", 0, -1, float("nan")])
    def test_a_timeout_that_is_none_is_said_before_anything_is_asked(self, opened, timeout):
        client = opened()
        for call in (client.rpc(ENDPOINT).execute_skill, client.rpc(ENDPOINT).run_code):
            error = failing(call, "leads.sync", timeout=timeout)
            assert (error.code, error.message.startswith("a timeout is ")) == ("USAGE", True)
        assert client.driver.calls == []

    def test_a_list_that_never_ends_is_bounded_in_pages(self, opened):
        count = iter(range(10_000))
        client = opened(list_skills=lambda _: {"skills": [], "next_cursor": str(next(count))})
        error = failing(client.index, f"{ENDPOINT}#")
        assert error.code == "LIMIT_ENTRIES"
        assert len(client.driver.calls) == limits.RPC_PAGES
        assert f"{ENDPOINT}#ns." in error.fix

    def test_a_list_that_never_ends_is_bounded_in_skills_and_cursors(self):
        skill = ListedSkill("a.b", "1.0.0")
        assert failing(Pages(ENDPOINT).after, SkillPage((skill,) * 20_001, "more")).code == "LIMIT_ENTRIES"
        assert failing(Pages(ENDPOINT).after, SkillPage((skill,), "x" * 5_000)).code == "RPC_ANSWER"
        assert Pages(ENDPOINT).after(SkillPage((skill,))) is None

    @pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a\x00b", "a\\b", "C:x", "a/../../b", ".git/config"])
    def test_a_path_that_leads_out_is_not_asked_for(self, opened, path):
        client = opened()
        skill = client.show(REFERENCE)
        assert isinstance(failing(skill.open, path), TrustError)
        assert client.driver.asked == ["describe_skill"]

    @pytest.mark.parametrize("content", ["not base64!", "QUJD=", "\u00e9", "QQ=="[:-1]])
    def test_base64_that_lies_is_refused(self, opened, content):
        skill = opened(read_skill_file=lambda _: {"content": content, "encoding": "base64"}).show(REFERENCE)
        assert failing(skill.open, "data.bin").code == "RPC_ANSWER"

    def test_an_error_that_is_told_is_harmless_and_has_a_place_and_a_fix(self, opened):
        told = refusal(-32004, "No\x1b[31m way\u202e", code="PERMISSION_DENIED", fix="Ask\x07 us.", place=["x"])
        error = failing(opened(describe_skill=lambda _: told).show, REFERENCE)
        assert (error.code, error.place.source) == ("PERMISSION_DENIED", ENDPOINT)
        assert error.message.isprintable()
        assert error.fix.isprintable()
        assert error.fix.startswith("Ask")

    def test_an_unknown_error_is_one_all_the_same(self, opened):
        for number in (-1, 7, "x", None, True, 10**30):
            error = failing(opened(describe_skill=lambda _, n=number: refusal(n, ["odd"])).show, REFERENCE)
            assert isinstance(error, SkillwireError)

    def test_a_dangerous_schema_of_an_input_is_not_used(self, opened):
        slow = {**SYNC, "inputs": {"a": {"type": "string", "schema": {"pattern": "(a+)+$"}}}}
        client = opened(describe_skill=lambda _: {"skill": {"manifest": slow}})
        assert failing(client.call, REFERENCE, {"a": "x"}).code == "DESCRIPTOR"
        many = {**SYNC, "inputs": {str(number): {} for number in range(2_000)}}
        client = opened(describe_skill=lambda _: {"skill": {"manifest": many}})
        assert failing(client.call, REFERENCE, {}).code == "RPC_ANSWER"


class TestFiles:
    def test_one_file_is_fetched_alone(self, opened):
        client = opened(read_skill_file=lambda _: {"content": "caf\u00e9\r\n"})
        assert client.show(REFERENCE).open("resources/a.md") == "caf\u00e9\r\n".encode()
        asked = {"name": SYNC["name"], "path": "resources/a.md", "version": "0.1.0"}
        assert client.driver.calls[-1] == ("read_skill_file", asked)

    def test_what_is_no_text_is_asked_for_in_base64(self, opened):
        def read(params):
            if params.get("encoding") != "base64":
                return refusal(-32602, "no text")
            return {"content": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"}

        assert opened(read_skill_file=read).show(REFERENCE).open("a.bin") == b"\xff\x00"

    def test_a_refusal_of_both_is_told_as_the_first(self, opened):
        def read(params):
            return refusal(-32602, "unknown parameter" if "encoding" in params else "too large")

        assert failing(opened(read_skill_file=read).show(REFERENCE).open, "a.bin").message == "too large"

    def test_instructions_are_what_stands_below_any_frontmatter(self, opened):
        texts = {"---\nname: Salesforce Lead Sync\n---\n\n# Sync\n": "\n# Sync\n", "# Bare\n": "# Bare\n"}
        for text, body in texts.items():
            assert opened(read_skill_file=lambda _, t=text: {"content": t}).show(REFERENCE).body() == body

    def test_a_blob_is_read_whole(self, opened):
        client = opened(read_blob=lambda _: {"content": "a,b\n", "size_bytes": 4, "truncated": False})
        assert client.show(REFERENCE).open(BLOB) == b"a,b\n"
        assert client.driver.calls[-1][1] == {"blob_id": BLOB, "mode": "full"}

    def test_a_blob_that_is_larger_than_an_answer_is_fetched_as_it_is(self, opened):
        client = opened(read_blob=lambda _: {"content": "a", "size_bytes": 5_000_000, "truncated": True})
        client.set_token(ORIGIN, "secret")
        assert failing(client.show(REFERENCE).open, BLOB).code == "LIMIT_SIZE"
        url = f"{ORIGIN}/blobs/blob%3A{'0' * 64}"
        client.driver.answer(url, b"all of it")
        assert client.show(REFERENCE).open(BLOB) == b"all of it"
        assert client.driver.requests[-1].headers["Authorization"] == "Bearer secret"


class TestCalling:
    @pytest.fixture
    def sent(self, opened, tmp_path, monkeypatch):
        monkeypatch.setattr(TimeLimit, "left", lambda limit: limit.seconds)  # no time passes before a call
        (tmp_path / "leads.csv").write_bytes(b"name\nAda\n")

        def call(inputs, run=None, **options):
            made = []

            def create(params):
                made.append(params)
                return {"blob_id": BLOB, "size_bytes": 9}

            given = run or {"status": "completed", "run_id": "run-1", "summary": "Done.", "output": {"rows": 1}}
            client = opened(create_blob=create, execute_skill=lambda _: given)
            execution = client.call(REFERENCE, inputs, **options)
            assert client.driver.asked[-1] == "execute_skill"
            return execution, client.driver.calls[-1][1], made

        return call

    def test_a_file_becomes_a_blob(self, sent, tmp_path):
        execution, asked, made = sent({"sheet_blob": tmp_path / "leads.csv"}, timeout=30)
        assert made == [{"content": "name\nAda\n", "kind": "text/csv"}]
        assert asked == {
            "name": "salesforce.leads.sync",
            "args": {"sheet_blob": BLOB, "env": "dev"},
            "version": "0.1.0",
            "input_blobs": [BLOB],
            "timeout_ms": 30_000,
        }
        assert (execution.execution_id, execution.status, execution.output) == ("run-1", "completed", {"rows": 1})
        assert (execution.reference, execution.summary) == (REFERENCE, "Done.")
        assert execution.check() is execution

    def test_an_id_is_passed_on_and_bytes_are_sent_in_base64(self, sent):
        _, asked, made = sent({"sheet_blob": "blob:mine"})
        assert (asked["args"]["sheet_blob"], asked["input_blobs"], made) == ("blob:mine", ["blob:mine"], [])
        _, asked, made = sent({"sheet_blob": b"\xff"})
        assert made == [{"content": "/w==", "kind": "application/octet-stream", "encoding": "base64"}]

    @pytest.mark.parametrize(
        ("kind", "code", "status", "exit_code"),
        [
            ("code_failed", "EXECUTION_FAILED", "failed", 8),
            ("timeout", "EXECUTION_TIMED_OUT", "timeout", 8),
            ("cancelled", "EXECUTION_CANCELLED", "failed", 8),
        ],
    )
    def test_a_run_that_failed_is_an_execution_that_did(self, sent, kind, code, status, exit_code):
        failed = {
            "status": "failed",
            "run_id": "run-2",
            "summary": "No.",
            "logs_preview": "Trace\x1b[31mback",
            "error": {"type": kind, "message": "It broke."},
        }
        execution, *_ = sent({"sheet_blob": BLOB}, failed)
        assert (execution.status, execution.error.code, execution.error.message) == (status, kind, "It broke.")
        assert "\x1b" not in execution.log
        error = failing(execution.check)
        assert (type(error), error.code, error.exit_code) == (ExecutionError, code, exit_code)

    def test_files_that_a_run_left_are_told(self, sent):
        run = {"status": "completed", "run_id": "r", "summary": "", "output_blobs": [
            {"blob_id": BLOB, "kind": "text/csv", "size_bytes": 3, "name": "out/rows.csv"}, "blob:bare"]}  # fmt: skip
        execution, *_ = sent({"sheet_blob": BLOB}, run)
        assert [blob.blob_id for blob in execution.blobs] == [BLOB, "blob:bare"]
        assert execution.blobs[0].name == "out/rows.csv"
        assert execution.output is None

    @pytest.mark.parametrize(
        "inputs",
        [
            {},
            {"sheet_blob": "leads.csv"},
            {"sheet_blob": BLOB, "days": "two"},
            {"sheet_blob": BLOB, "envv": "dev"},
            {"sheet_blob": b"a", "days": "two"},
        ],
    )
    def test_inputs_are_checked_before_anything_is_sent(self, opened, inputs):
        client = opened()
        error = failing(client.call, REFERENCE, inputs)
        assert error.code == "VALIDATION_ERROR"
        assert error.details["errors"]
        assert client.driver.asked == ["describe_skill"]

    def test_a_file_for_what_is_no_blob_is_refused(self, opened, tmp_path):
        client = opened()
        error = failing(client.call, REFERENCE, {"sheet_blob": BLOB, "env": b"dev"})
        assert (error.code, error.message) == ("USAGE", "the input env is no blob, and a file or bytes were given")
        error = failing(client.call, REFERENCE, {"sheet_blob": tmp_path / "nowhere.csv"})
        assert error.message == "the input sheet_blob cannot be read: No such file or directory"
        assert "create_blob" not in client.driver.asked

    @pytest.mark.parametrize(
        "option", [{"wait": False}, {"priority": "high"}, {"trace_id": "t"}, {"idempotency_key": "k"}, {"timeout": -1}]
    )
    def test_what_the_protocol_cannot_say_is_refused(self, opened, option):
        client = opened()
        assert failing(client.call, REFERENCE, {"sheet_blob": BLOB}, **option).code == "USAGE"
        assert "execute_skill" not in client.driver.asked

    def test_an_instruction_is_not_called(self, opened):
        error = failing(opened().call, "skills.example.com/rpc#salesforce.contacts.export")
        assert (type(error), error.code) == (UsageError, "USAGE")
        assert "--body" in error.fix

    def test_what_a_manifest_does_not_say_is_passed_on(self, opened):
        bare = {"name": SYNC["name"], "version": "0.1.0", "description": "", "kind": "action"}
        run = {"status": "completed", "run_id": "r", "summary": ""}
        client = opened(describe_skill=lambda _: {"skill": {"manifest": bare}}, execute_skill=lambda _: run)
        client.call(REFERENCE, {"any": {"thing": [1]}, "sheet": "blob:x"})
        asked = client.driver.calls[-1][1]
        assert (asked["args"], asked["input_blobs"]) == ({"any": {"thing": [1]}, "sheet": "blob:x"}, ["blob:x"])

    def test_a_call_is_sent_once_and_what_was_lost_is_told(self, opened):
        client = opened(execute_skill=lambda _: FetchError("CONNECTION_LOST", "it broke"))
        error = failing(client.call, REFERENCE, {"sheet_blob": BLOB})
        assert "It may have been executed" in error.fix
        assert client.driver.asked.count("execute_skill") == 1

    def test_a_policy_that_is_off_is_told(self, opened):
        told = refusal(-32004, "Permission denied: off", code="PERMISSION_DENIED", fix="Whoever runs the server: ...")
        error = failing(opened(execute_skill=lambda _: told).call, REFERENCE, {"sheet_blob": BLOB})
        assert (error.code, error.exit_code, error.fix) == ("PERMISSION_DENIED", 5, "Whoever runs the server: ...")

    def test_a_call_is_prepared_without_being_sent(self, opened):
        client = opened()
        client.set_token(ORIGIN, "secret")
        prepared = client.show(REFERENCE).prepare({"sheet_blob": b"a"}, timeout=5)
        assert client.driver.asked == ["describe_skill"]
        assert (prepared.method, prepared.url, prepared.headers["Authorization"]) == ("POST", ENDPOINT, "...")
        document = json.loads(prepared.body)
        digest = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
        assert document["params"]["args"] == {"sheet_blob": f"blob:{digest}", "env": "dev"} == prepared.inputs


class TestMethods:
    def test_each_method_asks_and_gives_values(self, opened):
        run = {"status": "completed", "run_id": "r", "summary": "", "output": 1}
        client = opened(
            read_skill_file=lambda _: {"content": "text"},
            execute_skill=lambda _: run,
            run_code=lambda _: run,
            create_blob=lambda _: {"blob_id": BLOB, "size_bytes": 1},
            read_blob=lambda _: {"content": "a", "size_bytes": 2, "truncated": True, "kind": "text/plain"},
            load_skills_protocol_guide=lambda _: {"content": "# Guide"},
            custom=lambda params: {"given": params},
        )
        skills = client.rpc("skills.example.com/rpc")
        assert skills.endpoint == ENDPOINT
        assert skills.list_skills("salesforce", limit=2).skills[0].name == SYNC["name"]
        assert [skill.kind for skill in skills.iterate()] == ["action", "instruction"]
        assert skills.describe_skill(SYNC["name"], version="0.1.0").frontmatter == FRONTMATTER
        assert skills.read_skill_file(SYNC["name"], "a.md") == b"text"
        assert skills.execute_skill(SYNC["name"], {"a": 1}, input_blobs=[BLOB], timeout=1.5) == RunResult(
            "completed", "r", "", 1
        )
        assert skills.run_code("def go(args): ...", {"a": 1}, entrypoint="go", mount_skills=["a.b"]).output == 1
        assert skills.create_blob("a", "text/plain").blob_id == BLOB
        assert skills.read_blob(BLOB, max_bytes=1) == BlobPart(b"a", 2, True, "text/plain")
        assert skills.load_skills_protocol_guide() == "# Guide"
        assert skills.call("custom", {"b": 2}) == {"given": {"b": 2}}
        asked = dict(client.driver.calls)
        assert asked["execute_skill"] == {
            "name": SYNC["name"], "args": {"a": 1}, "input_blobs": [BLOB], "timeout_ms": 1500
        }  # fmt: skip
        assert asked["run_code"]["entrypoint"] == "go"

    def test_a_large_blob_is_sent_as_it_is(self, opened):
        client = opened()
        client.set_token(ORIGIN, "secret")
        content = b"a" * 3_000_000
        assert failing(client.rpc(ENDPOINT).create_blob, content, "text/csv").code == "LIMIT_SIZE"
        created = HttpResponse(f"{ORIGIN}/blobs", 201, {}, b'{"blob_id": "blob:x", "size_bytes": 3000000}')
        client.driver.reply("POST", f"{ORIGIN}/blobs", created)
        assert client.rpc(ENDPOINT).create_blob(content, "text/csv").blob_id == "blob:x"
        request = client.driver.requests[-1]
        assert (request.body, request.headers["Content-Type"]) == (content, "text/csv")
        assert request.headers["Authorization"] == "Bearer secret"
        client.driver.reply("POST", f"{ORIGIN}/blobs", HttpResponse("", 403, {}, b""))
        assert failing(client.rpc(ENDPOINT).create_blob, content).code == "PERMISSION_DENIED"

    def test_what_is_no_url_is_refused(self, opened):
        assert failing(opened().rpc, "ftp://example.com").code == "REFERENCE"

    async def test_the_other_client_does_the_same(self, tmp_path):
        class Driver:
            def __init__(self):
                self.endpoint = Endpoint()

            async def send(self, request):
                return self.endpoint.send(request)

            async def close(self):
                pass

        driver: Any = Driver()
        async with AsyncClient(tmp_path) as client:
            client.driver = driver
            names = [skill.name async for skill in client.rpc(ENDPOINT).iterate()]
            assert names == [SYNC["name"], EXPORT["name"]]
            assert (await (await client.show(REFERENCE)).described()).manifest == SYNC
