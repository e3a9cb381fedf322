"""The example of a folder that says how it is: the room that it finds, and what its plan is worth."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "lan" / "house" / "meeting-room"


@pytest.fixture
def room(tmp_path):
    """Give the folder of the skill, and call a function of it."""
    shutil.copytree(EXAMPLE, tmp_path / "meeting-room")

    class Room:
        rooms = tmp_path / "meeting-room" / "rooms.json"

        def call(self, name, **inputs):
            return runpy.run_path(str(tmp_path / "meeting-room" / "code" / "main.py"))[name](inputs)

        def change(self, **values):
            self.rooms.write_text(json.dumps(json.loads(self.rooms.read_text()) | values))

    return Room()


@pytest.mark.parametrize(("seats", "name"), [(1, "Ahorn"), (4, "Ahorn"), (5, "Birke"), (24, "Zeder")])
def test_the_smallest_room_that_fits_is_found(room, seats, name):
    assert room.call("main", seats=seats)["room"] == name


def test_where_none_fits_there_is_none(room):
    assert room.call("main", seats=25) is None


@pytest.mark.parametrize(
    ("plan", "status"),
    [("final", "HEALTHY"), ("provisional", "DEGRADED"), ("closed", "MAINTENANCE"), ("lost", "UNHEALTHY")],
)
def test_the_plan_decides_how_it_is(room, plan, status):
    room.change(plan=plan)
    assert room.call("health") == status


def test_without_rooms_it_is_not_well(room):
    room.change(rooms=[])
    assert room.call("health") == "UNHEALTHY"
