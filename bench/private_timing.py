"""Answer times of a private package beside a missing one: ``python bench/private_timing.py [REQUESTS]``.

A registry has a private package of another account. Its paths and those of a package that does not exist are asked in
turns, without credentials and as an account without rights, in random order. Their times are printed: median, 90th of
100, and how often a private package took longer than a missing one of the same turn, which is half of the times where
nothing can be told apart. Bytes and header fields are compared by ``tests/unit/server/test_private_packages.py``.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bare_asgi import started
from processes import our_program
from registry_publish import make_archive
from skillwire.adapters.stores import close_stores, open_stores
from skillwire.model.package import Account, Change

REQUESTS = 400
PATHS = (
    "/packages/acme/{name}",
    "/api/registry/packages/acme/{name}",
    "/api/registry/packages/acme/{name}/1.0.0/download",
    "/@acme/{name}/versions.json",
    "/.well-known/agent-skills/{name}/SKILL.md",
    "/api/skills/{name}",
    "/api/v1/skills/{name}",
    "/v1/packages/acme/{name}/versions",
)
NAMES = ("private-plans", "missing-plans")


async def make_tokens() -> tuple[str, str]:
    """Make two accounts; return their tokens."""
    for name in ("acme", "eve"):
        await open_stores().packages.add_account(Account(name, 1.0), Change(1.0, name, "account.create", name))
    scopes = ("read", "publish", "admin")
    made = [await open_stores().tokens().issue("bench", scopes=scopes, account=name) for name in ("acme", "eve")]
    return made[0].secret, made[1].secret


def main() -> None:
    """Measure and print."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    source = random.Random(9)  # noqa: S311  # the order of requests, nothing secret
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        home = Path(work, "home")
        os.environ["SKILLWIRE_HOME"] = str(home)
        owner, stranger = asyncio.run(make_tokens())
        close_stores()
        settings = Path(work, "server.toml")
        settings.write_text("[rate_limit]\nprincipal_burst = 1000000\n")
        command = our_program(
            "serve", "--registry", "--port", "0", "--json", "--no-access-log", "--config", str(settings)
        )
        with started(command, {"SKILLWIRE_HOME": str(home)}) as server:

            def ask(method: str, path: str, token: str = "", body: bytes | None = None) -> tuple[int, float]:
                fields = {"Authorization": f"Bearer {token}"} if token else {}
                began = time.perf_counter()
                server.connection.request(method, path, body, fields)
                answer = server.connection.getresponse()
                answer.read()
                return answer.status, (time.perf_counter() - began) * 1e6

            archive = make_archive(NAMES[0])
            assert ask("POST", "/api/registry/namespaces/acme/packages", owner, archive)[0] == 201
            document = b'{"access": "private"}'
            assert ask("PATCH", f"/api/registry/packages/acme/{NAMES[0]}", owner, document)[0] == 200
            time.sleep(1)
            for who, token in (("nobody", ""), ("another account", stranger)):
                for path in PATHS:
                    times: dict[str, list[float]] = {name: [] for name in NAMES}
                    for turn in range(requests + 20):
                        for name in source.sample(NAMES, 2):
                            status, took = ask("GET", path.format(name=name), token)
                            assert status == 404, (path, name, status)
                            if turn >= 20:  # the first ones open files and fill caches
                                times[name].append(took)
                    private, missing = (times[name] for name in NAMES)
                    longer = sum(one > other for one, other in zip(private, missing, strict=True)) / requests
                    rows = [statistics.quantiles(one, n=10) for one in (private, missing)]
                    (one, most), (other, most_other) = ((row[4], row[8]) for row in rows)
                    print(
                        f"{who}, {path}: private {one:.0f} us (p90 {most:.0f}), missing {other:.0f} us "
                        f"(p90 {most_other:.0f}), private longer in {longer:.0%}"
                    )


if __name__ == "__main__":
    main()
