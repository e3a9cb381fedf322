"""What a program that catches no error prints."""

import subprocess
import sys

import pytest
from tests.support.free_port import free_port

BLOCKING = "from skillwire import Client\nClient('.').show({url!r})\n"
AWAITED = (
    "import asyncio\nfrom skillwire import AsyncClient\n"
    "async def main():\n    async with AsyncClient('.') as client:\n        await client.show({url!r})\n"
    "asyncio.run(main())\n"
)


@pytest.mark.parametrize("program", [BLOCKING, AWAITED], ids=["Client", "AsyncClient"])
def test_an_error_is_printed_once_with_its_cause_and_the_place_where_it_began(tmp_path, program):
    script = program.format(url=f"http://127.0.0.1:{free_port()}/#notes")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.count("skillwire.errors.FetchError: CONNECT_FAILED: cannot connect to 127.0.0.1") == 1
    assert done.stderr.count("ConnectionRefusedError") == 1
    assert "During handling of the above exception" not in done.stderr
    assert "  fix: Check that the server is running" in done.stderr
    assert "adapters/http/connection.py" in done.stderr or "adapters/http/asynchronous.py" in done.stderr
