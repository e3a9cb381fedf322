"""A search answered as JSON, beside a bare ASGI application with the same bytes: ``python bench/routed_json.py``.

Ours is ``skillwire serve`` with 10,000 skills (or the given number), which answers ``/api/search`` with 20 hits. The
peer is one function under uvicorn, httptools and uvloop, which sends one of those answers for every request. Both use
one kept connection, in turns. Counted is the server's CPU time per request, user and system.

Two ratios are printed. *Each once* is the honest one: no query repeats, so each is searched, ranked, counted and
encoded. *The same again* repeats 20 queries, as people type the same words, and uses the cached answers. The goals are
10 and 1. That of 4 for the first was given up: SQLite's full-text search takes more than that for its ranks alone.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bare_asgi import bare, started
from comparison import Goal, compare
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.client import HTTPConnection

    from bare_asgi import Server

SKILLS: Final = 10_000
ROUNDS: Final = 5
REQUESTS: Final = 400
HITS: Final = 20


def cost(server: Server, targets: Sequence[str]) -> float:
    """Return the CPU microseconds that it takes to answer each of ``targets``."""
    before = server.cpu()
    for target in targets:
        _get(server.connection, target)
    return (server.cpu() - before) / len(targets) * 1e6


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        serve = [sys.executable, "-m", "skillwire", "serve", str(folder), "--port", "0", "--json", "--no-access-log"]
        with started(serve, {"SKILLWIRE_HOME": str(Path(work, "home"))}) as ours:
            time.sleep(3)  # until the look right after the first one is over
            targets = [f"/api/search?q={word}&limit={HITS}" for word in _words(folder)]
            sample = Path(work, "answer")
            sample.write_bytes(_get(ours.connection, targets.pop()))
            assert len(json.loads(sample.read_bytes())["skills"]) == HITS
            with bare(sample) as plain:
                fresh = [targets[start : start + REQUESTS] for start in range(0, REQUESTS * ROUNDS, REQUESTS)]
                again = [targets[:HITS] * (REQUESTS // HITS)] * ROUNDS
                for what, rounds, goal in (("each once", fresh, 10.0), ("the same again", again, 1.0)):
                    cost(plain, rounds[0])
                    pairs = [(cost(ours, part), cost(plain, part)) for part in rounds]
                    mine, theirs = zip(*pairs, strict=True)
                    measured = f"search, {HITS} hits of {skills:,} skills, {what}"
                    compare(
                        measured, mine, theirs, Goal("at most", goal), peer="a bare ASGI application", unit="µs of CPU"
                    )


def _words(folder: Path) -> list[str]:
    """Return words that occur in more descriptions than a page has hits, each once, in random order."""
    seen: dict[str, int] = {}
    for file in sorted(folder.glob("*/SKILL.md")):
        description = file.read_text().splitlines()[2].removeprefix("description: Does ").rstrip(".")
        for word in set(description.split()):
            seen[word] = seen.get(word, 0) + 1
    words = sorted(word for word, count in seen.items() if count > HITS)
    random.Random(1).shuffle(words)  # noqa: S311  # the same order each time, nothing secret
    assert len(words) > REQUESTS * ROUNDS, len(words)
    return words


def _get(connection: HTTPConnection, target: str) -> bytes:
    connection.request("GET", target)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, target
    return body


if __name__ == "__main__":
    main()
