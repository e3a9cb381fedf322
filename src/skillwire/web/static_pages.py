"""The pages of a static site: those of a server as files, without a form that calls a skill.

A worker that loads a folder also writes the pages of its skill, from the bytes at hand; :func:`pages_line` states in
the site's manifest what they were made of, so an unchanged skill is not rendered again. The list is written once; a
script filters it by the index that the site has anyway. Links are relative and end with ``.html``, so a site works
below any path, on any host. Where its address is not known, commands have a placeholder, which the script replaces.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from skillwire.protocols.skill_sharing.server import descriptor_of
from skillwire.registry.search import skill_kind
from skillwire.version import VERSION
from skillwire.web.assets import FOLDER, PLAIN, Branding, Logo, assets
from skillwire.web.environment import TEMPLATES, Frame, render
from skillwire.web.forms import ShownCall, call_snippets, other_endpoint
from skillwire.web.public_pages import (
    PARTS,
    UNKNOWN_SITE,
    SkillAddresses,
    file_page,
    hit,
    read_text,
    site_values,
    skill_page,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skillwire.adapters.files.static_site import SiteOptions
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.catalog import Catalog
    from skillwire.model.skill import Skill
    from skillwire.web.public_pages import CallPart, Part

END: Final = ".html"
#: Skills on one page of the list.
_SKILLS: Final = 200
_NOT_CALLED: Final = Markup(
    "This site is static, so calls are not possible here. "
    "The command <code>skillwire serve FOLDER</code> publishes the skill so that it can be called with these inputs."
)


def with_pages(
    options: SiteOptions, brand: Branding = PLAIN, on_missing: Callable[[list[str]], object] = lambda _: None
) -> SiteOptions:
    """Return the options of a build that writes pages too, with the operator's ``brand``.

    ``on_missing`` is called with the featured names that the site does not have.
    """

    def listings(catalog: Catalog) -> Mapping[str, bytes]:
        on_missing(brand.missing_from(catalog.skills))
        return {**options.listings(catalog), **list_pages(catalog, options.base_url, brand)}

    shown = brand.title, brand.contact, brand.logo.name if brand.logo else ""
    return replace(
        options,
        listings=listings,
        pages=(f"{__name__}:{page_maker.__name__}", *shown),
        pages_line=partial(pages_line, base_url=options.base_url, shown=shown),
    )


def page_maker(
    base_url: str, title: str, contact: str, logo: str
) -> Callable[[PreparedSkill], Iterator[tuple[str, bytes]]]:
    """Return what makes the pages of a public skill, each with its path in the site; ``logo`` is the picture's name."""
    frame = Frame(base_url, "../", brand=Branding(title, "", Logo(logo, "", b"") if logo else None, contact), end=END)

    def make(prepared: PreparedSkill) -> Iterator[tuple[str, bytes]]:
        for path, html in _skill_pages(prepared, frame):
            yield f"/{path}{END}", html.encode("utf-8", "replace")

    return make


def pages_line(skill: Skill, base_url: str, shown: tuple[str, ...]) -> str:
    """Return the line of a skill's pages in the manifest: what all pages are made of, the name, and each page."""
    files = (f"/files/{file.path}{END}" for file in skill.files)
    return "\t".join(
        ("pages", _source(base_url, shown), skill.name, *(f"{end}{END}" for end in _ends(skill).values()), *files)
    )


def list_pages(catalog: Catalog, base_url: str, brand: Branding) -> dict[str, bytes]:
    """Return the pages of the list, the assets of all pages and the logo, by their paths in the site."""
    skills, frame = list(catalog.skills.values()), Frame(base_url, "./", brand=brand, end=END)
    found = {f"{FOLDER}/{one.name}": one.bodies["identity"] for one in assets().values()}
    if brand.logo:
        found[f"{FOLDER}/{brand.logo.name}"] = brand.logo.content
    for begin in range(0, len(skills) or 1, _SKILLS):
        number = begin // _SKILLS + 1
        hits = [hit(skill) for skill in skills[begin : begin + _SKILLS]]
        values = {
            "hits": [{**one, "url": f"{one['url']}{END}"} for one in hits],
            "all": len(skills),
            **site_values(brand, catalog.skills, is_first=not begin),
            "previous": _list_page(number - 1) if begin else "",
            "next": _list_page(number + 1) if begin + _SKILLS < len(skills) else "",
        }
        found[_list_page(number)] = render("static.html", frame, values).encode("utf-8", "replace")
    return found


def _list_page(number: int) -> str:
    return f"index{END}" if number == 1 else f"skills-{number}{END}"


def _ends(skill: Skill) -> dict[Part, str]:
    """Return the parts of a skill's page, each with the end of its path."""
    is_called = skill_kind(skill) == "callable"
    return {part: "" if part == "readme" else f"/{part}" for part in PARTS if part != "call" or is_called}


@cache
def _source(base_url: str, shown: tuple[str, ...]) -> str:
    """Return a digest of what all pages are made of."""
    digest = hashlib.sha256("\0".join((VERSION, base_url, *shown, *assets())).encode())
    for path in sorted(TEMPLATES.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _skill_pages(prepared: PreparedSkill, frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield the path of each page of a skill, without its ending, and its HTML."""
    skill, site = prepared.skill, frame.address or UNKNOWN_SITE
    read = {file.digest: bytes(held.content) for file, held in zip(skill.files, prepared.files, strict=True)}.get
    addresses = SkillAddresses.of(skill, frame)
    text = read_text(skill, addresses, read, END)
    for part, end in _ends(skill).items():
        call: CallPart = None
        if part == "call":
            descriptor = descriptor_of(skill, site, read)
            refusal = _NOT_CALLED if skill.action else other_endpoint(descriptor)
            snippets = [] if skill.action else call_snippets(skill.name, descriptor, site, has_mcp=False)
            call = ShownCall(refusal=refusal), snippets, descriptor.inputs
        here = frame._replace(up="../" * (1 + end.count("/")))
        yield f"{addresses.page}{end}", skill_page(skill, text, addresses, here, part=part, call=call)
    for file in skill.files:
        here = frame._replace(up="../" * (3 + file.path.count("/")))
        yield f"{addresses.page}/files/{file.path}", file_page(skill, file, addresses, read, here)
