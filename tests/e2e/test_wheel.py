"""The wheel that people get: built, installed into a clean environment with the locked versions, and run."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from skillwire.cli.main import GROUPS

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "skills" / "release-notes"
pytestmark = pytest.mark.timeout(300)


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("uv"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    interpreter = ("--python", sys.executable, "--no-build-isolation")
    _uv("build", "--quiet", "--wheel", *interpreter, "--out-dir", str(folder), str(PROJECT))
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the folder of programs of a clean environment that holds the wheel and what it needs, nothing else."""
    environment = tmp_path_factory.mktemp("clean environment")
    _uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    # As constraints the lock gives the versions and, to uv, the hashes that the downloads must have.
    _uv("pip", "install", "--quiet", "--python", python, "-c", str(PROJECT / "requirements.lock"), str(wheel))
    return environment / "bin"


def _run(program: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin"}
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "skillwire/py.typed" in names
    assert "skillwire/protocols/skills_rpc/guide/skills-protocol-guide/SKILL.md" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"skillwire"}
    man = {name.rpartition("/")[2] for name in names if "/share/man/man1/" in name}
    assert man == {"skillwire.1", *(f"skillwire-{command}.1" for group in GROUPS.values() for command in group)}


def test_the_installed_program_says_its_version(installed, wheel, tmp_path):
    done = _run(installed / "skillwire", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["skillwire", wheel.name.split("-")[1]]


def test_the_installed_program_checks_and_builds_an_example(installed, tmp_path):
    checked = _run(installed / "skillwire", "check", EXAMPLE, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    built = _run(installed / "skillwire", "build", EXAMPLE.parent, "-o", "site", cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site/.well-known/agent-skills/index.json").is_file()


def test_every_module_of_the_wheel_can_be_imported_from_the_locked_versions_alone(installed, tmp_path):
    program = """
import importlib, pkgutil, skillwire
extras = {"mcp": (".mcp.",), "mcp_types": (".mcp.",), "zeroconf": (".lan.",)}
for module in pkgutil.walk_packages(skillwire.__path__, "skillwire."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:  # of an extra
        if not any(part in module.name for part in extras.get(error.name.partition(".")[0], ())):
            raise
"""
    done = _run(installed / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
