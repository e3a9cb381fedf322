"""Fuzz the receiver's side of webhooks: ``python tests/fuzz/fuzz_webhook.py [CORPUS] [-max_total_time=60]``.

An input is the three header fields and the body, each behind a newline. One that is let pass must be signed as it
stands; the check of the signature is done once more, in another way.
"""

import base64
import hashlib
import hmac
import json

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import TrustError
    from skillwire.executions.webhooks import ID, SIGNATURE, TIMESTAMP, sign, verify_webhook

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
NOW = 1_750_000_000.0
BODY = b'{"type":"execution.completed","timestamp":"2026-02-01T10:00:00Z","data":{}}'


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Verify what ``data`` spells; nothing but ``TrustError`` may come out, and nothing unsigned may pass."""
    parts = data.split(b"\n", 3)
    fields = [part.decode("latin-1") for part in parts[:3]]
    headers = dict(zip((ID.title(), TIMESTAMP.upper(), SIGNATURE), fields, strict=False))
    body = parts[3] if len(parts) > 3 else b""  # what is behind the three
    try:
        found = verify_webhook(SECRET, headers, body, now=NOW)
    except TrustError:
        return
    signed = f"{fields[0]}.{fields[1]}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert f"v1,{expected}" in fields[2].split(" ")
    assert abs(NOW - int(fields[1])) <= 300  # seconds, as the standard proposes
    assert found == json.loads(body)


def seeds() -> dict[str, bytes]:
    """Return deliveries that are good, and some that are nearly so."""
    found = {}
    for number, (body, moment) in enumerate(
        [(BODY, NOW), (b"null", NOW), (b"{", NOW), (b"", NOW), (BODY, NOW - 299), (BODY, NOW + 301)]
    ):
        fields = sign(SECRET, f"msg_{number}", body, moment)
        several = f"v1a,AAAA {fields[SIGNATURE]} v1,"
        for signature in (fields[SIGNATURE], several):
            head = f"{fields[ID]}\n{fields[TIMESTAMP]}\n{signature}\n".encode()
            found[f"delivery-{number}-{len(signature)}"] = head + body
    return found


if __name__ == "__main__":
    fuzz("webhook", TestOneInput, seeds(), max_bytes=1024)
