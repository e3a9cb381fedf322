"""The proxies of deploy/ in front of three servers: requests, large bodies, streams, and a server that is killed."""

import json
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest
from tests.interop.fronts import Front
from tests.interop.hosting import Serve
from tests.interop.peers import find_peer
from tests.interop.skill_samples import copy_examples
from tests.support.eventually import eventually
from tests.support.invoking import write_action
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep
DEPLOY = Path(__file__).parents[2] / "deploy"
INDEX = "/.well-known/agent-skills/index.json"
CALL = {"caller": {"id": "me", "type": "user"}, "skill_id": "local/ask-somebody", "inputs": {}}
FILES = {"nginx": ["nginx-servers.conf", "nginx.conf"], "haproxy": ["haproxy.cfg"], "caddy": ["Caddyfile"]}


@pytest.fixture(params=[*FILES, "nginx-postgresql"])
def site(request, tmp_path):
    """Give a proxy and the three servers behind it, which share one state directory, or a database and a key."""
    program, _, database = request.param.partition("-")
    find_peer(program)
    copy_examples(tmp_path / "skills")
    write_action(tmp_path / "skills", "ask-somebody", tables='[executor]\nkind = "human"\n')
    configuration = tmp_path / "server.toml"
    configuration.write_text((DEPLOY / "server.toml").read_text() + "\n[rpc]\nrun_code = true\n")
    text = "".join((DEPLOY / name).read_text() for name in FILES[program])
    servers = []
    with ExitStack() as stack:
        store = stack.enter_context(new_database()) if database else ""
        for number in range(3):
            options = ("--config", configuration, "--access-log", "--store", store)
            home = tmp_path / f"home{number}" if database else tmp_path / "home"
            if database:
                key = home / "skillwire" / "state" / "server.key"
                key.parent.mkdir(parents=True)
                key.write_bytes(b"k" * 32)
                key.chmod(0o600)
            servers.append(
                stack.enter_context(Serve(tmp_path / "skills", tmp_path / f"serve{number}", *options, home=home))
            )
        changes = {f"127.0.0.1:800{n}": one.url.removeprefix("http://") for n, one in enumerate(servers, 1)}
        if program == "nginx":
            changes["/var/cache/nginx-skills"] = str(tmp_path / "cache")
        with Front(text, changes, tmp_path / "front", program) as front:
            eventually(lambda: front.get(INDEX).status == 200)  # until the proxy has seen that they are ready
            yield front, servers


def call(front):
    body = json.dumps(CALL)
    answer = front.get("/skills/ask-somebody/executions", method="POST", body=body, content_type="application/json")
    assert answer.status == 202
    return answer.headers["location"]


def test_servers_know_their_outer_address_whatever_the_client_claims(site):
    front, _ = site
    address = "https://skills.example.com/executions/exec-"
    assert call(front).startswith(address)
    body = json.dumps(CALL)
    forged = {"x_forwarded_proto": "http", "x_forwarded_for": "192.0.2.1", "content_type": "application/json"}
    answer = front.get("/skills/ask-somebody/executions", method="POST", body=body, **forged)
    assert answer.headers["location"].startswith(address)


def test_the_largest_blob_passes(site):
    front, _ = site
    blob = front.get("/blobs", method="POST", body=b"a" * (32 << 20), content_type="application/octet-stream")
    assert blob.status == 201


def test_each_event_of_a_stream_comes_at_once(site):
    front, _ = site
    path = call(front).removeprefix("https://skills.example.com")
    connection, response = front.ask(path, accept="text/event-stream")
    try:
        lines = iter(response.readline, b"")
        assert any(line.startswith(b"event: status") for line in lines)  # while the execution goes on
        assert front.get(path, method="DELETE").status == 200
        assert any(line.startswith(b"event: status") for line in lines)
        assert list(lines)
    finally:
        connection.close()


def test_any_server_answers_and_a_killed_one_is_not_noticed(site):
    front, servers = site
    path = call(front).removeprefix("https://skills.example.com")
    servers[0].kill()
    for _ in range(30):
        assert front.get(INDEX, cache_control="no-cache").status == 200
        assert front.get(path).status == 200
    servers[1].kill()
    for _ in range(30):
        assert front.get(path).status == 200
    assert call(front)


def test_requests_come_to_every_server(site):
    front, servers = site
    for _ in range(60):
        front.get("/executions/exec-absent")
    for server in servers:
        eventually(lambda: "exec-absent" in server._log.read_text())  # noqa: B023  # called at once


class Changing(BaseHTTPRequestHandler):
    """Answers with another number each time; a cache may keep it for a second."""

    numbers = count(1)

    def do_GET(self):
        body = str(next(self.numbers)).encode()
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=1, stale-while-revalidate=300")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_nginx_hides_a_change_no_longer_than_its_answer_may_be_kept(tmp_path):
    find_peer("nginx")
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Changing)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{upstream.server_port}"
    changes = {f"127.0.0.1:800{number}": address for number in (1, 2, 3)}
    changes["/var/cache/nginx-skills"] = str(tmp_path / "cache")
    text = "".join((DEPLOY / name).read_text() for name in FILES["nginx"])
    try:
        with Front(text, changes, tmp_path / "front") as front:
            kept = front.get(INDEX).body
            time.sleep(2.0)  # longer than the answer may be kept
            assert front.get(INDEX).body != kept  # also for the first client that asks afterwards
    finally:
        upstream.shutdown()
        upstream.server_close()
