"""Calls as exchanges: what is sent, what is taken, and where a credential goes."""

import json
from typing import Any

import pytest

from skillwire.errors import DecodeError, FetchError, NotFoundError, TrustError, ValidationError
from skillwire.protocols.skills_rpc.client import call
from skillwire.protocols.skills_rpc.codec import encode_error, encode_result
from skillwire.protocols.skills_rpc.messages import DescribeSkill, ListSkills
from skillwire.wire.exchange import HttpResponse, follow

URL = "https://example.com/rpc"
JSON = {"content-type": "application/json"}


def answered(body, status=200, headers=JSON, url=URL):
    return HttpResponse(url, status, headers, body)


def ask(*answers, params=None, **more):
    return follow(call(URL, "list_skills", params or ListSkills(), **more), answers)


@pytest.mark.spec("RPC-client")
def test_a_call_is_a_post_of_one_request():
    exchange: Any = call(
        URL, "describe_skill", DescribeSkill(name="a.b"), authorization="Bearer x", timeout=5, max_bytes=99
    )
    request = next(exchange)
    assert (request.url, request.method, request.timeout, request.max_bytes) == (URL, "POST", 5, 99)
    assert request.headers == {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Authorization": "Bearer x",
    }
    assert json.loads(request.body or b"") == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "describe_skill",
        "params": {"name": "a.b"},
    }
    with pytest.raises(StopIteration) as done:
        exchange.send(answered(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'))
    assert done.value.value == {"a": 1}


def test_without_a_credential_none_is_sent():
    request: Any = next(call(URL, "list_skills", {}))
    assert "Authorization" not in request.headers


@pytest.mark.spec("RPC-client")
@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_error_that_is_told_is_raised_whatever_the_status(status):
    body = encode_error(1, NotFoundError("SKILL_NOT_FOUND", "there is no skill 'a'"))
    with pytest.raises(NotFoundError) as caught:
        ask(answered(body, status))
    assert caught.value.code == "SKILL_NOT_FOUND"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, b'{"error": {"code": "AUTH_REQUIRED", "message": ""}}', "AUTH_REQUIRED"),
        (403, b"", "PERMISSION_DENIED"),
        (404, b"<html>", "HTTP_STATUS"),
        (405, b"{}", "HTTP_STATUS"),
        (429, b"[]", "HTTP_STATUS"),
        (500, encode_result(1, {}), "HTTP_STATUS"),
        (204, b"", "HTTP_STATUS"),
    ],
)
def test_another_status_without_an_error_of_json_rpc_is_told_by_itself(status, body, code):
    with pytest.raises(FetchError) as caught:
        ask(answered(body, status))
    assert caught.value.code == code


def test_a_web_page_is_no_answer():
    with pytest.raises(FetchError) as caught:
        ask(answered(b"<html>", headers={"content-type": "text/html"}))
    assert caught.value.code == "CONTENT_TYPE"
    with pytest.raises(ValidationError, match="no answer of JSON-RPC"):
        ask(answered(b'{"skills": []}'))
    with pytest.raises(DecodeError, match="expecting value"):
        ask(answered(b"no json"))


def test_a_redirect_keeps_the_call_at_its_origin_and_never_takes_it_to_another():
    moved = answered(b"", 308, {"location": "/v2/rpc"})
    assert ask(moved, answered(encode_result(1, 5)), authorization="Bearer x") == 5
    with pytest.raises(TrustError) as caught:
        ask(answered(b"", 307, {"location": "https://elsewhere.example/rpc"}))
    assert caught.value.code == "REDIRECT_REFUSED"
