"""The skills of a marketplace at a URL, as an exchange.

Over HTTP no folder can be listed. So of plugins in the marketplace's own place those skills are fetched that its
entries, or their ``plugin.json``, name; of each the ``SKILL.md``, and what that links to, one Markdown file after the
other. Whatever no link leads to is missing, and that is said with every skill: who wants all clones the repository.

Trust: the documents are a stranger's. Every path is checked before it becomes part of a URL, every URL stays below
that of the marketplace, and files, bytes and skills are bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.bridges.marketplace.document import (
    MARKETPLACE_PATH,
    PLUGIN_PATH,
    Plugin,
    join,
    note,
    read_marketplace,
    read_plugin_skills,
)
from skillwire.bridges.marketplace.gather import Gathered
from skillwire.errors import FetchError, NotFoundError, Place, SkillwireError
from skillwire.folder.files import SKILL_MD
from skillwire.folder.lint_links import linked_paths
from skillwire.folder.load import examine_files
from skillwire.model.skill import FileContent
from skillwire.model.url import parse_url, resolve_url
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from skillwire.wire.exchange import Exchange

_OK: Final = 200
_ABSENT: Final = frozenset({404, 410})


def marketplace_url(url: str) -> str:
    """Return the URL of the document that ``url`` means: it, or the place whose marketplace it is.

    Raises:
        ValidationError: ``URL``.
    """
    parsed = parse_url(url)
    if parsed.path.endswith(".json"):
        return str(parsed)
    return str(parsed._replace(path=f"{parsed.path.rstrip('/')}/{MARKETPLACE_PATH}", query=None))


def fetch_skills(url: str) -> Exchange[Gathered]:
    """Fetch the skills of the marketplace whose document is at ``url``.

    Raises:
        FetchError, TrustError: of the document: what the driver raises; ``HTTP_STATUS``.
        NotFoundError: ``FILE_NOT_FOUND`` when it is not there.
        DecodeError, ValidationError: see :func:`~skillwire.bridges.marketplace.document.read_marketplace`.
    """
    place = _Place(url)
    data = yield from place.fetch_document(url)
    if data is None:
        raise NotFoundError("FILE_NOT_FOUND", "there is no marketplace", place=Place(url))
    marketplace = read_marketplace(data, url)
    gathered = Gathered(marketplace.name, len(marketplace.plugins), findings=list(marketplace.findings))
    for plugin in marketplace.plugins:
        if gathered.pass_over(plugin, url):
            continue
        try:
            yield from place.fetch_plugin(plugin, gathered)
        except SkillwireError as error:
            gathered.findings.append(note("PLUGIN_FORM", f"plugin {plugin.name!a}: {error.message}", url))
    return gathered


class _Place:
    """Where a marketplace is, and how much of it may still be fetched."""

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        path = parsed.path.removesuffix(f"/{MARKETPLACE_PATH}")
        # A document of another name is at the root of its marketplace.
        self._root = parsed._replace(path=f"{path if path != parsed.path else path.rpartition('/')[0]}/", query=None)
        self._files = int(limits.MARKETPLACE_FILES)
        self._bytes = int(limits.MARKETPLACE_FETCHED_BYTES)

    def fetch_document(self, url: str, max_bytes: int = limits.MARKETPLACE_BYTES) -> Exchange[bytes | None]:
        """Fetch one file; None when it is not there."""
        if self._files <= 0 or self._bytes <= 0:
            raise FetchError("LIMIT_ENTRIES", "no more is fetched of this marketplace", place=Place(url))
        self._files -= 1
        response = yield from fetch(HttpRequest(url, max_bytes=min(max_bytes, self._bytes)))
        self._bytes -= len(response.body)
        if response.status in _ABSENT:
            return None
        if response.status != _OK:
            raise FetchError("HTTP_STATUS", f"the server answered {response.status}", place=Place(url))
        return response.body

    def fetch_plugin(self, plugin: Plugin, gathered: Gathered) -> Exchange[None]:
        """Fetch the skills that a plugin names."""
        base = join(str(plugin.source))
        data = yield from self.fetch_document(self._url(join(base, PLUGIN_PATH)))
        own = read_plugin_skills(data, self._url(join(base, PLUGIN_PATH))) if data is not None else ()
        found = 0
        for folder in dict.fromkeys(join(base, listed) for listed in (*plugin.skills, *own)) or (base,):
            if not gathered.is_full:
                found += yield from self._fetch_skill(plugin, folder, gathered)
        if not found:
            message = f"plugin {plugin.name!a} names no skill that could be fetched; folders cannot be listed over HTTP"
            gathered.findings.append(note("PLUGIN_WITHOUT_SKILLS", message, self._url(base)))

    def _fetch_skill(self, plugin: Plugin, folder: str, gathered: Gathered) -> Exchange[int]:
        source = self._url(folder)
        skill_md = yield from self.fetch_document(self._url(join(folder, SKILL_MD)), limits.SKILL_MD_BYTES)
        if skill_md is None:
            return 0
        files = {SKILL_MD: FileContent(SKILL_MD, skill_md)}
        waiting = _linked(files[SKILL_MD])
        while waiting and len(files) < limits.PUBLISH_FILES:
            path = waiting.pop(0)
            if path in files:
                continue
            content = yield from self.fetch_document(self._url(join(folder, path)), limits.ARCHIVE_FILE_BYTES)
            if content is not None:  # a broken link is a finding of its own
                files[path] = FileContent(path, content)
                waiting += _linked(files[path])
        # A skill at the root has no folder to be called after; its frontmatter says the name.
        name = folder.rpartition("/")[2] or gathered.name
        gathered.take(plugin, examine_files(Path(name), tuple(files.values()), level="lenient"), source)
        message = f"{name}: its {len(files)} files are those that links lead to"
        gathered.findings.append(note("FILES_UNLISTED", message, source))
        return 1

    def _url(self, path: str) -> str:
        return str(resolve_url(self._root, f"./{quote(path)}" if path else "./"))


def _linked(file: FileContent) -> list[str]:
    """Return the paths of files that a Markdown file links to, without those that could be none of a skill's."""
    if not file.path.lower().endswith(".md"):
        return []
    paths = []
    for path in dict.fromkeys(linked_paths(file.path, bytes(file.content).decode(errors="replace"))):
        try:
            paths.append(check_path(path))
        except SkillwireError:
            continue  # it leads out of the skill: the rule about links says so
    return paths
