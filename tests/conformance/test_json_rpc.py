"""JSON-RPC 2.0, clause by clause, with the examples of its specification.

Here is what the codec makes of them, with the methods that the specification calls.
"""

import json

import pytest
from tests.support.rpc import answer

from skillwire.errors import NotFoundError, StorageError
from skillwire.protocols.skills_rpc.codec import decode_params
from skillwire.protocols.skills_rpc.messages import DescribeSkill

called: list[str] = []


def subtract(params):
    first, second = params if isinstance(params, list) else (params["minuend"], params["subtrahend"])
    return first - second


def break_down(_params):
    raise StorageError("STORAGE", "the disk is full")


METHODS = {
    "subtract": subtract,
    "update": lambda _: None,
    "sum": sum,
    "notify_hello": lambda _: None,
    "notify_sum": sum,
    "get_data": lambda _: ["hello", 5],
    "break_down": break_down,
    "describe": lambda params: {"name": decode_params(params, DescribeSkill).name},
}


def call(method, params):
    called.append(method)
    if method not in METHODS:
        raise NotFoundError("RPC_METHOD", "there is no such method")
    return METHODS[method](params)


def ask(text):
    called.clear()
    return answer(text.encode(), call)


def plain(told):
    """Return an answer without what the specification leaves to the server: the text and the data of an error."""
    if isinstance(told, list):
        return [plain(one) for one in told]
    if "error" not in told:
        return told
    assert told["error"].keys() == {"code", "message", "data"}
    assert isinstance(told["error"]["message"], str)
    return {**told, "error": told["error"]["code"]}


def refused(code, request_id=None):
    return {"jsonrpc": "2.0", "error": code, "id": request_id}


# The examples of section 7, in its order. The specification's texts of errors are ours to choose.
EXAMPLES = {
    "positional parameters": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
        {"jsonrpc": "2.0", "result": 19, "id": 1},
    ),
    "positional parameters, other order": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
        {"jsonrpc": "2.0", "result": -19, "id": 2},
    ),
    "named parameters": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        {"jsonrpc": "2.0", "result": 19, "id": 3},
    ),
    "named parameters, other order": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
        {"jsonrpc": "2.0", "result": 19, "id": 4},
    ),
    "a notification": ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    "a notification of a method that is not there": ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    "a method that is not there": ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', refused(-32601, "1")),
    "invalid JSON": ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', refused(-32700)),
    "an invalid request": ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', refused(-32600)),
    "a batch of invalid JSON": (
        '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"]',
        refused(-32700),
    ),
    "an empty batch": ("[]", refused(-32600)),
    "a batch with one that is invalid": ("[1]", [refused(-32600)]),
    "a batch that is invalid throughout": ("[1,2,3]", [refused(-32600)] * 3),
    "a batch": (
        """[
            {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
            {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
            {"foo": "boo"},
            {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
            {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
        ]""",
        [
            {"jsonrpc": "2.0", "result": 7, "id": "1"},
            {"jsonrpc": "2.0", "result": 19, "id": "2"},
            refused(-32600),
            refused(-32601, "5"),
            {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"},
        ],
    ),
    "a batch of notifications": (
        """[
            {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
        ]""",
        None,
    ),
}


@pytest.mark.spec(
    "RPC-examples", "RPC-batch", "RPC-batch-empty", "RPC-batch-invalid", "RPC-batch-notifications", "RPC-notification"
)
@pytest.mark.parametrize(("sent", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_specification(sent, expected):
    told = ask(sent)
    assert (told if told is None else plain(told)) == expected


@pytest.mark.spec("RPC-notification")
def test_a_notification_is_done_and_never_answered_whatever_becomes_of_it():
    for method in ("update", "break_down", "no_such", "describe"):
        assert ask(json.dumps({"jsonrpc": "2.0", "method": method, "params": {"wrong": 1}})) is None
        assert called == [method]


@pytest.mark.spec("RPC-response", "RPC-error-object")
@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("update", {}, "result"),
        ("subtract", {"minuend": 1, "subtrahend": 1}, "result"),
        ("break_down", {}, "error"),
        ("no_such", {}, "error"),
        ("describe", {}, "error"),
    ],
)
def test_an_answer_has_a_result_or_an_error(method, params, member):
    told = ask(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": "x"}))
    assert told.keys() == {"jsonrpc", "id", member}
    assert (told["jsonrpc"], told["id"]) == ("2.0", "x")
    if member == "error":
        assert isinstance(told["error"]["code"], int)
        assert isinstance(told["error"]["message"], str)


@pytest.mark.spec("RPC-error-codes")
def test_each_code_of_the_table_is_told_for_what_the_table_says():
    assert ask("{")["error"]["code"] == -32700
    assert ask("{}")["error"]["code"] == -32600
    assert ask('{"jsonrpc": "2.0", "method": "no_such", "id": 1}')["error"]["code"] == -32601
    assert ask('{"jsonrpc": "2.0", "method": "describe", "id": 1}')["error"]["code"] == -32602
    assert ask('{"jsonrpc": "2.0", "method": "break_down", "id": 1}')["error"]["code"] == -32603


@pytest.mark.spec("RPC-params-named")
def test_parameters_are_matched_exactly_and_by_name():
    good = {"jsonrpc": "2.0", "method": "describe", "params": {"name": "a"}, "id": 1}
    assert ask(json.dumps(good))["result"] == {"name": "a"}
    for params in ({"Name": "a"}, {"name": "a", "Detail": "full"}, ["a"]):
        assert ask(json.dumps({**good, "params": params}))["error"]["code"] == -32602


@pytest.mark.spec("RPC-batch-bounded")
def test_of_a_batch_that_is_too_large_nothing_is_done():
    one = {"jsonrpc": "2.0", "method": "update", "id": 1}
    assert plain(ask(json.dumps([one] * 51))) == refused(-32600)
    assert called == []
    assert len(ask(json.dumps([one] * 50))) == 50
