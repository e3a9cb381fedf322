"""The form of a signed request: pinned by an example that anyone can repeat, and read strictly."""

import hashlib
import hmac

import pytest

from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.protocols.skill_sharing.signing import Signature, custom_auth, is_signed_by, read_signature, sign

KEY_ID = "abcdefghijklmnop"
REQUEST = ("POST", "/skills/forecast/executions?a=b%20c", b'{"inputs": {}}')


def test_signature_is_the_hmac_of_time_method_target_and_body():
    signature = sign(KEY_ID, b"secret", *REQUEST, timestamp=1_700_000_000)
    signed = b'1700000000\nPOST\n/skills/forecast/executions?a=b%20c\n{"inputs": {}}'
    expected = hmac.new(b"secret", signed, hashlib.sha256).hexdigest()
    assert str(signature) == f"{KEY_ID}:1700000000:{expected}"
    assert read_signature(str(signature)) == signature
    assert is_signed_by(signature, b"secret", *REQUEST)


@pytest.mark.parametrize(
    "other",
    [
        ("PUT", *REQUEST[1:]),
        ("post", *REQUEST[1:]),
        ("POST", "/skills/forecast/executions?a=b+c", REQUEST[2]),
        ("POST", REQUEST[1] + "\n", REQUEST[2]),
        (*REQUEST[:2], REQUEST[2] + b" "),
        (*REQUEST[:2], b""),
    ],
)
def test_signature_is_good_for_one_request_only(other):
    signature = sign(KEY_ID, b"secret", *REQUEST, timestamp=1_700_000_000)
    assert not is_signed_by(signature, b"secret", *other)
    assert not is_signed_by(signature, b"Secret", *REQUEST)
    assert not is_signed_by(signature._replace(timestamp=1_700_000_001), b"secret", *REQUEST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        f"{KEY_ID}:1",
        f"{KEY_ID}:1:{'a' * 63}",
        f"{KEY_ID}:1:{'A' * 64}",
        f"{KEY_ID}:01:{'a' * 64}",
        f"{KEY_ID}:-1:{'a' * 64}",
        f"{KEY_ID}:1.5:{'a' * 64}",
        f"{KEY_ID}:{'9' * 13}:{'a' * 64}",
        f"{KEY_ID}:\u0661:{'a' * 64}",
        f"{KEY_ID.upper()}:1:{'a' * 64}",
        f" {KEY_ID}:1:{'a' * 64}",
        f"{KEY_ID}:1:{'a' * 64}\n",
        "x" * 100_000,
    ],
)
def test_what_is_no_signature_is_not_read(text):
    assert read_signature(text) is None


def test_descriptor_tells_callers_how_to_sign():
    config = AuthConfig(type=AuthType.CUSTOM, custom=custom_auth())
    assert config.custom
    assert "X-Signature: KEYID:TIMESTAMP:HEX" in config.custom.instructions
    assert [parameter.name for parameter in config.custom.parameters] == ["key_id", "secret_key"]
    assert str(Signature("k", 1, "d")) == "k:1:d"


def test_line_feed_cannot_move_from_the_body_to_the_target():
    signature = sign(KEY_ID, b"secret", "POST", "/a", b"\n/b", timestamp=1)
    assert is_signed_by(signature, b"secret", "POST", "/a", b"\n/b")
    assert not is_signed_by(signature, b"secret", "POST", "/a\n", b"/b")
