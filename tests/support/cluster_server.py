"""One server of several over one database: ``python -m tests.support.cluster_server HOST:PORT STORE RUNS [CLOCK]``.

It is a registry, and runs two functions that write a line to the file ``RUNS`` for each run: ``order`` may run once,
``count`` again. ``CLOCK`` is by how many seconds its clock is wrong.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

_CLOCK = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
if _CLOCK:
    _now = time.time
    time.time = lambda: _now() + _CLOCK


def main() -> None:
    """Serve until SIGTERM."""
    from skillwire import Publisher  # noqa: PLC0415  # they keep a clock that is set before
    from skillwire.server.app import create_app  # noqa: PLC0415  # same
    from skillwire.server.configuration import ServerConfiguration  # noqa: PLC0415  # same
    from skillwire.server.log import configure_logging  # noqa: PLC0415  # same
    from skillwire.server.quotas import RateLimit  # noqa: PLC0415  # same
    from skillwire.server.run import listen, run  # noqa: PLC0415  # same

    (host, _, port), store, runs = sys.argv[1].partition(":"), sys.argv[2], sys.argv[3]
    publisher = Publisher("local")

    def note(kind: str, number: int) -> None:
        handle = os.open(runs, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{kind} {number}\n".encode())  # one write is one line, whoever writes beside it
        finally:
            os.close(handle)

    @publisher.skill(access="public")
    async def order(number: int) -> int:
        """Place an order, once. Use when somebody orders."""
        note("order", number)
        await asyncio.sleep(0.05)
        return number

    @publisher.skill(access="public", idempotent=True, retry=5, backoff=0.1)
    async def count(number: int) -> int:
        """Count something, as often as it takes. Use when somebody counts."""
        note("count", number)
        await asyncio.sleep(0.05)
        return number

    configure_logging("json")
    unlimited = ServerConfiguration(principal_limit=RateLimit(1_000_000, 1_000_000))  # all clients are one account
    application = create_app(
        [], functions=publisher.functions, registry=True, store=store, access_log=False, configuration=unlimited
    )
    run(application, listen(host, int(port)), on_ready=lambda _: None)


if __name__ == "__main__":
    main()
