"""Three servers of one registry, each with a state directory of its own, over one PostgreSQL."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import PATIENCE
from tests.support.postgres import PostgresServer
from tests.support.publishing import ServeProcess, write_skill
from tests.support.registry_site import ALL, API, skill_archive

from skillwire.adapters.stores import Stores
from skillwire.model.package import Account, Change

REVISION = "Skillwire-Revision"


class Cluster:
    """The servers, the database, the folder that they serve, and the tokens of ``ann`` and of an operator."""

    def __init__(self, folder: Path, stack: ExitStack, *, url: str = "", servers: int = 3) -> None:
        self.folder = folder
        if not url:
            self.database = PostgresServer(fsync="off", max_connections=200)
            stack.callback(self.database.close)
            url = self.database.url()
        self.url = url
        self.key = folder / "server.key"
        self._stack = stack
        self._skills, self._configuration = folder / "skills", folder / "server.toml"
        write_skill(self._skills, "waits", {"skill.toml": _TOML, "code/main.py": _CODE})
        executions = "[executions]\ngrant_all = true\nlease_seconds = 2\n"
        limits = "[rate_limit]\nprincipal_per_minute = 60_000\nprincipal_burst = 3_000\n"
        self._configuration.write_text(executions + limits)
        self.token, self.operator = self.make_tokens(self.url)
        with ThreadPoolExecutor(3) as pool:
            no_workers = [("--workers", "0"), (), ()]  # the first one only accepts executions
            self.servers = list(pool.map(lambda number: self.start(number, *no_workers[number]), range(servers)))

    def start(self, number: int, *arguments: object, source: Path | None = None) -> ServeProcess:
        """Start the server of this number, from another folder of sources where it is named; it ends with the tests."""
        home = self.folder / f"home{number}"
        other = f"import sys; sys.path.insert(0, {str(source)!r})" if source else ""
        key = {"SKILLWIRE_SERVER_KEY_FILE": str(self.key)}
        server = ServeProcess(*self.command(), *arguments, home=home, patch=other, **key)
        self._stack.callback(server.end)
        return server

    def command(self) -> list[str]:
        """Return the arguments of a server."""
        where = [str(self._skills), "--registry", "--store", self.url]
        return [*where, "--config", str(self._configuration), "--no-access-log"]

    def make_tokens(self, url: str) -> tuple[str, str]:
        """Make the account ``ann`` in a database; return her token and that of an operator."""
        return asyncio.run(self._make_tokens(url))

    async def _make_tokens(self, url: str) -> tuple[str, str]:
        stores = Stores(self.folder / "state", url)
        stores._key_path = self.key
        try:
            await stores.packages.add_account(Account("ann", 1.0), Change(1.0, "ann", "account.create", "ann"))
            made = await stores.tokens().issue("test", scopes=ALL, account="ann")
            return made.secret, (await stores.tokens().issue("operator", scopes=("operator",), skills=("*",))).secret
        finally:
            await stores.database.close()

    def refused(self, key: Path, *arguments: str) -> str:
        """Return what a server with another key or another database writes before it ends."""
        environment = {**os.environ, "SKILLWIRE_HOME": str(key.parent), "SKILLWIRE_SERVER_KEY_FILE": str(key)}
        command = [sys.executable, "-m", "skillwire", "serve", *self.command(), "--port", "0", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 7, done
        return done.stderr

    @contextmanager
    def stopped_database(self) -> Iterator[None]:
        """Stop every process of the database, which says nothing then and keeps its connections."""
        self.database.kill(signal.SIGSTOP)
        try:
            yield
        finally:
            self.database.kill(signal.SIGCONT)

    def publish(self, server: ServeProcess, name: str, version: str = "1.0.0", text: str = "Do it.\n") -> Any:
        """Publish a skill at a server; return the answer."""
        archive = skill_archive(name, version, text)
        return server.get(f"{API}/namespaces/ann/packages", self.fields(), method="POST", body=archive)

    def fields(self, **more: str) -> dict[str, str]:
        """Return the header fields of ann."""
        return {"Authorization": f"Bearer {self.token}", **more}

    def index(self, server: ServeProcess, revision: str = "") -> dict[str, Any]:
        """Return the index of a server by name, as a client gets it that was told of ``revision``."""
        answer = server.get("/.well-known/agent-skills/index.json", {REVISION: revision} if revision else {})
        assert answer.status == 200, answer
        return {one["name"]: one for one in answer.json()["skills"]}


_TOML = """name = "waits"
version = "1.0.0"
description = "Waits for a while."
kind = "action"
idempotent = true

[runtime]
language = "python"
entrypoint = "code/main.py"
export = "main"

[permissions]
network = []
secrets = []

[inputs.seconds]
type = "number"
description = "Seconds."
default = 0
"""
_CODE = "import time\n\n\ndef main(inputs):\n    time.sleep(inputs.get('seconds', 0))\n    return inputs\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack)


def document(answer: Any) -> Any:
    """Return the JSON of an answer that went well."""
    assert answer.status < 300, answer
    return json.loads(answer.body)
