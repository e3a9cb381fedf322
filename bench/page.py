"""The pages in Chromium with 10,000 skills: ``python bench/page.py [SKILLS]``.

The browser's own clock measures, with an empty cache: from the navigation to the first contentful paint of the list and
of a skill's page, and from the last keystroke to the frame that shows the hits. The latter includes the script's pause
of 150 ms; another line leaves it out. The goal is in milliseconds, so each ratio is to 200 ms. The bench also reports
the size of the HTML and the server's memory before and after the first page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from comparison import Goal, compare
from workload import make_skills

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SKILLS: Final = 10_000
ROUNDS: Final = 9
WANTED_MS: Final = 200.0
PEER: Final = "the goal"
WORDS: Final = ("port", "sync", "model", "data", "status", "logger", "index", "verdata", "con")

PAINT: Final = """() => new Promise(done => {
  const seen = performance.getEntriesByName("first-contentful-paint")[0];
  if (seen) return done(seen.startTime);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.name === "first-contentful-paint") done(entry.startTime);
  }).observe({ type: "paint", buffered: true });
})"""
TYPE: Final = """(word) => new Promise(done => {
  const input = document.getElementById("q"), hits = document.getElementById("hits");
  const began = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  }).observe(hits, { childList: true });
  input.value = word;
  input.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work, sync_playwright() as driver:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        process, address = _serve(folder, Path(work, "home"))
        try:
            before = _resident(process)
            chromium = shutil.which("chromium")
            assert chromium, "chromium is not installed"
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            _measure(browser, address, skills)
            browser.close()
            print(f"memory of the server: {before:.1f} MiB before the first page, {_resident(process):.1f} MiB after")
        finally:
            process.terminate()
            process.wait()


def _measure(browser: Browser, address: str, skills: int) -> None:
    """Open the list, a skill and a search, round after round; print what each took."""
    lists, pages, searches, times = [], [], [], []
    goal = Goal("at most", 1.0)
    for number in range(ROUNDS):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}/healthz")  # a running browser has a process at hand; nothing of a page is cached yet
        lists.append(_paint(page, f"{address}/"))
        searches.append(float(page.evaluate(TYPE, WORDS[number % len(WORDS)])))
        times.append(_time(address, f"/hits?q={WORDS[number % len(WORDS)]}"))
        pages.append(_paint(page, f"{address}/skills/skill-{number * 7 + 1:05}"))
        context.close()
    wanted = [WANTED_MS] * ROUNDS
    compare(f"first paint of the list of {skills:,} skills", lists, wanted, goal, peer=PEER)
    compare("first paint of a skill's page", pages, wanted, goal, peer=PEER)
    compare("search, from keystroke to frame, without the pause", [s - 150 for s in searches], wanted, goal, peer=PEER)
    compare("search, from keystroke to frame, with the pause", searches, wanted, goal, peer=PEER)
    print(f"the server's part of a search: median {statistics.median(times):.1f} ms, max {max(times):.1f} ms")
    for target in ("/", "/skills/skill-00001"):
        print(f"HTML of {target}: {_size(address, target) / 1000:.1f} kB")


def _paint(page: Page, url: str) -> float:
    page.goto(url)
    return float(page.evaluate(PAINT))


def _time(address: str, target: str) -> float:
    began = time.perf_counter()
    _size(address, target)
    return (time.perf_counter() - began) * 1000


def _size(address: str, target: str) -> int:
    connection = HTTPConnection(address.removeprefix("http://"))
    connection.request("GET", target)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, target
    connection.close()
    return len(body)


def _serve(folder: Path, home: Path) -> tuple[subprocess.Popen[bytes], str]:
    command = [sys.executable, "-m", "skillwire", "serve", str(folder), "--port", "0", "--json", "--no-access-log"]
    environment = {**os.environ, "SKILLWIRE_HOME": str(home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout
    announced = json.loads(process.stdout.readline())
    time.sleep(3)  # until the look right after the first one is over
    return process, announced["address"]


def _resident(process: subprocess.Popen[bytes]) -> float:
    """Return MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
