"""What a reader does with a page: start the programs it names, and type its commands into a shell."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.support.command import run_command
from tests.support.eventually import PATIENCE, readable
from tests.support.forked import ForkedPython

_END = "<<end of a command>>"
#: A command that means the same to every shell.
_PLAIN = re.compile(r"skillwire( [\w@:,./-][\w@:,./=#-]*)+")


def skillwire(*arguments, home, **options):
    """Start ``skillwire`` as a process of its own, its streams in pipes unless ``options`` of Popen say otherwise."""
    return ForkedPython(
        [sys.executable, "-m", "skillwire", *map(str, arguments)],
        env={**os.environ, "SKILLWIRE_HOME": str(home)},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


def follow(process, use, at_end=lambda: None):
    """Give each whole line that a process prints to ``use``, then call ``at_end``; return the thread that does it.

    The stream is the thread's alone from now on: whoever ends the process by ``communicate`` neither reads the half of
    a line nor closes the stream below the reader.
    """
    stream, process.stdout = process.stdout, None

    def read():
        with stream:
            for line in stream:
                if line.endswith("\n"):  # a process that is killed may leave the half of one
                    use(line)
        at_end()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def started(script, *arguments, home, code=0, may_log_errors=False):
    """Run a Python program whose first line ends with its address; give that. It is ended with the context."""
    with tempfile.TemporaryFile() as log:
        process = ForkedPython(
            [sys.executable, script, *map(str, arguments)],
            env={**os.environ, "SKILLWIRE_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline() if readable(process.stdout) else ""
            assert line, f"{script} did not start"
            yield line.split()[-1]
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
        log.seek(0)
        errors = log.read().decode()
        assert process.returncode == code, errors
        assert may_log_errors or "Traceback" not in errors, errors


def in_shell(command, folder, replacing=None, *, home, user=None, lines=""):
    """Run one command, a plain one of ours in this process; return all that it prints.

    ``replacing`` is what the page has → what it is here; what is printed is as the page would have it. ``user`` is the
    home of the user, by default the folder; ``lines`` are standard input.
    """
    replacing = replacing or {}
    command = _replaced(command, replacing)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(user or folder),
        "SKILLWIRE_HOME": str(home),
        "LANG": "C.UTF-8",
    }
    if _PLAIN.fullmatch(command) and not lines:
        _, *words = command.split()
        shown = run_command(*words, cwd=folder, env=environment, is_all=True, is_merged=True).out
    else:
        shown = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            input=lines,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
        ).stdout
    return _replaced(shown, {ours: written for written, ours in replacing.items()})


def typed(commands, folder, replacing, *, home):
    """Type commands into one shell, in ``folder``; return what each printed, as :func:`in_shell` does."""
    lines = [line for command in commands for line in (_replaced(command, replacing), f"echo '{_END}'")]
    happened = in_shell("exec sh", folder, replacing, home=home, lines="\n".join(lines)).split(f"{_END}\n")
    assert len(happened) == len(commands) + 1
    return happened[:-1]


def _replaced(text, replacing):
    for one, other in replacing.items():
        text = text.replace(one, other)
    return text
