"""The operator's own words and picture on the pages of a site: title, introduction, logo, contact, featured skills.

A logo is known by its first bytes and served under its digest, as the type that they show. An SVG can contain scripts:
pages show it as a picture only, in which no browser runs them, and :data:`LOGO_POLICY` forbids them where a person
opens it alone.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.skill import Skill

#: The ``Content-Security-Policy`` of a logo.
LOGO_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_EMAIL: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,253}", re.ASCII)
_DIGITS: Final = 16
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
