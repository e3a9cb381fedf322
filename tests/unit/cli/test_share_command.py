"""``share`` warns of an address that the line names and the other side refuses."""

from contextlib import contextmanager

import pytest
from tests.support.publishing import write_skill

from skillwire.cli import share
from skillwire.server import run

REFUSED = "refused on the other side: "


class Listener:
    def __init__(self, host):
        self.host = host

    def getsockname(self):
        return self.host, 8000


@pytest.mark.parametrize(
    ("host", "helps"),
    [
        ("192.168.1.5", None),
        ("192.0.2.2", "first set SKILLWIRE_ALLOW=192.0.2.2 there"),
        ("8.8.8.8", "name an address of the local network: --host"),
    ],
)
def test_an_address_that_add_refuses_is_reported(told, tmp_path, monkeypatch, host, helps):
    @contextmanager
    def listen(address, _):
        yield Listener(address)

    async def serve(*_, **__):
        pass

    monkeypatch.setattr(run, "listen", listen)
    monkeypatch.setattr(share, "_serve", serve)
    shown = told("share", write_skill(tmp_path, "notes"), "--host", host)
    assert f"skillwire add http://{host}:8000/notes@sha256:" in shown.out
    assert (REFUSED in shown.err) == (helps is not None)
    assert helps is None or helps in shown.err
    assert "open to the network" in shown.err
