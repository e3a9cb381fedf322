"""``call``, ``status``, ``result`` and ``cancel`` against a provider on loopback: what they print, and exit codes."""

from __future__ import annotations

import json

import pytest
from tests.support.provider import Provider

from skillwire.cli.main import run


@pytest.fixture(scope="module")
def provider():
    with Provider() as provider:
        yield provider


@pytest.fixture
def call(provider, tmp_path, monkeypatch, capsys):
    """Give a function that runs a command line and returns exit code, output and errors."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run_line(*words):
        code = run([word.replace("PROVIDER", provider.address) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_line


def test_the_output_is_all_that_standard_output_holds(call):
    code, out, errors = call("call", "PROVIDER/forecast", "city=Bern", "days=5")
    assert (code, errors) == (0, "")
    assert json.loads(out) == {"city": "Bern", "high": 31, "days": 5}
