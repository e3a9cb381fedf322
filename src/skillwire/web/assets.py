"""The stylesheets, scripts and the icon of pages, and the header fields that bound what a browser does with a page.

A page allows nothing inline, nothing from elsewhere, and no frame. Pages share their origin with the files of skills;
those are sent with a sandbox and with types that no browser executes. Each asset has an address with its digest, so it
never changes there; all are read and compressed once, for the first page.

Also here is the :class:`Branding` of a site by its operator. A logo is known by its first bytes and served under its
digest, as the type that they show. An SVG can contain scripts: pages show it as a picture only, in which no browser
runs them, and :data:`LOGO_POLICY` forbids them where a person opens it alone.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import brotli

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.skill import Skill

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


#: The ``Content-Security-Policy`` of a logo.
LOGO_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_EMAIL: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,253}", re.ASCII)
#: How a picture begins → the ending of its name, its media type.
_PICTURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "png", "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "jpg", "image/jpeg"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "webp", "image/webp"),
    (
        re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<svg[\s>]", re.DOTALL),
        "svg",
        "image/svg+xml",
    ),
)


class Logo(NamedTuple):
    """A picture: its name with its digest, its media type and its bytes."""

    name: str
    media_type: str
    content: bytes


class Branding(NamedTuple):
    """What a site says of itself; ``intro`` is Markdown, ``featured`` are names of skills; empty if not set."""

    title: str = ""
    intro: str = ""
    logo: Logo | None = None
    contact: str = ""
    featured: tuple[str, ...] = ()

    def featured_in(self, skills: Mapping[str, Skill]) -> dict[str, Skill | None]:
        """Return the skill of each featured name; None for one that ``skills`` do not have.

        Of packages, ``skills`` have those at the root by their names alone.
        """
        found: dict[str, Skill | None] = {}
        for name in self.featured:
            namespace, _, own = name.rpartition("/")
            skill = skills.get(name) or skills.get(own)
            found[name] = skill if skill and namespace in {"", skill.publisher} else None
        return found

    def missing_from(self, skills: Mapping[str, Skill]) -> list[str]:
        """Return the featured names that ``skills`` do not have."""
        return [name for name, skill in self.featured_in(skills).items() if skill is None]

    @property
    def contact_url(self) -> str:
        """The link of the contact."""
        return f"mailto:{self.contact}" if _EMAIL.fullmatch(self.contact) else self.contact


def check_contact(text: str) -> str:
    """Return ``text`` if it is an email address or a URL. Raises ValidationError."""
    if not _EMAIL.fullmatch(text):
        parse_url(text)
    return text


def read_logo(content: bytes) -> Logo:
    """Return a picture. Raises UsageError (``SERVER_CONFIGURATION``) for another file, or one that is too large."""
    if len(content) > limits.LOGO_BYTES:
        message = f"the logo has {len(content):,} bytes, more than {limits.LOGO_BYTES:,}"
        raise UsageError("SERVER_CONFIGURATION", message, fix="Give a smaller picture.")
    for form, ending, media_type in _PICTURES:
        if form.match(content):
            return Logo(f"logo.{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{ending}", media_type, content)
    message = "the logo is no PNG, JPEG, WebP or SVG picture"
    raise UsageError("SERVER_CONFIGURATION", message, fix="Name a file of one of these formats.")


#: Of a site whose operator sets nothing.
PLAIN: Final = Branding()
