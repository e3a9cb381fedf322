"""The man pages: every command has one, each is complete, and mandoc finds nothing to warn of."""

import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from skillwire.cli.main import GROUPS

TOOL = Path(__file__).parents[2] / "tools" / "man_pages.py"
COMMANDS = [name for section in GROUPS.values() for name in section]
PAGES = ["skillwire.1", *(f"skillwire-{name}.1" for name in COMMANDS)]
WANTED = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES"]


@pytest.fixture(scope="module")
def man(tmp_path_factory):
    """Build the pages as the wheel does, with the libraries of a build alone; return their folder."""
    folder = tmp_path_factory.mktemp("man")
    ours = tomllib.loads((TOOL.parents[1] / "pyproject.toml").read_text())["project"]
    needed = [*ours["dependencies"], *chain(*ours["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", one)[0].replace("-", "_").lower() for one in needed}
    missing = dict.fromkeys(names.union({"yaml"}).difference({"click", "skillwire"}))
    arguments = [str(TOOL), str(folder)]
    run = f"sys.modules.update({missing}); sys.argv = {arguments}; runpy.run_path(sys.argv[0], run_name='__main__')"
    subprocess.run([sys.executable, "-c", f"import runpy, sys; {run}"], check=True, capture_output=True)
    return folder


def test_there_is_a_page_for_each_command_and_none_besides(man):
    assert sorted(path.name for path in man.iterdir()) == sorted(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_its_sections_in_order(man, page):
    sections = re.findall(r"^\.SH (.+)", (man / page).read_text(), re.MULTILINE)
    examples = [] if page == "skillwire.1" else ["EXAMPLES"]
    assert sections == [*WANTED, *examples, "SEE ALSO"]


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_warns_of_nothing(man):
    command = ["mandoc", "-T", "lint", "-W", "warning", *map(str, sorted(man.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_what_roff_could_take_for_its_own_is_shown_as_it_is(man):
    done = subprocess.run(
        ["mandoc", "-T", "ascii", str(man / "skillwire-find.1")], capture_output=True, text=True, check=True
    )
    shown = re.sub(r".\x08", "", done.stdout)
    assert "skillwire-find - Search for skills" in shown
    assert "skillwire find csv --from example.com" in shown
