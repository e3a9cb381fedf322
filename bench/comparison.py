"""How a bench reports a measurement: the ratio of ours to a peer's, beside the goal.

A line is printed for the reader. If ``SKILLWIRE_BENCH_RESULTS`` names a file, the row is also written there as JSON,
from which ``./dev bench`` makes ``bench/RESULTS.md``.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESULTS: Final = "SKILLWIRE_BENCH_RESULTS"


class Goal(NamedTuple):
    """What a ratio should be: ``Goal("at most", 2.0)``."""

    sense: Literal["at most", "at least"]
    ratio: float

    def is_met_by(self, ratio: float) -> bool:
        """Whether ``ratio`` is on the right side."""
        return ratio <= self.ratio if self.sense == "at most" else ratio >= self.ratio

    def __str__(self) -> str:
        """Return the goal as people write it."""
        return f"{'≤' if self.sense == 'at most' else '≥'} {self.ratio:g}"


def compare(
    what: str, ours: Sequence[float], theirs: Sequence[float], goal: Goal, *, peer: str, unit: str = "ms"
) -> None:
    """Tell the ratio of ours to theirs, round by round: minimum, median, maximum.

    Args:
        what: the work, such as ``"index of 1,000 skills, gzip"``.
        ours: one figure a round, in ``unit``.
        theirs: the peer's figure of the same round.
        goal: which median is good.
        peer: what it is compared with, such as ``"nginx"``.
        unit: of the figures: ``"ms"``, ``"MiB"``, ``"requests/s"``.
    """
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    row = {
        "what": what,
        "peer": peer,
        "unit": unit,
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ratio": [low, middle, high],
        "rounds": len(ratios),
        "goal": str(goal),
        "met": goal.is_met_by(middle),
    }
    verdict = "reached" if row["met"] else "MISSED"
    print(
        f"{what}: {row['ours']:.4g} {unit} beside {row['theirs']:.4g} of {peer}: "
        f"min {low:.3f}, median {middle:.3f}, max {high:.3f} of {len(ratios)} (goal {goal}: {verdict})",
        flush=True,
    )
    if path := os.environ.get(_RESULTS):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
