"""The example ``restaurant-booking``: how its story is played, and what it tells, step by step."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.eventually import PATIENCE

from skillwire.executions.view import without_ids

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "examples" / "restaurant-booking"
#: What the text of SSP 5.1 gives and gets.
INPUTS = {"cuisine": "Italian", "date": "2025-08-15", "time": "19:00", "party_size": 4, "city": "San Francisco"}
OUTPUT = {
    "restaurant": "Trattoria Roma",
    "confirmation_code": "TR-20250815-042",
    "time": "19:00",
    "address": "123 Columbus Ave, SF",
}
_STEP = re.compile(r"(\d)  (\w+) +(.*)")
_PERSON = """
import sys
sys.path.insert(0, {project!r})
from tests.support.oidc_provider import OidcProvider
issuer = sys.argv[1].partition("/auth?")[0]
OidcProvider(issuer, {{}}).approve(sys.argv[1], visit_callback=True)
"""


class Story(NamedTuple):
    """What was told: (number, name, text) of each step, and each request that the provider got."""

    steps: list[tuple[int, str, str]]
    requests: list[str]

    def text(self, number):
        return [text for one, _, text in self.steps if one == number][-1]


def play(home, *arguments, **variables):
    """Play the story; ``arguments`` are those of ``run.py``."""
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", "--requests", *arguments],
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home), **variables},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * PATIENCE,  # three programs, one after the other
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [(int(number), name, text) for number, name, text in _STEP.findall(done.stdout)]
    requests = re.findall(r" info ((?:GET|POST|DELETE) \S+ \d{3}) ", done.stderr)
    return Story(steps, requests)


def person(folder):
    """Return a browser whose person says yes to everything, as ``BROWSER`` names one."""
    script = folder / "person.py"
    script.write_text(_PERSON.format(project=str(PROJECT)))
    return f"{sys.executable} {script} %s"


def check_story(story, flow, issuer="http://127.0.0.1:"):
    """Check the eight steps of SSP 5.1, by what the consumer tells and by what the provider was asked."""
    assert [number for number, _, _ in story.steps] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert story.text(1) == "booking-example/restaurant-booking 1.0.0, task, restricted"
    assert story.text(2).endswith("wants oauth2 with book:reservation")
    assert story.text(3).startswith(f"{flow} at {issuer}")
    assert story.text(3).endswith(", for book:reservation")
    assert json.loads(story.text(4).partition(" ")[2].partition(" ")[2]) == INPUTS
    accepted, execution = story.text(5).split(", ")
    assert (accepted, story.text(6)) == ("accepted", "running")
    assert json.loads(story.text(7).removeprefix("completed, ")) == OUTPUT
    assert OUTPUT["confirmation_code"] in story.text(8)
    told = [
        "GET /.well-known/skill-sharing 200",
        "GET /skills/restaurant-booking.json 200",
        "POST /skills/restaurant-booking/executions 202",
        f"GET /executions/{without_ids(execution)} 200",  # as the provider's log has it
    ]
    first = [story.requests.index(request) for request in told]
    assert first == sorted(first)
    assert story.requests.count(told[-1]) >= 2
    assert sum(request.startswith("POST") for request in story.requests) == 1
