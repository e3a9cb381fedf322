"""Several servers over one database, a load on them, and faults while it runs; the history is judged at the end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.support.eventually import PATIENCE, eventually
from tests.support.free_port import free_port
from tests.support.history import Operation, check, recoveries
from tests.support.namespaces import Island
from tests.support.postgres_pair import Pair

ROOT: Final = Path(__file__).parents[2]
NAMESPACE: Final = "acme"
#: By how many seconds the clock of each server is wrong.
_CLOCKS: Final = (0.0, 300.0, -300.0)
#: Seconds that a client of the load waits for an answer.
_ANSWER_SECONDS: Final = 8.0
_REVISION: Final = "skillwire-revision"
_FINAL: Final = {"completed", "failed", "timeout"}
#: What has to succeed again after a fault.
_KINDS: Final = ("publish", "read", "accept", "end")
#: The disk of both databases, where root makes one for them.
_DISK: Final = "1g"
#: More than PostgreSQL accepts.
_CONNECTIONS: Final = 200
#: How many ends one client waits for.
_WAITS: Final = 30
#: Seconds between two operations of one client: the machine is shared with the servers.
_PAUSE: Final = 0.05


class Server:
    """One server, in a process of its own with a state directory of its own."""

    def __init__(self, folder: Path, store: str, *, clock: float = 0.0) -> None:
        self.folder, self.store, self.clock = folder, store, clock
        self.place, self._inside = f"127.0.0.1:{free_port()}", list[str]()
        self._process: subprocess.Popen[bytes] | None = None

    def move(self, island: Island) -> None:
        """Have it run on an island, and find its database from there."""
        self.store = self.store.replace("127.0.0.1", island.gateway)
        self.place, self._inside = f"{island.address(1)}:{free_port()}", island.command(1)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.place}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its process, and of commands that are to use its state directory."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "SKILLWIRE_STORE": self.store}

    def start(self) -> None:
        """Begin its process; it answers some time later."""
        arguments = [self.place, self.store, str(self.folder.parent / "runs"), str(self.clock)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, sys.executable, "-m", "tests.support.cluster_server", *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    def send(self, number: int) -> None:
        """Send it a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal, and wait for that."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def run(self, *arguments: str) -> dict[str, Any]:
        """Run a command with its state directory; return the JSON that it prints."""
        command = [sys.executable, "-m", "skillwire", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, env=self.environment, cwd=self.folder, timeout=PATIENCE)  # noqa: PLW1510  # the status is looked at
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


class Servers:
    """Servers over one database, one for each of ``clocks``, and an operator's token."""

    def __init__(self, folder: Path, store: str, clocks: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        self.folder, self.store = folder, store
        self.servers = []
        for number, clock in enumerate(clocks):
            home = folder / f"server-{number}"
            home.mkdir()
            self.servers.append(Server(home, store, clock=clock))
        first, *others = self.servers
        self.token: str = first.run("registry", "init", "ops")["secret"]
        key = Path(".local/state/skillwire/server.key")
        for server in others:
            (server.folder / key).parent.mkdir(parents=True, mode=0o700)
            shutil.copy(first.folder / key, server.folder / key)

    async def start(self, patience: float = PATIENCE) -> None:
        """Start all servers, make the namespace, and return when each of them answers."""
        for server in self.servers:
            server.start()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS)) as session:
            for server in self.servers:
                assert await _until(partial(_is_ready, session, server.url), patience), f"{server.url} is not ready"
            place, body = f"{self.servers[0].url}/api/registry/namespaces", {"name": NAMESPACE}
            async with session.post(place, json=body, headers=self.credentials) as answer:
                assert answer.status == 201, await answer.text()

    @property
    def credentials(self) -> dict[str, str]:
        """The header fields of the operator."""
        return {"authorization": f"Bearer {self.token}"}

    def close(self) -> None:
        """End all servers."""
        for server in self.servers:
            with suppress(ProcessLookupError):
                server.send(signal.SIGCONT)
            server.stop()


class Cluster(Servers):
    """Three servers over a pair of databases, with clocks that differ.

    Where root may make network namespaces, the last server is in one of its own.
    """

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="skillwire-cluster-", dir="/tmp"))
        folder.chmod(0o755)  # PostgreSQL runs as another user than root
        self.taken: list[socket.socket] = []
        (folder / "postgres").mkdir()
        if os.geteuid() == 0:
            disk = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder / "postgres")]
            subprocess.run(disk, check=True)
        self.island = Island.made()
        self.pair = Pair(folder / "postgres", *([self.island.gateway] if self.island else []))
        self.pair.primary.execute("CREATE DATABASE skillwire")
        super().__init__(folder, self.pair.url("skillwire"), _CLOCKS)
        if self.island is not None:
            self.servers[-1].move(self.island)

    def close(self) -> None:
        """End everything."""
        super().close()
        self.pair.close()
        if self.island is not None:
            self.island.down()
        _give_connections_back(self)
        if os.geteuid() == 0:
            # A process that was killed a moment ago may have files open.
            subprocess.run(["umount", "--lazy", str(self.folder / "postgres")], check=True)
        shutil.rmtree(self.folder)


class Load:
    """Clients that publish, read and call, each against a server chosen anew for each request.

    Each waits ``answer`` seconds for an answer. They call as the operator: a stranger is known by its address, and the
    server on an island sees another one than the others, so that a repeated key would be a new one there.
    """

    def __init__(
        self, cluster: Servers, *, publishers: int = 3, callers: int = 3, answer: float = _ANSWER_SECONDS
    ) -> None:
        self.history: list[Operation] = []
        self.mended: list[float] = []  # when each fault was over
        self._cluster = cluster
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=answer))
        self._is_over = False
        clients = [self._publish(f"p{n}") for n in range(publishers)] + [self._call(f"c{n}") for n in range(callers)]
        self._clients = [asyncio.ensure_future(client) for client in clients]
        self._random = random.Random(7)  # noqa: S311  # nothing secret

    async def finish(self) -> list[str]:
        """End the load, let everything come to rest, and return what contradicts a promise."""
        self._is_over = True
        await asyncio.gather(*self._clients)
        versions, ends = {}, {}
        for package in sorted({one.subject for one in self.history if one.kind == "publish"}):
            versions[package] = await self._final_versions(package)
        for execution in sorted({one.value for one in self.history if one.kind == "accept" and one.outcome == "ok"}):
            ends[execution] = await self._final_end(execution)
        await self._session.close()
        for line in (self._cluster.folder / "runs").read_text().splitlines():
            kind, number = line.split()
            if kind == "order":
                self.history.append(Operation("ran", "", f"order {number}", "", "ok", 0.0, 0.0))
        return check(self.history, versions, ends)

    # --- the clients

    async def _publish(self, name: str) -> None:
        """Publish version after version, each until it is acknowledged, and read the package after each."""
        package, number, revision = f"package-{name}", 0, ""
        while not self._is_over:
            version = f"1.{number}.0"
            archive = make_archive(package, version)
            answer = await self._request(
                Operation("publish", name, package, version, "", 0, 0),
                "POST",
                f"/api/registry/namespaces/{NAMESPACE}/packages?version={version}&name={package}",
                data=archive,
                headers={**self._cluster.credentials, "content-type": "application/gzip"},
            )
            if answer is not None:
                revision = answer[1].get(_REVISION, revision)
                number += 1
            for _ in range(2):
                await self._read(name, package, revision)
            await asyncio.sleep(_PAUSE)

    async def _read(self, name: str, package: str, revision: str) -> None:
        await self._request(
            Operation("read", name, package, "", "", 0, 0),
            "GET",
            f"/api/registry/packages/{NAMESPACE}/{package}",
            headers={_REVISION: revision} if revision else {},
        )

    async def _call(self, name: str) -> None:
        """Call function after function, each until it is accepted, and wait for their ends at any server."""
        number, waits = 1_000_000 * (1 + int(name[1:])), set[asyncio.Task[None]]()
        while not self._is_over:
            number += 1
            skill = "order" if number % 2 else "count"
            subject = f"{skill} {number}"
            execution = await self._accept(name, skill, number, subject)
            if execution is not None:  # one whose server was killed ends with its lease: others are called meanwhile
                waits.add(asyncio.create_task(self._wait(name, execution)))
            waits = {wait for wait in waits if not wait.done()}
            await asyncio.sleep(_PAUSE if len(waits) < _WAITS else 1.0)
        await asyncio.gather(*waits)

    async def _accept(self, name: str, skill: str, number: int, subject: str) -> str | None:
        body = {"skill_id": f"local/{skill}", "caller": {"id": "load", "type": "agent"}, "inputs": {"number": number}}
        key = {**self._cluster.credentials, "idempotency-key": subject.replace(" ", "-")}
        while not self._is_over:
            operation = Operation("accept", name, subject, "", "", 0, 0)
            accepted = await self._request(operation, "POST", f"/skills/{skill}/executions", json=body, headers=key)
            if accepted is not None:
                return str(accepted[0]["execution_id"])
            await asyncio.sleep(_PAUSE)
        return None

    async def _wait(self, name: str, execution: str) -> None:
        for _ in range(1_000):
            operation = Operation("end", name, execution, "", "", 0, 0)
            began, fields = time.monotonic(), {**self._cluster.credentials, "prefer": "wait=2"}
            seen = await self._request(operation, "GET", f"/executions/{execution}", headers=fields)
            if seen is not None and seen[0].get("status") in _FINAL:
                ended = time.monotonic()
                self.history.append(operation._replace(value=_end(seen[0]), outcome="ok", began=began, ended=ended))
                return
            if self._is_over:
                return
            await asyncio.sleep(_PAUSE)

    async def _request(
        self, operation: Operation, method: str, path: str, **options: Any
    ) -> tuple[dict[str, Any], dict[str, str]] | None:
        """Send a request to any server; note the operation; return the answer, and its fields, when it is a success."""
        server = self._random.choice(self._cluster.servers)
        began, outcome, found = time.monotonic(), "unknown", None
        try:
            async with self._session.request(method, server.url + path, **options) as answer:
                content = await answer.read()
                if answer.status < 300:
                    found = json.loads(content), {name.lower(): value for name, value in answer.headers.items()}
                    outcome = "ok"
                elif answer.status == 404 and operation.kind == "read":
                    found, outcome = ({}, {}), "ok"  # nothing is published yet
                else:
                    kind = "refused" if answer.status < 500 else "failed"
                    outcome = f"{kind} {answer.status} {content[:200]!r}"
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass
        if operation.kind != "end":  # whose value is known when it is over
            value = _value(operation, found[0]) if found else operation.value
            done = operation._replace(value=value, outcome=outcome, server=server.url)
            self.history.append(done._replace(began=began, ended=time.monotonic()))
        return found

    # --- what is there in the end

    async def _final_versions(self, package: str) -> set[str]:
        async def find() -> set[str] | None:
            place = f"{self._random.choice(self._cluster.servers).url}/api/registry/packages/{NAMESPACE}/{package}"
            async with self._session.get(place, headers=self._cluster.credentials) as answer:
                if answer.status != 200:
                    return set() if answer.status == 404 else None
                return {one["version"] for one in (await answer.json())["versions"]}

        return await _until(find) or set()

    async def _final_end(self, execution: str) -> str:
        async def find() -> str | None:
            place = f"{self._random.choice(self._cluster.servers).url}/executions/{execution}"
            async with self._session.get(place, headers=self._cluster.credentials) as answer:
                if answer.status == 404:
                    return "lost"
                seen = await answer.json() if answer.status == 200 else {}
                return _end(seen) if seen.get("status") in _FINAL else None

        return await _until(find) or "still running"


def _value(operation: Operation, answer: dict[str, Any]) -> str:
    """Return what an answer shows of the operation."""
    if operation.kind == "read":
        return " ".join(one["version"] for one in answer.get("versions", ()))
    return str(answer["execution_id"]) if operation.kind == "accept" else operation.value


def _end(seen: dict[str, Any]) -> str:
    error = seen.get("error") or {}
    return f"{seen['status']} {seen.get('output', error.get('code', ''))}"


def make_archive(name: str, version: str) -> bytes:
    """Return a skill as it is uploaded."""
    text = f"---\nname: {name}\ndescription: Does it.\nmetadata:\n  version: {version}\n---\nDo it.\n".encode()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        entry = tarfile.TarInfo(f"{name}/SKILL.md")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return content.getvalue()


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool | None:
    async with session.get(f"{url}/readyz") as answer:
        return answer.status == 200 or None


async def _until(attempt: Callable[[], Awaitable[Any]], patience: float = PATIENCE) -> Any:
    """Return what ``attempt`` returns once that is not None; None after ``patience``."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            if (found := await attempt()) is not None:
                return found
        await asyncio.sleep(0.1)
    return None


#: What happens to a cluster: it begins with the first call, and what it broke is mended with the second one.
Fault = tuple[str, Callable[[Cluster], object], Callable[[Cluster], object]]


def kill_server(number: int) -> Fault:
    """Kill a server; it comes back."""
    return (
        f"kill server {number}",
        lambda cluster: cluster.servers[number].stop(),
        lambda cluster: cluster.servers[number].start(),
    )


def restart_server(number: int) -> Fault:
    """End a server with SIGTERM, as an upgrade does; it comes back."""
    return (
        f"restart server {number}",
        lambda cluster: cluster.servers[number].stop(signal.SIGTERM),
        lambda cluster: cluster.servers[number].start(),
    )


def pause_server(number: int) -> Fault:
    """Stop a server's process for a while: it does not know that it was thought dead."""
    return (
        f"pause server {number}",
        lambda cluster: cluster.servers[number].send(signal.SIGSTOP),
        lambda cluster: cluster.servers[number].send(signal.SIGCONT),
    )


def _take_connections(cluster: Cluster) -> None:
    """Connect until PostgreSQL refuses: no server gets another connection."""
    host, _, port = cluster.pair.primary.place.partition(":")
    fields = b"user\0postgres\0database\0skillwire\0\0"
    hello = struct.pack(">II", len(fields) + 8, 3 << 16) + fields
    while len(cluster.taken) < _CONNECTIONS:
        one = socket.create_connection((host, int(port)), timeout=PATIENCE)
        cluster.taken.append(one)
        one.sendall(hello)
        if one.recv(1) == b"E":
            return


def _give_connections_back(cluster: Cluster) -> None:
    while cluster.taken:
        cluster.taken.pop().close()


def _fill_disk(cluster: Cluster) -> None:
    """Leave the primary no room; it may end with that, as PostgreSQL does when it cannot write its log."""
    with suppress(OSError), (cluster.folder / "postgres" / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))


def _empty_disk(cluster: Cluster) -> None:
    (cluster.folder / "postgres" / "filler").unlink()
    for server in cluster.pair.servers:
        # One that found no room may still be about to end: it answers nothing.
        eventually(lambda: server.process.poll() is not None or server.has("SELECT true"))  # noqa: B023  # called at once
        if server.process.poll() is not None:
            server.start()


TAKE_CONNECTIONS: Final[Fault] = ("take all connections", _take_connections, _give_connections_back)
#: Needs a disk of its own, which root can make.
FILL_DISK: Final[Fault] = ("fill the disk", _fill_disk, _empty_disk)
FAIL_OVER: Final[Fault] = (
    "fail over",
    lambda cluster: cluster.pair.fail_over(),
    lambda cluster: cluster.pair.repair(),
)
PAUSE_DATABASE: Final[Fault] = (
    "pause the database",
    lambda cluster: cluster.pair.primary.kill(signal.SIGSTOP),
    lambda cluster: cluster.pair.primary.kill(signal.SIGCONT),
)


#: The last server, and nobody else, cannot reach the databases, and learns nothing of that.
CUT_SERVER: Final[Fault] = (
    "cut a server off",
    lambda cluster: cluster.island and cluster.island.cut_from(*cluster.pair.ports),
    lambda cluster: cluster.island and cluster.island.cut_from(),
)


def make_faults(kills: int, fail_overs: int) -> list[Fault]:
    """Return so many kills of servers, one after the other, so many fail-overs, and each other fault."""
    return [
        *(kill_server(number % len(_CLOCKS)) for number in range(kills)),
        *[FAIL_OVER] * fail_overs,
        pause_server(0),
        PAUSE_DATABASE,
        TAKE_CONNECTIONS,
        *(restart_server(number) for number in range(len(_CLOCKS))),
        *([CUT_SERVER, FILL_DISK] if os.geteuid() == 0 else []),
    ]


#: Faults that leave nothing working while they last: the recovery counts from their end.
STANDSTILLS: Final = {"pause the database", "fill the disk"}


async def suffer(
    cluster: Cluster,
    load: Load,
    faults: list[Fault],
    *,
    lasting: float,
    between: float,
    advance: Callable[[str], object],
) -> list[float]:
    """Let faults happen one after the other under a load; return the seconds that each recovery took.

    ``advance`` is called with the name of each fault.
    """
    times = []
    for name, begin, mend in faults:
        await asyncio.sleep(between)
        advance(name)
        began = time.monotonic()
        await asyncio.to_thread(begin, cluster)
        begun = time.monotonic()
        await asyncio.sleep(lasting)
        await asyncio.to_thread(mend, cluster)
        load.mended.append(time.monotonic())
        # A fail-over is made by what watches the databases, whose own time does not count.
        times.append(time.monotonic() if name in STANDSTILLS else begun if name == "fail over" else began)

    async def recovered() -> list[float] | None:
        found = recoveries(load.history, times, _KINDS)
        return found if max(found) < float("inf") else None

    await asyncio.sleep(between + 10)
    return await _until(recovered) or recoveries(load.history, times, _KINDS)
