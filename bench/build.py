"""``skillwire build`` beside hashing and gzip of the same bytes: ``python bench/build.py [SKILLS] [ROUNDS]``.

- *full*: a site of 10,000 skills from nothing, with the whole command: start-up, reading, checking, packing, writing
  every path; beside one process that reads each file, takes its SHA-256 and compresses it as an archive is.
- *rebuild*: the same command after one skill has changed, as a share of the full build.

Both sides take turns; printed is the ratio of each round: minimum, median, maximum. The goals are at most 2.0
and at most 0.05. The folders are made below ``TMPDIR``; one on a memory file system takes the disk out of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Callable

SKILLS: Final = 10_000
ROUNDS: Final = 3


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        os.environ["SKILLWIRE_HOME"] = str(Path(work, "home"))
        full, again = [], []
        for number in range(rounds):
            site = Path(work, f"site-{number}")
            theirs = _timed(_hash_and_compress, folder)
            ours = _timed(_build, folder, site)
            with (folder / "skill-00000" / "SKILL.md").open("a") as file:
                file.write("\nOne more line.\n")
            time.sleep(0.1)  # past the tick in which a change cannot be told from another
            once_more = _timed(_build, folder, site)
            print(f"hash and gzip {theirs:.2f} s, full {ours:.2f} s, after one change {once_more:.2f} s", flush=True)
            full.append(ours / theirs)
            again.append(once_more / ours)
            shutil.rmtree(site)
        _print("full / hash and gzip", full, 2.0)
        _print("after one change / full", again, 0.05)


def _hash_and_compress(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            content = Path(root, name).read_bytes()
            hashlib.sha256(content).hexdigest()
            zlib.compress(content, 6)


def _build(folder: Path, site: Path) -> None:
    command = [sys.executable, "-m", "skillwire", "build", str(folder), "-o", str(site), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[..., None], *arguments: Path) -> float:
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def _print(what: str, ratios: list[float], goal: float) -> None:
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    print(f"{what}: {low:.3f} {middle:.3f} {high:.3f} (goal: at most {goal})")


if __name__ == "__main__":
    main()
