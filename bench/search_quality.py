"""How well the search finds what people mean: ``python bench/search_quality.py FOLDER``.

``FOLDER`` holds ``skills.jsonl`` (``id``, ``name``, ``description``) and ``queries.jsonl`` (``query``, ``relevant``:
the id of the one skill that is meant). Printed are MRR@10, hit@1, hit@10 and the milliseconds of a search; the same
for queries with one edit in one word of at least four letters; and what is left of MRR@10 with it. Good is at least
the 0.754 of other keyword searches, and 0.95 of it left with an edit.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.model.catalog import SearchQuery
from skillwire.model.digest import Digest
from skillwire.model.skill import Artifact, Skill

_SEEDS: Final = 5
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_ARTIFACT: Final = Artifact("skill-md", "text/markdown", ".md", 1, Digest.of(b""))


def main() -> None:
    """Measure and print."""
    folder = Path(sys.argv[1])
    rows = [json.loads(line) for line in (folder / "skills.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    skills = {f"{row['name']}/{row['id']}": _skill(row) for row in rows}  # a name may occur more than once
    with tempfile.TemporaryDirectory() as work:
        search = SearchIndex(Path(work)).update(dict(sorted(skills.items())), list(skills), ())

        def rank(text: str, relevant: int) -> int | None:
            names = search.search(SearchQuery(text, limit=10)).names
            return next((place for place, name in enumerate(names, 1) if name.endswith(f"/{relevant}")), None)

        began = time.perf_counter()
        plain = _report("as written", [rank(row["query"], row["relevant"]) for row in queries])
        print(f"  {(time.perf_counter() - began) / len(queries) * 1000:.2f} ms a search")
        edited = [
            _report(f"an edit, seed {seed}", [rank(_edit(row["query"], draw), row["relevant"]) for row in queries])
            for seed, draw in ((seed, random.Random(seed)) for seed in range(_SEEDS))  # noqa: S311  # nothing secret
        ]
        print(f"left of MRR@10 with an edit: {statistics.mean(edited) / plain:.3f} (goal ≥ 0.95)")


def _skill(row: dict[str, str]) -> Skill:
    return Skill("bench", row["name"], "1.0.0", row["description"], (), _ARTIFACT)


def _report(what: str, ranks: list[int | None]) -> float:
    mrr = statistics.mean(1 / rank if rank else 0 for rank in ranks)
    first = statistics.mean(rank == 1 for rank in ranks)
    found = statistics.mean(rank is not None for rank in ranks)
    print(f"{what}: MRR@10 {mrr:.3f}, hit@1 {first:.3f}, hit@10 {found:.3f}", flush=True)
    return mrr


def _edit(text: str, draw: random.Random) -> str:
    """Return ``text`` with one edit in one word of at least four letters."""
    words = text.split()
    place = draw.choice([place for place, word in enumerate(words) if len(word) >= 4])
    word = words[place]
    at = draw.randrange(len(word) - 1)
    words[place] = draw.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + draw.choice(_LETTERS) + word[at:],
            word[:at] + draw.choice(_LETTERS) + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        ]
    )
    return " ".join(words)


if __name__ == "__main__":
    main()
