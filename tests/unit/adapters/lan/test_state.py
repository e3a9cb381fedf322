"""What an agent keeps over a restart."""

from __future__ import annotations

import sqlite3

import pytest

from skillwire.adapters.clock import moment
from skillwire.adapters.lan import state as state_module
from skillwire.adapters.lan.state import Changes, Heard, Kept, LanState
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Endpoint, Profile, Register, SkillType

STREAM = ("Heartbeat", "agent-001", "skill-a")


def registration(skill="skill-a", version="1.0.0"):
    place = Endpoint("192.168.1.10", 8080)
    return Register("agent-001", skill, version, SkillType.TOOL, place, ("user-auth",), ("auth",), 1000, "QUJD")


def row(message):
    return "eth0/4", message.agent_id, message.skill_id, "192.168.1.10", encode(message), bytes(32), b"by whom"


@pytest.fixture
def state(tmp_path):
    return LanState(tmp_path / "lan", Profile.OPEN)


def test_nothing_was_kept_before_the_first_time(state):
    assert state.load() == Kept()
    assert not state.path.exists()


def test_what_was_written_is_read_by_the_next_one(state, tmp_path):
    state.write(Changes(heard=(row(registration()), row(registration("skill-b"))), timestamps=((STREAM, 7),)))
    state.write(Changes(heard=(row(registration(version="1.0.1")),), gone=(("eth0/4", ("agent-001", "skill-b")),)))

    kept = LanState(tmp_path / "lan", Profile.OPEN).load()

    assert kept.heard == (Heard("eth0/4", "192.168.1.10", registration(version="1.0.1"), bytes(32), b"by whom"),)
    assert kept.timestamps == ((STREAM, 7),)


def test_only_the_owner_may_read_it(state):
    state.write(Changes(timestamps=((STREAM, 7),)))
    assert state.path.stat().st_mode & 0o077 == 0


def test_it_is_never_there_for_others_to_read(state, monkeypatch):
    connect, modes = sqlite3.connect, []

    def looking(path, **named):
        modes.append(path.stat().st_mode & 0o777)
        return connect(path, **named)

    monkeypatch.setattr(sqlite3, "connect", looking)
    state.write(Changes(timestamps=((STREAM, 7),)))
    assert set(modes) == {0o600}


def test_what_was_heard_on_a_link_that_is_gone_for_a_month_is_forgotten(state, monkeypatch):
    on_other = ("wlan0/4", *row(registration("skill-b"))[1:])
    state.write(Changes(heard=(row(registration()), on_other)))
    later = moment()._replace(wall=moment().wall + 20 * 86_400)
    monkeypatch.setattr(state_module, "moment", lambda: later)
    state.write(Changes(timestamps=((STREAM, 7),), links=("eth0/4",)))
    assert {heard.link for heard in state.load().heard} == {"eth0/4", "wlan0/4"}

    later = later._replace(wall=later.wall + 20 * 86_400)
    state.write(Changes(timestamps=((STREAM, 8),)))
    assert {heard.link for heard in state.load().heard} == {"eth0/4"}


def test_of_two_timestamps_the_newest_is_kept_and_old_ones_are_not(state):
    old = ("Register", "agent-001", "skill-a")
    state.write(Changes(timestamps=((STREAM, 700), (old, 50))))
    state.write(Changes(timestamps=((STREAM, 600),), edge=100))
    assert state.load().timestamps == ((STREAM, 700),)


def test_what_is_no_registration_any_more_is_passed_over(state):
    state.write(Changes(heard=(row(registration()), ("eth0/4", "x", "y", "1.2.3.4", b"\xff garbage", b"", b""))))
    assert [heard.message.skill_id for heard in state.load().heard] == ["skill-a"]


def test_a_file_that_cannot_be_read_is_made_anew(state):
    state.write(Changes(timestamps=((STREAM, 7),)))
    state.path.write_bytes(b"no database " * 1000)

    assert state.load() == Kept(is_broken=True)
    state.write(Changes(timestamps=((STREAM, 8),)))
    assert state.load().timestamps == ((STREAM, 8),)


def test_a_file_that_is_broken_in_the_midst_is_made_anew(tmp_path):
    state = LanState(tmp_path / "lan", Profile.OPEN)
    state.write(Changes(heard=tuple(row(registration(f"skill-{number}")) for number in range(500))))
    with sqlite3.connect(state.path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(state.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    state.path.write_bytes(data)

    again = LanState(tmp_path / "lan", Profile.OPEN)
    assert again.load() == Kept(is_broken=True)
    again.write(Changes(timestamps=((STREAM, 8),)))
    assert LanState(tmp_path / "lan", Profile.OPEN).load().timestamps == ((STREAM, 8),)


def test_a_file_of_another_version_is_made_anew(state):
    state.write(Changes(timestamps=((STREAM, 7),)))
    with sqlite3.connect(state.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    assert state.load() == Kept()
    state.write(Changes(timestamps=((STREAM, 8),)))
    assert state.load().timestamps == ((STREAM, 8),)
