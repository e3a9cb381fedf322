"""Troubles with other agents are told to the operator, each once, and not for ever."""

from __future__ import annotations

from structlog.testing import capture_logs

from skillwire.errors import TrustError
from skillwire.server.lan.troubles import Troubles


def refusal(host):
    return TrustError("DISC_003", f"{host} does not register skill-a: UNAUTHORIZED")


def test_each_is_told_once_with_what_to_do():
    troubles = Troubles()
    with capture_logs() as logs:
        troubles.tell(refusal("192.0.2.1"))
        troubles.tell(refusal("192.0.2.1"))
    (told,) = logs
    assert (told["event"], told["code"], told["log_level"]) == ("not registered on the LAN", "DISC_003", "warning")
    assert "clock" in told["fix"]


def test_a_network_that_refuses_and_refuses_does_not_fill_the_log_and_hushes_nobody_who_has_our_name():
    troubles = Troubles()
    with capture_logs() as logs:
        for number in range(1000):
            troubles.tell(refusal(f"192.0.2.{number}"))
        troubles.tell(TrustError("LAN_NAME", "192.0.2.7 takes part as agent-001, too, with another key"))
    assert len(logs) == 51
    assert (logs[-1]["event"], logs[-1]["code"]) == ("another agent has our name on the LAN", "LAN_NAME")
