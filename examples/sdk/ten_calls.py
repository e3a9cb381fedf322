"""Make ten calls at once, and print their progress: python ten_calls.py 127.0.0.1:8000"""

import asyncio
import sys

from skillwire import AsyncClient


async def call(client: AsyncClient, origin: str, days: int) -> str:
    async for event in (watch := client.watch(f"{origin}/working-days", {"start": "2026-04-02", "days": days})):
        print(f"{days:2} days: {event.kind}")
    assert watch.execution is not None
    return watch.execution.check().output["end"]


async def main(origin: str) -> None:
    async with AsyncClient() as client:
        ends = await asyncio.gather(*(call(client, origin, days) for days in range(1, 11)))
    print(*ends)


asyncio.run(main(sys.argv[1]))
