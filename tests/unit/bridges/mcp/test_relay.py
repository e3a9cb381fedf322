"""Messages of a host as requests, and answers of an endpoint as lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value

from skillwire.client.mcp_relay import Relay, cancelled_id, error_line, read_message, unread_line
from skillwire.errors import FetchError, SkillwireError
from skillwire.wire.exchange import HttpResponse

URL = "https://example.com/mcp"
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def call(method="tools/call", **params):
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def answer(body, kind="application/json", status=200, **fields):
    return HttpResponse(
        URL, status, {"content-type": kind, **fields}, body if isinstance(body, bytes) else body.encode()
    )


def result(**more):
    return {"jsonrpc": "2.0", "id": 7, "result": more}


def test_error_of_a_request_that_could_not_be_read_is_the_answer_to_it():
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "too large"}}
    (line,) = Relay(URL).lines(call(), answer(json.dumps(error), status=413))
    assert json.loads(line) == {**error, "id": 7}


def test_request_says_in_its_fields_what_the_message_says():
    message = call(name="find_skills", arguments={"query": "é"}, _meta=MODERN)
    request = Relay(URL).request(message, "Bearer key")
    assert (request.url, request.method, json.loads(request.body or b"")) == (URL, "POST", message)
    assert request.headers == {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "find_skills",
        "Authorization": "Bearer key",
    }


@given(st.text(max_size=50))
def test_name_of_any_kind_is_a_field_that_servers_read(name):
    field = Relay(URL).request(call("resources/read", uri=name), None).header("mcp-name")
    assert field is not None
    assert field.isascii()
    assert field.isprintable()
    assert decode_header_value(field) == name


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=20), lambda one: st.dictionaries(st.text(max_size=8), one)
    )
)
def test_whatever_a_host_says_becomes_a_request_without_line_breaks(params):
    request = Relay(URL).request({"method": params, "params": params, "id": 1}, None)
    assert all(value.isprintable() for value in request.headers.values())


def test_version_and_session_of_the_handshake_are_kept():
    relay, begin = Relay(URL), call("initialize", protocolVersion="2025-11-25")
    assert relay.request(begin, None).header("mcp-protocol-version") is None
    told = relay.lines(begin, answer(json.dumps(result(protocolVersion="2025-06-18")), **{"mcp-session-id": "abc"}))
    assert json.loads(told[0])["result"] == {"protocolVersion": "2025-06-18"}
    request = relay.request(call("tools/list"), None)
    assert (request.header("mcp-protocol-version"), request.header("mcp-session-id")) == ("2025-06-18", "abc")


def test_stream_is_told_line_by_line():
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    first, second = json.dumps(progress), json.dumps(result(), indent=1)
    body = f": ping\r\n\r\nevent: message\r\ndata: {first}\r\n\r\ndata: {second}\n\n"
    body = body.replace('\n "', '\ndata:  "').replace("\n}", "\ndata: }")
    told = Relay(URL).lines(call(), answer(body, "text/event-stream"))
    assert [json.loads(line) for line in told] == [progress, result()]
    assert not [line for line in told if b"\n" in line]


def test_error_of_the_protocol_is_passed_on_whatever_the_status():
    error = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "no"}}
    assert json.loads(Relay(URL).lines(call(), answer(json.dumps(error), status=400))[0]) == error


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (answer('{"error": {"code": "AUTH_REQUIRED"}}', status=401), "AUTH_REQUIRED"),
        (answer("{}", status=403), "PERMISSION_DENIED"),
        (answer("<html>", "text/html", status=404), "HTTP_STATUS"),
        (answer(b"", status=202), "HTTP_STATUS"),
        (answer("{", status=200), "JSON_SYNTAX"),
        (answer("[]", status=200), "RPC_ANSWER"),
        (answer("data: {\n\n", "text/event-stream"), "JSON_SYNTAX"),
    ],
)
def test_what_is_no_answer_is_an_error_that_the_host_is_told(response, code):
    with pytest.raises(SkillwireError) as caught:
        Relay(URL).lines(call(), response)
    assert caught.value.code == code
    told = json.loads(error_line(call(), caught.value) or b"")
    assert (told["id"], told["error"]["code"]) == (7, -32603)
    assert told["error"]["message"].startswith(code)


def test_nothing_is_told_of_what_nobody_waits_for():
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert Relay(URL).lines(notice, answer(b"", status=202)) == []
    assert error_line(notice, FetchError("TIMEOUT", "it took too long")) is None
    assert error_line({"id": 1, "result": {}}, FetchError("TIMEOUT", "it took too long")) is None


def test_what_is_taken_back_is_named():
    assert cancelled_id({"method": "notifications/cancelled", "params": {"requestId": 3}}) == 3
    assert cancelled_id(call()) is None


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"1",
        b'"\xff"',
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b'{"id":' + b"1" * 5_000 + b"}",
        b'{"id":1,"id":2}',
        b'{"id":"\\ud800"}',
        None,
    ],
)
def test_what_is_no_message_is_refused_as_such(line):
    with pytest.raises(SkillwireError) as caught:
        read_message(line)
    told = json.loads(unread_line(caught.value))
    assert (told["id"], told["error"]["code"]) == (None, -32600)


def test_blank_lines_are_none():
    assert read_message(b" \r") is None


@pytest.mark.parametrize("value", [{}, [], [1], None, True, 1.0])
def test_what_can_be_no_id_takes_nothing_back(value):
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": value}}
    assert cancelled_id(message) is None
    told = error_line({"id": value, "method": "x"}, FetchError("HTTP_STATUS", "no"))
    assert told is not None
    assert json.loads(told)["id"] is None
