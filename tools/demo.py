"""The demo: serve the example skills, then use them as an anonymous client, and print each command with its output.

The last part calls a skill whose code runs in the sandbox. Without a sandbox, the demo shows how to install one, and
calls a skill that needs none.

It uses a copy of the examples in a temporary folder, with its own settings, cache and state, so it changes nothing of
yours. On a terminal the server runs until Ctrl-C; in a pipe the demo ends after the last command.

``--lan`` plays the local network instead: :mod:`demo_lan`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from demo_lan import play_lan
from skillwire.adapters.sandbox import Sandbox
from skillwire.errors import TrustError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLES = Path(__file__).parent.parent / "examples" / "skills"
SKILLWIRE = [sys.executable, "-m", "skillwire"]
PORT = 8000
PATIENCE = 30.0  # seconds for the server to be ready, or to notice a change


def main() -> int:
    """Play the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="./dev demo", description="Show what skillwire does.")
    parser.add_argument("--lan", action="store_true", help="the flows of a local network; more as examples/lan/run.py")
    options, rest = parser.parse_known_args()
    if options.lan:
        return play_lan(rest)
    if rest:
        parser.error(f"nothing is done with {' '.join(rest)}")
    with tempfile.TemporaryDirectory(prefix="skillwire-demo-") as folder:
        skills, project = Path(folder, "skills"), Path(folder, "project")
        shutil.copytree(EXAMPLES, skills)
        project.mkdir()
        os.environ["SKILLWIRE_HOME"] = str(Path(folder, "home"))
        with serving(skills) as origin:
            host = origin.removeprefix("http://")
            show_use(host, skills, project)
            show_call(host, skills, project)
            if sys.stdout.isatty():
                print(f"\nStill serving {origin}; end it with Ctrl-C.", flush=True)
                wait_for_interrupt()
    print("\nnext: .venv/bin/skillwire is this program; docs/tutorial/index.md goes through it step by step")
    return 0


def show_use(origin: str, skills: Path, project: Path) -> None:
    """Find, install and update, as a reader would type it."""
    run(project, f"find csv --from {origin}")
    run(project, f"show {origin}/csv-profile")
    run(project, f"show {origin}/csv-profile --files")
    run(project, f"add {origin}/csv-profile {origin}/git-commit-messages --agent claude-code --agent codex --yes")
    run(project, "list")
    run(project, "verify")
    print("\n# the publisher changes a skill; the server notices by itself", flush=True)
    skill_md = skills / "git-commit-messages" / "SKILL.md"
    before = revision(origin)
    text = skill_md.read_text().replace('version: "1.0.0"', 'version: "1.1.0"')
    skill_md.write_text(text + "\nKeep the subject line under 50 characters.\n")
    wait_until(lambda: revision(origin) != before)
    run(project, "outdated", expect=1)
    run(project, "update")
    run(project, "verify")


def show_call(origin: str, skills: Path, project: Path) -> None:
    """Call a skill: with the publisher's consent one whose code is run, or else one that is read."""
    if reason := sandbox_missing():
        print(f"\n# left out: calling working-days, whose code is run in a sandbox. There is none here: {reason}")
        print("# a skill that is instructions can be called all the same; that reads it", flush=True)
        run(project, f"call {origin}/git-commit-messages --output commit-messages.md")
        return
    print("\n# the publisher allows the code of a skill to run for every caller", flush=True)
    run(skills.parent, f"grant add {skills.name}/working-days --yes")
    print("\n# an anonymous client calls it; it runs in a sandbox at the publisher's", flush=True)
    holidays = """holidays='["2026-04-03", "2026-04-06"]'"""
    run(project, f"call {origin}/working-days start=2026-04-02 days=5 {holidays}")
    execution = ask(project, f"call {origin}/working-days start=2026-12-24 days=-10 --no-wait")
    run(project, f"executions result {execution}")
    run(project, f"executions show {execution}")


def sandbox_missing() -> str | None:
    """Return why no code of a skill can be run here and what to do about it, or None."""
    try:
        Sandbox().check()
    except TrustError as error:
        return f"{error.message}.\n# to have it: {error.diagnostics().fix}"
    return None


def run(project: Path, command: str, *, expect: int = 0) -> None:
    """Print a command and run it in ``project``; an exit code that is not expected ends the demo."""
    print(f"\n$ skillwire {command}", flush=True)
    code = subprocess.run([*SKILLWIRE, *shlex.split(command)], cwd=project, check=False).returncode
    check(command, code, expect)


def ask(project: Path, command: str) -> str:
    """Print a command, run it, print its result and return that."""
    print(f"\n$ skillwire {command}", flush=True)
    done = subprocess.run([*SKILLWIRE, *shlex.split(command)], cwd=project, stdout=subprocess.PIPE, check=False)
    result = done.stdout.decode()
    print(result, end="", flush=True)
    check(command, done.returncode, 0)
    return result.strip()


def check(command: str, code: int, expect: int) -> None:
    """End the demo when a command ended otherwise than expected."""
    if code != expect:
        sys.exit(f"demo: skillwire {command} ended with {code}, not {expect}")


@contextmanager
def serving(skills: Path) -> Iterator[str]:
    """Serve ``skills`` and give the origin; the server is ended afterwards."""
    port = PORT if is_free(PORT) else free_port()
    arguments = ["serve", skills.name, "--no-access-log", *([] if port == PORT else ["--port", str(port)])]
    print(f"$ skillwire {shlex.join(arguments)} &", flush=True)
    server = subprocess.Popen([*SKILLWIRE, *arguments], cwd=skills.parent)
    try:
        origin = f"http://127.0.0.1:{port}"
        wait_until(lambda: server.poll() is not None or is_ready(origin))
        if server.returncode is not None:
            sys.exit(f"demo: the server ended with {server.returncode}")
        yield origin
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)


def is_free(port: int) -> bool:
    """Whether ``port`` is free."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_port() -> int:
    """Return a free port, below those of connections: one of them would take it before the server listens."""
    while True:
        port = random.randrange(10_000, 32_000)  # noqa: S311  # nothing secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def is_ready(origin: str) -> bool:
    """Whether the server has loaded its skills."""
    try:
        urllib.request.urlopen(f"{origin}/readyz", timeout=1).close()  # noqa: S310  # our own server
    except OSError:
        return False
    return True


def revision(origin: str) -> str:
    """Return the digest that the index gives for the skill that the demo changes."""
    with urllib.request.urlopen(
        f"http://{origin}/.well-known/agent-skills/index.json", timeout=5
    ) as answer:  # our own server
        skills = json.load(answer)["skills"]
    return next(str(skill["digest"]) for skill in skills if skill["name"] == "git-commit-messages")


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; end the demo when it does not in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("demo: the server did not get there in time")
        time.sleep(0.05)


def wait_for_interrupt() -> None:
    """Wait for Ctrl-C."""
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    sys.exit(main())
