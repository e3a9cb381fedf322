"""Errors: each of ours has a number, and each number becomes an error of ours again."""

import json

import pytest

from skillwire import errors
from skillwire.codes import CODES
from skillwire.errors import (
    ConflictError,
    FetchError,
    NotFoundError,
    PendingError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.protocols.skills_rpc.codec import encode_error
from skillwire.protocols.skills_rpc.errors import ERRORS, FIXES, NUMBERS, error_object, number_of, raised_error
from skillwire.server.quotas import queue_full_error

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SkillwireError)]
URL = "https://example.com/rpc"


@pytest.mark.spec("SKP-error-codes", "RPC-error-codes")
def test_every_error_of_every_kind_has_a_number_of_the_table():
    assert len(KINDS) > 10
    assert {number_of(kind(code, "")) for kind in KINDS for code in CODES} == ERRORS.keys()
    assert set(NUMBERS.values()) <= ERRORS.keys()
    assert NUMBERS.keys() <= CODES.keys()


@pytest.mark.spec("SKP-error-codes", "RPC-error-codes")
@pytest.mark.parametrize(
    ("error", "number"),
    [
        (errors.DecodeError("JSON_SYNTAX", ""), -32700),
        (ValidationError("RPC_REQUEST", ""), -32600),
        (NotFoundError("RPC_METHOD", ""), -32601),
        (ValidationError("RPC_PARAMS", ""), -32602),
        (UsageError("CURSOR", ""), -32602),
        (ValidationError("VALIDATION_ERROR", ""), -32602),
        (ValidationError("ENCODING", ""), -32602),
        (StorageError("STORAGE", ""), -32603),
        (SkillwireError("INTERNAL", ""), -32603),
        (NotFoundError("SKILL_NOT_FOUND", ""), -32001),
        (NotFoundError("FILE_NOT_FOUND", ""), -32002),
        (NotFoundError("BLOB_NOT_FOUND", ""), -32002),
        *((TrustError(code, ""), -32003) for code in CODES if code.startswith("PATH_")),
        (TrustError("PERMISSION_DENIED", ""), -32004),
        (TrustError("AUTH_REQUIRED", ""), -32004),
        (ConflictError("BLOB_ROOM", ""), -32004),
        (PendingError("RUN_PENDING", ""), -32005),
        (PendingError("EXECUTION_PENDING", ""), -32005),
        (ConflictError("TOO_MANY_EXECUTIONS", ""), -32006),
    ],
)
def test_an_error_has_the_number_that_says_what_it_is(error, number):
    assert number_of(error) == number


@pytest.mark.spec("RPC-error-object", "SKP-error-data")
def test_an_error_is_told_with_what_helps():
    error = ValidationError(
        "RPC_PARAMS",
        "limit is too large",
        place=SourceLocation("/params/limit"),
        fix="Ask for less.",
        details={"most": 500},
    )
    assert error_object(error) == {
        "code": -32602,
        "message": "Invalid params: limit is too large",
        "data": {
            "code": "RPC_PARAMS",
            "fix": "Ask for less.",
            "retryable": False,
            "place": "/params/limit",
            "details": {"most": 500},
        },
    }
    told = error_object(StorageError("DATABASE", "busy"))
    assert told["data"] == {"code": "DATABASE", "fix": "Call again later.", "retryable": CODES["DATABASE"].retryable}


@pytest.mark.spec("SKP-error-data")
def test_nobody_who_speaks_the_protocol_is_told_what_to_do_at_a_terminal():
    told = {code: error_object(SkillwireError(code, ""))["data"].get("fix") for code in CODES}
    assert FIXES.keys() <= CODES.keys()
    assert {code: fix for code, fix in told.items() if fix} == FIXES
    assert not [fix for fix in FIXES.values() if "skillwire " in fix or "python -m" in fix]


@pytest.mark.spec("SKP-error-codes", "SKP-error-data")
@pytest.mark.parametrize("code", ["RUN_PENDING", "EXECUTION_PENDING"])
def test_nobody_is_told_to_call_again_what_goes_on(code):
    details = {"run_id": "exec-1", "status": "running"}
    told = error_object(PendingError(code, "the run exec-1 goes on", details=details))
    assert told["message"] == "Run goes on: the run exec-1 goes on"
    assert told["data"]["retryable"] is False
    assert told["data"]["details"] == details
    raised = raised_error(told, URL)
    assert not raised.retryable
    data = raised.details["data"]
    assert isinstance(data, dict)
    assert data["details"]["run_id"] == "exec-1"


@pytest.mark.spec("SKP-error-data")
def test_who_is_sent_away_is_told_for_how_long_without_a_header():
    told = error_object(queue_full_error("as many wait as may"))
    assert told["message"] == "Too many runs: as many wait as may"
    assert told["data"]["retryable"] is True
    assert "10 s" in told["data"]["fix"]
    assert "Retry-After" not in told["data"]["fix"]
    assert told["data"]["details"] == {"retry_after": 10}


@pytest.mark.spec("RPC-client")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", ["SKILL_NOT_FOUND", "PATH_ABSOLUTE", "JSON_SYNTAX", "STORAGE", "BLOB_ROOM", "CURSOR"])
def test_a_told_error_is_raised_as_one_with_the_same_number(kind, code):
    told = json.loads(encode_error(1, kind(code, "what happened", fix="Do this.")))["error"]
    error = raised_error(told, URL)
    assert error.details["rpc_code"] == told["code"]
    assert number_of(error) in {told["code"], -32600}
    assert (error.message, error.fix, error.place) == ("what happened", "Do this.", SourceLocation(URL))


def test_where_a_parameter_is_wrong_is_told_behind_the_endpoint():
    told = error_object(ValidationError("RPC_PARAMS", "too many", place=SourceLocation("/params/limit")))
    assert raised_error(told, URL).place == SourceLocation(f"{URL}#/params/limit")


@pytest.mark.parametrize(
    ("told", "kind", "code"),
    [
        ({"code": -32001, "message": "m"}, NotFoundError, "SKILL_NOT_FOUND"),
        ({"code": -32002, "message": "m"}, NotFoundError, "FILE_NOT_FOUND"),
        ({"code": -32002, "message": "m", "data": {"code": "BLOB_NOT_FOUND"}}, NotFoundError, "BLOB_NOT_FOUND"),
        ({"code": -32003, "message": "m", "data": {"code": "PATH_WINDOWS"}}, TrustError, "PATH_WINDOWS"),
        ({"code": -32004, "message": "m"}, FetchError, "PERMISSION_DENIED"),
        ({"code": -32004, "message": "m", "data": {"code": "AUTH_REQUIRED"}}, FetchError, "AUTH_REQUIRED"),
        ({"code": -32004, "message": "m", "data": {"code": "BLOB_ROOM"}}, ConflictError, "BLOB_ROOM"),
        ({"code": -32602, "message": "m", "data": {"code": "CURSOR"}}, UsageError, "CURSOR"),
        ({"code": -32602, "message": "m", "data": {"code": "VALIDATION_ERROR"}}, ValidationError, "VALIDATION_ERROR"),
        ({"code": -32602, "message": "m", "data": {"code": "DIGEST_MISMATCH"}}, ValidationError, "RPC_PARAMS"),
        ({"code": -32602, "message": "m", "data": {"code": "JSON_SYNTAX"}}, ValidationError, "RPC_PARAMS"),
        ({"code": -32602, "message": "m", "data": {"code": "NO_SUCH"}}, ValidationError, "RPC_PARAMS"),
        ({"code": -32603, "message": "m", "data": {"code": "CURSOR"}}, FetchError, "ENDPOINT_UNREACHABLE"),
        ({"code": -32603, "message": "m", "data": {"code": "AUTH_REQUIRED"}}, FetchError, "ENDPOINT_UNREACHABLE"),
        ({"code": -32005, "message": "m"}, PendingError, "RUN_PENDING"),
        ({"code": -32006, "message": "m"}, ConflictError, "TOO_MANY_EXECUTIONS"),
        ({"code": -32700, "message": "m", "data": {"code": "JSON_SYNTAX"}}, ValidationError, "RPC_REQUEST"),
        ({"code": -32000, "message": "of another server"}, FetchError, "ENDPOINT_UNREACHABLE"),
        ({"code": "x", "message": 5, "data": []}, FetchError, "ENDPOINT_UNREACHABLE"),
        ({}, FetchError, "ENDPOINT_UNREACHABLE"),
        ({"code": -32001, "message": "m", "data": {"code": "NO_SUCH"}}, NotFoundError, "SKILL_NOT_FOUND"),
    ],
)
def test_a_number_becomes_an_error_of_the_kind_that_it_says(told, kind, code):
    error = raised_error(told, URL)
    assert (type(error), error.code) == (kind, code)
    error.diagnostics()


def test_what_a_stranger_tells_is_bounded_and_holds_nothing_hidden():
    told = {"code": -32001, "message": "\x1b]0;x\u202e" + "y" * 10_000, "data": {"fix": "\x9b" * 10_000}}
    error = raised_error(told, URL)
    assert error.message.startswith("[U+001B]")
    assert len(error.message) < 600
    assert error.fix == "[U+009B x500]"
    assert error.details == {"rpc_code": -32001, "data": {}}
