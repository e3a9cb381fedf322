"""Real servers on loopback: ours, and nginx over a site that ours has built."""

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import trustme
from tests.interop.peers import PATIENCE, environment, find_peer, run, skillwire
from tests.support.eventually import eventually, readable
from tests.support.free_port import free_port

#: What an operator who wants everything compressed writes; the snippet that ``build`` writes must prevail over it.
_NGINX: Final = """
worker_processes 1;
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 64; }}
http {{
  types {{ text/html html; }}
  log_format seen '$request_method $uri $status $http_x_skills_update_check';
  access_log access.log seen;
  gzip on;
  gzip_types *;
  gzip_min_length 1;
  gzip_proxied any;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
    root {site};
    {more}
    include {site}/skillwire-nginx.conf;
  }}
}}
"""
_ATTEMPTS: Final = 5
_MARK: Final = "/no-request-of-a-test"


class Seen(NamedTuple):
    """A request, as the log of nginx has it."""

    method: str
    path: str
    status: str
    update_check: str


class Serve:
    """A real ``skillwire serve`` of ``folder`` at ``url``; a context manager.

    Args:
        folder: of the skills.
        work: a folder of its own, which is made.
        arguments: more of serve's.
        home: of its user, by default ``work``.
    """

    def __init__(self, folder: Path, work: Path, *arguments: object, home: Path | None = None) -> None:
        self.folder = folder
        self._log = work / "log"
        work.mkdir()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                skillwire("serve", folder, "--port", "0", "--json", "--no-access-log", *arguments),
                cwd=work,
                env=environment(home or work),
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self.url = self._address()
            self._revision = self._ready()["revision"]
        except BaseException:
            _end(self._process)
            raise

    def __enter__(self) -> Self:
        """Nothing more is to be done."""
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)

    def kill(self) -> None:
        """End the server at once."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def publish(self) -> None:
        """Wait until the server has seen that the folder changed."""
        self._revision = eventually(lambda: self._ready()["revision"], lambda revision: revision != self._revision)

    def _address(self) -> str:
        """Wait for the document that says where the server listens."""
        announced = self._process.stdout
        assert announced is not None
        assert readable(announced), "the server is not ready"
        lines = [b""]
        while not lines[-1].endswith(b"}\n"):
            lines.append(announced.readline())
            assert lines[-1], self._log.read_text()
        address: str = json.loads(b"".join(lines))["address"]
        return address

    def _ready(self) -> Any:
        return json.loads(get(f"{self.url}/readyz").body)


class Nginx:
    """nginx at ``url`` over what ``skillwire build`` makes of ``folder``; a context manager.

    Args:
        folder: of the skills.
        work: a folder of its own, which is made.
        more: further lines for its server block.
    """

    def __init__(self, folder: Path, work: Path, *, more: str = "") -> None:
        self.folder = folder
        self.site = work / "site"
        self._work = work
        self._more = more
        work.mkdir()
        self.publish()
        self._process, port = self._start()
        self.url = f"http://127.0.0.1:{port}"

    def __enter__(self) -> Self:
        """Nothing more is to be done."""
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)

    def publish(self) -> None:
        """Build the site anew."""
        run(skillwire("build", self.folder, "-o", self.site), cwd=self._work, home=self._work)

    def requests(self) -> list[Seen]:
        """Return the requests since the last call, in the order of their ends."""
        get(self.url + _MARK)  # nginx logs a request after its answer, and has logged those before this one now
        log = self._work / "access.log"
        lines = log.read_text().splitlines()
        os.truncate(log, 0)
        return [seen for line in lines if (seen := Seen(*line.split(" "))).path != _MARK]

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start nginx on a free port; on another one when somebody else was faster."""
        started = self._work / "nginx.pid"  # written once it listens
        for _ in range(_ATTEMPTS):
            port = free_port()
            config = self._work / "nginx.conf"
            config.write_text(_NGINX.format(port=port, site=self.site, more=self._more))
            command = [*find_peer("nginx"), "-p", str(self._work), "-c", str(config), "-e", "error.log"]
            process = subprocess.Popen(command, env=environment(self._work), stderr=subprocess.DEVNULL)
            eventually(lambda: process.poll() is not None or started.exists())  # noqa: B023  # called at once
            if process.poll() is None:
                return process, port
        raise AssertionError((self._work / "error.log").read_text())


class Answer(NamedTuple):
    """An HTTP answer as it came: no coding undone, names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def get(url: str, *, method: str = "GET", **headers: str) -> Answer:
    """Make one request; ``accept_encoding`` becomes that header."""
    split = urlsplit(url)
    connection = HTTPConnection(split.netloc, timeout=PATIENCE)
    try:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, split.path, headers=fields)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


@contextlib.contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Serve ``folder`` as Python's standard library does; give the URL."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    finally:
        process.kill()
        if process.stdout:
            process.stdout.close()


@contextlib.contextmanager
def behind_tls(url: str, folder: Path, host: str = "localhost") -> Iterator[tuple[str, Path]]:
    """Give an address with TLS in front of ``url``, and the file of the authority that its certificate is of."""
    authority, target = trustme.CA(), urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(65_536):
                    writer.write(data)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # at the end, when a client has not hung up yet
            inner = await asyncio.open_connection(target.hostname, target.port)
            await asyncio.gather(pass_on(reader, inner[1]), pass_on(inner[0], writer))

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # it cancels what is open at the end
        loop = runner.get_loop()
        server = loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", 0, ssl=context))
        thread = Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield f"https://{host}:{server.sockets[0].getsockname()[1]}", folder / "authority.pem"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
