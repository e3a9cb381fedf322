"""Publishers killed at any moment leave no half version: ``python bench/registry_crash.py [KILLS]``.

Three processes publish into one registry, each several skills at once: small ones, which are rows of the database,
large ones, which are files, and versions that another process publishes with equal or other bytes. A random one is
killed (SIGKILL) at a random moment and replaced, a thousand times. In the end each acknowledged version must be there
with its bytes; each version there must have an artifact with the files that it lists, and one entry of the audit log,
whose chain must hold; the latest versions must be right, the database intact, and no artifact without an owner left
after a sweep.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crash import Process, Reporter
from skillwire import limits
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import ConflictError
from skillwire.folder.publish import packed_files, prepare_files
from skillwire.model.digest import Digest
from skillwire.model.package import Account, Change, PackageName, latest_version
from skillwire.model.skill import FileContent
from skillwire.registry.accounts import Actor
from skillwire.registry.audit import verify_entries
from skillwire.registry.packages import Registry

if TYPE_CHECKING:
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.skill import Skill

KILLS: Final = 1_000
PUBLISHERS: Final = 3
AT_ONCE: Final = 4
PACKAGES: Final = 40
OWNER: Final = Actor("team", frozenset({"publish", "admin"}), roles={"team": "owner"})
LARGE: Final = random.Random(7).randbytes(limits.REGISTRY_ROW_BYTES + 1)  # noqa: S311  # nothing secret


def open_store(folder: Path) -> SqlPackages:
    """Return the packages in ``folder``."""
    return SqlPackages(AsyncDatabase(Database(folder / "skillwire.db")), FileBlobs(folder / "artifacts", durable=True))


def make_skill(name: str, version: str, variant: int, *, is_large: bool) -> PreparedSkill:
    """Return a skill; equal arguments give equal bytes."""
    text = f"---\nname: {name}\ndescription: Does it.\nmetadata:\n  version: {version}\n---\nDo it {variant} times.\n"
    files = [FileContent("SKILL.md", memoryview(text.encode()), executable=False)]
    if is_large:
        files.append(FileContent("data.bin", memoryview(LARGE + bytes([variant])), executable=False))
    prepared = prepare_files(name, tuple(files), "team")
    assert not hasattr(prepared, "access"), prepared
    return prepared


async def publish(folder: Path, report: Reporter) -> None:
    """Publish for ever; report each version once it is acknowledged."""
    store = open_store(folder)
    registry = Registry(store, time.time)
    right = await registry.check_publication(OWNER, "team")

    async def repeat() -> None:
        while True:
            number = random.randint(0, PACKAGES - 1)  # noqa: S311  # nothing secret
            name, version = f"skill-{number}", f"1.{random.randint(0, 400)}.0"  # noqa: S311  # same
            skill = make_skill(name, version, random.randint(0, 1), is_large=number == 0)  # noqa: S311  # same
            with suppress(ConflictError):  # another one published it with other bytes
                made = await registry.publish(right, skill, skill.skill.artifact.digest)
                report(made.how, name, version, skill.skill.artifact.digest)

    await asyncio.gather(*[repeat() for _ in range(AT_ONCE)])


def _listed(skill: Skill) -> list[Digest]:
    return [file.digest for file in skill.files]


async def judge(folder: Path, processes: list[Process]) -> Counter[str]:
    """Return what is wrong in the end."""
    store, flaws = open_store(folder), Counter[str]()
    published: dict[tuple[str, str], Digest] = {}
    for number in range(PACKAGES):
        name = PackageName("team", f"skill-{number}")
        versions = await store.versions(name)
        for one in versions:
            digest = one.skill.artifact.digest
            published[name.name, one.version] = digest
            content = await store.artifact(digest)
            if content is None or Digest.of(content) != digest:
                flaws["a version has no artifact"] += 1
            elif [Digest.of(file) for file in packed_files(one.skill, content)] != _listed(one.skill):
                flaws["a version lists other files than its artifact has"] += 1
        package = await store.package(name)
        if package and package.latest != latest_version((one.version, one.state.status) for one in versions):
            flaws["another version is the latest"] += 1
    told = [line.split() for process in processes for line in process.lines]
    lost = sum(published.get((skill, version)) != digest for _, skill, version, digest in told)
    flaws += Counter({"an acknowledged version is lost or another one": lost})
    entries = await store.audit(0, 10**9)
    verify_entries(entries)
    written = Counter(entry.change.target for entry in entries if entry.change.action == "version.publish")
    if written != Counter(f"team/{name}@{version}" for name, version in published):
        flaws["the audit log has other publications"] += 1
    await store.remove_unowned(time.time() + 1)
    owned = {digest.hex for (name, _), digest in published.items() if name == "skill-0"}
    if {path.parent.name + path.name for path, _ in FileBlobs(folder / "artifacts").files()} != owned:
        flaws["an artifact without an owner is left"] += 1
    with Database(folder / "skillwire.db").reading() as connection:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            flaws["the database is damaged"] += 1
    return flaws


async def prepare(folder: Path) -> None:
    """Make the account and its namespace; nothing is open afterwards, so that processes may be begun."""
    database = AsyncDatabase(Database(folder / "skillwire.db"))
    store = SqlPackages(database, FileBlobs(folder / "artifacts", durable=True))
    await store.add_account(Account("team", 1.0), Change(1.0, "team", "account.create", "team"))
    await Registry(store, time.time).create_namespace(OWNER, "team")
    await database.close()


def run(folder: Path, kills: int) -> tuple[Counter[str], Counter[str]]:
    """Kill publishers ``kills`` times; return what is wrong in the end, and how many publications came to what."""
    asyncio.run(prepare(folder))
    processes, began, shown = [Process(partial(publish, folder)) for _ in range(PUBLISHERS)], time.monotonic(), 0.0
    for number in range(kills):
        pause = time.monotonic() + random.uniform(0.005, 0.08)  # noqa: S311  # nothing secret
        while time.monotonic() < pause:
            for process in processes:
                process.listen()
            time.sleep(0.002)
        victim = random.choice(processes)  # noqa: S311  # same
        victim.kill()
        victim.begin()
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"  {number + 1:,} kills ({shown - began:.0f} s)", flush=True)
    for process in processes:
        process.kill()
    told = Counter(line.split()[0] for process in processes for line in process.lines)
    return asyncio.run(judge(folder, processes)), told


def main() -> int:
    """Run it; return the exit code."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="skillwire-registry-crash-"))
    try:
        flaws, told = run(folder, kills)
    finally:
        shutil.rmtree(folder)
    found = "; ".join(f"{number}x {flaw}" for flaw, number in flaws.most_common()) or "0 half versions, 0 lost, intact"
    print(
        f"kills: {kills:,}; {told['created']:,} versions acknowledged, {told['repeated']:,} again; "
        f"{found} ({time.monotonic() - began:.0f} s)"
    )
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
