"""Lines of standard input: whatever the pieces are in which they come, and however long they are."""

import asyncio
import os

from skillwire.adapters.lines import lines_of


async def test_what_is_not_taken_is_not_read():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    lines = lines_of(reading, 100_000)
    sent = 0
    os.write(writing, b"first\n")
    assert await anext(lines) == b"first"
    for _ in range(20):
        try:
            sent += os.write(writing, (b"x" * 10_000 + b"\n") * 6)
        except BlockingIOError:
            break
        await asyncio.sleep(0.01)
    assert sent < 1_000_000
    os.close(writing)
    async for _ in lines:
        pass
    os.close(reading)
