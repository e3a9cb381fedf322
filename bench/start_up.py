"""How long ``skillwire`` takes to start, beside Python alone: ``python bench/start_up.py [ROUNDS]``.

``skillwire --help`` and ``--version`` as they are installed, beside ``python -c pass`` of the same virtual
environment, in turns. Compared are the time and the processor time of the whole process. The goal is at most four times
as much for both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from comparison import Goal, compare
from processes import cost_of, our_program

ROUNDS: Final = 21
GOAL: Final = Goal("at most", 4)


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    here, variables = Path.cwd(), {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    for option in ("--help", "--version"):
        ours, theirs = our_program(option), [sys.executable, "-c", "pass"]
        cost_of(ours, folder=here, variables=variables)  # compiles
        costs = [
            (
                cost_of(ours, folder=here, variables=variables),
                cost_of(theirs, folder=here, variables=variables),
            )
            for _ in range(rounds)
        ]
        for what, measure in ((f"skillwire {option}", "wall"), (f"skillwire {option}, CPU", "cpu")):
            mine, other = ([getattr(cost, measure) for cost in side] for side in zip(*costs, strict=True))
            compare(what, mine, other, GOAL, peer="python -c pass")


if __name__ == "__main__":
    main()
