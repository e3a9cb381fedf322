"""Run the benches one after the other and write their results: ``tools/bench.py [--quick] [FILE...]``.

A bench is a file of ``bench/`` that compares ours with a peer through ``comparison.compare``. Each runs in a separate
process; a failure does not stop the rest. A run of all of them writes ``bench/RESULTS.md``. A run of named files, or
one with ``--quick`` (few rounds and small workloads, to see that they work), only prints the table. The exit code is 1
when a bench failed. A missed goal is reported and does not fail the run.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

PROJECT: Final = Path(__file__).parent.parent
RESULTS: Final = PROJECT / "bench" / "RESULTS.md"
LIMIT: Final = 900.0  # seconds after which a bench hangs
_LAST_WORDS: Final = 10.0
_THOUSAND: Final = 1000
#: Bench → the arguments of a quick run. The others have none and take their time.
QUICK: Final = {
    "add_vs_skills": ["2"],
    "add_git_vs_skills": ["2"],
    "build": ["500", "1"],
    "descriptors": ["2"],
    "dht_hostile": ["3"],
    "dht_idle": ["3"],
    "dht_opendht": ["20"],
    "dht_simulation": ["60", "1"],
    "http_clients": ["2"],
    "invocation_post": ["2"],
    "lan_dropped": ["2"],
    "lan_hostile": ["3"],
    "lan_idle": ["3"],
    "lan_register": ["2"],
    "lan_visible": ["2"],
    "ledger": ["2"],
    "page": ["500"],
    "postgres_ledger": ["1"],
    "postgres_reads": ["1"],
    "postgres_restore": ["1000"],
    "postgres_scale": ["1"],
    "registry_publish": ["2"],
    "registry_size": ["2000"],
    "rpc_execute": ["3"],
    "rpc_list": ["500"],
    "sandbox_start": ["3"],
    "server_memory": ["500"],
    "soak": ["0.5", "1000"],
    "start_up": ["3"],
    "unpack": ["2"],
}
_PACKAGES: Final = ("aiohttp", "orjson", "uvicorn", "uvloop", "starlette", "httptools", "dbos")
_PROGRAMS: Final = {"nginx": ["nginx", "-v"], "wrk": ["wrk", "-v"]}
_PEERS: Final = PROJECT / "tests" / "interop" / "node_modules"


class Run(NamedTuple):
    """One bench, the rows that it measured, its exit code, and the seconds that it took."""

    file: Path
    rows: list[dict[str, Any]]
    code: int
    seconds: float


def main() -> int:
    """Run the benches; return the exit code."""
    arguments = sys.argv[1:]
    quick = "--quick" in arguments
    named = [Path(argument) for argument in arguments if argument != "--quick"]
    files = named or [
        file for file in sorted((PROJECT / "bench").glob("*.py")) if "from comparison import" in _text(file)
    ]
    before = os.getloadavg()[0]
    runs = [run(file, QUICK.get(file.stem, []) if quick else []) for file in files]
    loads = f"{before:.1f} before and {os.getloadavg()[0]:.1f} after"
    report = "\n".join([*_head(loads), *(line for one in runs for line in _section(one))]) + "\n"
    if named or quick:
        print(f"\n{report}")
    else:
        RESULTS.write_text(report, encoding="utf-8")
        print(f"\nwritten: {RESULTS.relative_to(PROJECT)}")
    for one in runs:
        if one.code:
            print(f"FAILED with exit code {one.code}: {one.file}")
    return 1 if any(one.code for one in runs) else 0


def run(file: Path, arguments: list[str]) -> Run:
    """Run one bench, which prints as it goes; return what it measured."""
    print(f"== {file.stem}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        results = Path(work, "rows")
        environment = {**os.environ, "SKILLWIRE_BENCH_RESULTS": str(results)}
        # A session of its own, so that what the bench has started ends with it.
        process = subprocess.Popen([sys.executable, str(file), *arguments], env=environment, start_new_session=True)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            print(f"{file.stem}: did not end in {LIMIT:.0f} s", flush=True)
            code = 1
        finally:
            _end(process)
        rows = [json.loads(line) for line in _text(results).splitlines()] if results.exists() else []
    return Run(file, rows, code, time.monotonic() - began)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a bench that still runs, as Ctrl-C does, so that it cleans up."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _head(loads: str) -> list[str]:
    version = ".".join(platform.release().split(".")[:2])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        "# What the benches measured",
        "",
        "Written by `./dev bench`. Each row compares ours with a peer on the same work, both sides in turns; the ratio",
        "is ours to the peer's, round by round, and its median is held against the goal. Figures without *CPU* are",
        "times, which other work on the machine makes longer.",
        "",
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- machine: {os.cpu_count()} cores, {_processor()}, {memory:.0f} GiB of memory",
        f"- system: {platform.system()} {version}, {platform.machine()}; load {loads}",
        f"- versions: {', '.join(_versions())}",
        "",
    ]


def _section(one: Run) -> list[str]:
    title = (ast.get_docstring(ast.parse(_text(one.file))) or one.file.stem).splitlines()[0]
    lines = [f"## {one.file.stem}", "", title, ""]
    if one.code:
        lines += [f"**It failed with exit code {one.code}**; what it measured before that:", ""]
    if one.rows:
        lines += ["| work | peer | ours | theirs | min | median | max | rounds | goal | |"]
        lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |"]
    lines += [_row(row) for row in one.rows]
    return [*lines, "", f"{one.seconds:.0f} s.", ""]


def _row(row: dict[str, Any]) -> str:
    ratios = " | ".join(f"{ratio:.3f}" for ratio in row["ratio"])
    sides = f"{_figure(row['ours'])} {row['unit']} | {_figure(row['theirs'])} {row['unit']}"
    verdict = "reached" if row["met"] else "**missed**"
    return f"| {row['what']} | {row['peer']} | {sides} | {ratios} | {row['rounds']} | {row['goal']} | {verdict} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= _THOUSAND else f"{value:.3g}"


def _processor() -> str:
    """Return the model, as Linux names it, or what Python knows."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = _text(cpuinfo).splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown processor"


def _versions() -> list[str]:
    """Return ours, Python's, and those of the peers that are here."""
    found = [f"skillwire {importlib.metadata.version('skillwire')}", f"Python {platform.python_version()}"]
    found += [f"zlib {zlib.ZLIB_RUNTIME_VERSION}", f"SQLite {sqlite3.sqlite_version}"]
    for package in _PACKAGES:
        if importlib.util.find_spec(package):
            found.append(f"{package} {importlib.metadata.version(package)}")
    for name, command in _PROGRAMS.items():
        if shutil.which(name):
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            number = re.search(r"\d+\.\d[\w.]*", said.stdout + said.stderr)
            found.append(f"{name} {number[0] if number else 'of an unknown version'}")
    if (_PEERS / ".installed").exists():
        node = subprocess.run([_PEERS / ".bin" / "node", "--version"], capture_output=True, text=True, check=False)
        found.append(f"node {node.stdout.strip().removeprefix('v')}")
        found.append(f"skills {json.loads(_text(_PEERS / 'skills' / 'package.json'))['version']}")
    return found


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
