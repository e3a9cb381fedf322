"""Publishing to a registry beside other registries: ``python bench/registry_publish.py [ROUNDS]``.

A skill of 20 kB that does not compress is published again and again over one kept connection, each time under another
name, to ours (``skillwire serve --registry``), to ``docker-registry`` 2.8 (a layer and its manifest) and to
``pypiserver`` (an upload form). Ours reads the archive, checks it by the strict rules, stores it and its audit
entry, and has all of it on the disk before it answers (fsync); the others check nothing, and pypiserver leaves it to
the system when a file is on the disk. So a second pypiserver syncs each file and its folder. Ours and pypiserver, which
looks through its folder at each upload, begin with 3,000 packages. Compared are publications a second, in turns, one at
a time and from eight connections. The store alone is measured, too: 1,000 publications at once, which it commits in
groups (goal: 1,000 a second).

Needs docker-registry (Debian) and pypi-server (``pip install pypiserver``), or the path of it in ``PYPI_SERVER``. With
``SYNC_DELAY=1``, each sync of every server takes a millisecond longer, which strace injects: for one publication ours
syncs once and docker-registry nineteen times, so the ratio depends on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from processes import our_program
from skillwire.adapters.stores import close_stores, open_stores
from skillwire.model.package import Account, Change
from skillwire.registry.accounts import Actor
from skillwire.registry.packages import Registry
from skillwire.server.transfers import read_upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROUNDS: Final = 7
EACH: Final = 200
SIZE: Final = 20_000
STORED: Final = 1_000
AT_ONCE: Final = 8
TEAM: Final = Actor("team", frozenset({"publish", "admin"}), roles={"team": "owner"})
SYNCED: Final = """
import os
import pypiserver.backend as backend
write = backend.write_file
def write_and_sync(stream, path):
    write(stream, path)
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
backend.write_file = write_and_sync
"""
MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER: Final = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
_numbers: Final = iter(range(10**9))


def make_archive(name: str) -> bytes:
    """Return a skill of 20 kB as an archive."""
    text = f"---\nname: {name}\ndescription: Does something useful.\nmetadata:\n  version: 1.0.0\n---\n\nDo it.\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in (("SKILL.md", text.encode()), ("data.bin", os.urandom(SIZE))):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def send(connection: HTTPConnection, method: str, path: str, body: bytes, fields: dict[str, str]) -> dict[str, str]:
    """Send a request; return the header fields of the answer."""
    try:
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
    except ConnectionError:  # the server closed it while others were measured
        connection.close()
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
    told = answer.read()
    assert answer.status in {200, 201, 202}, (answer.status, told)
    return {name.lower(): value for name, value in answer.getheaders()}


def ours(connection: HTTPConnection, token: str) -> Callable[[str, bytes], object]:
    """Return how to publish to ours."""
    fields = {"Authorization": f"Bearer {token}"}
    return lambda _, archive: send(connection, "POST", "/api/registry/namespaces/team/packages", archive, fields)


def docker(connection: HTTPConnection) -> Callable[[str, bytes], object]:
    """Return how to push to docker-registry; the empty configuration that manifests name is pushed once for each."""

    def put_blob(name: str, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        location = send(connection, "POST", f"/v2/{name}/blobs/uploads/", b"", {})["location"]
        path = location[location.index("/v2/") :]
        send(connection, "PUT", f"{path}&digest={digest}", content, {"Content-Type": "application/octet-stream"})
        return digest

    config = put_blob("team/skills", b"{}")

    def publish(name: str, archive: bytes) -> None:
        layer = {"mediaType": "application/gzip", "size": len(archive), "digest": put_blob("team/skills", archive)}
        first = {"mediaType": "application/vnd.docker.container.image.v1+json", "size": 2, "digest": config}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": first, "layers": [layer]}
        body = json.dumps(manifest).encode()
        send(connection, "PUT", f"/v2/team/skills/manifests/{name}", body, {"Content-Type": MANIFEST})

    return publish


def pypi(connection: HTTPConnection) -> Callable[[str, bytes], object]:
    """Return how to upload to pypiserver."""

    def publish(name: str, archive: bytes) -> None:
        form = (
            b'--x\r\nContent-Disposition: form-data; name=":action"\r\n\r\nfile_upload\r\n--x\r\nContent-Disposition: '
            b'form-data; name="content"; filename="%s-1.0.0.tar.gz"\r\n\r\n%s\r\n--x--\r\n' % (name.encode(), archive)
        )
        send(connection, "POST", "/", form, {"Content-Type": "multipart/form-data; boundary=x"})

    return publish


def slowed(command: list[str]) -> list[str]:
    """Return a command whose process syncs as slowly as ``SYNC_DELAY`` says; strace stops it at no other call."""
    if not (delay := float(os.environ.get("SYNC_DELAY", "0"))):
        return command
    inject = f"inject=fsync,fdatasync:delay_exit={delay * 1_000:.0f}"
    traced = f"-e trace=fsync,fdatasync -e {inject} -o {os.devnull}"
    return [*f"strace -D -f --seccomp-bpf -qq {traced}".split(), *command]


@contextlib.contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[list[HTTPConnection]]:
    """Run a server; give connections to it."""
    variables = {**os.environ, **environment}
    process = subprocess.Popen(slowed(command), env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            connection = HTTPConnection("127.0.0.1", port)
            with contextlib.suppress(OSError):
                connection.connect()
                break
            time.sleep(0.05)
        yield [connection, *(HTTPConnection("127.0.0.1", port) for _ in range(AT_ONCE - 1))]
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def rate(publishers: Sequence[Callable[[str, bytes], object]]) -> float:
    """Return publications a second, of as many at a time as there are connections."""
    archives = [(name, make_archive(name)) for name in (f"skill-{next(_numbers)}" for _ in range(EACH))]

    def publish_some(number: int) -> None:
        for name, archive in archives[number :: len(publishers)]:
            publishers[number](name, archive)

    with ThreadPoolExecutor(len(publishers)) as pool:
        began = time.perf_counter()
        list(pool.map(publish_some, range(len(publishers))))
        return EACH / (time.perf_counter() - began)


async def prepare() -> str:
    """Make the account and its namespace; return its token."""
    await open_stores().packages.add_account(Account("team", 1.0), Change(1.0, "team", "account.create", "team"))
    await Registry(open_stores().packages, time.time).create_namespace(TEAM, "team")
    return (await open_stores().tokens().issue("bench", scopes=("publish", "admin"), account="team")).secret


async def store_rate() -> float:
    """Return publications a second of the store alone."""
    registry = Registry(open_stores().packages, time.time)
    right = await registry.check_publication(TEAM, "team")
    prepared = [read_upload(make_archive(f"stored-{next(_numbers)}"), "team") for _ in range(STORED)]
    began = time.perf_counter()
    await asyncio.gather(*[registry.publish(right, one, one.skill.artifact.digest) for one in prepared])
    return STORED / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    pypi_server = os.environ.get("PYPI_SERVER") or shutil.which("pypi-server")
    if shutil.which("docker-registry") is None or pypi_server is None:
        sys.exit("docker-registry or pypi-server is missing (as root: apt-get install docker-registry; pip install)")
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work, contextlib.ExitStack() as stack:
        folder = Path(work)
        os.environ["SKILLWIRE_HOME"] = str(folder / "home")
        token = asyncio.run(prepare())
        stored = [asyncio.run(store_rate()) for _ in range(3)]
        close_stores()
        (folder / "server.toml").write_text("[rate_limit]\nprincipal_per_minute = 1000000\nprincipal_burst = 1000000\n")
        for name in ("packages", "synced", "patch"):
            (folder / name).mkdir()
        for number in range(3 * STORED):  # as many packages as ours has by now
            for name in ("packages", "synced"):
                (folder / name / f"stored-{number}-1.0.0.tar.gz").write_bytes(make_archive(f"stored-{number}"))
        (folder / "patch" / "sitecustomize.py").write_text(SYNCED)
        ports = [free_port() for _ in range(4)]
        (folder / "docker.yml").write_text(DOCKER.format(folder=folder / "docker", port=ports[1]))
        options = ("--registry", "--config", str(folder / "server.toml"), "--no-access-log", "--port", str(ports[0]))
        commands = (
            our_program("serve", *options),
            ["docker-registry", "serve", str(folder / "docker.yml")],
            *(
                [pypi_server, "run", "-p", str(port), "-i", "127.0.0.1", "-P", ".", "-a", ".", str(folder / name)]
                for port, name in zip(ports[2:], ("packages", "synced"), strict=True)
            ),
        )
        patches: tuple[dict[str, str], ...] = ({}, {}, {}, {"PYTHONPATH": str(folder / "patch")})
        opened = [
            stack.enter_context(running(command, port, **patch))
            for command, port, patch in zip(commands, ports, patches, strict=True)
        ]
        ways: tuple[Callable[[HTTPConnection], Callable[[str, bytes], object]], ...]
        ways = (partial(ours, token=token), docker, pypi, pypi)
        publish = [[way(one) for one in connections] for way, connections in zip(ways, opened, strict=True)]
        for one in publish:
            rate(one)
        peers = (("docker-registry", 3), ("pypiserver", 5), ("pypiserver that syncs", 5))
        for title, at_once in (("publish a skill of 20 kB", 1), (f"publish {AT_ONCE} skills at a time", AT_ONCE)):
            rates = [[rate(one[:at_once]) for one in publish] for _ in range(rounds)]
            for number, (peer, goal) in enumerate(peers, 1):
                mine, theirs = [row[0] for row in rates], [row[number] for row in rates]
                compare(title, mine, theirs, Goal("at least", goal), peer=peer, unit="a second")
        compare(
            "publish at once, the store alone",
            stored,
            [1_000.0] * 3,
            Goal("at least", 1),
            peer="1,000",
            unit="a second",
        )


if __name__ == "__main__":
    main()
