"""The page about giving access, played as one shell session against a server with its three skills."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.live_server import serving
from tests.support.pages import boxes, check, examples
from tests.support.publishing import write_skill

from skillwire.server.configuration import read_configuration

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "give-access.md"
WRITTEN = "skills.example.com"
END = "<<end of a command>>"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Type every command of the page in one shell; give each with what the page shows and what happened."""
    folder = tmp_path_factory.mktemp("company")
    found = boxes(PAGE)
    write_skill(folder / "skills", "open-notes")
    for name in ("staff-guide", "merger-plan"):
        [access] = [box.text for box in found if box.title == f"skills/{name}/skill.toml"]
        write_skill(folder / "skills", name, {"skill.toml": access}, description=f"The {name} of us all.")
    typed = [example for box in found if box.kind == "console" for example in examples(box.text)]
    with serving(folder / "skills", folder / "home") as origin:
        lines = [line for command, _ in typed for line in (_ours(command, origin), f"echo '{END}'")]
        done = subprocess.run(
            ["sh"],
            cwd=folder,
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "HOME": str(folder),
                "SKILLWIRE_HOME": str(folder / "home"),
                "LANG": os.environ.get("LANG", "C.UTF-8"),
            },
            input="\n".join(lines),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    told = done.stdout.replace(f"http://{origin}", f"https://{WRITTEN}").replace(origin, WRITTEN)
    told = re.sub(r"^(show details|read more): .*\n", "", told, flags=re.MULTILINE)
    happened = told.split(f"{END}\n")
    assert len(happened) == len(typed) + 1
    return [(*example, text) for example, text in zip(typed, happened, strict=False)]


def _ours(command, origin):
    return command.replace(f"https://{WRITTEN}", f"http://{origin}").replace(WRITTEN, origin)


def test_the_commands_do_what_the_page_shows(session):
    check(session, 18)


def test_no_secret_is_shown_on_the_page_or_on_the_screen(session):
    assert "sw_" not in PAGE.read_text()
    assert not [text for *_, text in session if "sw_" in text]


def test_the_configuration_on_the_page_is_one():
    [text] = [box.text for box in boxes(PAGE) if box.title == "server.toml"]
    configuration = read_configuration(text.encode(), "server.toml")
    assert configuration.offer == "oauth2"
    assert configuration.grants.clients == {"reporting": {"*"}}
