"""Credentials belong to one origin each, whatever the file that holds them says of hosts."""

import pytest

from skillwire.adapters.files.credentials import find_password, find_token
from skillwire.errors import UsageError
from skillwire.model.url import parse_url


@pytest.fixture
def netrc(tmp_path):
    path = tmp_path / "netrc"
    path.write_text("machine example.com login me password pw\nmachine 127.0.0.1 login me password pw\n")
    path.chmod(0o600)
    return {"NETRC": str(path)}


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://example.com/", True),
        ("https://example.com:8443/", False),
        ("http://example.com/", False),
        ("http://127.0.0.1:8000/", True),
        ("https://other.example/", False),
    ],
)
def test_netrc_stands_for_the_usual_https_origin_and_for_this_machine(netrc, url, is_sent):
    assert (find_password(parse_url(url), netrc) is not None) == is_sent


@pytest.mark.parametrize("url", ["https://example.com/", "https://example.com:8443/"])
def test_a_token_of_the_environment_is_for_its_port_only(url):
    found = find_token(parse_url(url), {"SKILLWIRE_TOKENS": "https://example.com:8443=t"})
    assert found == ("Bearer t" if ":8443" in url else None)


def test_a_netrc_that_cannot_be_read_is_said(tmp_path):
    path = tmp_path / "netrc"
    path.write_bytes(b"machine \xff login a password b\n")
    with pytest.raises(UsageError):
        find_password(parse_url("https://example.com/"), {"NETRC": str(path)})
