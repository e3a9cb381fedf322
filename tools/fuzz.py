"""Fuzz every target of ``tests/fuzz`` for some seconds each, two at a time: ``tools/fuzz.py SECONDS [TARGET...]``.

A target is a file ``fuzz_NAME.py`` that passes its arguments to atheris. libFuzzer's corpus stays in ``.fuzz/NAME`` for
the next run; an input that crashes a target is written beside it and named. The exit code is 1 when a target crashed,
hung or used too much memory.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parent.parent
TARGETS: Final = PROJECT / "tests" / "fuzz"
KEPT: Final = PROJECT / ".fuzz"
AT_ONCE: Final = 2
INPUT_SECONDS: Final = 10  # one input that takes longer is a hang
MEMORY_MIB: Final = 2048
_START_SECONDS: Final = 120  # importing under instrumentation, and the end of the last input


def main() -> int:
    """Run the targets; return the exit code."""
    seconds, *names = sys.argv[1:]
    if importlib.util.find_spec("atheris") is None:
        print(f"skipped: atheris has no wheel for Python {sys.version_info[0]}.{sys.version_info[1]}; use Python 3.11")
        return 0
    targets = [
        path for path in sorted(TARGETS.glob("fuzz_*.py")) if not names or path.stem.removeprefix("fuzz_") in names
    ]
    if not targets:
        print(f"{TARGETS.relative_to(PROJECT)} has no such target" if names else "there is no fuzz target")
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        held = list(pool.map(lambda target: fuzz(target, int(seconds)), targets))
    print(f"{sum(held)} passed, {len(held) - sum(held)} failed")
    return 0 if all(held) else 1


def fuzz(target: Path, seconds: int) -> bool:
    """Run one target; print how it went; return whether it held."""
    name = target.stem.removeprefix("fuzz_")
    corpus = KEPT / name
    corpus.mkdir(parents=True, exist_ok=True)
    options = (f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}")
    command = [
        sys.executable,
        str(target),
        str(corpus),
        *options,
        f"-artifact_prefix={KEPT}/{name}-",
        "-print_final_stats=1",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds + _START_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print(f"{name}: did not end")
        return False
    runs = next((line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line), "?")
    print(f"{name}: {'held' if done.returncode == 0 else 'FAILED'} in {runs} runs", flush=True)
    if done.returncode:
        print("\n".join((done.stdout + done.stderr).splitlines()[-60:]), flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
