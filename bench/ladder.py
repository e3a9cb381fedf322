"""What the ladder costs beside asking its source directly: ``python bench/ladder.py [ROUNDS]``.

One skill is resolved at a simulated origin, through the ladder and by the source alone, in turns, each index asked
anew. The goal is at most 5 ms more, so the peer's figure is the source's time and 5 ms.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from comparison import Goal, compare
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import SCHEMA_URI
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.references import parse_reference
from skillwire.resolver.resolve import resolve
from skillwire.resolver.sources.agent_skills import AgentSkills
from skillwire.testing import SimulatedPublisher

if TYPE_CHECKING:
    from skillwire.wire.exchange import Flow

ROUNDS: Final = 300
ALLOWED: Final = 5.0  # ms
GOAL: Final = Goal("at most", 1)
_SKILL: Final = {"name": "notes", "type": "skill-md", "description": "Writes notes.", "url": "/notes.md"}


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    publisher = SimulatedPublisher()
    index = {"$schema": SCHEMA_URI, "skills": [{**_SKILL, "digest": Digest.of(b"notes")}]}
    publisher.answer("https://example.com/.well-known/agent-skills/index.json", json.dumps(index).encode())
    reference = parse_reference("example.com/notes")

    def measure(flow: Flow[Any]) -> float:
        started = time.perf_counter()
        publisher.run(flow)
        return (time.perf_counter() - started) * 1000

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context = ResolveContext(
            cache=FileResponseCache(folder / "responses"),
            blobs=FileBlobs(folder / "blobs"),
            origins=FileOriginBook(folder / "origins.json"),
            credentials={},
            clock=time.time,
            report=lambda _: None,
            refresh=True,
        )
        times = [
            (measure(resolve(reference, context)), measure(AgentSkills(context).resolve(reference.lookups[0])))
            for _ in range(rounds)
        ]
    ours, theirs = zip(*times, strict=True)
    compare(
        "a skill resolved by the ladder", ours, [one + ALLOWED for one in theirs], GOAL, peer="its source, and 5 ms"
    )


if __name__ == "__main__":
    main()
