"""The public pages: the list of skills with its search, the page of a skill, and the page of each of its files.

The list has a part that changes while the reader types. A file is shown with numbered lines, or with a link to download
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from skillwire import limits
from skillwire.errors import SkillwireError, UsageError
from skillwire.folder.differences import read_text_file, split_lines
from skillwire.folder.frontmatter import split_body
from skillwire.folder.manifest import Manifest, read_manifest
from skillwire.folder.review import KINDS, review_files
from skillwire.model.access import Access
from skillwire.model.catalog import ORDERS, Explanation, SearchPage, SearchQuery
from skillwire.model.package import Status
from skillwire.model.skill import SKILL_MD, SKILL_TOML, FileContent
from skillwire.protocols.agent_skills.messages import WELL_KNOWN, media_type
from skillwire.protocols.agent_skills.server import artifact_name
from skillwire.registry.search import FACETS, skill_kind
from skillwire.trust.hidden_text import neutralise
from skillwire.web.address import query_url, short_address
from skillwire.web.environment import render, shorten
from skillwire.web.forms import about_input
from skillwire.web.markdown import ANCHOR, Rendered, SkillLinks, is_web_link, render_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.review import Review
    from skillwire.model.digest import Digest
    from skillwire.model.package import Package
    from skillwire.model.skill import Skill, SkillFile
    from skillwire.ports import SkillSearch
    from skillwire.protocols.skill_sharing.messages import ParameterDefinition
    from skillwire.web.assets import Branding
    from skillwire.web.environment import Frame
    from skillwire.web.forms import ShownCall, Snippet

    #: Returns the bytes of a file, or None when they are not there just now.
    ReadBlob = Callable[[Digest], bytes | None]
    CallPart = tuple[ShownCall, Sequence[Snippet], Sequence[ParameterDefinition]] | None

Part = Literal["readme", "call", "files", "versions", "security"]

#: What is shown of a description; the skill's page has all of it.
_DESCRIPTION: Final = 260
#: Names that are proposed for one that is not there.
_NEAR: Final = 3
#: Values of a facet that are shown.
_VALUES: Final = 8
#: With fewer hits, similar words and names are proposed.
_FEW: Final = 3
_ORDERS: Final = {"": "Relevance", "name": "Name", "updated": "Recently updated", "downloads": "Most downloaded"}
_LABELS: Final = {"kind": "Kind", "license": "Licence", "tag": "Tag"}
_KINDS: Final = {"callable": "Callable", "scripts": "With scripts", "instructions": "Instructions"}


class FoundSkills(NamedTuple):
    """A page of hits with the choices that narrow it; ``problem`` when the query is not valid."""

    page: SearchPage
    facets: Sequence[Mapping[str, Any]] = ()
    problem: str = ""
    explanation: Explanation = Explanation()
    suggestions: Sequence[str] = ()
    tags: Sequence[str] = ()
    orders: Sequence[str] = ()


def find_skills(search: SkillSearch, query: SearchQuery, values: Mapping[str, Mapping[str, float]] = {}) -> FoundSkills:
    """Return what a page of the list shows; ``values`` are order → name → value, of the orders beyond the name."""
    orders = [one for one in ORDERS if one in values or (one == "name" and query.text)]
    query = query if query.order in orders else replace(query, order="")
    try:
        page = search.search(query, values.get(query.order, {}))
        explanation = search.explain(query.text, page.names) if query.text else Explanation()
        few = query.text and page.total < _FEW and not query.facets and not explanation.corrections
        suggestions = [one for one in search.suggest(query.text) if one not in page.names] if few else []
    except UsageError as error:
        return FoundSkills(SearchPage((), 0), (), error.message)
    tags = () if page.total else search.search(SearchQuery(limit=1)).facets.get("tag", ())[:_VALUES]
    facets = list(_facets(search, page, query))
    return FoundSkills(page, facets, "", explanation, suggestions, [one.value for one in tags], orders)


def find_near(search: SkillSearch, name: str) -> list[str]:
    """Return names of skills that resemble ``name``."""
    try:
        found = search.search(SearchQuery(name, limit=_NEAR, counted=False)).names
        return list(dict.fromkeys((*search.suggest(name), *found)))[: 2 * _NEAR]
    except UsageError:
        return []


def list_page(
    skills: Mapping[str, Skill],
    found: FoundSkills,
    query: SearchQuery,
    frame: Frame,
    *,
    part: bool = False,
    packages: Mapping[tuple[str, str], Package] = {},
    others: Sequence[Skill] = (),
) -> str:
    """Return the list, with ``part`` only what depends on the query.

    ``packages`` are those of the hits, by publisher and name; ``others`` are matching skills that are not public.
    """
    values: dict[str, Any] = {
        "query": query,
        "chosen": [
            (facet, value, _label(facet, value)) for facet in FACETS for value in sorted(query.facets.get(facet, ()))
        ],
        "facets": found.facets,
        "hits": [
            hit(skills[name], packages.get(skills[name][:2]), found.explanation.matches.get(name, {}))
            for name in found.page.names
        ],
        "corrections": [
            (word, near, query_url(query, text=_respelt(query.text, word, near)))
            for word, near in found.explanation.corrections.items()
        ],
        "suggestions": [(text, query_url(query, text=text, facets={})) for text in found.suggestions],
        "tags": [(tag, query_url(SearchQuery(facets={"tag": frozenset({tag})}))) for tag in found.tags],
        "orders": [
            (_ORDERS[one] if one or query.text else "Name", query_url(query, order=one), one == query.order)
            for one in ("", *found.orders)
        ]
        if found.orders
        else [],
        "others": [hit(skill, packages.get(skill[:2])) for skill in others],
        "total": found.page.total,
        "all": len(skills),
        "problem": found.problem,
        "next": query_url(query, after=found.page.next) if found.page.next else None,
        "first": query_url(query),
        **site_values(frame.brand, skills, is_first=not (query.text or query.facets or query.after or query.order)),
        "host": short_address(frame.address).removeprefix("http://"),
    }
    return render("hits.html" if part else "list.html", frame, values)


def hit(
    skill: Skill, package: Package | None = None, match: Mapping[str, Sequence[tuple[str, bool]]] = {}
) -> dict[str, Any]:
    """Return what a list shows of a skill, or of the latest version of a package; ``match`` is why it was found."""
    name, about = _marked(match.get("name", ())), _marked(match.get("description", ()))
    others = {column: _marked(match.get(column, ())) for column in ("tags", "files")}
    return {
        "url": f"packages/{package.name}" if package else f"skills/{skill.name}",
        "name": (Markup("{}/").format(package.name.namespace) if package else "") + name
        if name
        else str(package.name)
        if package
        else skill.name,
        "version": skill.version,
        "description": about or shorten(skill.description, _DESCRIPTION),
        "others": [] if name and about else [(column, text) for column, text in others.items() if text],
        "kind": kind_label(skill),
        "capability_type": skill.sharing and skill.sharing.capability_type,
        "license": skill.license,
        "access": package.access.value if package else Access.PUBLIC.value,
        "status": package.state.status.value if package else Status.ACTIVE.value,
    }


def site_values(brand: Branding, skills: Mapping[str, Skill], *, is_first: bool) -> dict[str, Any]:
    """Return what a list shows above the skills; the featured ones only on its first page."""
    featured = [
        (f"packages/{name}" if "/" in name and name in skills else f"skills/{skill.name}", name, skill.description)
        for name, skill in brand.featured_in(skills).items()
        if is_first and skill is not None
    ]
    return {"featured": featured, "intro": _intro(brand.intro)}


@cache
def _intro(text: str) -> Markup:
    """Return the introduction of a site as HTML; only links to other sites remain."""
    html = render_markdown(text, SkillLinks("", "", (), "intro-")).html if text else ""
    return Markup(html)  # noqa: S704  # it comes from the sanitiser


def _marked(pieces: Sequence[tuple[str, bool]]) -> Markup:
    """Return a text with its matches marked; nothing where there is no match."""
    if not any(is_hit for _, is_hit in pieces):
        return Markup()
    texts = (
        Markup("<mark>{}</mark>").format(neutralise(text)) if is_hit else escape(neutralise(text))
        for text, is_hit in pieces
    )
    return Markup().join(Markup(text) for text in texts)  # noqa: S704  # they are escaped


def _respelt(text: str, word: str, near: str) -> str:
    """Return a query with each occurrence of a word replaced."""
    return re.sub(rf"(?i)\b{re.escape(word)}\b", lambda _: near, text)


def kind_label(skill: Skill) -> str:
    """Return what ``skill`` is made of, as pages call it."""
    return _KINDS[skill_kind(skill)]


def _facets(search: SkillSearch, page: SearchPage, query: SearchQuery) -> Iterator[dict[str, Any]]:
    """Yield each facet in which the skills differ, whether there are hits or not: so the list keeps its place."""
    everything = search.search(SearchQuery(limit=1)).facets
    for name in FACETS:
        chosen = query.facets.get(name, frozenset())
        if len(everything.get(name, ())) <= 1 and not chosen:
            continue
        choosable = page
        if chosen:  # what would be found without a choice in this facet can be chosen instead
            others = {facet: values for facet, values in query.facets.items() if facet != name}
            choosable = search.search(replace(query, facets=others, limit=1, after=None))
        found = dict(page.facets.get(name, ()))
        counts = dict(choosable.facets.get(name, ())[:_VALUES])
        rare = {value: found.get(value, 0) for value in sorted(chosen) if value not in counts}
        choices = [
            {
                "label": _label(name, value),
                "skills": skills,
                "url": query_url(
                    query, facets={**query.facets, name: chosen - {value} if value in chosen else frozenset({value})}
                ),
                "is_chosen": value in chosen,
            }
            for value, skills in (rare | counts).items()
        ]
        yield {"name": name, "label": _LABELS.get(name, name), "choices": choices}


def _label(facet: str, value: str) -> str:
    return _KINDS.get(value, value) if facet == "kind" else value


#: The parts of a skill's page, each at an address of its own: the end of the path, and the label.
PARTS: Final[Mapping[Part, str]] = {
    "readme": "Read me", "call": "Call", "files": "Files", "versions": "Versions", "security": "Security",
}  # fmt: skip
#: Agents with a command of their own: as ``add --agent`` names them → as people do.
_AGENTS: Final = {"claude-code": "Claude Code", "codex": "Codex", "cursor": "Cursor", "github-copilot": "VS Code"}
#: Keys of a SKILL.md's metadata that hold an address on the web.
_LINKS: Final = {"repository": "Source", "source": "Source", "homepage": "Home page", "documentation": "Documentation"}
#: Placeholder in commands for the unknown address of a static site; the script of its pages replaces it.
UNKNOWN_SITE: Final = "https://this-site.example"
#: More findings of one kind than this are folded, but for some examples.
_ALIKE: Final = 10
_EXAMPLES: Final = 3


class SkillText(NamedTuple):
    """What had to be read from a skill's files for its page; it depends on the artifact alone."""

    body: Rendered
    manifest: Manifest
    review: Callable[[], Review]  # may take a quarter of a second once

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.body.html) + sum(len(part) for heading in self.body.headings for part in heading)


class SkillAddresses(NamedTuple):
    """Where a skill's page, the bytes of its files and its artifact are, as paths of the site, and how to add it.

    ``crumbs`` lead to the page: paths and their labels. ``commands`` are a key, a title and lines.
    """

    page: str
    raw: str
    artifact: str
    crumbs: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str, str]]

    @classmethod
    def of(cls, skill: Skill, frame: Frame) -> SkillAddresses:
        """Return those of a skill in the catalog."""
        name, artifact = f"{skill.name}{skill.artifact.extension}", f"{WELL_KNOWN[1:]}/sha256/{artifact_name(skill)}"
        address = frame.address or UNKNOWN_SITE
        verified = (
            f'curl -fsSL -o {name} {address}/{artifact}\necho "{skill.artifact.digest.hex}  {name}" | sha256sum -c'
        )
        commands = (
            *add_commands(f"{short_address(address)}/{skill.name}"),
            ("npx", "With npx skills", f"npx skills add {address}/@{skill.name}"),
            ("curl", "By hand, verified", verified),
        )
        page = f"skills/{skill.name}"
        return cls(page, f"{WELL_KNOWN[1:]}/{skill.name}", artifact, (("", "All skills"), (page, skill.name)), commands)


def add_commands(reference: str) -> tuple[tuple[str, str, str], ...]:
    """Return the commands that add a skill: for the agents that are found, and for single ones."""
    add = f"skillwire add {reference}"
    agents = ((name, f"To {title}", f"{add} --agent {name}") for name, title in _AGENTS.items())
    return ("skillwire", "With skillwire", add), *agents


def read_text(skill: Skill, addresses: SkillAddresses, read: ReadBlob, end: str = "") -> SkillText:
    """Read and render what the page shows of a skill's files. May take a second: not for the event loop."""
    links = SkillLinks(addresses.page, addresses.raw, [file.path for file in skill.files], ANCHOR, end)
    data, manifest = _read(skill, SKILL_MD, read), _read(skill, SKILL_TOML, read)
    try:
        body = split_body(data)
    except SkillwireError:  # it was read before it was published; now it is shown as it is
        body = data.decode("utf-8", "replace")
    try:
        granted = read_manifest(manifest)[0] if manifest else Manifest()
    except SkillwireError:  # as above; unclear permissions are not shown
        granted = Manifest()
    review = cache(lambda: review_files(skill.name, read_files(skill, read)))
    return SkillText(render_markdown(body, links), granted, review)


def read_files(skill: Skill, read: ReadBlob) -> Iterator[FileContent]:
    """Yield the files of a skill; one that the store does not have just now is empty."""
    for path, _, digest, executable in skill.files:
        yield FileContent(path, read(digest) or b"", executable)


def skill_page(
    skill: Skill,
    text: SkillText,
    addresses: SkillAddresses,
    frame: Frame,
    *,
    part: Part = "readme",
    call: CallPart = None,
) -> str:
    """Return a part of the page as HTML."""
    return render("skill.html", frame, skill_values(skill, text, addresses, part, call))


def skill_values(
    skill: Skill,
    text: SkillText | None,
    addresses: SkillAddresses,
    part: Part = "readme",
    call: CallPart = None,
) -> dict[str, Any]:
    """Return what the template of a skill's page shows; without a text its content stays closed."""
    shown, snippets, inputs = call or (None, (), ())
    is_called = skill_kind(skill) == "callable" and text is not None
    facts = skill.metadata or {}
    return {
        "part": part,
        "parts": {key: label for key, label in PARTS.items() if key != "call" or is_called},
        "counts": {"files": len(skill.files), "security": len(skill.findings)},
        "author": facts.get("author", ""),
        "links": [(label, facts[key]) for key, label in _LINKS.items() if is_web_link(facts.get(key, ""))],
        "skill": skill,
        "page": addresses,
        "kind": kind_label(skill),
        "text": text,
        "kinds": KINDS,
        "body": Markup(text.body.html if text else ""),  # noqa: S704  # it comes from the sanitiser
        "unseen": "\n".join(text.body.unseen if text else ()),
        "total": sum(file.size for file in skill.files),
        "call": shown,
        "snippets": snippets,
        "inputs": [(one, about_input(one)) for one in inputs],
        "findings": len(skill.findings),
        "groups": _groups(skill),
    }


def _groups(skill: Skill) -> list[dict[str, Any]]:
    """Return the findings by level and code, in the order of their first; many of one kind are folded."""
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for finding in skill.findings:
        source, line = finding.place.source, finding.place.line
        # The path within the skill, without that of its folder on this machine.
        path = max((file.path for file in skill.files if source.endswith(f"/{file.path}")), key=len, default="")
        path = path or source.rpartition("/")[2]
        found = {"finding": finding, "place": f"{path}:{line}" if line else path}
        alike.setdefault((finding.level, finding.code), []).append(found)
    shown = {key: _EXAMPLES if len(found) > _ALIKE else len(found) for key, found in alike.items()}
    return [{"shown": found[: shown[key]], "folded": found[shown[key] :]} for key, found in alike.items()]


def _read(skill: Skill, path: str, read: ReadBlob) -> bytes:
    """Return a file's bytes; nothing when the skill, or just now the store, does not have it."""
    file = skill.find_file(path)
    return (read(file.digest) or b"") if file else b""


def file_page(skill: Skill, file: SkillFile, addresses: SkillAddresses, read: ReadBlob, frame: Frame) -> str:
    """Return the page as HTML. It may take a tenth of a second: not for the event loop."""
    text: str | None = None
    picture = media_type(file.path).startswith("image/")
    if file.size <= limits.PAGE_FILE_BYTES and not picture:
        text = read_text_file(read(file.digest) or b"")
    lines = split_lines(neutralise(text or ""))
    many = len(lines) > limits.PAGE_FILE_LINES
    rows = (
        f'<div id="L{number}"><a href="#L{number}" tabindex="-1">{number}</a><code>{escape(line)}</code></div>'
        for number, line in enumerate(lines, 1)
    )
    values: dict[str, Any] = {
        "skill": skill,
        "page": addresses,
        "canonical": frame.address and f"{frame.address}/{addresses.page}/files/{quote(file.path)}{frame.end}",
        "file": file,
        "download": f"{addresses.raw}/{quote(file.path)}",
        "file_name": file.path.rpartition("/")[2],
        "picture": picture,
        "reason": "Too many lines to be shown"
        if many
        else "Too large to be shown"
        if file.size > limits.PAGE_FILE_BYTES
        else "Not a text",
        "text": None if many or text is None else Markup("".join(rows)),  # noqa: S704  # lines are escaped
        "count": len(lines),
    }
    return render("file.html", frame, values)
