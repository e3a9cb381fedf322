"""The skills of a marketplace in a folder or at a URL, each read leniently and once.

A folder is a marketplace when it has ``.claude-plugin/marketplace.json``; one with ``.claude-plugin/plugin.json``,
``skills/`` or a ``SKILL.md`` is a plugin and counts as a marketplace of one. Over HTTP no folder can be listed, so only
skills named in entries or in a ``plugin.json`` are fetched: the ``SKILL.md``, and linked files, one Markdown file after
another. Files without a link are missing, which is reported with each skill; a clone of the repository has all.

Trust: folders and documents are hostile. Paths are checked before use; links may lead to other places of the
marketplace only, and within a skill to that skill only (:mod:`skillwire.folder.files`). Every URL stays below the
marketplace's; files, bytes and skills are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from skillwire import limits
from skillwire.bridges.marketplace.documents import (
    MARKETPLACE_PATH,
    PLUGIN_PATH,
    SKILLS_FOLDER,
    ExternalPlugin,
    Marketplace,
    Plugin,
    join,
    note,
    read_marketplace,
    read_plugin_skills,
)
from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, StorageError, ValidationError
from skillwire.folder.files import SKILL_MD
from skillwire.folder.lint.text import linked_paths
from skillwire.folder.load import check_files, check_folder
from skillwire.model.skill import FileContent, is_skill_name
from skillwire.model.url import parse_url, resolve_url
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.load import CheckedFolder
    from skillwire.model.skill import Finding
    from skillwire.wire.exchange import Flow


class GatheredSkill(NamedTuple):
    """A skill of a marketplace with a name for its own folder; ``place`` is where it was, for people."""

    name: str
    plugin: str
    place: str
    files: tuple[FileContent, ...]


@dataclass(slots=True)
class GatheredSkills:
    """The accepted skills of a marketplace, each once, and findings about the rest."""

    name: str = ""
    plugins: int = 0
    skills: dict[str, GatheredSkill] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def take(self, plugin: Plugin, examination: CheckedFolder, place: str) -> None:
        """Add the skill that was examined, or what is wrong with it."""
        loaded = examination.folder
        if loaded is None:
            self.findings += [finding for finding in examination.findings if finding.level == "error"]
            return
        # A folder is called after the skill wherever it goes, so its own name loses against the frontmatter's.
        name = loaded.skill_md.name if is_skill_name(loaded.skill_md.name) else loaded.name
        other = self.skills.setdefault(name, GatheredSkill(name, plugin.name, place, loaded.files))
        if other.place != place and other.files != loaded.files:
            message = f"{name} of plugin {plugin.name!a} is not taken: {other.place} has the name already"
            self.findings.append(note("SKILL_CONFLICT", message, place))

    @property
    def is_full(self) -> bool:
        """Whether no further skill is taken."""
        return len(self.skills) >= limits.MARKETPLACE_SKILLS

    def pass_over(self, plugin: Plugin, source: str) -> bool:
        """Whether ``plugin`` is elsewhere, which is then reported."""
        if not isinstance(plugin.source, ExternalPlugin):
            return False
        message = f"plugin {plugin.name!a} was not fetched: its source is of kind {plugin.source.kind!a}"
        self.findings.append(note("PLUGIN_ELSEWHERE", message, source, plugin.source.advice))
        return True


def gather(root: Path) -> GatheredSkills:
    """Return the skills of the marketplace or plugin in the folder ``root``.

    Raises as :func:`~skillwire.bridges.marketplace.documents.read_marketplace`; ``MARKETPLACE_FORM`` when it is
    neither, StorageError (``STORAGE``).
    """
    document = root / MARKETPLACE_PATH
    if document.is_file():
        marketplace = read_marketplace(_read(document), str(document))
    elif any((root / path).exists() for path in (PLUGIN_PATH, SKILLS_FOLDER, SKILL_MD)):
        marketplace = Marketplace(root.name, (Plugin(root.name, ""),), ())
    else:
        raise ValidationError("MARKETPLACE_FORM", f"there is no {MARKETPLACE_PATH}", place=SourceLocation(str(root)))
    source = str(document)
    gathered = GatheredSkills(marketplace.name, len(marketplace.plugins), findings=list(marketplace.findings))
    for plugin in marketplace.plugins:
        if not gathered.pass_over(plugin, source):
            _gather_plugin(root, plugin, gathered)
    return gathered


def _gather_plugin(root: Path, plugin: Plugin, gathered: GatheredSkills) -> None:
    base = join(str(plugin.source))
    try:
        places = dict.fromkeys(place for listed in _listed(root, base, plugin) for place in _skills_at(root, listed))
    except SkillwireError as error:
        gathered.findings.append(note("PLUGIN_FORM", f"plugin {plugin.name!a}: {error.message}", str(root / base)))
        return
    for place in places:
        if gathered.is_full:
            message = f"more than {limits.MARKETPLACE_SKILLS} skills; the others are not taken"
            gathered.findings.append(note("LIMIT_ENTRIES", message, str(root)))
            return
        gathered.take(plugin, check_folder(root / place, level="lenient"), str(root / place))
    if not places:
        message, fix = f"plugin {plugin.name!a} has no skills", "Nothing, unless it should have some."
        gathered.findings.append(note("PLUGIN_WITHOUT_SKILLS", message, str(root / base), fix))


def _listed(root: Path, base: str, plugin: Plugin) -> Iterator[str]:
    """Yield the folders in which skills of a plugin are, or which are skills."""
    manifest = root / base / PLUGIN_PATH
    has_manifest = manifest.is_file() and _is_within(root, manifest)
    own = read_plugin_skills(_read(manifest), str(manifest)) if has_manifest else ()
    if has_manifest or not plugin.skills:
        default = join(base, SKILLS_FOLDER)
        yield default if (root / default).is_dir() else base
    for folder in (*own, *plugin.skills):
        yield join(base, folder)


def _skills_at(root: Path, folder: str) -> Iterator[str]:
    """Yield ``folder`` when it is a skill, else the skills right below it."""
    if not _is_within(root, root / folder):
        message = f"{folder!a} leads out of the marketplace, or to nothing"
        raise ValidationError("PLUGIN_FORM", message, place=SourceLocation(str(root / folder)))
    if _is_skill(root / folder):
        yield folder
        return
    try:
        below = sorted((root / folder).iterdir())
    except OSError:
        return  # no folder, or not for us: nothing in it could be taken
    for path in below:
        if _is_skill(path) and _is_within(root, path):
            yield join(folder, path.name)


def _is_skill(folder: Path) -> bool:
    return (folder / SKILL_MD).is_file()


def _is_within(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # nothing there, or a circle of links
        return False


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.MARKETPLACE_BYTES + 1)
    except OSError as error:
        raise StorageError(
            "STORAGE", f"{path} cannot be read: {error.strerror}", place=SourceLocation(str(path))
        ) from error


_OK: Final = 200
_ABSENT: Final = frozenset({404, 410})


def marketplace_url(url: str) -> str:
    """Return the URL of the marketplace document at or below ``url``. Raises ValidationError (``URL``)."""
    parsed = parse_url(url)
    if parsed.path.endswith(".json"):
        return str(parsed)
    return str(parsed._replace(path=f"{parsed.path.rstrip('/')}/{MARKETPLACE_PATH}", query=None))


def fetch_skills(url: str) -> Flow[GatheredSkills]:
    """Fetch the skills of the marketplace whose document is at ``url``.

    Raises FetchError or TrustError from the driver, ``HTTP_STATUS``, NotFoundError (``FILE_NOT_FOUND``), and as
    :func:`~skillwire.bridges.marketplace.documents.read_marketplace`.
    """
    place = _SkillSource(url)
    data = yield from place.fetch_document(url)
    if data is None:
        raise NotFoundError("FILE_NOT_FOUND", "there is no marketplace", place=SourceLocation(url))
    marketplace = read_marketplace(data, url)
    gathered = GatheredSkills(marketplace.name, len(marketplace.plugins), findings=list(marketplace.findings))
    for plugin in marketplace.plugins:
        if gathered.pass_over(plugin, url):
            continue
        try:
            yield from place.fetch_plugin(plugin, gathered)
        except SkillwireError as error:
            gathered.findings.append(note("PLUGIN_FORM", f"plugin {plugin.name!a}: {error.message}", url))
    return gathered


class _SkillSource:
    """Where a marketplace is, and how much of it may still be fetched."""

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        path = parsed.path.removesuffix(f"/{MARKETPLACE_PATH}")
        # A document of another name is at the root of its marketplace.
        self._root = parsed._replace(path=f"{path if path != parsed.path else path.rpartition('/')[0]}/", query=None)
        self._files = int(limits.MARKETPLACE_FILES)
        self._bytes = int(limits.MARKETPLACE_FETCHED_BYTES)

    def fetch_document(self, url: str, max_bytes: int = limits.MARKETPLACE_BYTES) -> Flow[bytes | None]:
        """Fetch one file; None when it is not there."""
        if self._files <= 0 or self._bytes <= 0:
            raise FetchError("LIMIT_ENTRIES", "no more is fetched of this marketplace", place=SourceLocation(url))
        self._files -= 1
        response = yield from fetch(HttpRequest(url, max_bytes=min(max_bytes, self._bytes)))
        self._bytes -= len(response.body)
        if response.status in _ABSENT:
            return None
        if response.status != _OK:
            raise FetchError("HTTP_STATUS", f"the server answered {response.status}", place=SourceLocation(url))
        return response.body

    def fetch_plugin(self, plugin: Plugin, gathered: GatheredSkills) -> Flow[None]:
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

    def _fetch_skill(self, plugin: Plugin, folder: str, gathered: GatheredSkills) -> Flow[int]:
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
        gathered.take(plugin, check_files(Path(name), tuple(files.values()), level="lenient"), source)
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
