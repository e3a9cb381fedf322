"""Building a static site from folders of skills, and again when little has changed.

A folder whose signature matches the last build is neither read nor written: its skill comes from the record and its
files are in the site. Everything else is loaded into the site's staging folder
(:mod:`skillwire.adapters.files.site_folder`) and put in place at the end. The bytes depend on skills and options only.
A static host cannot authenticate, so the site contains public skills only, and does not list restricted ones.

:data:`HOSTS` are configuration files that make static hosts answer like our server. Two rules matter: an artifact must
arrive unchanged (a host that treats ``.tar.gz`` as a compressed ``.tar`` breaks its digest), and a page from a skill
must not run under our origin. The rules cover the skills' paths only, and one rule sets each header field, because some
hosts join the values of several rules.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from skillwire.adapters.files.loading import BuildRecord, FolderRecord, LoadJob, SiteWriter, load_folders, sign_folder
from skillwire.adapters.files.site_folder import SiteChanges, SiteFolder, file_line, line_paths, skill_line
from skillwire.errors import SourceLocation, StorageError, UsageError, first_of
from skillwire.folder.files import find_folder_names
from skillwire.folder.load import IdentifiedSkill, find_collisions
from skillwire.model.access import ANONYMOUS, Access
from skillwire.model.catalog import Catalog, unpack_skill
from skillwire.model.skill import Finding, Identifiers, Skill
from skillwire.protocols.agent_skills import messages as asd
from skillwire.protocols.agent_skills.decoder import find_excess
from skillwire.protocols.agent_skills.messages import JSON, MEDIA_TYPES
from skillwire.protocols.agent_skills.server import INDEX_PATH, CachePolicy, artifact_name
from skillwire.protocols.skill_sharing import REGISTRY, WELL_KNOWN
from skillwire.resolver.context import as_finding

_FIELDS: Final = {**asd.OPEN_FIELDS, **asd.CONTENT_FIELDS}
_FOREVER: Final = {"Cache-Control": CachePolicy.FOREVER.value}
#: Below these, ``*`` stands for anything that follows.
_SITE: Final = ("/.well-known/*", "/@*")
_BY_DIGEST: Final = "/.well-known/agent-skills/sha256/*"
#: A name without an extension, whose type no host knows.
_TYPED: Final = {WELL_KNOWN: {"Content-Type": JSON}}


def _headers() -> str:
    """Cloudflare Pages and Workers, Netlify, and others that took the form over."""
    rules = [*((path, _FIELDS) for path in _SITE), (_BY_DIGEST, _FOREVER), *_TYPED.items()]
    lines = [[path, *(f"  {name}: {value}" for name, value in fields.items())] for path, fields in rules]
    return "\n".join(line for rule in lines for line in rule) + "\n"


def _vercel() -> str:
    rules = [(path.replace("*", "(.*)"), _FIELDS) for path in _SITE]
    rules += [(_BY_DIGEST.replace("*", "(.*)"), _FOREVER), *_TYPED.items()]
    return _json({"headers": [{"source": source, "headers": _pairs(fields)} for source, fields in rules]})


def _nginx() -> str:
    """A snippet for a server block. Spec: specs §1, never ``Content-Encoding`` on an artifact."""
    by_type: dict[str, list[str]] = {}
    for ending, media in MEDIA_TYPES.items():
        if ending.count(".") == 1:  # it looks at what follows the last dot
            by_type.setdefault(media.partition(";")[0], []).append(ending[1:])
    types = "".join(f"        {media} {' '.join(endings)};\n" for media, endings in by_type.items())
    fields = "".join(f'    add_header {name} "{value}" always;\n' for name, value in _FIELDS.items())
    common = (
        f"    types {{\n{types}    }}\n    default_type {asd.BYTES};\n"
        f"    charset utf-8;\n    charset_types text/markdown text/plain;\n{fields}"
    )
    return (
        "# include this file in a server block whose root is this folder\n"
        r"location ~ ^/\.well-known/agent-skills/sha256/ {" + f"\n{common}"
        f'    add_header Cache-Control "{CachePolicy.FOREVER.value}";\n    gzip off;\n}}\n'
        r"location ~ ^/(?:@[^/]+/)?\.well-known/(?:agent-skills|skills)/ {" + f"\n{common}"
        f'    add_header Cache-Control "{CachePolicy.BRIEF.value}";\n    gzip_types {JSON};\n    gzip_vary on;\n}}\n'
        f"location = {WELL_KNOWN} {{\n    types {{ }}\n    default_type {JSON};\n{fields}"
        f'    add_header Cache-Control "{CachePolicy.BRIEF.value}";\n    gzip_types {JSON};\n    gzip_vary on;\n}}\n'
        "location /skills/ {\n    try_files $uri $uri.html =404;\n}\n"  # a page has a folder of its name beside it
    )


def _pairs(fields: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": name, "value": value} for name, value in fields.items()]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


#: Host → the path of its file, and what writes it.
HOSTS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "cloudflare": ("_headers", _headers),
    "github": (".nojekyll", str),  # without it the generator skips names that begin with a dot
    "netlify": ("_headers", _headers),
    "nginx": ("skillwire-nginx.conf", _nginx),
    "vercel": ("vercel.json", _vercel),
}


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """The options of a build.

    Args:
        roots: absolute folders of skills, or skills.
        publisher: the provider's part of identifiers.
        hosts: keys of :data:`HOSTS`.
        force: see :class:`~skillwire.adapters.files.site_folder.SiteFolder`.
        skip_broken: publish the other skills when some cannot be published.
        allow_empty: write the site even without a public skill.
        use_record: skip folders that have not changed since the last build.
        listings: returns the files that list the skills of a catalog, by their paths in the site.
        writer: what writes a public skill, as :class:`~skillwire.adapters.files.loading.LoadJob` names it.
        arguments: what the writer takes beside the folder and ``base_url``.
        pages_line: returns the line of the manifest for what it writes beside the skill's files.
    """

    roots: tuple[str, ...]
    site: Path
    base_url: str = ""
    publisher: str = "local"
    hosts: tuple[str, ...] = ()
    force: bool = False
    skip_broken: bool = False
    allow_empty: bool = False
    use_record: bool = True
    dry_run: bool = False
    listings: Callable[[Catalog], Mapping[str, bytes]] = lambda _: {}
    writer: str = "stage"
    arguments: tuple[str, ...] = ()
    pages_line: Callable[[Skill], str] | None = None


class BuildReport(NamedTuple):
    """The outcome of a build: numbers of skills and of folders ``loaded`` or taken ``unchanged`` from the record.

    ``changes`` is None when nothing was written: in a dry run, after errors, or without a public skill.
    """

    skills: int
    public: int
    loaded: int
    unchanged: int
    findings: tuple[Finding, ...]
    changes: SiteChanges | None

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.level == "error" for finding in self.findings)


class SiteBuild:
    """One build with ``options``; ``folders`` are the skill folders found. Raises UsageError (``SITE_OVERLAP``)."""

    def __init__(self, options: SiteOptions) -> None:
        self.folders = sorted({folder for root in options.roots for folder in find_folder_names(root)})
        real, real_folders = os.path.realpath(options.site), _real_paths(self.folders)
        for source, real_source in (*_real_paths(options.roots).items(), *real_folders.items()):
            if _is_within(real_source, real):
                message = f"the skills in {source} lie inside the site"
                raise UsageError("SITE_OVERLAP", message, place=SourceLocation(str(options.site)))
        for folder, real_folder in real_folders.items():
            if _is_within(real, real_folder):
                message = f"the site lies inside the skill {folder}"
                raise UsageError("SITE_OVERLAP", message, place=SourceLocation(str(options.site)))
        self._options = options
        self._record = BuildRecord(options.site, "site", options.publisher, options.base_url)
        self._records: dict[str, FolderRecord] = {}

    def run(self, advance: Callable[[int], None]) -> BuildReport:
        """Build; calls ``advance`` with the number of finished folders. Raises ConflictError, StorageError."""
        if self._options.dry_run:
            return self._build(None, advance)
        with SiteFolder(self._options.site, force=self._options.force) as site:
            return self._build(site, advance)

    def _build(self, site: SiteFolder | None, advance: Callable[[int], None]) -> BuildReport:
        skills = self._unchanged(site.made if site else None)
        unchanged = len(skills)
        advance(unchanged)
        findings = [finding for skill in skills.values() for finding in skill.findings]
        # Two of one name would be written to one place, so the second is not even loaded.
        doubled = _doubled(self.folders)
        stale = [folder for folder in self.folders if folder not in skills and folder not in doubled]
        writer: str = self._options.writer if site else "nothing"
        arguments = (str(site.stage), self._options.base_url, *self._options.arguments) if site else ()
        for loaded in load_folders(LoadJob(self._options.publisher, writer, arguments), stale):
            findings += loaded.findings
            if loaded.packed is not None:
                skills[loaded.folder] = unpack_skill(loaded.packed)
                self._records[loaded.folder] = FolderRecord(loaded.signature, loaded.packed)
            advance(1)
        named = [
            IdentifiedSkill(folder, skill.name, cast("Identifiers", skill.identifiers))
            for folder, skill in sorted(skills.items())
        ]
        collisions = _by_folder(find_collisions(named))
        findings += [*collisions.values(), *doubled.values()]
        findings.sort(key=lambda finding: (finding.place.source, finding.place.line or 0))
        kept = [skill for folder, skill in skills.items() if folder not in collisions]
        public = [skill for skill in kept if skill.access is Access.PUBLIC]
        if excess := find_excess(len(public), f"{self._options.site}{INDEX_PATH}"):
            findings.append(excess)
        findings += self._find_promises(public)
        report = BuildReport(len(kept), len(public), len(stale), unchanged, tuple(findings), None)
        is_refused = report.errors and not self._options.skip_broken
        if site is None or is_refused or not (report.public or self._options.allow_empty):
            return report  # the existing site, most often a good one, stays as it is
        for folder in collisions:
            del self._records[folder]
            skill = skills.pop(folder)
            for path in line_paths([skill_line(skill, described=True), *self._pages([skill])]):
                (site.stage / path).unlink(missing_ok=True)
        changes = site.commit(self._complete(site, skills.values()))
        try:
            self._record.write({folder: record for folder, record in self._records.items() if record.signature})
        except StorageError as error:  # the next build reads all folders again
            report = report._replace(findings=(*report.findings, as_finding(error)))
        return report._replace(changes=changes)

    def _find_promises(self, public: Iterable[Skill]) -> Iterator[Finding]:
        """Yield a warning about descriptors that name an endpoint at this site, which answers no calls."""
        made = (one.name for one in public if one.action and one.sharing and one.sharing.descriptor is None)
        names, url = sorted(made), self._options.base_url
        if names and url:
            message = f"descriptors say that this site answers calls, and a static site does not: {first_of(names, 5)}"
            fix = f"Serve the skills: skillwire serve FOLDER --base-url {url}. Or build without --base-url."
            yield Finding("NOT_CALLABLE", "warning", message, SourceLocation(f"{self._options.site}{REGISTRY}"), fix)

    def _pages(self, skills: Iterable[Skill]) -> set[str]:
        """Return the lines of the pages of public skills."""
        make = self._options.pages_line
        return {make(skill) for skill in skills if skill.access is Access.PUBLIC} if make else set()

    def _unchanged(self, made: frozenset[str] | None) -> dict[str, Skill]:
        """Return the skills of unchanged folders whose files and pages are in the site, by the manifest ``made``."""
        known = self._record.read() if self._options.use_record else {}
        is_in_site = _look_into(self._options.site, described=bool(self._options.base_url))
        unchanged = {}
        for folder in self.folders:
            record = known.get(folder)
            if record is not None and sign_folder(folder).value == record.signature:
                skill = unpack_skill(record.packed)
                if is_in_site(skill) and (made is None or self._pages([skill]) <= made):
                    unchanged[folder] = skill
                    self._records[folder] = record
        return unchanged

    def _complete(self, folder: SiteFolder, skills: Iterable[Skill]) -> frozenset[str]:
        """Stage what depends on more than one skill; return the lines of the manifest."""
        catalog = Catalog.of(skills).usable_by(ANONYMOUS)
        base_url = self._options.base_url
        stage = SiteWriter(str(folder.stage), base_url)
        lines = {skill_line(skill, described=bool(base_url)) for skill in catalog.skills.values()}
        lines |= self._pages(catalog.skills.values())
        hosted = {path: write().encode() for path, write in (HOSTS[host] for host in self._options.hosts)}
        for path, content in {**hosted, **self._options.listings(catalog)}.items():
            stage.write(f"/{path}", content)
            lines.add(file_line(path))
        return frozenset(lines)


def _look_into(site: Path, *, described: bool) -> Callable[[Skill], bool]:
    """Return whether a site seems to hold a skill, by the names in a few of its folders."""
    artifacts, scopes = _names(f"{site}{asd.WELL_KNOWN}/sha256"), _names(str(site))
    folders = _names(f"{site}{asd.WELL_KNOWN}") & _names(f"{site}{asd.WELL_KNOWN_OLD}")
    descriptors = _names(f"{site}{REGISTRY}") if described else None

    def holds(skill: Skill) -> bool:
        return skill.access is not Access.PUBLIC or (
            artifact_name(skill) in artifacts
            and skill.name in folders
            and f"@{skill.name}" in scopes
            and (descriptors is None or f"{skill.name}.json" in descriptors)
        )

    return holds


def _real_paths(folders: Iterable[str]) -> dict[str, str]:
    """Return the path of each folder without links; what folders share of it is looked up once."""
    parents: dict[str, str] = {}
    real = {}
    for folder in folders:
        parent, _, name = folder.rpartition("/")
        if not name or os.path.islink(folder):  # noqa: PTH114  # text, for its number
            real[folder] = os.path.realpath(folder)
            continue
        if parent not in parents:
            parents[parent] = os.path.realpath(parent or "/")
        real[folder] = f"{parents[parent].rstrip('/')}/{name}"
    return real


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _names(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208  # names are all that is wanted
    except OSError:  # not there, or not for us: nothing of it counts as built
        return frozenset()


def _doubled(folders: Iterable[str]) -> dict[str, Finding]:
    names = [(folder, folder.rpartition("/")[2]) for folder in folders]
    count = Counter(name for _, name in names)
    doubled = [(folder, name) for folder, name in names if count[name] > 1]
    return _by_folder(
        find_collisions(IdentifiedSkill(folder, name, Identifiers(name, name, name)) for folder, name in doubled)
    )


def _by_folder(collisions: Iterable[Finding]) -> dict[str, Finding]:
    return {str(Path(finding.place.source).parent): finding for finding in collisions}
