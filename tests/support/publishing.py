"""Skills on disk, an ASGI client without a network, and a real ``skillwire serve``."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from multiprocessing import connection
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from tests.support.eventually import PATIENCE, eventually
from tests.support.forked import ForkedPython


def write_skill(parent, name, files=None, *, description="Does something useful.", version="1.0.0", body="Do it.\n"):
    """Write a skill that passes the strict rules; return its folder."""
    folder = parent / name
    text = f'---\nname: {name}\ndescription: "{description}"\nmetadata:\n  version: {version}\n---\n\n{body}'
    for path, content in {"SKILL.md": text, **(files or {})}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


class Answer(NamedTuple):
    """What came back."""

    status: int
    fields: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


class Asgi:
    """Calls an ASGI application as a server would, and holds it to the rules that a server enforces."""

    def __init__(self, application, root_path=""):
        self.application = application
        self.root_path = root_path

    def scope(self, target, fields=None, *, method="GET"):
        raw, _, query = target.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": self.root_path + unquote(raw),
            "raw_path": (self.root_path + quote(raw, safe="/%@")).encode(),
            "root_path": self.root_path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in (fields or {}).items()],
            "client": ("192.0.2.7", 1234),
            "server": ("127.0.0.1", 8000),
        }

    async def request(self, target, fields=None, *, method="GET", body=b"", meanwhile=None):
        """Send a request; ``meanwhile`` is awaited when its head was read and its body is still on its way."""
        scope = self.scope(target, fields, method=method)
        messages = []
        requests = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive():
            request = next(requests, None)
            if request is not None and meanwhile is not None:
                await meanwhile()
            if request is None:
                await asyncio.Event().wait()  # the client stays, and says nothing more
            return request

        async def send(message):
            messages.append(message)

        await self.application(scope, receive, send)
        start, *bodies = messages
        body = b"".join(message.get("body", b"") for message in bodies)
        cookies = [value.decode("latin-1") for name, value in start["headers"] if name == b"set-cookie"]
        found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        assert len(found) == len(start["headers"]) - max(0, len(cookies) - 1), "a field is sent twice"
        found |= {"set-cookie": "\n".join(cookies)} if cookies else {}
        assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]
        if start["status"] not in {204, 304} and "content-length" in found:
            assert method == "HEAD" or len(body) == int(found["content-length"])
        return Answer(start["status"], found, body)

    async def get(self, target, fields=None):
        return await self.request(target, fields)


class ServeProcess:
    """A real ``skillwire serve`` on a free port; a context manager that ends it.

    ``patch`` is executed before anything is imported, in a new interpreter. ``variables`` are more of the environment.
    """

    def __init__(self, *arguments, home, patch="", **variables):
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by end(); a pipe would be full before it is read
        program = f"{patch}\nfrom skillwire.cli.main import main; main()"
        start = subprocess.Popen if patch else ForkedPython
        self.process = start(
            [sys.executable, "-c", program, "serve", *map(str, arguments), "--port", "0", "--json"],
            env={**os.environ, "SKILLWIRE_HOME": str(home), **variables},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._ended = None
        assert self.process.stdout
        ready = connection.wait([self.process.stdout.fileno()], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        assert line.endswith(b"}\n"), self.end()
        self.announcement = json.loads(line)
        self.port = urlsplit(self.announcement["address"]).port
        self.origin = f"127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, patience=PATIENCE):
        """Tell it to end; return exit code and what it wrote to standard error."""
        if self._ended is None:
            self.process.terminate()
            try:
                self.process.communicate(timeout=patience)
            finally:
                self.process.kill()
                self.process.communicate()
            with self._log as log:
                log.seek(0)
                self._ended = self.process.returncode, log.read().decode()
        return self._ended

    def get(self, target, fields=None, *, method="GET", body=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, target, body, headers=fields or {})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    def wait_for(self, accept):
        """Ask ``/readyz`` until ``accept`` says yes to its document; return that."""
        return eventually(lambda: self.get("/readyz").json(), accept)


@contextlib.contextmanager
def serving(folder, home, *arguments):
    """Serve ``folder``, with state and cache under ``home``; give host and port. ``arguments`` are more of serve's."""
    with ServeProcess(folder, *arguments, home=home) as server:
        server.wait_for(lambda ready: ready.get("revision"))
        yield server.origin
