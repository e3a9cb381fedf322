"""A process that serves an installed skill for a scene that no agent provides, until its client is closed, or ends.

Spec: SDP §4.2.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from skillwire.errors import FetchError, SkillwireError
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from pathlib import Path


_END_SECONDS: Final = 10.0
#: Ends with its input, so also when its parent is killed.
_PROGRAM: Final = """
import os, signal, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from skillwire.cli.main import main
main()
"""


class SceneProvider:
    """A process that serves the skill in ``folder`` for ``scene``. Raises FetchError (``DISC_006``) if it ends."""

    def __init__(self, folder: Path, scene: str, port: int, *, logs: bool) -> None:
        arguments = ["serve", str(folder), "--lan", "--scene", scene, "--port", str(port), "--json"]
        self._process = subprocess.Popen(  # noqa: S603  # our own program, with a folder that we have installed
            [sys.executable, "-c", _PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if logs else subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the parent, which ends this process in its turn
        )
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        line = self._process.stdout.readline()
        try:
            self.port = parse_url(str(json.loads(line)["address"])).port
        except (ValueError, KeyError, SkillwireError) as error:
            self.close()
            fix = f"Run it to see why: skillwire serve {folder} --lan --scene {scene}"
            raise FetchError("DISC_006", "the process that serves the skill has ended", fix=fix) from error

    def close(self) -> None:
        """End the process, which says goodbye to the network."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
