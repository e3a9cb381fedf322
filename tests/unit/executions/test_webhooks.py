"""Webhooks: their form and signature, held against the reference library, and when they are sent again."""

import json
from base64 import b64decode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.executions import BEGIN, make_execution

import skillwire.rpc
from skillwire.errors import TrustError, ValidationError
from skillwire.executions.view import encode_execution
from skillwire.executions.webhooks import (
    DELAYS,
    message_id,
    next_delivery,
    payload,
    read_callback_url,
    sign,
    verify_webhook,
    webhook_owner,
    webhook_secret,
)
from skillwire.model.execution import ExecutionStatus

KEY = bytes(range(32))
SECRET = webhook_secret(KEY, "principal anna")
BODY = b'{"type":"execution.completed"}'


def test_the_reference_library_accepts_what_is_signed():
    reference = pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    now = datetime.now(UTC).timestamp()
    headers = sign(SECRET, "msg_1", BODY, now)
    assert reference.Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(reference.WebhookVerificationError):
        reference.Webhook(webhook_secret(KEY, "principal bob")).verify(BODY, headers)


@given(st.text(max_size=40), st.integers(0, 2**33), st.text(max_size=200))
def test_both_make_the_same_signature(owner, now, text):
    reference = pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    secret, body = webhook_secret(KEY, owner), text.encode()
    headers = sign(secret, "msg_1", body, now)
    when = datetime.fromtimestamp(now, UTC)
    assert headers["webhook-signature"] == reference.Webhook(secret).sign("msg_1", when, text)


def test_we_accept_what_the_reference_library_signs():
    reference = pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    when = datetime.fromtimestamp(1_700_000_000, UTC)
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": "1700000000",
        "Webhook-Signature": "v1a,other v1," + "A" * 44 + " " + reference.Webhook(SECRET).sign("msg_1", when, "[1]"),
    }
    assert verify_webhook(SECRET, headers, b"[1]", now=1_700_000_100.5) == [1]


def test_the_example_of_the_specification():
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  # the text's
    assert verify_webhook(secret, headers, b'{"test": 2432232314}', now=1614265330) == {"test": 2432232314}


def changed(**fields):
    headers = sign(SECRET, "msg_1", BODY, 1000.0)
    for name, value in fields.items():
        if value is None:
            del headers[name.replace("_", "-")]
        else:
            headers[name.replace("_", "-")] = value
    return headers


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (changed(webhook_id="msg_2"), BODY, 1000),
        (changed(webhook_timestamp="1001"), BODY, 1000),
        (changed(), BODY + b" ", 1000),
        (changed(), BODY, 1301),
        (changed(), BODY, 699),
        (changed(webhook_signature=None), BODY, 1000),
        (changed(webhook_id=None), BODY, 1000),
        (changed(webhook_timestamp=None), BODY, 1000),
        (changed(webhook_signature=""), BODY, 1000),
        (changed(webhook_signature="v2," + changed()["webhook-signature"][3:]), BODY, 1000),
        (changed(webhook_signature="v1,"), BODY, 1000),
        (changed(webhook_signature="v1,\u00e9"), BODY, 1000),
        (changed(webhook_timestamp="1e3"), BODY, 1000),
        (changed(webhook_timestamp="\u0661"), BODY, 1000),
        (changed(webhook_timestamp="9" * 5000), BODY, 1000),
        (changed(webhook_signature="v1,x " * 50 + changed()["webhook-signature"]), BODY, 1000),
        (sign(SECRET, "msg_1", b"no JSON", 1000.0), b"no JSON", 1000),
    ],
)
def test_what_is_not_believed(headers, body, now):
    with pytest.raises(TrustError) as caught:
        verify_webhook(SECRET, headers, body, now=now)
    assert caught.value.code == "WEBHOOK_SIGNATURE"


def test_what_is_no_secret():
    with pytest.raises(TrustError):
        verify_webhook("whsec_!!", changed(), BODY, now=1000)


def test_a_receiver_finds_it_in_the_sdk():
    headers = sign(SECRET, "msg_1", BODY, datetime.now(UTC).timestamp())
    assert skillwire.rpc.verify_webhook(SECRET, headers, BODY.decode()) == json.loads(BODY)


def test_each_caller_has_a_secret_of_its_own():
    assert len(b64decode(SECRET.removeprefix("whsec_"))) == 32
    assert webhook_secret(KEY, "principal anna") == SECRET
    assert len({SECRET, webhook_secret(KEY, "principal bob"), webhook_secret(b"x" * 32, "principal anna")}) == 3


def test_of_a_caller_that_nobody_knows_each_execution_has_one():
    known = make_execution(caller="principal anna")
    assert webhook_owner(known) == webhook_owner(make_execution(caller="principal anna"))
    first, second = make_execution(caller="address 192.0.2.1"), make_execution(caller="address 192.0.2.1")
    assert webhook_owner(first) != webhook_owner(second)
    assert webhook_owner(make_execution(caller=f"execution {first.execution_id}", execution_id="x")) != "execution x"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (ExecutionStatus.COMPLETED, "execution.completed"),
        (ExecutionStatus.FAILED, "execution.failed"),
        (ExecutionStatus.TIMEOUT, "execution.timeout"),
    ],
)
def test_a_payload_holds_the_response(status, kind):
    execution = make_execution(status=status, completed=BEGIN + 1.5)
    response = encode_execution(execution, b'{"a":1}')
    document = json.loads(payload(execution, response))
    assert document == {"type": kind, "timestamp": "1970-01-12T13:46:41.500Z", "data": json.loads(response)}


def test_the_id_stays_the_same_and_is_not_the_executions_own_name():
    execution = make_execution(execution_id="exec-" + "a" * 32)
    assert message_id(execution) == "msg_" + "a" * 32


def test_when_it_is_sent_again():
    assert [next_delivery(failed, 100.0, chance=0.0) for failed in range(1, 8)] == [
        *[100.0 + delay for delay in DELAYS],
        None,
    ]
    assert next_delivery(0, 100.0) is None
    for _ in range(50):
        assert 105.0 <= (next_delivery(1, 100.0) or 0) <= 106.0


def test_a_callback_is_a_url():
    assert read_callback_url("https://Example.com/hook?a=1#x") == "https://example.com/hook?a=1"
    for text in ("", "example.com", "ftp://example.com", "https://u:p@example.com", "https://exa mple.com", "x" * 9000):
        with pytest.raises(ValidationError) as caught:
            read_callback_url(text)
        assert caught.value.code == "VALIDATION_ERROR"
