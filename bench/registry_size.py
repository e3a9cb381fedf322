"""A registry of 50,000 packages of three versions: ``python bench/registry_size.py [PACKAGES]``.

``skillwire serve --registry`` is started twice: the first start writes the served files of the packages, the second is
measured, until it is ready. Then nginx serves the same index as files, and both are asked by wrk over 64 connections,
in turns: for the index, and for an index and a list of skills that are current (304). Searches with facets are asked
one after the other (99th of 100), and one skill by its ID, whose processor time stands beside that of a bare ASGI
application with the same answer. Last comes the time until a push is served, and the memory.

Needs nginx and wrk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bare_asgi import Server, bare, started
from comparison import Goal, compare
from index_vs_nginx import INDEX, ROUNDS, Asked, _get, _measure, _nginx
from processes import our_program
from registry_publish import make_archive
from skillwire.adapters.stores import close_stores, open_stores
from skillwire.folder.publish import prepare_files
from skillwire.model.catalog import pack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import Account, Change, with_version
from skillwire.model.skill import FileContent
from workload import _SYLLABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import Connection

    from skillwire.model.skill import Skill

PACKAGES: Final = 50_000
NAMESPACES: Final = 100
VERSIONS: Final = ("1.0.0", "1.1.0", "1.2.0")
SEARCHES: Final = 400
ASKED: Final = 2_000
PAUSE: Final = 6.0  # seconds between two pushes: the server makes no revision right after another one
PACKAGE: Final = "INSERT INTO packages (number, namespace, name, created, access, status, latest, changed, owns_name) "
VERSION: Final = "INSERT INTO versions (package, version, artifact, uploaded, skill, published, publisher, status) "
ARTIFACT: Final = "INSERT OR IGNORE INTO artifacts (digest, content, size) VALUES (?, ?, ?)"


def make_words() -> list[str]:
    """Return the words of descriptions."""
    source = random.Random(7)  # noqa: S311  # the same workload each time, nothing secret
    return ["".join(source.choices(_SYLLABLES, k=source.randint(1, 4))) for _ in range(4_000)]


def make_package(number: int, words: list[str]) -> tuple[Skill, bytes]:
    """Return the latest version of a package, and its artifact."""
    source, name = random.Random(number), f"skill-{number:05}"  # noqa: S311  # same
    tags = ", ".join(source.choices(words[:200], k=3))
    head = f"name: {name}\ndescription: Does {' '.join(source.choices(words, k=30))}.\nlicense: MIT\n"
    text = f'---\n{head}metadata:\n  version: {VERSIONS[-1]}\n  tags: "{tags}"\n---\nDo it.\n'.encode()
    prepared = prepare_files(
        name, (FileContent("SKILL.md", memoryview(text), executable=False),), f"team-{number % NAMESPACES:03}"
    )
    assert not hasattr(prepared, "access"), prepared
    return prepared.skill, text


def fill(connection: Connection, packages: int) -> None:
    """Store packages as publications would, without their entries of the audit log."""
    words = make_words()
    for number in range(NAMESPACES):
        columns = "(name, created, proof, domain, proven) VALUES (?, 1.0, '', '', 0.0)"
        connection.execute(f"INSERT INTO namespaces {columns}", (f"team-{number:03}",))
        connection.execute("INSERT INTO members VALUES (?, 'team', 'owner')", (f"team-{number:03}",))
    for number in range(packages):
        skill, content = make_package(number, words)
        row = (number + 1, skill.publisher, skill.name, 1.0, "public", "active", VERSIONS[-1], number + 1)
        connection.execute(f"{PACKAGE} VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)", row)
        for version in VERSIONS:
            own = content if version == VERSIONS[-1] else content.replace(VERSIONS[-1].encode(), version.encode())
            one = with_version(skill, version)
            one = one._replace(artifact=one.artifact._replace(digest=Digest.of(own), size=len(own)))
            raw = bytes.fromhex(one.artifact.digest.hex)
            connection.execute(ARTIFACT, (raw, own, len(own)))
            values = (number + 1, version, raw, raw, pack_skill(one), 1.0, "team", "active")
            connection.execute(f"{VERSION} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


async def make_token() -> str:
    """Make the account; return its token."""
    await open_stores().packages.add_account(Account("team", 1.0), Change(1.0, "team", "account.create", "team"))
    return (await open_stores().tokens().issue("bench", scopes=("publish", "admin"), account="team")).secret


@contextlib.contextmanager
def serving(home: Path) -> Iterator[tuple[Server, float]]:
    """Serve the registry; give the server, and the seconds until it was ready."""
    began = time.perf_counter()
    command = our_program("serve", "--registry", "--port", "0", "--json", "--no-access-log")
    with started(command, {"SKILLWIRE_HOME": str(home)}) as server:
        while json.loads(ask(server, "/readyz", may_fail=True)).get("revision") is None:
            time.sleep(0.05)
        yield server, time.perf_counter() - began


def ask(server: Server, path: str, *, may_fail: bool = False) -> bytes:
    """Return the body of a GET."""
    try:
        server.connection.request("GET", path)
        answer = server.connection.getresponse()
    except HTTPException:  # it was kept for too long
        server.connection.close()
        return ask(server, path, may_fail=may_fail)
    body = answer.read()
    assert may_fail or answer.status == 200, (path, answer.status, body[:200])
    return body


def resident(server: Server) -> float:
    """Return MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def cpu_of(server: Server, path: str) -> float:
    """Return the milliseconds of processor time of one request."""
    before = server.cpu()
    for _ in range(ASKED):
        ask(server, path)
    return (server.cpu() - before) / ASKED * 1e3


def compare_with_nginx(server: Server, folder: Path) -> None:
    """Compare requests a second for the index, and for what is current."""
    address = f"127.0.0.1:{server.connection.port}"
    body, tag = _get(address, {"Accept-Encoding": "gzip"})
    _, list_tag = _get(address, {}, "/api/skills?limit=100")
    with _nginx(folder, {"gzip": body}) as (process, theirs):
        _, their_tag = _get(theirs, {}, "/index.gzip")
        held = Asked(process, f"http://{theirs}/index.gzip", {"If-None-Match": their_tag})
        pairs = (
            (f"index of a registry, gzip, {len(body) / 1024:.0f} KiB", 0.9, INDEX, {"Accept-Encoding": "gzip"}, None),
            ("index of a registry, 304", 0.45, INDEX, {"Accept-Encoding": "gzip", "If-None-Match": tag}, held),
            ("list of skills, 304", 0.45, "/api/skills?limit=100", {"If-None-Match": list_tag}, held),
        )
        for what, goal, path, fields, other in pairs:
            mine = Asked(server.process.pid, f"http://{address}{path}", fields)
            plain = other or Asked(process, f"http://{theirs}/index.gzip", {})
            rounds = [(_measure(mine).rate, _measure(plain).rate) for _ in range(ROUNDS)]
            ours, their_rates = zip(*rounds, strict=True)
            compare(what, ours, their_rates, Goal("at least", goal), peer="nginx", unit="requests/s")


def search(server: Server) -> float:
    """Return the milliseconds that 99 of 100 searches with facets stay below."""
    words, source, times = make_words(), random.Random(8), []  # noqa: S311  # the same each time
    for _ in range(SEARCHES):
        query = "%20".join(source.choices(words, k=source.randint(1, 2)))
        began = time.perf_counter()
        ask(server, f"/api/search?q={query}&facets=1&license=MIT&limit=20")
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.quantiles(times, n=100)[98]


def push(server: Server, token: str) -> tuple[float, float, float]:
    """Publish a skill; return the seconds until it is served, until the index has it, and of processor time."""
    name = f"pushed-{os.getpid()}-{time.monotonic_ns()}"
    cpu, began = server.cpu(), time.perf_counter()
    fields = {"Authorization": f"Bearer {token}"}
    server.connection.request("POST", "/api/registry/namespaces/team-001/packages", make_archive(name), fields)
    answer = server.connection.getresponse()
    told = answer.read()
    assert answer.status == 201, told
    while b"NOT_FOUND" in ask(server, f"/.well-known/agent-skills/{name}/SKILL.md", may_fail=True)[:200]:
        time.sleep(0.05)
    served = time.perf_counter() - began
    while name.encode() not in ask(server, INDEX):
        time.sleep(0.05)
    indexed = time.perf_counter() - began
    time.sleep(PAUSE)
    return served, indexed, server.cpu() - cpu


def main() -> None:
    """Measure and print."""
    packages = int(sys.argv[1]) if len(sys.argv) > 1 else PACKAGES
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work)
        os.environ["SKILLWIRE_HOME"] = str(folder / "home")
        token = asyncio.run(make_token())
        with open_stores().sqlite.database.writing() as connection:
            fill(connection, packages)
        close_stores()
        with serving(folder / "home") as (_, seconds):
            print(f"first start with {packages:,} packages: {seconds:.1f} s")
        with serving(folder / "home") as (server, seconds):
            what = f"start with {packages:,} packages of 3 versions"
            compare(what, [seconds], [5.0], Goal("at most", 1), peer="the goal", unit="s")
            compare(f"{what}, CPU", [server.cpu()], [5.0], Goal("at most", 1), peer="the goal", unit="s")
            compare_with_nginx(server, folder)
            compare("search with facets, p99", [search(server)], [50.0], Goal("at most", 1), peer="the goal")
            path = "/api/skills/skill-00017"
            (folder / "answer.json").write_bytes(ask(server, path))
            with bare(folder / "answer.json") as plain:
                pairs = [(cpu_of(server, path), cpu_of(plain, "/")) for _ in range(ROUNDS)]
            mine, theirs = zip(*pairs, strict=True)
            compare("GET /api/skills/{id}, CPU", mine, theirs, Goal("at most", 2), peer="bare ASGI")
            pushes = zip(*[push(server, token) for _ in range(3)], strict=True)
            served, indexed, cpu = (statistics.median(values) for values in pushes)
            print(f"a push is served after {served:.1f} s, in the index after {indexed:.1f} s, for {cpu:.1f} s of CPU")
            compare("memory of it all", [resident(server)], [250.0], Goal("at most", 1), peer="the goal", unit="MiB")


if __name__ == "__main__":
    main()
