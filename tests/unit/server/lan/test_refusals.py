"""Refused registrations are told to the operator, each once, and not for ever."""

from __future__ import annotations

from structlog.testing import capture_logs

from skillwire.errors import TrustError
from skillwire.server.lan.refusals import Refusals


def refusal(host):
    return TrustError("DISC_003", f"{host} does not register skill-a: UNAUTHORIZED")


def test_each_is_told_once_with_what_to_do():
    refusals = Refusals()
    with capture_logs() as logs:
        refusals.tell(refusal("192.0.2.1"))
        refusals.tell(refusal("192.0.2.1"))
    (told,) = logs
    assert (told["code"], told["log_level"]) == ("DISC_003", "warning")
    assert "clock" in told["fix"]


def test_a_network_that_refuses_and_refuses_does_not_fill_the_log():
    refusals = Refusals()
    with capture_logs() as logs:
        for number in range(1000):
            refusals.tell(refusal(f"192.0.2.{number}"))
    assert len(logs) == 50
