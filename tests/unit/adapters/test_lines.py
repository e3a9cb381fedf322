"""Lines of standard input: whatever the pieces are in which they come, and however long they are."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.adapters.lines import LineSplitter, LineWriter, lines_of


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_do_not_depend_on_the_pieces_in_which_they_come(lines, data):
    text = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    splitter, found = LineSplitter(4), []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += splitter.feed(text[start:stop])
    found += splitter.end()
    expected = [line if len(line) <= 4 else None for line in text.split(b"\n")]
    assert found == (expected[:-1] if expected[-1] == b"" else expected)


def test_of_a_line_that_is_too_long_nothing_is_held():
    splitter = LineSplitter(10)
    for _ in range(100):
        assert splitter.feed(b"x" * 9) == []
        assert len(splitter._begun) <= 10
    assert splitter.feed(b"\nok\n") == [None, b"ok"]


async def test_a_pipe_is_read_to_its_end():
    reading, writing = os.pipe()
    os.write(writing, b"a\n\nb")
    os.close(writing)
    assert [line async for line in lines_of(reading, 10)] == [b"a", b"", b"b"]
    os.close(reading)


async def test_what_is_written_is_written_whole_and_in_turn():
    reading, writing = os.pipe()
    writer, large = LineWriter(writing), b"x" * 300_000
    both = asyncio.gather(writer.write(large), writer.write(b"\nend"))
    found = b""
    while not found.endswith(b"end"):
        found += await asyncio.to_thread(os.read, reading, 65536)
    await both
    assert found == large + b"\nend"
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await writer.write(b"x")
    os.close(writing)
