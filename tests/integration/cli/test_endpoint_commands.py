"""``find``, ``show``, ``cat``, ``call`` and ``which`` at an endpoint of the Skills Protocol that is not ours."""

from __future__ import annotations

import pytest
from tests.support.rpc_endpoint import RpcEndpoint

from skillwire.cli.main import run


@pytest.fixture(scope="module")
def endpoint():
    with RpcEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def call(endpoint, capfd, monkeypatch, tmp_path):
    """Run the words of a command; ENDPOINT is the address. Return the exit code, and what was printed."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    endpoint.calls.clear()

    def begin(*words):
        code = run([word.replace("ENDPOINT", endpoint.address) for word in words])
        said = capfd.readouterr()
        return code, said.out, said.err

    return begin


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("place", ["ENDPOINT", "http://ENDPOINT", "ENDPOINT#", "ENDPOINT#leads."])
def test_find_lists_what_the_endpoint_has(call, endpoint, place):
    code, out, errors = call("find", "--from", place)
    assert code == 0
    assert lines(out)[0] == "leads.broken 0.1.0 action Always fails."
    assert lines(out)[2] == "leads.reading 0.1.0 instruction Says how leads are read."
    assert f"show details: skillwire show {endpoint.address}#leads.broken" in errors
