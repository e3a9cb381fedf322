"""A home that cannot be written, that does not exist, or that many processes share."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.dht_node import dht_node
from tests.support.eventually import PATIENCE
from tests.support.forked import run_forked
from tests.support.processes import skillwire
from tests.support.publishing import write_skill
from tests.support.raw_server import RawServer, index_of, pages

from skillwire.model.digest import Digest

SKILL = b"---\nname: one\ndescription: Does one. Use when one is asked for.\n---\nDo it.\n"
ADVICE = "fix: Set SKILLWIRE_HOME to a folder that you may write"
#: The home as root of a mount namespace sees it.
READ_ONLY = 'mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME" && exec "$@"'


@pytest.fixture
def origin():
    entry = {"name": "one", "type": "skill-md", "description": "Does one. Use when one is asked for."}
    index = index_of({**entry, "url": "/one.md", "digest": str(Digest.of(SKILL))})
    with RawServer(pages({"/.well-known/agent-skills/index.json": index, "/one.md": SKILL})) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture(params=["absent", "read-only"])
def command(request, tmp_path):
    """Return a function that runs a command in a home that cannot be written."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SKILLWIRE_", "XDG_"))}
    prefix: list[str] = []
    if request.param == "absent":
        environment["HOME"] = "/proc/none"  # where not even root makes a folder
    else:
        environment["HOME"] = str(home)
        prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"]
        if (
            shutil.which("unshare") is None
            or subprocess.run([*prefix, "true"], env=environment, check=False).returncode
        ):
            pytest.skip("a read-only home needs unshare from util-linux, and mount namespaces")

    def run(*arguments):
        command = [*prefix, sys.executable, "-m", "skillwire", *map(str, arguments)]
        if not prefix:
            return run_forked(command, cwd=project, env=environment)
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    return run


def test_readers_work_with_a_note(command, origin, tmp_path):
    skills = tmp_path / "skills"
    write_skill(skills, "one", {"SKILL.md": SKILL.decode()})
    for arguments in (
        ("find", "one", "--from", origin),
        ("show", f"{origin}/one"),
        ("build", skills, "-o", tmp_path / "site"),
    ):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("[STORAGE]") == done.stderr.count(ADVICE) == 1
        assert "note[STORAGE]" in done.stderr
    assert command("show", f"{origin}/one", "--body").stdout == "Do it.\n"
    for command_line in (("list",), ("trust", "list"), ("config", "show")):
        done = command(*command_line)
        assert (done.returncode, "STORAGE" in done.stderr) == (0, False), done.stderr


def test_the_dht_is_asked_with_a_key_of_the_moment_and_nothing_is_put(command, tmp_path):
    with dht_node(tmp_path / "node") as address:
        for arguments, code in ((("ping", address), 0), (("status",), 0), (("get", "notes"), 3)):
            done = command("dht", *arguments, "--bootstrap", address)
            assert (done.returncode, "STORAGE" in done.stderr) == (code, False), done.stderr
        done = command("dht", "remove", "notes", "--capability", "x", "--bootstrap", address)
        assert (done.returncode, ADVICE in done.stderr) == (7, True), done.stderr


def test_writers_fail_with_the_variable_to_set(command, origin, tmp_path):
    done = command("add", f"{origin}/one", "--yes")
    assert done.returncode == 7
    assert f"error[STORAGE]: {'No such file' if 'none' in done.stderr else 'Read-only'}" in done.stderr
    assert ADVICE in done.stderr.partition("error[")[2]
    assert not (tmp_path / "project/.agents/skills/one").exists()


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_server_fails_once(command, tmp_path, name):
    write_skill(tmp_path / "skills", "one", {"SKILL.md": SKILL.decode()})
    done = command(*([name, tmp_path / "skills", "--port", 0] if name == "serve" else [name]))
    assert done.returncode == 7
    assert done.stderr.count("STORAGE") == 2, done.stderr  # the error, and how to have it explained
    assert done.stderr.count(ADVICE) == 1
    assert "Traceback" not in done.stderr
    assert "serving" not in done.stdout


def test_a_user_without_a_home_gets_the_same_advice(origin, monkeypatch, tmp_path):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr("skillwire.adapters.files.atomic._NO_HOME", Path("/proc/none"))  # root may make any other
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SKILLWIRE_", "XDG_"))}
    found = run_command("find", "one", "--from", origin, cwd=tmp_path, env=clean, is_all=True)
    assert (found.code, found.err.count(ADVICE)) == (0, 1), found.err
    added = run_command("add", f"{origin}/one", "--yes", cwd=tmp_path, env=clean, is_all=True)
    assert added.code == 7
    assert ADVICE in added.err.partition("error[")[2]


def test_many_processes_share_a_home(origin, tmp_path):
    home, number = tmp_path / "home", 6

    def add(index):
        project = tmp_path / f"project-{index}"
        project.mkdir()
        process = skillwire("add", f"{origin}/one", "--yes", "--agent", "universal", home=home, cwd=project)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert "STORAGE" not in errors
        return (project / ".agents/skills/one/SKILL.md").read_bytes()

    with ThreadPoolExecutor(number) as threads:
        assert set(threads.map(add, range(number))) == {SKILL}
    trusted = run_command("trust", "list", env={"SKILLWIRE_HOME": str(home)})
    assert trusted.out.count(origin) == 1
    assert not list(home.rglob("*.tmp"))
