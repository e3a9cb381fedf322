"""Fuzz what is read of a call: ``python tests/fuzz/fuzz_invocation.py [CORPUS] [-max_total_time=60]``.

The first byte chooses: a request as a server reads it, or an answer as a caller does. Seeds are the examples of the
specification and what servers answer besides.
"""

import json

import atheris  # type: ignore[import-untyped]  # it publishes no types
import msgspec
from engine import fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import DecodeError, FetchError, ValidationError
    from skillwire.protocols.skill_sharing.calls import read_answer
    from skillwire.server.routes.executions import body_credentials, read_request, without_credentials
    from skillwire.trust.hidden_text import find_hidden
    from skillwire.wire.exchange import HttpResponse

URL = "https://example.com/status/exec-1"
REQUEST = {
    "caller": {"id": "ifay-instance-042", "type": "ifay", "credentials": {"api_key": "k", "access_token": "t"}},
    "skill_id": "acme/restaurant-booking",
    "inputs": {"guests": 4, "contact": {"name": "Anna"}, "times": [1.5, None, True]},
    "context": {"trace_id": "t", "priority": "high", "timeout_ms": 30000},
}
RESPONSE = {
    "execution_id": "exec-1",
    "status": "completed",
    "skill_id": "acme/restaurant-booking",
    "output": {"confirmed": True},
    "timestamps": {"created_at": "2026-02-01T10:00:00Z", "updated_at": "2026-02-01T10:00:01Z"},
}
ERROR = {
    "error": {
        "code": "VALIDATION_ERROR",
        "message": "No.",
        "details": {"errors": [{"path": "/inputs/a", "message": "m", "expected": "e", "actual": 1}]},
        "retry": {"suggested_delay_ms": 1000, "max_attempts": 3},
    }
}
STATUSES = (200, 202, 204, 304, 401, 422, 429, 500, 503)
TYPES = ("application/json", "text/plain; charset=utf-8", "application/problem+json", "image/png", "")


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Read ``data``; only errors that say what is wrong with it may come out, and what was taken is fit for use."""
    try:
        if data[:1] == b"q":
            request = read_request(data[1:], "")
            assert read_request(msgspec.json.encode(request), "application/json") == request
            assert without_credentials(request).caller.credentials is msgspec.UNSET
            assert all(isinstance(value, bytes) for _, value in body_credentials(request))
            return
        choice = data[0] if data else 0
        headers = {
            "content-type": TYPES[choice % len(TYPES)],
            "retry-after": data[1:9].decode("latin-1"),
            "etag": data[9:17].decode("latin-1"),
        }
        response = HttpResponse(URL, STATUSES[choice % len(STATUSES)], headers, data[1:])
        answer = read_answer(response, may_be_output=bool(choice & 64), execution_id="exec-1" if choice & 32 else None)
    except (DecodeError, ValidationError, FetchError):
        return
    assert sum(one is not None for one in (answer.response, answer.output, answer.error)) <= 1
    if answer.error is not None:
        assert not find_hidden(answer.error.message)
    if answer.response is not None and choice & 32:
        assert answer.response.execution_id == "exec-1"
    assert answer.retry_after is None or 0 <= answer.retry_after < float("inf")


def seeds() -> dict[str, bytes]:
    """Return a request, and answers of each kind, each with its first byte."""
    found = {"request": b"q" + json.dumps(REQUEST).encode(), "credentials": b"q{}"}
    for number, document in enumerate((RESPONSE, ERROR, {**RESPONSE, "status": "failed", **ERROR}, [1], "x")):
        for choice in (0, 1, 4, 5, 32, 64, 96, 101):
            found[f"answer-{number}-{choice}"] = bytes([choice]) + json.dumps(document).encode()
    return found


if __name__ == "__main__":
    fuzz("invocation", TestOneInput, seeds(), max_bytes=4096)
