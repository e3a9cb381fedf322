"""Invocations and their answers: any inputs arrive as they were, and any bytes end as a value or an error of ours."""

import json
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sharing_documents import documents, spoiled
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.errors import DecodeError, FetchError, ValidationError
from skillwire.protocols.skill_sharing.calls import InvocationOptions, encode_invocation, invocation, read_answer
from skillwire.protocols.skill_sharing.messages import InvocationRequest
from skillwire.protocols.skill_sharing.validation import parse, validate
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpResponse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
INPUTS = st.dictionaries(TEXTS, VALUES, max_size=4)
ABOUT = st.builds(
    InvocationOptions,
    caller_id=TEXTS,
    caller_type=TEXTS,
    trace_id=st.none() | TEXTS,
    priority=st.sampled_from([None, "low", "normal", "high"]),
    timeout=st.none() | st.floats(0.001, 86400),
)
KINDS = st.sampled_from(["application/json", "application/problem+json", "text/plain", "text/html", "image/png", ""])
URL = "https://example.com/status/exec-1"


@given(INPUTS, ABOUT)
def test_what_is_sent_is_an_invocation_request_and_read_as_it_was_meant(inputs, about):
    data = encode_invocation("acme/x", inputs, about)
    assert validate(data, "InvocationRequest").valid
    request = msgspec.json.decode(data, type=InvocationRequest)
    assert request.inputs == json.loads(json.dumps(inputs))
    assert (request.caller.id, request.caller.type, request.skill_id) == (about.caller_id, about.caller_type, "acme/x")
    assert load_json(data, max_bytes=10**6)
    if about.timeout is not None:
        assert json.loads(data)["context"]["timeout_ms"] == round(about.timeout * 1000)


@given(st.dictionaries(TEXTS, VALUES, max_size=3), st.sampled_from(["GET", "DELETE"]))
def test_a_query_says_each_input_as_itself_or_as_json(inputs, method):
    endpoint = {**DESCRIPTOR["endpoint"], "method": method}
    descriptor = parse({**DESCRIPTOR, "endpoint": endpoint})
    try:
        request = invocation(descriptor, inputs, InvocationOptions("me"), key="k", credential={})
    except ValidationError:  # longer than a URL may be
        assert len(json.dumps(inputs)) > 300
        return
    pairs = parse_qsl(request.url.partition("?")[2], keep_blank_values=True)
    assert len(pairs) == len(inputs)
    for (name, text), (meant, value) in zip(pairs, inputs.items(), strict=True):
        assert name == meant
        assert text == value if isinstance(value, str) else json.loads(text) == value


@given(documents("InvocationResponse"))
def test_every_response_of_the_schema_is_read(document):
    document["execution_id"] = "exec-1"
    answer = read_answer(_answer(200, document), execution_id="exec-1")
    assert answer.response is not None
    assert answer.response.status == document["status"]
    if "output" in document:
        assert answer.response.output == document["output"]


@given(st.sampled_from(range(200, 600)), KINDS, st.binary(max_size=200) | spoiled("InvocationResponse"), st.booleans())
def test_any_bytes_are_a_value_or_an_error_of_ours(status, kind, body, may_be_output):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = HttpResponse(URL, status, {"content-type": kind, "retry-after": "soon", "location": "::"}, data)
    try:
        answer = read_answer(response, may_be_output=may_be_output, execution_id=None)
    except (DecodeError, ValidationError, FetchError):
        return
    assert sum(part is not None for part in (answer.response, answer.output, answer.error)) <= 1
    if answer.response is not None and answer.response.error:
        assert neutralise(answer.response.error.message) == answer.response.error.message


@given(st.text(max_size=300))
def test_an_id_that_is_read_makes_one_part_of_a_url(execution_id):
    from skillwire.model.url import parse_url  # noqa: PLC0415  # only here
    from skillwire.protocols.skill_sharing.codec import execution_url  # noqa: PLC0415  # same

    document = {
        "execution_id": execution_id,
        "status": "running",
        "skill_id": "a/b",
        "timestamps": {"created_at": "", "updated_at": ""},
    }
    try:
        found = read_answer(_answer(200, document)).response
    except (DecodeError, ValidationError):
        return
    assert found is not None
    url = parse_url(execution_url("https://example.com/status/{execution_id}/x", found.execution_id))
    assert url.origin == "https://example.com"
    assert [url.path.count("/"), url.path.startswith("/status/"), url.query] == [3, True, None]


def _answer(status: int, document: Any) -> HttpResponse:
    return HttpResponse(URL, status, {"content-type": "application/json"}, json.dumps(document).encode())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_what_is_no_json_is_never_sent(value):
    with pytest.raises(ValidationError):
        encode_invocation("a/b", {"x": value}, InvocationOptions("me"))
