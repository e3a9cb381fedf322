"""Goodbyes: remembered for a while, the newest of each skill, and no more than there may be skills."""

import pytest

from skillwire import limits
from skillwire.protocols.skill_discovery.tombstones import Tombstones

KEY, OTHER = ("agent-001", "a"), ("agent-001", "b")


@pytest.mark.spec("SDP-unregister-at-once")
def test_a_goodbye_is_remembered_for_its_time_since_it_was_said_last():
    tombstones = Tombstones(60)
    assert (tombstones.timer(), tombstones.of(KEY)) == (None, -1)
    tombstones.add(KEY, 1, 0.0)
    tombstones.add(OTHER, 2, 10.0)
    tombstones.add(KEY, 3, 20.0)
    assert (tombstones.timer(), tombstones.of(KEY)) == (70.0, 3)

    tombstones.forget(70.0)
    assert (OTHER in tombstones, KEY in tombstones, tombstones.timer()) == (False, True, 80.0)
    tombstones.forget(80.0)
    assert (KEY in tombstones, tombstones.timer()) == (False, None)


def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    tombstones = Tombstones(60)
    for number in range(5):
        tombstones.add(("agent-001", str(number)), number, 0.0)
    assert [number for number in range(5) if ("agent-001", str(number)) in tombstones] == [0, 1]
    tombstones.add(("agent-001", "0"), 9, 1.0)
    assert tombstones.of(("agent-001", "0")) == 9
