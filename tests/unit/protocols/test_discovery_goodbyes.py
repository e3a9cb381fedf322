"""Goodbyes: remembered for a while, the newest of each skill, and no more than there may be skills."""

import pytest

from skillwire import limits
from skillwire.protocols.skill_discovery.goodbyes import Goodbyes

KEY, OTHER = ("agent-001", "a"), ("agent-001", "b")


@pytest.mark.spec("SDP-unregister-at-once")
def test_a_goodbye_is_remembered_for_its_time_since_it_was_said_last():
    goodbyes = Goodbyes(60)
    assert (goodbyes.timer(), goodbyes.of(KEY)) == (None, -1)
    goodbyes.add(KEY, 1, 0.0)
    goodbyes.add(OTHER, 2, 10.0)
    goodbyes.add(KEY, 3, 20.0)
    assert (goodbyes.timer(), goodbyes.of(KEY)) == (70.0, 3)

    goodbyes.forget(70.0)
    assert (OTHER in goodbyes, KEY in goodbyes, goodbyes.timer()) == (False, True, 80.0)
    goodbyes.forget(80.0)
    assert (KEY in goodbyes, goodbyes.timer()) == (False, None)


def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    goodbyes = Goodbyes(60)
    for number in range(5):
        goodbyes.add(("agent-001", str(number)), number, 0.0)
    assert [number for number in range(5) if ("agent-001", str(number)) in goodbyes] == [0, 1]
    goodbyes.add(("agent-001", "0"), 9, 1.0)
    assert goodbyes.of(("agent-001", "0")) == 9
