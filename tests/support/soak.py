"""A registry of many packages under a steady load of all kinds, with the times of its answers and its memory."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.support.cluster import NAMESPACE, Servers, make_archive
from tests.support.history import Kind, Operation, check

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.folder.publish import prepare_files
from skillwire.model.digest import Digest
from skillwire.model.package import Change, Namespace, PackageVersion
from skillwire.model.skill import FileContent

#: How many of a thousand requests are of each kind.
SHARES: Final = {
    "show": 300, "search": 150, "list": 150, "index": 150, "package": 120, "download": 77, "call": 45,
    "publish": 6, "yank": 2,
}  # fmt: skip
_CLIENTS: Final = 9
_CHANGE: Final = Change(1.0, "ops", "test", "acme", {}, "192.0.2.1", "r-1")
_REVISION: Final = "Skillwire-Revision"
_ANSWER: Final = aiohttp.ClientTimeout(total=30)
#: Words of the descriptions.
WORDS: Final = [
    first + second for first in ("data", "log", "time", "index", "mail", "plan", "test", "page", "file", "work")
    for second in ("", "s", "er", "ing", "set", "base", "line", "flow", "view", "note", "list", "mark", "map", "kit")
]  # fmt: skip


async def fill(store: str, packages: int) -> None:
    """Publish packages of one version in ``team``, without a server."""
    database = PostgresDatabase(store)
    catalog = SqlPackages(database)
    await catalog.add_namespace(Namespace("team", 1.0), "ops", _CHANGE)

    async def publish(number: int) -> None:
        source, name = random.Random(number), f"skill-{number:05}"  # noqa: S311  # the same each time, nothing secret
        head = f"name: {name}\ndescription: Does {' '.join(source.choices(WORDS, k=30))}.\nlicense: MIT\n"
        text = f"---\n{head}metadata:\n  version: 1.0.0\n---\nDo it.\n".encode()
        files = (FileContent("SKILL.md", memoryview(text), executable=False),)
        prepared = prepare_files(name, files, "team")
        assert not hasattr(prepared, "access"), prepared
        version = PackageVersion(prepared.skill, 2.0, "ops", Digest.of(text))
        assert (await catalog.publish(version, text, _CHANGE)).how == "created"

    for start in range(0, packages, 500):
        await asyncio.gather(*map(publish, range(start, min(start + 500, packages))))
    await database.close()


class Soak:
    """Clients that each send ``rate / 9`` requests a second, one after the other, to servers chosen anew each time.

    What they did is in ``history``, the seconds of their answers by kind in ``times``, what went wrong in ``errors``.
    """

    def __init__(self, servers: Servers, packages: int, rate: float) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        #: The memory of each server, in MiB.
        self.samples: list[list[float]] = []
        self.history: list[Operation] = []
        self.servers, self.packages, self.pause = servers, packages, _CLIENTS / rate
        self.ends = 0.0
        self.random = random.Random(7)  # noqa: S311  # nothing secret

    async def run(self, seconds: float, sampled: float) -> list[str]:
        """Keep up the load, and look at the memory every ``sampled`` seconds; return what contradicts a promise."""
        self.ends = time.monotonic() + seconds
        # The bodies of indexes are not unpacked: that would hold up the other clients.
        async with aiohttp.ClientSession(timeout=_ANSWER, auto_decompress=False) as session:
            clients = [_Client(self, session, number) for number in range(_CLIENTS)]
            await asyncio.gather(self._sample(sampled), *(client.run() for client in clients))
            for client in clients:
                await client.read()
        versions = {one.subject: set(one.value.split()) for one in self.history if one.kind == "read"}
        ends = {one.subject: one.value for one in self.history if one.kind == "end"}
        return check(self.history, versions, ends)

    def drift(self) -> list[float]:
        """Return by how much the memory of each server between two revisions grew.

        It is the least one of the last tenth of the time beside that of the second one: while a revision of 50,000
        packages is made, a server needs half as much again.
        """
        tenth = max(1, len(self.samples) // 10)
        parts = self.samples[tenth : 2 * tenth], self.samples[-tenth:]
        early, late = ([min(ones) for ones in zip(*part, strict=True)] for part in parts)
        return [after / before - 1 for before, after in zip(early, late, strict=True)]

    async def _sample(self, every: float) -> None:
        while time.monotonic() < self.ends:
            self.samples.append([_resident(server.pid) for server in self.servers.servers])
            await asyncio.sleep(every)


class _Client:
    """One client: it publishes versions of a package of its own, reads that, and whatever others read."""

    def __init__(self, soak: Soak, session: aiohttp.ClientSession, number: int) -> None:
        self._soak, self._session = soak, session
        self._number, self._name, self._package = number, f"client-{number}", f"soak-{number}"
        self._versions = self._calls = 0
        self._revision = 0
        self._tag: dict[str, str] = {}

    async def run(self) -> None:
        """Send one request after the other until the end, at a steady rate."""
        requests = {
            "show": self._show, "search": self._search, "list": self._list, "index": self._index, "package": self.read,
            "download": self._download, "call": self._call, "publish": self._publish, "yank": self._yank,
        }  # fmt: skip
        await self._publish()
        due = time.monotonic() + self._soak.pause * self._soak.random.random()
        kind = list(SHARES)[self._number % len(SHARES)]  # so that no kind is missing where few requests are made
        while due < self._soak.ends:
            await asyncio.sleep(due - time.monotonic())
            await requests[kind]()
            (kind,) = self._soak.random.choices(list(SHARES), list(SHARES.values()))
            due = max(due + self._soak.pause, time.monotonic())

    async def read(self) -> None:
        """Read the versions of the client's package, with a mark on those that are yanked."""
        began = time.monotonic()
        fields = {**self._soak.servers.credentials, _REVISION: str(self._revision)}
        found = await self._ask("package", "GET", f"/api/registry/packages/{NAMESPACE}/{self._package}", headers=fields)
        if found is not None:
            versions = json.loads(found)["versions"]
            seen = {one["version"] for one in versions}
            seen |= {f"{one['version']}-yanked" for one in versions if one["status"]["status"] == "yanked"}
            self._note("read", self._package, " ".join(sorted(seen)), began)

    async def _show(self) -> None:
        await self._ask("show", "GET", f"/api/skills/{self._some()}")

    async def _search(self) -> None:
        await self._ask("search", "GET", f"/api/search?q={self._soak.random.choice(WORDS)}&limit=20")

    async def _list(self) -> None:
        await self._ask("list", "GET", "/api/skills?limit=100")

    async def _index(self) -> None:
        await self._ask("index", "GET", "/.well-known/agent-skills/index.json", headers=self._tag)

    async def _download(self) -> None:
        await self._ask("download", "GET", f"/api/registry/packages/team/{self._some()}/1.0.0/download")

    async def _publish(self) -> None:
        began, version = time.monotonic(), f"1.{self._versions}.0"
        path = f"/api/registry/namespaces/{NAMESPACE}/packages?version={version}&name={self._package}"
        fields = {**self._soak.servers.credentials, "content-type": "application/gzip"}
        if await self._ask("publish", "POST", path, headers=fields, data=make_archive(self._package, version)):
            self._versions += 1
            self._note("publish", self._package, version, began)

    async def _yank(self) -> None:
        began, version = time.monotonic(), f"1.{self._versions - 1}.0"
        path = f"/api/registry/packages/{NAMESPACE}/{self._package}/{version}"
        change = {"status": "yanked", "reason": "broken"}
        if await self._ask("yank", "PATCH", path, headers=self._soak.servers.credentials, json=change):
            self._note("publish", self._package, f"{version}-yanked", began)

    async def _call(self) -> None:
        """Call a function, and wait for its end at any server."""
        began, self._calls = time.monotonic(), self._calls + 1
        body = {"skill_id": "local/count", "caller": {"id": "soak", "type": "agent"}, "inputs": {"number": self._calls}}
        accepted = await self._ask("call", "POST", "/skills/count/executions", json=body)
        if accepted is None:
            return
        execution = json.loads(accepted)["execution_id"]
        self._note("accept", f"{self._name} {self._calls}", execution, began)
        for _ in range(10):
            seen = await self._ask("end of a call", "GET", f"/executions/{execution}", headers={"prefer": "wait=5"})
            if seen is not None and (status := json.loads(seen)["status"]) not in {"accepted", "running"}:
                self._note("end", execution, status, began)
                return

    def _some(self) -> str:
        return f"skill-{self._soak.random.randrange(self._soak.packages):05}"

    def _note(self, kind: Kind, subject: str, value: str, began: float) -> None:
        self._soak.history.append(Operation(kind, self._name, subject, value, "ok", began, time.monotonic()))

    async def _ask(self, kind: str, method: str, path: str, **options: Any) -> bytes | None:
        """Return the body of a success."""
        server, began = self._soak.random.choice(self._soak.servers.servers), time.monotonic()
        try:
            async with self._session.request(method, server.url + path, **options) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._soak.errors.append(f"{kind}: {error!r}")
            return None
        self._soak.times[kind].append(time.monotonic() - began)
        if answer.status >= 400:
            self._soak.errors.append(f"{kind}: {answer.status} {body[:200]!r}")
            return None
        if kind == "index" and answer.status == 200:
            self._soak.times["new index"].append(self._soak.times["index"].pop())
            self._tag = {"if-none-match": answer.headers["etag"]}
        self._revision = max(self._revision, int(answer.headers.get(_REVISION, 0)))
        return body


def _resident(process: int) -> float:
    """Return MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024
