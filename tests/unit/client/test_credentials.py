"""A client names the last change that a registry acknowledged to it, to that registry alone."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from skillwire.client.credentials import StoredCredentials
from skillwire.wire.exchange import HttpRequest, HttpResponse, drive

SITE = "https://skills.example.com"


@pytest.fixture
def send():
    """Return a function that sends a request to a server that answers with a revision; it returns the fields sent."""
    stored = StoredCredentials(cast("Any", SimpleNamespace()))

    def send(url, told=None):
        seen = {}

        def answer(request):
            seen.update(request.headers)
            return HttpResponse(request.url, 200, {} if told is None else {"skillwire-revision": told}, b"")

        drive(stored.send(HttpRequest(url, headers={"Accept": "*/*"})), answer)
        return seen

    return send


def test_the_last_change_is_sent_back_to_its_registry(send):
    assert send(f"{SITE}/a", "7") == {"Accept": "*/*"}
    assert send(f"{SITE}/b")["Skillwire-Revision"] == "7"
    assert "Skillwire-Revision" not in send("https://other.example.com/a")


def test_an_older_change_replaces_no_newer_one(send):
    send(SITE, "7")
    send(SITE, "5")
    assert send(SITE)["Skillwire-Revision"] == "7"


@pytest.mark.parametrize("told", ["", "x", "-1", "1" * 16, "٣", "1\r\nX: y"])
def test_what_is_no_number_is_not_sent_back(send, told):
    send(SITE, told)
    assert "Skillwire-Revision" not in send(SITE)
