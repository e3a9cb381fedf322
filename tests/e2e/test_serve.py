"""``skillwire serve`` as a process: what it says, what it answers on the wire, and how it ends."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import threading

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, readable
from tests.support.processes import skillwire
from tests.support.publishing import ServeProcess, write_skill

from skillwire import limits

INDEX = "/.well-known/agent-skills/index.json"


@pytest.fixture
def skills(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    write_skill(tmp_path / "skills", "tools", {"scripts/run.sh": "#!/bin/sh\n"})
    return tmp_path / "skills"


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """Give a server whose skills nobody changes."""
    folder = write_skill(tmp_path_factory.mktemp("skills"), "notes").parent
    with ServeProcess(folder, home=tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def server(skills, tmp_path):
    with ServeProcess(skills, home=tmp_path / "home") as server:
        yield server


def _raw(port, data, *, until_close=True):
    """Send ``data`` as it is; return what comes back."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(data)
        received = b""
        while piece := connection.recv(65536):
            received += piece
            if not until_close:
                break
        return received


def test_it_says_in_one_line_where_the_skills_are_and_how_to_add_one(skills, tmp_path):
    process = skillwire("serve", skills, "--port", "0", home=tmp_path / "home")
    try:
        line = process.stdout.readline()
        address = line.partition(" at ")[2].partition(";")[0]
        assert line == f"serving 2 skills at {address}; add one: skillwire add {address}/notes\n"
        assert address.startswith("http://127.0.0.1:")
        assert not address.endswith(":0")
    finally:
        process.terminate()
        out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "")
    assert "published revision=1 skills=2 added=notes, tools" in errors


def test_it_counts_apart_what_is_open_to_everybody(tmp_path):
    folder = tmp_path / "skills"
    for name, access in (("one", "private"), ("two", "restricted")):
        write_skill(folder, name, {"skill.toml": f'access = "{access}"\n'})
    for opened, said in (
        (
            0,
            "serving 2 skills, none of them public, at {}; give access to one: skillwire token create NAME --skill",
        ),
        (1, "serving 3 skills, 1 of them public, at {}; add one: skillwire add {}/zero"),
    ):
        if opened:
            write_skill(folder, "zero")
        process = skillwire("serve", folder, "--port", "0", home=tmp_path / "home")
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=PATIENCE)
        assert line.startswith(said.replace("{}", line.partition(" at ")[2].partition(";")[0]))
    with ServeProcess(folder, home=tmp_path / "home") as server:
        assert (server.announcement["skills"], server.announcement["open"]) == (3, 1)


def test_what_it_suggests_works(skills, tmp_path):
    with ServeProcess(skills, home=tmp_path / "home") as server:
        program, *arguments = server.announcement["add"].split()
        assert program == "skillwire"
        project = tmp_path / "project"
        project.mkdir()
        environment = {"SKILLWIRE_HOME": str(tmp_path / "consumer")}
        assert run_command(*arguments, "--yes", "--agent", "universal", cwd=project, env=environment).code == 0
    assert (project / ".agents" / "skills" / "notes" / "SKILL.md").read_bytes() == (
        skills / "notes" / "SKILL.md"
    ).read_bytes()


def test_an_empty_folder_is_served_and_filled_later(tmp_path):
    (tmp_path / "skills").mkdir()
    with ServeProcess(tmp_path / "skills", home=tmp_path / "home") as server:
        assert server.announcement["skills"] == 0
        assert server.get(INDEX).json()["skills"] == []
        write_skill(tmp_path / "skills", "first")
        server.wait_for(lambda ready: ready["skills"] == 1)
        assert [entry["name"] for entry in server.get(INDEX).json()["skills"]] == ["first"]


def test_changes_show_without_a_restart_and_a_broken_skill_keeps_its_last_good_version(server, skills):
    (skills / "notes" / "SKILL.md").write_text("---\nname: notes\n---\n")
    ready = server.wait_for(lambda ready: ready["broken"])
    [broken] = ready["broken"]
    assert (broken["folder"], broken["serving"]) == ("notes", True)
    assert [(finding["code"], finding["line"]) for finding in broken["findings"]] == [("DESCRIPTION_FORM", 1)]
    assert str(skills) not in json.dumps(ready)
    assert b"Does something useful." in server.get("/.well-known/skills/notes/SKILL.md").body
    write_skill(skills, "notes", description="Mended.")
    server.wait_for(lambda ready: not ready["broken"])
    assert b"Mended." in server.get("/.well-known/skills/notes/SKILL.md").body
    shutil.rmtree(skills / "tools")
    server.wait_for(lambda ready: ready["skills"] == 1)
    assert server.get("/.well-known/agent-skills/tools/SKILL.md").status == 404
    _, errors = server.end()
    assert "skill broken skill=notes serving=its last good version code=DESCRIPTION_FORM" in errors


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_finishes_what_is_under_way_and_ends_with_0(skills, server, sign):
    content = os.urandom(16 * limits.MIB)  # more than the buffers of both sides hold
    write_skill(skills, "huge", {"large.bin": content})
    server.wait_for(lambda ready: ready["skills"] == 3)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as slow:
        slow.sendall(b"GET /.well-known/agent-skills/huge/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = slow.recv(1000)
        server.process.send_signal(sign)
        with contextlib.suppress(ConnectionError):
            while True:  # it accepts nobody any more
                socket.create_connection(("127.0.0.1", server.port), PATIENCE).close()
        while piece := slow.recv(65536):
            received += piece
    assert received.partition(b"\r\n\r\n")[2] == content
    assert server.process.wait(PATIENCE) == 0


def test_a_client_that_never_reads_does_not_keep_it_from_ending(skills, tmp_path):
    write_skill(skills, "huge", {"large.bin": os.urandom(16 * limits.MIB)})
    patch = "import skillwire.limits as limits; limits.SERVER_SHUTDOWN_SECONDS = 1"
    with (
        ServeProcess(skills, home=tmp_path / "home", patch=patch) as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as stuck,
    ):
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall(b"GET /.well-known/agent-skills/huge/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck.recv(100)
        assert server.end()[0] == 0


def test_a_port_in_use_is_said_with_what_to_do(standing, skills, tmp_path):
    process = skillwire("serve", skills, "--port", standing.port, home=tmp_path / "other")
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (6, "")
    assert f"error[PORT_IN_USE]: port {standing.port} is in use" in errors
    assert (
        "fix: Stop that program, or choose another port (0 picks a free one): --port, or port= in a program." in errors
    )
    assert "Traceback" not in errors, errors


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["nothing-here"], "FOLDER_MISSING", 2),
        (["skills", "--host", "192.0.2.1"], "HOST_UNUSABLE", 2),
        (["skills", "--host", "no such host"], "HOST_UNUSABLE", 2),
        (["skills", "--base-url", "example.com"], "URL", 1),
        (["skills", "--publisher", "a/b"], "PUBLISHER_FORM", 2),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_runs(skills, tmp_path, arguments, code, status):
    process = skillwire(
        "serve", skills.parent / arguments[0], *arguments[1:], "--port", "0", "--json", home=tmp_path / "home"
    )
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert json.loads(out)["error"]["code"] == code
    assert errors == ""


def test_a_registry_whose_database_cannot_be_used_does_not_begin(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "skillwire.db").write_bytes(b"something else" * 100)
    ended = run_command("serve", "--registry", "--port", "0", cwd=tmp_path, env={"SKILLWIRE_HOME": str(tmp_path)})
    assert (ended.code, ended.out) == (7, "")
    assert ended.err.startswith("error[DATABASE]: ")
    assert "Traceback" not in ended.err


def test_logs_are_lines_of_json_when_that_is_asked_for(skills, tmp_path):
    with ServeProcess(skills, "--log-format", "json", home=tmp_path / "home") as server:
        server.get("/nothing%0A12:00:00%20info%20faked?token=secret", {"Authorization": "Bearer secret"})
        status, errors = server.end()
    assert status == 0
    events = [json.loads(line) for line in errors.splitlines()]
    [request] = [event for event in events if event["event"] == "request"]
    assert request["path"] == "/nothing\n12:00:00 info faked"
    assert request["status"] == 401
    assert "secret" not in errors
    assert all(event["time"].endswith("Z") and event["level"] for event in events)


def test_a_request_cannot_fake_a_line_of_the_log(server):
    server.get("/a%0A12:00:00%20info%20faked%1B[2J")
    _, errors = server.end()
    assert "\\n12:00:00 info faked[U+001B][2J" in errors
    assert "\x1b" not in errors


def test_no_access_log_is_kept_when_that_is_not_wanted(skills, tmp_path):
    with ServeProcess(skills, "--no-access-log", home=tmp_path / "home") as server:
        server.get(INDEX)
        assert "GET" not in server.end()[1]


def test_a_connection_serves_many_requests(standing):
    with socket.create_connection(("127.0.0.1", standing.port), PATIENCE) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b'{"status":"alive"}') and (piece := connection.recv(65536)):
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b'{"status":"alive"}')


def test_pipelined_requests_are_answered_in_order(standing):
    request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    received = _raw(standing.port, request % b"/healthz" + request % INDEX.encode() + last)
    assert [received.find(mark) for mark in (b"alive", b"$schema", b"NOT_FOUND")] == sorted(
        received.find(mark) for mark in (b"alive", b"$schema", b"NOT_FOUND")
    )
    assert received.count(b"HTTP/1.1 ") == 3


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_get_a_400_and_harm_nobody(standing, request_bytes):
    assert _raw(standing.port, request_bytes).startswith(b"HTTP/1.1 400 ")
    assert standing.get("/healthz").status == 200


def test_a_head_without_end_is_cut_off(standing):
    with contextlib.suppress(ConnectionError):  # it may be closed while we are still sending
        received = _raw(standing.port, b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * (limits.SERVER_HEAD_BYTES + 100))
        assert received.startswith(b"HTTP/1.1 431 ")
        assert b"HEAD_TOO_LARGE" in received
    assert standing.get("/healthz").status == 200


def test_a_request_that_does_not_arrive_is_not_waited_for(skills, tmp_path):
    patch = "import skillwire.limits as limits; limits.SERVER_REQUEST_SECONDS = 0.2"
    body_in_part = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab"
    with ServeProcess(skills, home=tmp_path / "home", patch=patch) as server:
        for beginning in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n", body_in_part):
            received = _raw(server.port, beginning)
            assert b"408 Request Timeout" in received or b"404 Not Found" in received


def test_while_folders_change_every_answer_is_of_one_revision(tmp_path):
    """200 times: an index, then everything it names, while the skills are rewritten all the time."""
    skills = tmp_path / "skills"
    for name in ("one", "two"):
        _write_version(skills, name, 0)
    done = threading.Event()

    def rewrite():
        version = 0
        while not done.is_set():
            version += 1
            for name in ("one", "two"):
                _write_version(skills, name, version)
            done.wait(0.05)

    with ServeProcess(skills, "--no-access-log", home=tmp_path / "home") as server:
        writer = threading.Thread(target=rewrite)
        writer.start()
        failures: list[str] = []
        readers = [threading.Thread(target=_read_all, args=(server, failures)) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        revision = server.get("/readyz").json()["revision"]
        done.set()
        writer.join()
        status, errors = server.end()
    assert failures == []
    assert status == 0
    assert "Traceback" not in errors, errors
    assert revision >= 5


def _write_version(skills, name, version):
    """Write a new version of a skill in the way of an editor: file after file, each replaced by a rename."""
    folder = skills / name
    (folder / "references").mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: Version {version}.\nmetadata:\n  version: 1.0.{version}\n---\n"
    for path, content in (("SKILL.md", text), ("references/version.md", f"{version}\n" * 50)):
        (folder / f"{path}.swp").write_text(content)
        (folder / f"{path}.swp").rename(folder / path)


def _read_all(server, failures):
    """Read 50 times, and on until a few revisions have come and gone."""
    times = 0
    while times < 50 or server.get("/readyz").json()["revision"] < 5:
        times += 1
        index = server.get(INDEX, {"Accept-Encoding": "identity"})
        tag = index.fields["etag"].strip('"')
        if hashlib.sha256(index.body).hexdigest() != tag:
            failures.append("an index is not what its tag says")
        for entry in index.json()["skills"]:
            artifact = server.get(f"/.well-known/agent-skills/{entry['url']}")
            if artifact.status != 200 or f"sha256:{hashlib.sha256(artifact.body).hexdigest()}" != entry["digest"]:
                failures.append(f"{artifact.status} for {entry['url']}")


def test_several_servers_share_one_home(skills, tmp_path):
    other = write_skill(tmp_path / "others", "other").parent
    with ServeProcess(skills, home=tmp_path / "home") as one, ServeProcess(other, home=tmp_path / "home") as two:
        for server, name in ((one, "notes"), (two, "other")):
            assert server.get(f"/.well-known/agent-skills/{name}/SKILL.md").status == 200
        with ServeProcess(other, home=tmp_path / "home"):
            assert one.get("/.well-known/agent-skills/tools/SKILL.md").status == 200


def test_it_answers_on_ipv6_as_well(skills, tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    process = skillwire("serve", skills, "--host", "::1", "--port", "0", home=tmp_path / "home")
    try:
        assert readable(process.stdout)
        line = process.stdout.readline()
        assert " at http://[::1]:" in line
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
