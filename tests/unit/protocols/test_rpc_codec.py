"""Requests and parameters: what is one, what is not, and what is said about it."""

import json

import msgspec
import pytest

from skillwire import limits
from skillwire.errors import NotFoundError, SourceLocation, ValidationError
from skillwire.protocols.skills_rpc import codec
from skillwire.protocols.skills_rpc.codec import (
    Batch,
    Call,
    Refused,
    decode,
    decode_answer,
    decode_params,
    encode_error,
    encode_request,
    encode_result,
    join_batch,
    params_type,
)
from skillwire.protocols.skills_rpc.messages import (
    METHODS,
    BlobContent,
    CreateBlob,
    CreatedBlob,
    DescribedSkill,
    DescribeSkill,
    ExecuteSkill,
    FileContent,
    ListedSkill,
    ListSkills,
    LoadGuide,
    OutputBlob,
    ReadBlob,
    RunCode,
    RunError,
    RunResult,
    SkillPage,
)

URL = "https://example.com/rpc"


def request(**members):
    return json.dumps({"jsonrpc": "2.0", "method": "m", **members}).encode()


def told(error):
    return json.loads(encode_error(None, error))["error"]


@pytest.mark.spec("RPC-id")
@pytest.mark.parametrize("request_id", ["a", "", "1", 1, 0, -7, 2**60, 1.5, 1e21, None, "ü€😀"])
def test_an_id_comes_back_as_it_came(request_id):
    call = decode(request(id=request_id))
    assert call == Call("m", {}, request_id)
    answer = json.loads(encode_result(call.request_id, {}))
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert type(answer["id"]) is type(request_id)


@pytest.mark.spec("RPC-request", "RPC-id-null")
@pytest.mark.parametrize("request_id", [True, False, {}, [], [1]])
def test_an_id_of_another_type_makes_no_request(request_id):
    refused = decode(request(id=request_id))
    assert isinstance(refused, Refused)
    assert refused.request_id is None
    assert told(refused.error)["code"] == -32600
    assert told(refused.error)["data"]["place"] == "/id"


@pytest.mark.spec("RPC-request")
@pytest.mark.parametrize(
    ("document", "place"),
    [
        (1, None),
        ("a", None),
        (None, None),
        ({}, "/jsonrpc"),
        ({"method": "m", "id": 1}, "/jsonrpc"),
        ({"jsonrpc": "1.0", "method": "m", "id": 1}, "/jsonrpc"),
        ({"jsonrpc": 2.0, "method": "m", "id": 1}, "/jsonrpc"),
        ({"jsonrpc": "2.0", "id": 1}, "/method"),
        ({"jsonrpc": "2.0", "method": 1, "id": 1}, "/method"),
        ({"jsonrpc": "2.0", "method": None, "id": 1}, "/method"),
        ({"jsonrpc": "2.0", "method": "m", "params": "bar", "id": 1}, "/params"),
        ({"jsonrpc": "2.0", "method": "m", "params": 1, "id": 1}, "/params"),
        ({"jsonrpc": "2.0", "method": "m", "params": None, "id": 1}, "/params"),
    ],
)
def test_what_is_no_request_is_refused_with_the_place(document, place):
    refused = decode(json.dumps(document).encode())
    assert isinstance(refused, Refused)
    assert refused.request_id == (document.get("id") if isinstance(document, dict) else None)
    error = told(refused.error)
    assert (error["code"], error["data"].get("place")) == (-32600, place)


@pytest.mark.spec("RPC-request")
def test_members_that_the_text_does_not_know_are_passed_over():
    assert decode(request(id=1, params={"a": 1}, more=True)) == Call("m", {"a": 1}, 1)


@pytest.mark.spec("RPC-notification")
def test_a_request_without_an_id_is_a_notification_and_null_is_an_id():
    assert decode(request()) == Call("m", {}, None, is_notification=True)
    assert decode(request(id=None)) == Call("m", {}, None, is_notification=False)


@pytest.mark.spec("RPC-batch", "RPC-batch-invalid")
def test_a_batch_holds_calls_and_what_is_refused_in_their_order():
    batch = decode(b'[{"jsonrpc":"2.0","method":"a","id":1},1,{"jsonrpc":"2.0","method":"b"}]')
    assert isinstance(batch, Batch)
    first, second, third = batch.items
    assert first == Call("a", {}, 1)
    assert isinstance(second, Refused)
    assert third == Call("b", {}, None, is_notification=True)


@pytest.mark.spec("RPC-batch", "RPC-batch-notifications")
def test_answers_are_joined_without_those_that_are_none():
    answers = [encode_result(1, 5), None, encode_result(2, "x")]
    assert [one["id"] for one in json.loads(join_batch(answers) or b"")] == [1, 2]
    assert join_batch([None, None]) is None
    assert join_batch([]) is None


@pytest.mark.spec("RPC-batch-bounded")
def test_a_batch_is_bounded():
    members = [json.loads(request(id=number)) for number in range(limits.RPC_BATCH)]
    batch = decode(json.dumps(members).encode())
    assert isinstance(batch, Batch)
    assert len(batch.items) == limits.RPC_BATCH
    refused = decode(json.dumps([*members, 1]).encode())
    assert isinstance(refused, Refused)
    assert told(refused.error)["code"] == -32600


@pytest.mark.spec("RPC-guarded", "RPC-error-codes")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "JSON_SYNTAX"),
        (b"{", "JSON_SYNTAX"),
        (b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', "JSON_SYNTAX"),
        (b'{"jsonrpc":"2.0","method":"m","method":"n","id":1}', "JSON_DUPLICATE_KEY"),
        (b'{"jsonrpc":"2.0","method":"m","id":NaN}', "JSON_SYNTAX"),
        (b'{"jsonrpc":"2.0","method":"m","id":1e999}', "JSON_NUMBER"),
        (b'{"jsonrpc":"2.0","method":"m","id":' + b"9" * 40 + b"}", "JSON_NUMBER"),
        (b'{"jsonrpc":"2.0","method":"\\ud800","id":1}', "JSON_UNICODE"),
        (b'{"jsonrpc":"2.0","method":"\xff","id":1}', "JSON_UNICODE"),
        (b"[" * 100 + b"]" * 100, "JSON_DEPTH"),
    ],
)
def test_what_is_no_json_of_ours_is_a_parse_error(data, code):
    refused = decode(data)
    assert isinstance(refused, Refused)
    assert refused.request_id is None
    assert told(refused.error)["code"] == -32700
    assert told(refused.error)["data"]["code"] == code


def test_a_request_that_is_too_large_is_invalid_and_no_parse_error():
    refused = decode(request(id=1, params={"a": "x" * 100}), max_bytes=50)
    assert isinstance(refused, Refused)
    assert told(refused.error)["code"] == -32600


@pytest.mark.spec("RPC-error-codes")
def test_a_method_that_is_not_there_names_those_that_are():
    with pytest.raises(NotFoundError) as caught:
        params_type("List_Skills")
    assert told(caught.value)["code"] == -32601
    assert "list_skills" in told(caught.value)["data"]["fix"]
    with pytest.raises(NotFoundError) as caught:
        params_type("\x1b[2J" * 100)
    assert len(told(caught.value)["message"]) < 200
    assert "\x1b" not in told(caught.value)["message"]


@pytest.mark.spec("SKP-methods")
def test_the_methods_take_what_the_table_says():
    table = {
        "list_skills": {"namespace", "detail", "limit", "cursor"},
        "describe_skill": {"name*", "version", "detail"},
        "read_skill_file": {"name*", "path*", "version", "encoding"},
        "execute_skill": {"name*", "args", "version", "input_blobs", "timeout_ms"},
        "run_code": {"language", "code*", "entrypoint", "args", "mount_skills", "input_blobs", "limits"},
        "create_blob": {"content*", "kind*", "encoding"},
        "read_blob": {"blob_id*", "mode", "max_bytes", "encoding"},
        "load_skills_protocol_guide": set(),
    }
    found = {
        method: {field.encode_name + "*" * field.required for field in msgspec.structs.fields(kind)}
        for method, kind in METHODS.items()
    }
    assert found == table
    assert {method: params_type(method) for method in METHODS} == METHODS


@pytest.mark.spec("SKP-methods", "RPC-params-named")
@pytest.mark.parametrize(
    ("kind", "params", "place"),
    [
        (DescribeSkill, {}, "/params/name"),
        (DescribeSkill, {"name": None}, "/params/name"),
        (DescribeSkill, {"name": 1}, "/params/name"),
        (DescribeSkill, {"name": "a", "Version": "1"}, "/params/Version"),
        (DescribeSkill, {"name": "a", "a/b~c": None}, "/params/a~1b~0c"),
        (DescribeSkill, {"name": "a", "detail": "all"}, "/params/detail"),
        (ListSkills, {"limit": 0}, "/params/limit"),
        (ListSkills, {"limit": "5"}, "/params/limit"),
        (ListSkills, {"limit": True}, "/params/limit"),
        (ListSkills, {"limit": 5.5}, "/params/limit"),
        (ListSkills, {"cursor": 1}, "/params/cursor"),
        (ExecuteSkill, {"name": "a", "args": []}, "/params/args"),
        (ExecuteSkill, {"name": "a", "input_blobs": ["a", 1]}, "/params/input_blobs/1"),
        (ExecuteSkill, {"name": "a", "timeout_ms": 0}, "/params/timeout_ms"),
        (RunCode, {"code": "", "language": "ruby"}, "/params/language"),
        (RunCode, {"code": "", "limits": {"memory": 1}}, "/params/limits/memory"),
        (RunCode, {"code": "", "limits": {"timeout_ms": -1}}, "/params/limits/timeout_ms"),
        (CreateBlob, {"content": "a", "kind": ""}, "/params/kind"),
        (CreateBlob, {"content": "a", "kind": "x" * 256}, "/params/kind"),
        (ReadBlob, {"blob_id": "a", "mode": "head"}, "/params/mode"),
        (LoadGuide, {"name": "a"}, "/params/name"),
        (LoadGuide, [1], "/params"),
        (ListSkills, ["salesforce"], "/params"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_their_place(kind, params, place):
    with pytest.raises(ValidationError) as caught:
        decode_params(params, kind)
    error = told(caught.value)
    assert (error["code"], error["data"]["code"], error["data"]["place"]) == (-32602, "RPC_PARAMS", place)


def test_a_number_without_a_fraction_is_a_whole_one():
    assert decode_params({"limit": 7.0}, ListSkills).limit == 7
    assert decode_params({"name": "a", "args": {"x": 1.0}}, ExecuteSkill).args == {"x": 1.0}


def test_what_may_stand_there_is_said():
    with pytest.raises(ValidationError) as caught:
        decode_params({"name": "a", "detail": "all"}, DescribeSkill)
    error = told(caught.value)
    assert error["message"] == "Invalid params: detail is one of manifest, summary, full"
    assert error["data"]["fix"] == "It takes name*, version, detail (* required)."


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"limit": 0}, ListSkills, "limit has to be a whole number of at least 1"),
        ({"limit": "x"}, ListSkills, "limit has to be a whole number, not a text"),
        (
            {"code": "", "limits": {"timeout_ms": 0}},
            RunCode,
            "limits/timeout_ms has to be a whole number of at least 1",
        ),
        ({"code": "", "entrypoint": ""}, RunCode, "entrypoint has to be a text of at least 1 character"),
        ({"content": "", "kind": "x" * 300}, CreateBlob, "kind has to be a text of at most 255 characters"),
        ({"name": "a", "args": []}, ExecuteSkill, "args has to be an object, not a list"),
    ],
)
def test_what_a_parameter_has_to_be_is_said_in_words(params, kind, message):
    with pytest.raises(ValidationError) as caught:
        decode_params(params, kind)
    assert caught.value.message == message


def test_no_star_is_explained_where_none_stands():
    with pytest.raises(ValidationError) as caught:
        decode_params({"limit": 0}, ListSkills)
    assert caught.value.fix == "It takes namespace, detail, limit, cursor (all optional)."


def test_an_unknown_parameter_of_any_length_is_told_in_a_few_words():
    with pytest.raises(ValidationError) as caught:
        decode_params({"\x1b]0;" + "x" * 5000: 1}, LoadGuide)
    assert len(caught.value.message) < 200
    assert caught.value.message.isprintable()


def test_null_is_an_optional_parameter_that_is_not_there_and_an_empty_list_is_no_parameters():
    assert decode_params({"namespace": None, "limit": None, "detail": None, "cursor": None}, ListSkills) == ListSkills()
    assert decode_params([], ListSkills) == ListSkills()
    assert decode_params([], LoadGuide) == LoadGuide()


@pytest.mark.spec("RPC-response", "RPC-client")
def test_a_client_reads_what_a_server_writes():
    sent = encode_request("list_skills", ListSkills(namespace="a"), 7)
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": 7, "method": "list_skills", "params": {"namespace": "a"}}
    assert decode(sent) == Call("list_skills", {"namespace": "a"}, 7)
    for result in (None, {}, [1, "x"], {"a": {"b": None}}):
        assert decode_answer(encode_result(7, result), 7, source=URL, max_bytes=1000) == result
    written = b'{"skills":[]}'
    assert decode_answer(encode_result(7, written), 7, source=URL, max_bytes=1000) == {"skills": []}


@pytest.mark.spec("RPC-client")
@pytest.mark.parametrize(
    "answer",
    [
        [],
        "x",
        {},
        {"error": {"code": "SKILL_NOT_FOUND", "message": "of another protocol"}},
        {"jsonrpc": "2.0", "id": 7},
        {"jsonrpc": "2.0", "id": 7, "result": 1, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": 7, "error": "no"},
        {"jsonrpc": "2.0", "id": 8, "result": 1},
        {"jsonrpc": "2.0", "id": "7", "result": 1},
        {"jsonrpc": "2.0", "id": None, "result": 1},
        {"jsonrpc": "2.0", "id": 8, "error": {"code": -32603, "message": ""}},
        {"jsonrpc": "1.0", "id": 7, "result": 1},
        {"id": 7, "result": 1},
    ],
)
def test_what_is_no_answer_to_the_call_is_refused(answer):
    with pytest.raises(ValidationError) as caught:
        decode_answer(json.dumps(answer).encode(), 7, source=URL, max_bytes=1000)
    assert caught.value.code == "RPC_ANSWER"


@pytest.mark.spec("RPC-client", "RPC-id-null")
def test_an_error_whose_id_is_null_is_ours():
    refused = decode(b"{")
    assert isinstance(refused, Refused)
    with pytest.raises(ValidationError) as caught:
        decode_answer(encode_error(refused.request_id, refused.error), 7, source=URL, max_bytes=1000)
    assert caught.value.code == "RPC_REQUEST"


@pytest.mark.spec("RPC-client")
def test_true_is_not_the_number_one():
    with pytest.raises(ValidationError):
        decode_answer(b'{"jsonrpc":"2.0","id":true,"result":5}', 1, source=URL, max_bytes=1000)
    assert decode_answer(b'{"jsonrpc":"2.0","id":1.0,"result":5}', 1, source=URL, max_bytes=1000) == 5


def test_parameters_that_json_cannot_say_are_refused_before_they_are_sent():
    with pytest.raises(ValidationError) as caught:
        encode_request("m", {"a": object()}, 1)
    assert caught.value.code == "RPC_PARAMS"


COMPLETED = RunResult(
    "completed", "exec-1", "It is done.", {"rows": 3}, (OutputBlob("blob:ab", "text/csv", 12, "out.csv"),), "3 rows\n"
)
FAILED = RunResult("failed", "exec-2", "It took too long.", error=RunError("timeout", "10 s were over"))


@pytest.mark.spec("SKP-run", "SKP-error-levels")
def test_a_run_that_completed_has_an_output_and_no_error():
    assert json.loads(codec.encode_run(COMPLETED)) == {
        "status": "completed",
        "run_id": "exec-1",
        "summary": "It is done.",
        "output": {"rows": 3},
        "output_blobs": [{"blob_id": "blob:ab", "kind": "text/csv", "size_bytes": 12, "name": "out.csv"}],
        "logs_preview": "3 rows\n",
    }


@pytest.mark.spec("SKP-run", "SKP-error-levels")
def test_a_run_that_failed_has_an_error_and_no_output():
    assert json.loads(codec.encode_run(FAILED)) == {
        "status": "failed",
        "run_id": "exec-2",
        "summary": "It took too long.",
        "error": {"type": "timeout", "message": "10 s were over"},
    }


@pytest.mark.spec("SKP-run")
@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, {"a": [None, 1.5, "ü"]}])
def test_an_output_is_told_whatever_it_is(output):
    run = RunResult("completed", "exec-1", "", output)
    written = json.loads(codec.encode_run(run))
    assert written["output"] == output
    assert "output_blobs" not in written
    assert "logs_preview" not in written
    assert codec.decode_run(written, URL) == run


@pytest.mark.parametrize("run", [COMPLETED, FAILED])
def test_a_run_is_read_as_it_was_written(run):
    assert codec.decode_run(json.loads(codec.encode_run(run)), URL) == run


@pytest.mark.parametrize(
    ("encode", "decode", "value"),
    [
        (codec.encode_described, codec.decode_described, DescribedSkill({"name": "a", "n": 1.5})),
        (codec.encode_described, codec.decode_described, DescribedSkill({}, {"a": ["b"]}, "")),
        (msgspec.json.encode, codec.decode_file, FileContent("a\x00ü")),
        (msgspec.json.encode, codec.decode_file, FileContent("AAA=", "base64")),
        (msgspec.json.encode, codec.decode_created, CreatedBlob("blob:ab", 0)),
        (codec.encode_blob, codec.decode_blob, BlobContent("a", 5, truncated=True, kind="text/csv")),
        (codec.encode_blob, codec.decode_blob, BlobContent("AAA=", 2, encoding="base64")),
    ],
)
def test_a_result_is_read_as_it_was_written(encode, decode, value):
    assert decode(json.loads(encode(value)), URL) == value


def test_a_page_is_read_as_it_was_written():
    skills = (ListedSkill("a.b", "1.0.0"), ListedSkill("a.c", "1.0.0", "d", "a", "action"))
    written = codec.encode_page(b",".join(map(msgspec.json.encode, skills)), "cur")
    assert codec.decode_page(json.loads(written), URL) == SkillPage(skills, "cur")
    assert json.loads(codec.encode_page(b"", None)) == {"skills": [], "next_cursor": None}


def test_whether_more_is_left_of_a_blob_is_always_said():
    assert json.loads(codec.encode_blob(BlobContent("a", 1))) == {"content": "a", "size_bytes": 1, "truncated": False}


def test_what_a_newer_server_says_beyond_this_is_passed_over():
    page = {"skills": [{"name": "a.b", "version": "1", "stars": 5}], "next_cursor": None, "total": 1}
    assert codec.decode_page(page, URL) == SkillPage((ListedSkill("a.b", "1"),))
    run = {"status": "completed", "run_id": "1", "output_blobs": ["blob:ab"], "cost": 1}
    assert codec.decode_run(run, URL).output_blobs == (OutputBlob("blob:ab", "", 0),)


def test_what_people_read_is_bounded_and_holds_nothing_hidden():
    page = codec.decode_page({"skills": [{"name": "a\x1b[2J", "version": "1\u202e", "description": "d" * 9999}]}, URL)
    assert page.skills[0].name == "a[U+001B][2J"
    assert page.skills[0].version == "1[U+202E]"
    assert len(page.skills[0].description) == 1024
    run = codec.decode_run({**json.loads(codec.encode_run(FAILED)), "summary": "\x9b" * 5000}, URL)
    assert run.summary == "[U+009B x1000]"


@pytest.mark.parametrize(
    "decode",
    [
        codec.decode_page,
        codec.decode_described,
        codec.decode_file,
        codec.decode_created,
        codec.decode_blob,
        codec.decode_run,
    ],
)
@pytest.mark.parametrize("result", [None, 1, "a", [], {}, {"skills": {}}, {"content": 1}, {"status": "running"}])
def test_what_is_no_result_of_the_method_is_refused(decode, result):
    with pytest.raises(ValidationError) as caught:
        decode(result, URL)
    assert caught.value.code == "RPC_ANSWER"
    assert caught.value.place == SourceLocation(URL)
