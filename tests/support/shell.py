"""What a reader does with a page: start the programs it names, and type its commands into one shell."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

PATIENCE = 50.0
_END = "<<end of a command>>"


@contextlib.contextmanager
def started(script, *arguments, home):
    """Run a Python program whose first line ends with its address; give that. It is ended with the context."""
    process = subprocess.Popen(
        [sys.executable, script, *map(str, arguments)],
        env={**os.environ, "SKILLWIRE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{script} did not start"
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def typed(commands, folder, replacing, *, home):
    """Type commands into one shell, in ``folder``; return what each printed.

    ``replacing`` is what the page has → what it is here; what is printed is as the page would have it.
    """
    lines = [line for command in commands for line in (_replaced(command, replacing), f"echo '{_END}'")]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "SKILLWIRE_HOME": str(home),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["sh"],
        cwd=folder,
        env=environment,
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    text = _replaced(done.stdout, {ours: written for written, ours in replacing.items()})
    happened = text.split(f"{_END}\n")
    assert len(happened) == len(commands) + 1
    return happened[:-1]


def _replaced(text, replacing):
    for one, other in replacing.items():
        text = text.replace(one, other)
    return text
