"""Plays the flows of a local network between real processes, and shows every step of them.

    python run.py               all six
    python run.py 8.3 9.2       these
    python run.py --loopback    on 127.0.0.1, even if namespaces are available
    python run.py --beat 5000   heartbeats each five seconds, as in the text, instead of each second

It ends by itself and leaves nothing: each process has its home in a temporary folder, and its messages stay on this
computer.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from flows import FLOWS, Cast
from machines import machines
from stage import Failed, Stage


def main() -> int:
    """Play the flows; return the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was begun is ended, too
    with machines(3, is_alone=options.loopback) as (where, made):
        say(f"# {where}")
        for number in options.flows or FLOWS:
            title, play = FLOWS[number]
            say(f"\n== {number} {title}")
            with tempfile.TemporaryDirectory(prefix="skillwire-lan-") as folder:
                try:
                    with Stage(Path(folder), say) as stage:
                        play(Cast(stage, made, options.beat))
                        stage.play()
                except Failed as error:
                    say(f"run.py: {number}: {error}")
                    return 1
    return 0


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Play the flows of a local network.")
    parser.add_argument("flows", nargs="*", metavar="FLOW", help=", ".join(FLOWS))
    parser.add_argument("--loopback", action="store_true", help="all processes on 127.0.0.1")
    parser.add_argument("--beat", type=int, default=1000, metavar="MS", help="between heartbeats (default 1000)")
    options = parser.parse_args()
    if unknown := set(options.flows) - set(FLOWS):
        parser.error(f"no flow {', '.join(sorted(unknown))}; there are {', '.join(FLOWS)}")
    return options


if __name__ == "__main__":
    try:
        import skillwire  # noqa: F401
    except ImportError:
        sys.exit("run.py: this Python has no skillwire; in a checkout: ./dev setup, then .venv/bin/python run.py")
    sys.exit(main())
