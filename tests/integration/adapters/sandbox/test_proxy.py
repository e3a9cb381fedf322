"""What a proxy refuses is told, and not thousands of times."""

import asyncio

import pytest

from skillwire.adapters.sandbox.proxy import AllowListProxy
from skillwire.trust.address import AddressPolicy


async def ask(path):
    """Ask for what is not granted; return the answer."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(("tries", "told"), [(3, 3), (10, 10), (200, 11)])
async def test_the_first_refusals_are_told_and_then_only_how_many_there_were(tries, told):
    heard: list[str] = []
    async with AllowListProxy((), AddressPolicy(), on_refusal=heard.append) as proxy:
        for _ in range(tries):
            assert b"403 Not Granted" in await ask(proxy.path)
    assert len(heard) == told
    assert heard[:3] == ["https://evil.example is not granted"] * 3
    assert heard[10:] in ([], ["190 more connections"])
