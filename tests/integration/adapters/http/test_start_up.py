import subprocess
import sys

import pytest
from tests.support.raw_server import RawServer, answer, serving

#: What the synchronous driver does without, because importing it costs more than what it is used for.
HEAVY = {
    "asyncio", "http.client", "email", "ssl", "urllib.parse", "concurrent.futures", "logging", "ipaddress", "brotli",
}  # fmt: skip
PROGRAM = """
import sys
from skillwire.adapters.http.sync import SyncDriver
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch
url = sys.argv[1]
with SyncDriver(AddressPolicy().naming(parse_url(url))) as driver:
    assert driver.run_all([fetch(HttpRequest(url))] * 1)[0].body == b"x"
print("\\n".join(sys.modules))
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_plain_http_needs_sockets_and_little_else(host):
    with RawServer(serving(answer(b"x"))) as server:
        command = [sys.executable, "-I", "-c", PROGRAM, server.url(host=host)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
