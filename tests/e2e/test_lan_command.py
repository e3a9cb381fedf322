"""``skillwire lan`` on a terminal and in a pipe, while a server of another process comes, and says goodbye."""

import json
import os
import signal
import socket
import subprocess
from contextlib import contextmanager

import pytest
from tests.support.eventually import PATIENCE, eventually, readable
from tests.support.forked import PROGRAM, ForkedPython, run_forked
from tests.support.free_port import free_port
from tests.support.publishing import write_skill
from tests.support.terminal import Terminal

#: Loopback carries multicast, and nothing of it leaves the machine; a port of its own keeps tests apart.
SETTINGS = "discovery:\n  udp:\n    port: {port}\n    interfaces: [lo]\n  mdns:\n    enabled: false\n"


@pytest.fixture
def place(tmp_path):
    """Return a folder with a skill, and the settings of a network that is this test's alone."""
    (tmp_path / "lan.yaml").write_text(SETTINGS.format(port=free_port(socket.SOCK_DGRAM)))
    write_skill(tmp_path / "skills", "notes")
    return tmp_path


def environment(place, who):
    home = place / who
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


@contextmanager
def server(place):
    """Serve the skill on the network until the block ends, and then say goodbye."""
    command = [PROGRAM, "serve", "skills", "--port", "0", "--lan", "--discovery", "lan.yaml"]
    with (place / "server.log").open("wb") as log:
        process = ForkedPython(
            command, cwd=place, env=environment(place, "server"), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0, (place / "server.log").read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@contextmanager
def terminal(place, columns):
    command = [PROGRAM, "lan", "--discovery", "lan.yaml"]
    with Terminal(command, cwd=place, environment=environment(place, "me"), columns=columns) as shown:
        yield shown


@pytest.mark.parametrize("columns", [80, 40])
def test_the_picture_follows_who_comes_and_goes_until_ctrl_c(place, columns):
    with terminal(place, columns) as shown:
        shown.until("listening ...")
        with server(place):
            shown.until("1 skill of 1 agent")
            shown.until("HEALTHY")
            assert "notes" in shown.text()
            assert "<green>HEALTHY</>" in shown.styled()
            assert "<yellow>unverified</>" in shown.styled()
            assert "\x1b[?1049h" in shown.raw.decode()
        shown.until("said goodbye" if columns == 80 else "- notes")
        shown.until("no skills found")
        shown.type("\x03")
        assert shown.wait() == 0
        assert shown.raw.decode().count("\x1b[?25h\x1b[?1049l") == 1
        last = shown.raw.decode().rpartition("\x1b[?1049l")[2]
        assert "skillwire serve FOLDER --lan" in last


def test_in_a_pipe_it_waits_for_answers_and_ends(place):
    with server(place):
        # The server begins meanwhile.
        found = eventually(lambda: look(place), lambda found: found.stdout, (place / "server.log").read_text)
    assert found.returncode == 0
    assert found.stdout.split()[0] == "notes"
    assert "unverified" in found.stdout
    assert found.stderr == "1 skill of 1 agent\n"


def look(place):
    command = [PROGRAM, "lan", "--discovery", "lan.yaml"]
    return run_forked(command, cwd=place, env=environment(place, "me"))


def test_a_program_is_told_what_is_there_and_what_changes_a_line_each(place):
    command = [PROGRAM, "lan", "--discovery", "lan.yaml", "--json"]
    with ForkedPython(command, cwd=place, env=environment(place, "me"), stdout=subprocess.PIPE) as process:
        try:
            lines = events(process.stdout)
            first = next(lines)
            assert (first["event"], first["skills"]) == ("snapshot", [])
            with server(place):
                come = next(one for one in lines if one["event"] == "registered")
                assert come["skill"]["skill_id"] == "notes"
            gone = next(one for one in lines if one["event"] == "left")
            assert gone["skill"]["skill_id"] == "notes"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def events(stream):
    read = b""
    while True:
        line, end, rest = read.partition(b"\n")
        if end:
            read = rest
            yield json.loads(line)
            continue
        assert readable(stream), "nothing comes"
        data = os.read(stream.fileno(), 65536)
        assert data, "it ended"
        read += data
