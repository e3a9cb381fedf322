"""Plays the whole story: an authorization server, a provider and a consumer, three processes on loopback.

It ends by itself and leaves nothing: all files are in a temporary folder. ``--browser`` logs you in as a person, in
your browser, instead of as a program.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import tempfile
import tomllib
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0  # seconds for a process to be ready, or to end
STAND_IN = tomllib.loads((HERE / "server.toml").read_text())["oauth2"]


def main() -> int:
    """Play the story; return the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was begun is ended, too
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="restaurant-booking-")))
        issuer = options.issuer or stack.enter_context(
            started("authorization_server.py", "--port", "0", "--audience", options.audience)
        )
        config = folder / "server.toml"
        config.write_text(trusting(issuer, options.audience))
        log = ["--access-log"] if options.requests else []
        home = {"SKILLWIRE_HOME": str(folder / "provider")}
        origin = stack.enter_context(
            started("provider.py", "--port", "0", "--config", str(config), *log, environment=home, quiet=not log)
        )
        return consume(origin, issuer, folder / "consumer", options)


def consume(origin: str, issuer: str, home: Path, options: argparse.Namespace) -> int:
    """Book a table; return the exit code."""
    command = ["book.py", origin, "--client-id", options.client_id]
    # An origin's word opens no address of one's own machine or network: that both servers are here is said by us.
    environment = {"SKILLWIRE_HOME": str(home), "SKILLWIRE_ALLOW": issuer}
    if not options.browser:
        command += ["--client-secret-env", "CLIENT_SECRET"]
        environment["CLIENT_SECRET"] = os.environ.get(options.client_secret_env, "not-a-secret")
    say(f"{' '.join(command)}\n")
    done = subprocess.run(
        [sys.executable, HERE / command[0], *command[1:]], env={**os.environ, **environment}, check=False
    )
    return done.returncode


def trusting(issuer: str, audience: str) -> str:
    """Return the provider's configuration for this authorization server."""
    text = (HERE / "server.toml").read_text()
    return text.replace(STAND_IN["issuer"], issuer).replace(STAND_IN["audience"], audience)


@contextmanager
def started(
    script: str, *arguments: str, environment: dict[str, str] | None = None, quiet: bool = True
) -> Iterator[str]:
    """Run a script of this folder, and give the address in its first line; it is ended afterwards."""
    process = subprocess.Popen(
        [sys.executable, HERE / script, *arguments],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
    )
    try:
        is_ready = select.select([process.stdout], [], [], PATIENCE)[0]
        line = process.stdout.readline().strip() if is_ready else ""
        if not line:
            sys.exit(f"run.py: {script} did not start; see what it says: {sys.executable} {HERE / script}")
        say(line)
        yield line.rpartition(" ")[2]
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Play the story of section 5.1: a table is booked.")
    parser.add_argument("--browser", action="store_true", help="log in as a person, in the browser")
    parser.add_argument("--requests", action="store_true", help="show each request that the provider gets")
    parser.add_argument("--issuer", metavar="URL", help="an authorization server of yours instead of the stand-in")
    parser.add_argument("--audience", default=STAND_IN["audience"], help="for whom its tokens are")
    parser.add_argument("--client-id", metavar="ID", help="how it knows the consumer")
    parser.add_argument(
        "--client-secret-env", metavar="NAME", default="CLIENT_SECRET", help="environment variable with its secret"
    )
    options = parser.parse_args()
    options.client_id = options.client_id or ("concierge" if options.browser else "concierge-robot")
    return options


if __name__ == "__main__":
    try:
        import skillwire  # noqa: F401
    except ImportError:
        sys.exit("run.py: this Python has no skillwire; in a checkout: ./dev setup, then .venv/bin/python run.py")
    sys.exit(main())
