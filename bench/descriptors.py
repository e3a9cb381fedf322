"""Intake of Skill Descriptors beside ``orjson.loads`` alone: ``python bench/descriptors.py [ROUNDS]``.

Ours reads a descriptor of 771 bytes from its bytes: bounded JSON with unique keys, validated against the schema,
converted to the typed message. The peer only parses the JSON. The goal is at least a quarter of its speed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import orjson

from comparison import Goal, compare
from skillwire.protocols.skill_sharing.validation import parse

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 9
COUNT: Final = 4_000
SIZE: Final = 771
DESCRIPTOR: Final[dict[str, Any]] = {
    "protocol": {"version": "1.0.0"},
    "id": "example-provider/weather-forecast",
    "name": "Weather Forecast",
    "version": "2.1.0",
    "capability_type": "api",
    "description": "Weather for a place and a range of dates.",
    "provider": {"name": "Example Weather Co.", "url": "https://weather.example.com"},
    "endpoint": {
        "url": "https://api.weather.example.com/v2/forecast",
        "method": "POST",
        "status_url": "https://api.weather.example.com/v2/status/{execution_id}",
        "timeout_ms": 30000,
        "retry": {"max_attempts": 3, "backoff_ms": 1000},
    },
    "inputs": [{"name": "location", "type": "string", "description": "City or coordinates.", "required": True}],
    "output": {"content_type": "application/json"},
    "auth": {"type": "api_key", "header": "X-API-Key"},
    "access": "public",
}


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    data = _of_size(SIZE)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_per_second(lambda: parse(data)))
        theirs.append(_per_second(lambda: orjson.loads(data)))
    what = f"intake of a descriptor of {len(data)} bytes: parse, validate, convert"
    compare(what, ours, theirs, Goal("at least", 0.25), peer="orjson.loads", unit="descriptors/s")


def _of_size(size: int) -> bytes:
    data = json.dumps(DESCRIPTOR, separators=(",", ":")).encode()
    text = DESCRIPTOR["description"] + "x" * (size - len(data))
    return json.dumps({**DESCRIPTOR, "description": text}, separators=(",", ":")).encode()


def _per_second(work: Callable[[], object]) -> float:
    started = time.process_time()
    for _ in range(COUNT):
        work()
    return COUNT / (time.process_time() - started)


if __name__ == "__main__":
    main()
