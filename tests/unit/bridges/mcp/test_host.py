"""What is a message, and what is refused in our own words."""

import json

import pytest
from tests.support.mcp_host import text_of

from skillwire import limits
from skillwire.bridges.mcp.host import answer_in, answers_in, read_messages
from skillwire.bridges.mcp.tools import give_once, success
from skillwire.errors import ValidationError

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"text":"a\\nb"}}'
PROGRESS = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\r\n\r\n'


@pytest.mark.parametrize(
    "message",
    [PING, NOTE, {**PING, "id": "x"}, {**PING, "params": {"deep": [{}]}}, {"jsonrpc": "2.0", "id": 1, "result": {}}],
)
def test_message_is_passed_on_by_itself(message):
    assert read_messages(json.dumps(message).encode(), "2025-06-18") is None


WRONG = {
    "no JSON": (b"{", "", "not JSON"),
    "deep": (b"[" * 100_000, "", "not JSON"),
    "a number": (7, "", "a message is a JSON object"),
    "another version of JSON-RPC": ({**PING, "jsonrpc": "1.0"}, "", '"jsonrpc": "2.0"'),
    "nothing to do": ({"jsonrpc": "2.0", "id": 1}, "", "a message has a method"),
    "a method that is a list": ({**PING, "method": []}, "", "a message has a method"),
    "an id that is a list": ({**PING, "id": [1]}, "", "an id is text or a whole number"),
    "an id that is true": ({**PING, "id": True}, "", "an id is text or a whole number"),
    "params that are a list": ({**PING, "params": [1]}, "", "params is an object"),
    "no batch": ([], "", "1 to 50 messages, not 0"),
    "a long batch": ([PING] * 51, "2025-03-26", "1 to 50 messages, not 51"),
    "a batch with a wrong message": ([PING, 7], "", "a message is a JSON object"),
    "a batch with a handshake": ([{**PING, "method": "initialize"}], "", "initialize is not part of a batch"),
    "a batch of later clients": ([PING], "2025-06-18", "batches are of version 2025-03-26 alone"),
}


@pytest.mark.parametrize(("body", "version", "reason"), WRONG.values(), ids=WRONG)
def test_what_is_no_message_is_refused_with_a_reason(body, version, reason):
    with pytest.raises(ValidationError, match="RPC_REQUEST") as caught:
        read_messages(body if isinstance(body, bytes) else json.dumps(body).encode(), version)
    assert reason in caught.value.message


@pytest.mark.parametrize("version", ["", "2025-03-26"])
def test_batch_is_its_messages(version):
    batch = [PING, NOTE, {**PING, "params": {"number": 10**30, "text": "\ud800"}}]
    found = read_messages(json.dumps(batch).encode(), version)
    assert found is not None
    assert [json.loads(one) for one in found] == batch


def test_answer_is_found_in_a_stream():
    event = b"event: message\r\ndata: " + ANSWER + b"\r\n\r\n"
    assert answer_in(event) == ANSWER
    assert answer_in(PROGRESS) is None
    assert answer_in(event[:-4]) is None
    assert answers_in(PROGRESS + b": ping\r\n\r\n" + event) == answers_in(ANSWER) == [ANSWER]
    assert answers_in(b"") == []


def test_what_is_large_is_given_once():
    small, large = success({"text": "x" * 200_000}), success({"text": "x" * 300_000})
    assert give_once(small, "2025-06-18") == give_once(small, "2024-11-05") == small
    cut = give_once(large, "2025-06-18")
    assert cut.structured_content == {"text": "x" * 300_000}
    assert len(text_of(cut)) < limits.MCP_RESULT_SHOWN_LENGTH + 100
    assert text_of(cut).endswith("[295,915 characters follow in structuredContent alone]")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_client_that_knows_text_alone_gets_all_of_it(version):
    whole = give_once(success({"text": "x" * 300_000}), version)
    assert whole.structured_content is None
    assert json.loads(text_of(whole)) == {"text": "x" * 300_000}
