"""``./dev`` where it cannot do its work: it says what is wrong and what to do, and leaves nothing that looks ready."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    for name in ("dev", "justfile", "pyproject.toml", "requirements.lock", "requirements-uv.lock"):
        shutil.copy(PROJECT / name, folder / name)
    return folder


def _dev(checkout, **environment):
    unlocked = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    command = ["sh", str(checkout / "dev"), "setup"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=unlocked | environment, cwd="/")


def _advice(done):
    return [line for line in done.stderr.splitlines() if line.startswith("dev: fix: ")]


def test_a_python_that_does_not_suit_is_named(checkout):
    done = _dev(checkout, PYTHON="/nowhere/python3.9")
    assert done.returncode == 1
    assert "/nowhere/python3.9 is no Python 3.11, 3.12 or 3.13" in done.stderr
    assert len(_advice(done)) == 1
    assert not (checkout / ".venv").exists()


def test_the_recipe_of_the_documentation_names_the_start_page_that_it_wrote(checkout):
    programs = checkout / "programs"
    programs.mkdir()
    for name in ("python", "zensical"):
        shutil.copy("/bin/true", programs / name)
    command = [str(Path(sys.executable).with_name("just")), "--justfile", str(checkout / "justfile"), "docs"]
    environment = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "written: site/index.html\n"


def test_without_a_package_index_it_says_so_and_what_an_earlier_run_left_half_done_is_gone(checkout):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "left-behind").touch()
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    done = _dev(checkout, PYTHON=sys.executable, **nowhere)
    assert done.returncode == 1
    assert "the installation failed" in done.stderr
    assert "PIP_INDEX_URL" in _advice(done)[0]
    assert not (checkout / ".venv" / "left-behind").exists()
    assert not (checkout / ".venv" / ".installed").exists()
