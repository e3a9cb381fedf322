"""What an operator sets of a site: a logo is known by its bytes, a contact is an address."""

import pytest

from skillwire import limits
from skillwire.errors import UsageError, ValidationError
from skillwire.web.assets import Branding, check_contact, read_logo

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.mark.parametrize(
    ("content", "ending", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n...", "png", "image/png"),
        (b"\xff\xd8\xff...", "jpg", "image/jpeg"),
        (b"RIFF1234WEBP...", "webp", "image/webp"),
        (SVG, "svg", "image/svg+xml"),
        (b'\n<?xml version="1.0"?>\n<!-- a > b -->\n' + SVG, "svg", "image/svg+xml"),
    ],
)
def test_a_logo_is_what_its_bytes_show(content, ending, media_type):
    logo = read_logo(content)
    assert (logo.name.partition(".")[0], logo.name.rpartition(".")[2], logo.media_type) == ("logo", ending, media_type)


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a", b"<html><svg></svg>", b"<!doctype html>", SVG + b" " * limits.LOGO_BYTES]
)
def test_another_file_is_no_logo(content):
    with pytest.raises(UsageError, match="logo"):
        read_logo(content)


@pytest.mark.parametrize(
    ("contact", "url"),
    [("help@example.com", "mailto:help@example.com"), ("https://example.com/help", "https://example.com/help")],
)
def test_a_contact_is_a_link(contact, url):
    assert Branding(contact=check_contact(contact)).contact_url == url


@pytest.mark.parametrize("contact", ["javascript:alert(1)", "a@b?subject=x", "ask us", "mailto:a@b"])
def test_another_text_is_no_contact(contact):
    with pytest.raises(ValidationError):
        check_contact(contact)
