"""The page about tasks for people, played as one shell session: an agent asks, a person answers, the agent reads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.live_server import serving
from tests.support.pages import boxes, check, examples

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tasks-for-people.md"
WRITTEN = "127.0.0.1:8000"
END = "<<end of a command>>"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Type every command of the page in one shell; give each with what the page shows and what happened."""
    folder = tmp_path_factory.mktemp("shop")
    found = boxes(PAGE)
    for box in found:
        if box.kind != "console":
            (folder / box.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / box.title).write_text(box.text)
    typed = [example for box in found if box.kind == "console" for example in examples(box.text)]
    with serving(folder / "skills", folder / "home") as origin:
        lines = [line for command, _ in typed for line in (command.replace(WRITTEN, origin), f"echo '{END}'")]
        done = subprocess.run(
            ["sh"],
            cwd=folder,
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "HOME": str(folder),
                "SKILLWIRE_HOME": str(folder / "home"),
                "LANG": "C.UTF-8",
            },
            input="\n".join(lines),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
    happened = done.stdout.replace(origin, WRITTEN).split(f"{END}\n")
    assert len(happened) == len(typed) + 1
    return [(*example, text) for example, text in zip(typed, happened, strict=False)]


def test_the_commands_do_what_the_page_shows(session):
    check(session, 10)
