"""A skill of a folder says how it is: another process on the network sees that change, and change back."""

import json
import shutil
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from tests.support.publishing import write_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire.folder import executors

EXAMPLE = Path(__file__).parents[3] / "examples" / "lan" / "house" / "meeting-room"
LOOPBACK = ("--interface", "127.0.0.1")
MISSING = sandbox_missing()
pytestmark = pytest.mark.spec("SDP-heartbeat-callback")
in_a_sandbox = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


#: Starts a command whose skills may be checked every second, not only every five.
QUICK = """
import sys
from skillwire.cli.main import main
from skillwire.folder import executors
executors.LEAST_INTERVAL = 1
sys.exit(main())
"""


@pytest.fixture
def quick(monkeypatch):
    """Let servers and commands of this test check skills every second."""
    monkeypatch.setattr(executors, "LEAST_INTERVAL", 1)
    return {"program": ("-c", QUICK)}


@in_a_sandbox
def test_the_example_says_how_it_is(place, tmp_path):
    folder = tmp_path / "house" / "meeting-room"
    shutil.copytree(EXAMPLE, folder)
    rooms = json.loads((folder / "rooms.json").read_text())

    def plan(word):
        (folder / "rooms.json").write_text(json.dumps(rooms | {"plan": word}))

    observer = place.agent()
    server = place.serve(folder.parent, arguments=(*LOOPBACK, "--grant-all")).started()
    for word, status in (("final", "HEALTHY"), ("provisional", "DEGRADED"), ("final", "HEALTHY")):
        plan(word)
        observer.wait_for(lambda found, status=status: found.get("meeting-room") == status, f"{word} was not seen")
    plan("closed")
    observer.wait_for(lambda found: found.get("meeting-room") == "MAINTENANCE", "its maintenance was not seen")
    (folder / "rooms.json").write_text("no plan")
    observer.wait_for(lambda found: found.get("meeting-room") == "UNHEALTHY", "that its check fails was not seen")
    plan("final")
    observer.wait_for(lambda found: found.get("meeting-room") == "HEALTHY", "that it is well again was not seen")
    assert server.end() == 0


STOCK = """
kind = "action"
[runtime]
language = "python"
entrypoint = "main.py"
[permissions]
secrets = ["STOCK_STATE"]
[health]
interval = 1
"""
CODE = """
import os

def main(args):
    return 1

def health(args):
    return os.environ["STOCK_STATE"]
"""
SLOW = 'kind = "action"\n[runtime]\nentrypoint = "main.py"\n[health]\ninterval = 1\ntimeout = 6\n'
HANGS = "import time\ndef main(args): ...\ndef health(args):\n    time.sleep(3600)\n"


@in_a_sandbox
def test_what_is_not_granted_is_not_run_and_what_is_slow_delays_nobody(place, quick, tmp_path):
    """The same files say different things, as what they look at changes; only what was granted is looked at."""
    folder = tmp_path / "skills"
    write_skill(folder, "stock", {"skill.toml": STOCK, "main.py": CODE})
    secrets = tmp_path / "secrets.env"
    secrets.touch(0o600)
    secrets.write_text("STOCK_STATE=HEALTHY\n")
    config = tmp_path / "server.toml"
    config.write_text(f'[executions]\nsecrets_file = "{secrets}"\n')
    for number in range(5):
        write_skill(folder, f"slow-{number}", {"skill.toml": SLOW, "main.py": HANGS})

    observer = place.agent()
    server = place.serve(folder, arguments=(*LOOPBACK, "--config", config), **quick).started()
    observer.wait_for(lambda found: found.get("stock") == "DEGRADED", "the skill was not found")
    assert "it is not granted on this server" in server.log()

    server.run("grant", "add", folder / "stock", "--yes")
    observer.wait_for(lambda found: found.get("stock") == "HEALTHY", "its check was not made once it was granted")
    for state in ("UNHEALTHY", "HEALTHY"):
        secrets.write_text(f"STOCK_STATE={state}\n")
        observer.wait_for(lambda found, state=state: found.get("stock") == state, f"{state} was not seen")
    secrets.write_text("STOCK_STATE=hush-hush\n")
    observer.wait_for(lambda found: found.get("stock") == "DEGRADED", "what is no word was believed")
    assert "hush" not in server.log()

    for number in range(5):  # more than are checked at once
        server.run("grant", "add", folder / f"slow-{number}", "--yes")
    secrets.write_text("STOCK_STATE=HEALTHY\n")
    observer.wait_for(lambda found: found.get("stock") == "HEALTHY", "its check waits for what is slow")
    assert {status for name, status in observer.skills().items() if name != "stock"} == {"DEGRADED"}
    assert not [change for change in observer.changes if change["kind"] == "evicted"]
    assert server.end() == 0  # with checks under way


class Api(ThreadingHTTPServer):
    """An API that says how it is, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self):
        self.answer = (200, b"")
        self.asked: list[tuple[str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), ApiRequest)


class ApiRequest(BaseHTTPRequestHandler):
    """One request to it."""

    server: Api

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture
def api(tmp_path, monkeypatch):
    """Give an API at localhost whose authority the servers of this test know."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost").configure_cert(context)
    server = Api()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_api_says_how_the_skill_is_that_calls_it(place, quick, api, tmp_path):
    origin = f"https://localhost:{api.server_port}"
    manifest = (
        f'kind = "action"\n[executor]\nkind = "http"\nurl = "{origin}/v1/rates"\n'
        '[executor.headers]\nX-Key = "${RATES_KEY}"\n[permissions]\nsecrets = ["RATES_KEY"]\n'
        '[health]\nurl = "/healthz"\ninterval = 1\n'
    )
    write_skill(tmp_path / "skills", "rates", {"skill.toml": manifest})
    secrets, config = tmp_path / "secrets.env", tmp_path / "server.toml"
    secrets.touch(0o600)
    secrets.write_text("RATES_KEY=k-123456789\n")
    config.write_text(f'[executions]\nsecrets_file = "{secrets}"\nallow = ["{origin}"]\n')

    observer = place.agent()
    server = place.serve(tmp_path / "skills", arguments=(*LOOPBACK, "--config", config), **quick).started()
    observer.wait_for(lambda found: found.get("rates") == "DEGRADED", "the skill was not found")
    assert api.asked == []
    server.run("grant", "add", tmp_path / "skills" / "rates", "--yes")
    observer.wait_for(lambda found: found.get("rates") == "HEALTHY", "it was not asked once it was granted")
    for answer, status in (
        ((503, b'{"status": "MAINTENANCE"}'), "MAINTENANCE"),
        ((503, b"<html>"), "UNHEALTHY"),
        ((204, b""), "HEALTHY"),
    ):
        api.answer = answer
        observer.wait_for(lambda found, status=status: found.get("rates") == status, f"{status} was not seen")
    assert {path for path, _ in api.asked} == {"/healthz"}
    assert "k-123456789" not in json.dumps(api.asked)
    assert server.end() == 0
