"""The rooms of the house: the one that fits, and what the plan of them is worth."""

import json
from pathlib import Path

ROOMS = Path(__file__).parent.parent / "rooms.json"
#: What the plan says → what heartbeats say of this skill.
HEALTH = {"final": "HEALTHY", "provisional": "DEGRADED", "closed": "MAINTENANCE"}


def main(args):
    """Return the smallest room with enough seats, or None."""
    rooms = [room for room in _plan()["rooms"] if room["seats"] >= args["seats"]]
    return min(rooms, key=lambda room: room["seats"], default=None)


def health(args):
    """Return how this skill is; a plan that cannot be read raises, which is UNHEALTHY."""
    plan = _plan()
    return HEALTH.get(plan["plan"], "UNHEALTHY") if plan["rooms"] else "UNHEALTHY"


def _plan():
    return json.loads(ROOMS.read_text(encoding="utf-8"))
