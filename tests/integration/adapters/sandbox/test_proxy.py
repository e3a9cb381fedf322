"""What a proxy refuses is told, and not thousands of times."""

import asyncio
from contextlib import suppress

import pytest

from skillwire import limits
from skillwire.adapters.sandbox.proxy import AllowListProxy, read_patterns
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


async def test_a_connection_on_which_both_sides_are_silent_is_cut(monkeypatch):
    monkeypatch.setattr(limits, "SANDBOX_PROXY_IDLE_SECONDS", 0.2)
    ended = asyncio.Event()

    async def say_nothing(reader, writer):
        assert await reader.read() == b""
        writer.close()
        ended.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        patterns, policy = read_patterns([f"https://far.example:{port}"]), AddressPolicy(allow=("127.0.0.1",))
        async with AllowListProxy(patterns, policy, resolve=lambda _: ["127.0.0.1"]) as proxy:
            reader, writer = await asyncio.open_unix_connection(proxy.path)
            writer.write(f"CONNECT far.example:{port} HTTP/1.1\r\n\r\n".encode())
            with suppress(ConnectionResetError):
                assert await reader.read() == b"HTTP/1.1 200 Connected\r\n\r\n"
            await ended.wait()
            writer.close()
