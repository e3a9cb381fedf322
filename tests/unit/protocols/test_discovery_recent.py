"""What is remembered of strangers, and what is to be done when: bounded, whatever they send."""

import pytest

from skillwire.protocols.skill_discovery.agenda import Agenda
from skillwire.protocols.skill_discovery.recent import Recent


@pytest.mark.spec("SDP-hostile")
def test_the_first_makes_room_and_what_is_put_again_stands_last():
    recent: Recent[str, int] = Recent(3)
    assert [recent.put(name, number) for number, name in enumerate("abcad")] == [None, None, None, None, "b"]
    assert recent == {"c": 2, "a": 3, "d": 4}
    assert list(recent) == ["c", "a", "d"]


@pytest.mark.spec("SDP-hostile")
def test_what_is_moved_again_and_again_takes_no_more_room():
    agenda: Agenda[str] = Agenda()
    agenda.set("other", 5.0)
    for number in range(100_000):
        agenda.set("moved", 1000.0 - number / 1000)
    assert len(agenda._timers) < 200
    assert [agenda.pop(2000.0), agenda.pop(2000.0), agenda.pop(2000.0)] == ["other", "moved", None]
    assert agenda.timer() is None
