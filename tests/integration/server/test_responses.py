"""Sending what is large to somebody who reads it slowly, or not at all."""

import asyncio

from tests.support.eventually import PATIENCE

from skillwire import limits
from skillwire.server.responses import in_pieces, send_pieces


async def test_what_is_large_is_sent_in_pieces_and_whole(monkeypatch):
    monkeypatch.setattr(limits, "SERVER_PIECE_BYTES", 4)
    sent = []

    async def send(message):
        sent.append((message["body"], message.get("more_body", False)))

    assert await send_pieces(in_pieces([b"abcdef", b"", b"gh"]), 8, send)
    assert sent == [(b"abcd", True), (b"ef", True), (b"gh", True), (b"", False)]


async def test_who_stops_reading_is_cut_off_long_before_a_slow_reader_of_as_much_would_be(monkeypatch):
    monkeypatch.setattr(limits, "SERVER_REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(limits, "SERVER_REQUEST_RATE", 1)
    sent = []

    async def send(message):
        sent.append(message)
        if len(sent) > 1:
            await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE):
        assert not await send_pieces(in_pieces([b"a", b"b", b"c"]), 1_000_000, send)
    assert len(sent) == 2
    assert sent[-1]["more_body"]


async def test_who_reads_every_piece_too_slowly_is_cut_off_too(monkeypatch):
    monkeypatch.setattr(limits, "SERVER_REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(limits, "SERVER_REQUEST_RATE", 1000)
    sent = []

    async def send(message):
        sent.append(message)
        await asyncio.sleep(0.04)

    assert not await send_pieces(in_pieces([b"x"] * 100), 100, send)
    assert len(sent) < 10
