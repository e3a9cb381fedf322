"""``skillwire registry``: what its lists show of the rows that a registry answers."""

import pytest
from tests.support.command import run_command

from skillwire.cli import registry as module


@pytest.fixture
def answered(monkeypatch):
    """Let a registry answer these rows."""

    def answer(*rows):
        monkeypatch.setattr(module, "_rows", lambda *_: list(rows))

    return answer


def test_a_token_is_listed_with_its_account_and_its_expiry(answered):
    row = {"id": "abc", "name": "robot", "scopes": ["read"], "used": None, "revoked": None}
    answered({**row, "account": "ann", "expires": None}, {**row, "account": "bob", "expires": 1_800_000_000.0})
    first, second = run_command("registry", "token", "list").out.splitlines()
    assert ("ann" in first, "never expires" in first) == (True, True)
    assert ("bob" in second, "expires 2027-01-15" in second) == (True, True)


@pytest.mark.parametrize(
    ("action", "details", "shown"),
    [
        ("package.rename", {"to": "acme/new"}, "to acme/new"),
        ("member.set", {"account": "bob", "role": "owner"}, "account bob, role owner"),
        ("member.remove", {"account": "bob"}, "account bob"),
        ("version.publish", {"digest": "sha256:00"}, ""),
    ],
)
def test_a_line_of_the_audit_log_names_what_was_changed(answered, action, details, shown):
    entry = {"number": 1, "at": 1.0, "account": "ann", "target": "acme", "address": "", "request_id": "", "digest": ""}
    answered({**entry, "action": action, "details": details})
    line = run_command("registry", "audit").out
    assert shown in line
    assert "sha256" not in line
