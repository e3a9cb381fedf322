"""The wheel that people get: built, installed into a clean environment with the locked versions, and run."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from tests.support.command import run_command
from tests.support.publishing import ServeProcess, write_skill

from skillwire.cli.main import GROUPS

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "skills" / "release-notes"


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


def _install(wheel: Path, environment: Path, extras: str) -> Path:
    """Return the folder of programs of a clean environment that holds the wheel and what it needs, nothing else."""
    _uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    # As constraints the lock gives the versions and, to uv, the hashes that the downloads must have.
    _uv("pip", "install", "--quiet", "--python", python, "-c", str(PROJECT / "requirements.lock"), f"{wheel}{extras}")
    return environment / "bin"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return _install(wheel, tmp_path_factory.mktemp("clean environment"), "[server]")


@pytest.fixture(scope="module")
def client(wheel, tmp_path_factory):
    """Return the programs of a clean environment without any extra."""
    return _install(wheel, tmp_path_factory.mktemp("client"), "")


def _run(program: Path, *arguments: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", **more}
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
extras |= {"asyncpg": (".postgres.",), "obstore": (".s3",), "opentelemetry": (".telemetry",)}
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


def test_a_client_has_none_of_the_servers_packages(client, tmp_path):
    program = "import importlib.metadata as m; print(*(one.name for one in m.distributions()))"
    names = set(map(canonicalize_name, _run(client / "python", "-c", program, cwd=tmp_path).stdout.split()))
    assert names == {
        *("cffi", "click", "cryptography", "deflate", "ifaddr", "jsonschema-rs", "msgspec", "oauthlib", "pycparser"),
        *("pyyaml", "skillwire", "structlog"),
    }


def test_a_client_has_the_help_of_every_command(client, tmp_path):
    program = """
import sys
from skillwire.cli.main import GROUPS, run
codes = {name: run([name, "--help"]) for group in GROUPS.values() for name in group}
sys.exit(str({name: code for name, code in codes.items() if code} or ""))
"""
    done = _run(client / "python", "-c", program, cwd=tmp_path)
    assert not done.stderr.strip(), done.stderr


def test_a_client_finds_adds_verifies_updates_calls_checks_and_publishes(client, tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    skills, operator = PROJECT / "examples/skills", {"env": {"SKILLWIRE_HOME": str(home)}, "cwd": tmp_path}
    token = run_command("registry", "init", "ann", **operator).out.strip()
    assert not run_command("grant", "add", str(skills / "working-days"), "--yes", **operator).code
    with ServeProcess(skills, "--registry", home=home) as server:
        server.wait_for(lambda ready: ready.get("revision"))
        origin = f"http://127.0.0.1:{server.port}"
        own = {"SKILLWIRE_HOME": str(tmp_path / "user"), "SKILLWIRE_TOKENS": f"{origin}={token}"}
        notes = write_skill(tmp_path / "new", "notes", body="Take notes, one line each.\n")
        for words, shown in (
            (("find", "working", "days", "--from", origin), "working-days"),
            (("show", f"{origin}/csv-profile"), "csv-profile"),
            (("add", f"{origin}/csv-profile", "--yes"), "added csv-profile"),
            (("verify",), "ok csv-profile"),
            (("update", "--yes"), ""),
            (("call", f"{origin}/working-days", "start=2026-04-02", "days=5"), '"end": "2026-04-09"'),
            (("check", skills / "working-days"), "working-days"),
            (("publish", notes, "--registry", origin), "published"),
            (("diff", "csv-profile"), "csv-profile"),
        ):
            done = _run(client / "skillwire", *words, cwd=project, **own)
            assert (done.returncode, shown in done.stdout + done.stderr) == (0, True), (words, done.stdout, done.stderr)


@pytest.mark.parametrize("command", ["build", "mcp", "rpc", "serve", "share", "worker"])
def test_what_needs_a_server_names_what_to_install(client, tmp_path, command):
    folders = () if command == "worker" else (EXAMPLE,)
    done = _run(client / "skillwire", command, *folders, *(["-o", "site"] if command == "build" else []), cwd=tmp_path)
    assert done.returncode == 2
    code, extra = ("MCP_MISSING", "mcp") if command == "mcp" else ("EXTRA_MISSING", "server")
    assert done.stderr.startswith(f"error[{code}]: ")
    assert f"pip install: 'skillwire[{extra}] @ git+URL'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_needs_a_server_learns_what_to_install(client, tmp_path):
    done = _run(client / "python", "-c", "from skillwire import Publisher", cwd=tmp_path)
    assert "with the extra server" in done.stderr
