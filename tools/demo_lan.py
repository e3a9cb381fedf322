"""The demo of the local network: the six flows of its protocol, between real processes, by ``examples/lan/run.py``.

It runs in network namespaces if this computer allows them, else on 127.0.0.1; its first line shows which. It ends by
itself, or is stopped when it hangs.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLE: Final = Path(__file__).parent.parent / "examples" / "lan" / "run.py"
PATIENCE: Final = 240.0  # seconds for all of it; it takes about a minute
GRACE: Final = 20.0  # seconds to take its processes and namespaces away


def play_lan(arguments: Sequence[str]) -> int:
    """Play the flows; return the exit code."""
    player = subprocess.Popen([sys.executable, EXAMPLE, *arguments])
    try:
        return player.wait(PATIENCE)
    except KeyboardInterrupt:
        return player.wait(GRACE)  # Ctrl-C has reached it, too
    except subprocess.TimeoutExpired:
        print(f"demo: this takes more than {PATIENCE:.0f} s on this machine; it is ended", file=sys.stderr)
        player.send_signal(signal.SIGTERM)
        player.wait(GRACE)
        return 1
