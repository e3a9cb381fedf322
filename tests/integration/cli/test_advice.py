"""The fix of an error says what this place has to do with it."""

import pytest

from skillwire.cli.main import run


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_proxy_that_is_not_used_is_named(capsys, monkeypatch):
    assert run(["show", "127.0.0.1:1/a"]) == 5
    assert "HTTPS_PROXY" not in capsys.readouterr().err
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert run(["show", "127.0.0.1:1/a"]) == 5
    assert "HTTPS_PROXY is set and not used: skillwire connects directly" in capsys.readouterr().err
