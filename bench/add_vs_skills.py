"""``skillwire add`` beside the ``skills`` CLI of npm: ``python bench/add_vs_skills.py [ROUNDS]``.

Both install the same skills from our server on loopback into an empty project of a user with an empty home and no
cache: three skills, a hundred, and one of a hundred. Options answer every question; the peer's telemetry is off. The
two take turns.

Compared are time (goals: at most 0.5, 0.4 and 0.3), processor time (the same goals), and our peak of resident memory
with 35 MB, a third of the peer's. Needs npm, which installs the peer and its node at the first run.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from comparison import Goal, compare
from processes import Cost, cost_of, our_program, serving
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS: Final = 11
MEMORY: Final = 35.0  # MB
PROJECT: Final = Path(__file__).parent.parent
PEERS: Final = PROJECT / "tests" / "interop" / "node_modules"


class Work(NamedTuple):
    """How many skills the server has, which one is added (None: all), and which ratio is good."""

    skills: int
    name: str | None
    goal: float

    def __str__(self) -> str:
        """Return it as a row names it."""
        return f"add {1 if self.name else self.skills} of {self.skills} skills"


WORKS: Final = (Work(3, None, 0.5), Work(100, None, 0.4), Work(100, "skill-00042", 0.3))


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    subprocess.run(["sh", str(PROJECT / "tools" / "npm_peers.sh")], check=True)
    if not (PEERS / ".installed").exists():
        sys.exit("the skills CLI is not installed; the lines above say why")
    version = json.loads((PEERS / "skills" / "package.json").read_bytes())["version"]
    memory = Path("/dev/shm")  # noqa: S108  # so that the mood of a disk is not measured
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-", dir=memory if memory.is_dir() else None) as base:
        for number in sorted({work.skills for work in WORKS}):
            skills = Path(base, f"skills-{number}")
            make_skills(skills, number)
            with serving(skills, Path(base, f"home-{number}")) as url:
                for work in WORKS:
                    if work.skills == number:
                        _compare(work, url, f"skills {version}", Path(base, "work"), rounds)


def _compare(work: Work, url: str, peer: str, folder: Path, rounds: int) -> None:
    ours = our_program("add", f"{url}/{work.name}" if work.name else url, "--all", "--yes", "--agent", "codex")
    theirs = [str(PEERS / ".bin" / "node"), str(PEERS / "skills" / "bin" / "cli.mjs"), "add", url]
    theirs += ["--agent", "codex", "--yes", "--copy", "--skill", work.name or "*"]
    wanted = 1 if work.name else work.skills
    for command in (ours, theirs):
        add_once(command, wanted, folder)  # compiles, and brings the files into memory
    rows = [(add_once(ours, wanted, folder), add_once(theirs, wanted, folder)) for _ in range(rounds)]
    mine, other = zip(*rows, strict=True)
    goal = Goal("at most", work.goal)
    compare(f"{work}", [cost.wall for cost in mine], [cost.wall for cost in other], goal, peer=peer)
    compare(f"{work}, CPU", [cost.cpu for cost in mine], [cost.cpu for cost in other], goal, peer=peer)
    allowed = f"{MEMORY:g} MB ({peer}: {statistics.median(cost.memory for cost in other):.0f})"
    peaks = [cost.memory for cost in mine]
    compare(f"{work}, peak memory", peaks, [MEMORY] * rounds, Goal("at most", 1), peer=allowed, unit="MB")


def add_once(command: Sequence[str], wanted: int, folder: Path) -> Cost:
    """Run one installer in an empty project; see that it did its work."""
    shutil.rmtree(folder, ignore_errors=True)
    project, home = folder / "project", folder / "home"
    project.mkdir(parents=True)
    (home / ".codex").mkdir(parents=True)  # the agent that both install for
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SKILLWIRE_HOME": str(home / "skillwire"),
        "LANG": "C.UTF-8",
        "CI": "1",
        "NO_COLOR": "1",
        "DISABLE_TELEMETRY": "1",
    }
    cost = cost_of(command, folder=project, variables=variables)
    assert len(list(project.glob(".agents/skills/*/SKILL.md"))) == wanted, command
    return cost


if __name__ == "__main__":
    main()
