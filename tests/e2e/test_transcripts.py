"""How commands look: on a terminal of 80 and of 40 columns, without colour, and in a pipe.

A transcript is what a person sees: the screen with its styles written out (``<red bold>...</>``), or the two streams of
a pipe. Ports and temporary folders are replaced. ``--update-transcripts`` writes the files anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.live_server import serving
from tests.support.publishing import write_skill
from tests.support.terminal import Terminal

FOLDER = Path(__file__).with_name("transcripts")
PROGRAM = str(Path(sys.executable).with_name("skillwire"))
#: Name of the transcript → the words of the call; ORIGIN stands for the server's address.
CALLS = {
    "find": ["find", "--from", "ORIGIN"],
    "find-nothing": ["find", "zebra", "--from", "ORIGIN"],
    "show": ["show", "ORIGIN/notes"],
    "show-unknown": ["show", "ORIGIN/note"],
    "list-empty": ["list"],
    "add-dry-run": ["add", "ORIGIN/notes", "--dry-run", "-a", "universal"],
    "add-without-consent": ["add", "ORIGIN/notes", "--offline", "-a", "universal"],
    "remove-unknown": ["remove", "notes"],
    "mistyped-command": ["isntall"],
    "mistyped-option": ["list", "--golbal"],
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    skills = tmp_path_factory.mktemp("skills")
    write_skill(skills, "notes", description="Writes notes of a meeting, for whoever could not be there.")
    write_skill(skills, "tools", {"scripts/run.sh": "#!/bin/sh\n"})
    with serving(skills, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def look(origin, tmp_path):
    """Return what runs a call in each surrounding and gives the transcript."""
    project = tmp_path / "project"
    project.mkdir()
    environment = {**os.environ, "SKILLWIRE_HOME": str(tmp_path / "home"), "TERM": "xterm", "LANG": "C.UTF-8"}

    def stable(text):
        text = text.replace(origin, "127.0.0.1:" + "8" * (len(origin) - 10))  # as long, so lines break where they did
        text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "d" * 64, text)
        return text.replace(str(tmp_path), "FOLDER")

    def screen(words, columns, **more):
        with Terminal([PROGRAM, *words], cwd=project, environment={**environment, **more}, columns=columns) as terminal:
            code = terminal.wait()
            terminal.show_anew(lambda raw: stable(raw.decode()).encode())
            return f"{terminal.styled()}\n[exit {code}]", terminal.raw

    def transcript(words):
        words = [word.replace("ORIGIN", origin) for word in words]
        command = [PROGRAM, *words]
        wide, _ = screen(words, 80)
        narrow, _ = screen(words, 40)
        for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            _, raw = screen(words, 80, **plain)
            assert b"\x1b[3" not in raw
            assert b"\x1b[1m" not in raw
        piped = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert "\x1b" not in piped.stdout + piped.stderr
        parts = {"80 columns": wide, "40 columns": narrow, "pipe, standard output": piped.stdout.rstrip("\n")}
        parts["pipe, standard error"] = piped.stderr.rstrip("\n")
        head = "$ skillwire " + " ".join(words)
        return stable("\n".join([head, *(f"--- {title} ---\n{part}" for title, part in parts.items())]) + "\n")

    return transcript


@pytest.mark.parametrize("name", CALLS)
def test_a_command_looks_as_it_did(name, look, request):
    path = FOLDER / f"{name}.txt"
    seen = look(CALLS[name])
    if request.config.getoption("--update-transcripts"):
        path.write_text(seen)
    assert path.exists(), "no transcript yet: run with --update-transcripts"
    assert seen == path.read_text()


def test_there_is_no_transcript_of_nothing():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CALLS)
