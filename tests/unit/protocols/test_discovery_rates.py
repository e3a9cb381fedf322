"""How many datagrams are read from one source, whether they come at once or over time."""

import pytest

from skillwire import limits
from skillwire.protocols.skill_discovery.rates import Rates
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

HOST = "192.168.1.66"
SETTINGS = DiscoverySettings()
BEAT = b"SKILL_HEARTBEAT:agent-1;skill-1;HEALTHY;1;QUJD"


def read(rates, now, count=10_000, data=BEAT):
    """Return how many of so many datagrams are read that come at once."""
    return sum(rates.allows(HOST, data, now) for _ in range(count))


@pytest.mark.spec("SDP-rate-bound")
def test_a_burst_is_read_and_then_twenty_a_second():
    rates = Rates(SETTINGS, lambda _: 0)
    assert read(rates, 0.0) == 60
    assert read(rates, 0.0) == 0
    assert read(rates, 1.0) == 20
    assert sum(read(rates, 2 + number / 100, 10) for number in range(500)) == pytest.approx(20 * 6, abs=2)


@pytest.mark.spec("SDP-rate-bound")
def test_what_a_host_owes_is_read_beside_that():
    owed = 0
    rates = Rates(SETTINGS, lambda _: owed)
    assert read(rates, 0.0) == 60
    owed = 100
    assert read(rates, 1.0) == 20 + 100 * 2 / 5


@pytest.mark.spec("SDP-rate-bound")
def test_who_shows_a_key_is_read_more_at_that_very_time_once():
    rates = Rates(SETTINGS, lambda _: 0)
    assert read(rates, 10.0) == 60
    rates.know(HOST, 10.0)
    rates.know(HOST, 10.0)
    assert read(rates, 10.0) == 0, "nothing has come in no time"
    assert read(rates, 10.5) == (20 + limits.LAN_SKILLS_PER_AGENT * 2 / 5) / 2
    assert read(rates, 10.5 + SETTINGS.proof) == 60, "it is forgotten"


@pytest.mark.spec("SDP-rate-bound")
@pytest.mark.parametrize("kind", ["SKILL_DISCOVER", "JOIN_SCENE", "SCENE_REQUEST", "CHALLENGE", "SKILL_HEARTBEATS"])
def test_who_owes_thousands_of_beats_asks_no_more_than_others(kind):
    rates = Rates(SETTINGS, lambda _: 5_000)
    rates.know(HOST, 0.0)
    question = f"{kind}:agent-1;;;;1".encode()
    assert read(rates, 0.0, data=question) == 60
    assert read(rates, 1.0, data=question) == 20
    assert read(rates, 1.0) == (5_000 + limits.LAN_SKILLS_PER_AGENT) * 2 / 5, "questions take nothing from beats"


@pytest.mark.spec("SDP-rate-bound")
def test_beats_take_nothing_from_questions_while_they_are_owed():
    rates = Rates(SETTINGS, lambda _: 100)
    for second in range(60):
        assert read(rates, float(second), 40) == 40
    assert read(rates, 60.0, data=b"SKILL_DISCOVER:a;;;;1") == 60
    assert read(rates, 60.0, data=b"SKILL_REGISTER:a") == 40
