"""The stylesheets, scripts and the icon of pages, and the header fields that bound what a browser does with a page.

A page allows nothing inline, nothing from elsewhere, and no frame. Pages share their origin with the files of skills;
those are sent with a sandbox and with types that no browser executes. Each asset has an address with its digest, so it
never changes there; all are read and compressed once, for the first page.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import brotli

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

#: On every page.
PAGE_FIELDS: Final[dict[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: On every page of the console: no other cache may hold it, and its forms say from which site they come, which a
#: browser leaves out where no referrer is allowed.
CONSOLE_FIELDS: Final[dict[str, str]] = {**PAGE_FIELDS, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
#: On the files that pages need.
ASSET_FIELDS: Final[dict[str, str]] = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}


#: Where assets are, from the site's root.
FOLDER: Final = "assets"
_HOME: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "static.js": "text/javascript; charset=utf-8",
    "lan.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_DIGITS: Final = 16


class Asset(NamedTuple):
    """One file that pages need: its name with the digest, its media type, its bytes in each coding."""

    name: str
    media_type: str
    bodies: Mapping[str, bytes]


@cache
def assets() -> Mapping[str, Asset]:
    """Return the assets by the name that is in URLs."""
    found = {}
    for plain, media_type in _TYPES.items():
        content = (_HOME / plain).read_bytes()
        stem, _, ending = plain.partition(".")
        name = f"{stem}.{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{ending}"
        bodies = {"br": brotli.compress(content), "gzip": gzip.compress(content, mtime=0), "identity": content}
        found[name] = Asset(name, media_type, bodies)
    return found


@cache
def asset_urls() -> Mapping[str, str]:
    """Return plain name → URL, relative to the site's root."""
    return {plain: f"{FOLDER}/{asset.name}" for plain, asset in zip(_TYPES, assets().values(), strict=True)}
