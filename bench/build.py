"""``skillwire build`` beside hashing and gzip of the same bytes: ``python bench/build.py [SKILLS] [ROUNDS]``.

- *full*: a site of 10,000 skills from nothing, with the whole command: start-up, reading, checking, packing, writing
  every path; beside one process that reads each file, takes its SHA-256 and compresses it as an archive is.
- *with pages*: the same with pages for people, beside the build without them.
- *rebuild*: the command without pages after one skill has changed, as a share of the full build.

Both sides take turns. Compared are time and processor time. The goals are at most 2.5, 4 and 0.06 (0.08 of the
time). The folders are made in memory where the system has such a file system, which takes the disk out of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Callable

SKILLS: Final = 10_000
ROUNDS: Final = 3


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    memory = Path("/dev/shm")  # noqa: S108  # so that the mood of a disk is not measured
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-", dir=memory if memory.is_dir() else None) as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        os.environ["SKILLWIRE_HOME"] = str(Path(work, "home"))
        theirs, full, paged, again = [], [], [], []
        for number in range(rounds):
            site = Path(work, f"site-{number}")
            theirs.append(_timed(_hash_and_compress, folder))
            paged.append(_timed(partial(_build, pages="--pages"), folder, site))
            shutil.rmtree(site)
            full.append(_timed(_build, folder, site))
            with (folder / "skill-00000" / "SKILL.md").open("a") as file:
                file.write("\nOne more line.\n")
            time.sleep(0.1)  # past the tick in which two changes look alike
            again.append(_timed(_build, folder, site))
            shutil.rmtree(site)
        where = f"{skills:,} skills in memory" if memory.is_dir() else f"{skills:,} skills"
        rows = (
            (f"build of {where}", full, theirs, (2.5, 2.5), "hashing and compressing"),
            (f"the same with pages, of {where}", paged, full, (4.0, 4.0), "the build without pages"),
            (f"the same after one change, of {where}", again, full, (0.08, 0.06), "the full build"),
        )
        for what, ours, others, goals, peer in rows:
            for measured, place in (("", 0), (", CPU", 1)):
                mine, other = [row[place] for row in ours], [row[place] for row in others]
                compare(what + measured, mine, other, Goal("at most", goals[place]), peer=peer, unit="s")


def _hash_and_compress(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            content = Path(root, name).read_bytes()
            hashlib.sha256(content).hexdigest()
            zlib.compress(content, 6)


def _build(folder: Path, site: Path, pages: str = "--no-pages") -> None:
    command = [sys.executable, "-m", "skillwire", "build", str(folder), "-o", str(site), pages, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[..., None], *arguments: Path) -> tuple[float, float]:
    """Return the seconds that passed, and those of processor time, here and in what was started."""
    before, started = os.times(), time.perf_counter()
    work(*arguments)
    passed, after = time.perf_counter() - started, os.times()
    return passed, sum(after[:4]) - sum(before[:4])


if __name__ == "__main__":
    main()
