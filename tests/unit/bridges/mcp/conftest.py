"""One published folder for the tests of a module, and clients that connect to it in its own loop."""

import pytest
from tests.support.mcp_host import EXECUTES, hosting, shouting
from tests.support.publishing import write_skill

from skillwire.model.access import Principal

MEMBER = Principal("member", frozenset({"staff-guide", "omega-plan"}))
PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
MAIN = """
import time


def main(args):
    if args.get("seconds"):
        time.sleep(args["seconds"])
    if args["number"] < 0:
        raise ValueError("it is negative")
    return {"double": 2 * args["number"]}
"""
MANIFEST = """kind = "action"
name = "sums.double"

[runtime]
language = "python"
entrypoint = "main.py"

[inputs.number]
type = "number"
description = "What is doubled."
required = true

[inputs.seconds]
type = "number"
default = 0
"""


def write_skills(folder):
    files = {"docs/deep/guide.md": "# Guide\n", "docs/a b#.txt": "odd", "logo.png": PNG, "latin.txt": b"caf\xe9"}
    write_skill(folder, "open-notes", files, description="Takes notes in meetings.")
    write_skill(folder, "double", {"skill.toml": MANIFEST, "main.py": MAIN}, description="Doubles a number.")
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'}, description="Guides the staff.")
    write_skill(folder, "omega-plan", {"skill.toml": 'access = "private"\n'}, description="Plans the omega release.")


@pytest.fixture
async def host(tmp_path, monkeypatch):
    """Give the folder, published; calls run what is granted, and all is."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skills(tmp_path / "skills")
    async with hosting(tmp_path / "skills", tmp_path, EXECUTES) as host:
        yield host


@pytest.fixture
async def shout(tmp_path, monkeypatch):
    """Give a host with a skill that reads a blob and leaves one."""
    async with shouting(tmp_path, monkeypatch) as host:
        yield host
