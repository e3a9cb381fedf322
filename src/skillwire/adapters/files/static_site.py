"""A static site from folders of skills, in a folder that may also hold other files.

**Folder.** A build writes into a staging folder inside the site, from several processes at once, and renames everything
into place at the end: artifacts first, then files, then the indexes that name them, the site's own index last. An
interrupted build leaves the old site as it was. The manifest lists what builds made: one line per skill, from which the
skill's paths follow, one for its pages, with their source, and one per other file. So 10,000 lines stand for 100,000
files, and two manifests compare quickly. Its first line names the layout. Only listed files are replaced or removed;
any other file in the way stops the build before it changes anything. The manifest is extended before the renames and
reduced after the removals, so it always covers what builds made, and the next build can finish after a crash. Trust: a
manifest may come from elsewhere with its site, so its paths are checked.

**Build.** A folder whose signature matches the last build is neither read nor written: its skill comes from the record
and its files are in the site. Everything else is loaded into the staging folder. The bytes depend on skills and options
only. A static host cannot authenticate, so the site contains public skills only, and does not list restricted ones.

:data:`HOSTS` are configuration files that make static hosts answer like our server. Two rules matter: an artifact must
arrive unchanged (a host that treats ``.tar.gz`` as a compressed ``.tar`` breaks its digest), and a page from a skill
must not run under our origin. The rules cover the skills' paths only, and one rule sets each header field, because some
hosts join the values of several rules.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self, cast

from skillwire.adapters.files.atomic import open_locked, storage_errors
from skillwire.adapters.files.loading import BuildRecord, FolderRecord, LoadJob, SiteWriter, load_folders, sign_folder
from skillwire.errors import ConflictError, SourceLocation, StorageError, TrustError, UsageError, first_of
from skillwire.folder.files import find_folder_names
from skillwire.folder.load import IdentifiedSkill, find_collisions
from skillwire.model.access import ANONYMOUS, Access
from skillwire.model.catalog import Catalog, unpack_skill
from skillwire.model.skill import Finding, Identifiers, Skill
from skillwire.protocols.agent_skills import messages as asd
from skillwire.protocols.agent_skills.decoder import find_excess
from skillwire.protocols.agent_skills.messages import JSON, MEDIA_TYPES
from skillwire.protocols.agent_skills.server import INDEX_PATH, CachePolicy, artifact_name, skill_paths
from skillwire.protocols.skill_sharing import REGISTRY, WELL_KNOWN, descriptor_path
from skillwire.resolver.context import as_finding

MANIFEST: Final = ".skillwire-manifest"
_FIRST_LINE: Final = "skillwire site 1"
_STAGE: Final = ".skillwire-stage"
_SHOWN: Final = 3


def skill_line(skill: Skill, *, described: bool) -> str:
    """Return the line of ``skill``, which may have a descriptor. The paths of its files hold no control characters."""
    kind = "described" if described else "skill"
    return "\t".join((kind, skill.name, artifact_name(skill), *(file.path for file in skill.files)))


def file_line(path: str) -> str:
    """Return the line of a file that belongs to no skill; ``path`` is below the site."""
    return f"file\t{path}"


def line_paths(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths below the site for the manifest's ``lines``."""
    for line in lines:
        kind, *rest = line.split("\t")
        if kind == "file":
            yield rest[0]
        elif kind == "pages":
            yield from (f"skills/{rest[1]}{end}" for end in rest[2:])
        else:
            name, artifact, *files = rest
            for path in skill_paths(name, artifact, files):
                yield path[1:]
            if kind == "described":
                yield descriptor_path(name)[1:]


def read_manifest(site: Path) -> frozenset[str] | None:
    """Return the lines of the site's manifest, or None. Raises TrustError (``SITE_MANIFEST``) for an unknown form."""
    path = site / MANIFEST
    try:
        first, *lines = path.read_text("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return None
    if first != _FIRST_LINE or not all(map(_is_sound, filter(None, lines))):
        raise TrustError("SITE_MANIFEST", "not a manifest that this version wrote", place=SourceLocation(str(path)))
    return frozenset(filter(None, lines))


def write_manifest(site: Path, lines: Iterable[str], stage: Path) -> None:
    """Write the manifest of ``site``: into ``stage`` first, so that a crash leaves no other file in the site."""
    written = stage / MANIFEST
    written.write_bytes("\n".join((_FIRST_LINE, *sorted(lines), "")).encode())
    written.replace(site / MANIFEST)


def _is_sound(line: str) -> bool:
    kind, *rest = line.split("\t")
    if kind == "pages":
        return len(rest) > 1
    return len(rest) == 1 if kind == "file" else kind in {"skill", "described"} and len(rest) > 1 and "." in rest[1]


class SiteChanges(NamedTuple):
    """Numbers of files that a commit wrote and removed."""

    written: Annotated[int, "Files written"]
    removed: Annotated[int, "Files removed"]


class SiteFolder:
    """One build of a site, from staging to :meth:`commit`; a context manager that holds the staging folder.

    With ``force`` it also builds in a folder with other files, and replaces those in the way. ``made`` is its manifest.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.path = path
        # A name of its own: workers of a build that was killed may go on writing to theirs for a moment.
        self.stage = path / _STAGE / secrets.token_hex(8)
        self.made: frozenset[str] = frozenset()
        self._force = force
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Read the manifest and make the staging folder.

        Raises ConflictError (``SITE_FOREIGN``, ``FOLDER_BUSY``), TrustError (``SITE_MANIFEST``), StorageError.
        """
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            made = read_manifest(self.path)
            if made is None and not self._force and any(entry.name != _STAGE for entry in self.path.iterdir()):
                raise _foreign("there are files that no build made", self.path)
            self.made = made or frozenset()
            self._lock = _take(self.stage.parent)
            self.stage.mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            shutil.rmtree(self.stage.parent, ignore_errors=True)  # the next build removes any rest
            os.close(self._lock)
            self._lock = None

    def commit(self, lines: frozenset[str]) -> SiteChanges:
        """Put the staged files in place and remove files of earlier builds that the manifest ``lines`` lacks.

        Raises as :meth:`__enter__`; after ``SITE_FOREIGN`` nothing has changed.
        """
        old, new = frozenset(line_paths(self.made - lines)), frozenset(line_paths(lines - self.made))
        with storage_errors(self.path):
            moves = self._plan(old)
            stale = sorted(old - new)
            for path in stale:
                # Trust: ``path`` follows from the manifest.
                parent = (self.path / path).parent
                if ".." in path.split("/") or not parent.resolve().is_relative_to(self.path.resolve()):
                    place = SourceLocation(str(self.path / MANIFEST))
                    raise TrustError("SITE_MANIFEST", f"the manifest leads out of the site: {path[:80]!r}", place=place)
            if new:
                write_manifest(self.path, lines | self.made, self.stage)
            for path in moves:
                self._put(path)
            removed = sum(map(self._remove, stale))
            if old or new:
                write_manifest(self.path, lines, self.stage)
        self.made = lines
        changed = sum(path in old or path not in new for path in moves if not (self.path / path).is_dir())
        return SiteChanges(len(new - old) + changed, removed)

    def _plan(self, old: frozenset[str]) -> list[str]:
        """Return the staged files that differ from those in place, in the order to move them."""
        moves = []
        in_the_way: list[str] = []
        for path in _units(str(self.stage), str(self.path), ""):
            target = self.path / path
            if os.path.lexists(target):
                if _same(self.stage / path, target):
                    continue
                in_the_way += _files(target, path)
            moves.append(path)
        in_the_way = [path for path in in_the_way if path not in old and file_line(path) not in self.made]
        if in_the_way and not self._force:
            made = frozenset(line_paths(self.made))
            if foreign := [path for path in in_the_way if path not in made]:
                more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
                message = f"no build made what is in the way: {', '.join(foreign[:_SHOWN])}{more}"
                raise _foreign(message, self.path / foreign[0])
        return sorted(moves, key=_rank)

    def _put(self, path: str) -> None:
        source, target = f"{self.stage}/{path}", f"{self.path}/{path}"
        is_folder = os.path.isdir(source) or os.path.isdir(target)  # noqa: PTH112  # strings, for their number
        if is_folder and os.path.lexists(target):
            for name in list(_files(self.path / path, path)):  # a file has become a folder, or the other way round
                self._remove(name)
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120  # same
        os.replace(source, target)  # noqa: PTH105  # same

    def _remove(self, path: str) -> bool:
        """Remove one file, and the folders that this leaves empty; return whether it was there."""
        target = self.path / path
        if not os.path.lexists(target) or (target.is_dir() and not target.is_symlink()):
            return False
        target.unlink()
        with suppress(OSError):  # a folder that holds something else stays
            for folder in target.parents:
                if folder == self.path:
                    break
                folder.rmdir()
        return True


def _take(stage: Path) -> int:
    while True:
        stage.mkdir(exist_ok=True)
        try:
            handle = open_locked(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except BlockingIOError:
            message = "another build is writing this site"
            raise ConflictError("FOLDER_BUSY", message, place=SourceLocation(str(stage.parent))) from None
        if handle is not None:  # else another build ended at this moment and took the folder with it
            for entry in stage.iterdir():
                try:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                except OSError as error:
                    # A worker of a killed build still writes there; the end of this build removes its last files.
                    if error.errno not in {errno.ENOTEMPTY, errno.ENOENT}:
                        raise
            return handle


def _units(stage: str, site: str, prefix: str) -> Iterator[str]:
    """Yield what one rename each can put in place: files, and folders that the site lacks."""
    with os.scandir(f"{stage}/{prefix}") as entries:
        found = list(entries)
    for entry in found:
        path = prefix + entry.name
        target = f"{site}/{path}"
        if entry.is_dir() and os.path.isdir(target) and not os.path.islink(target):  # noqa: PTH112, PTH114  # as above
            yield from _units(stage, site, path + "/")
        else:
            yield path


def _files(target: Path, path: str) -> Iterator[str]:
    """Yield the path of the file ``target``, or of all files of that folder; ``path`` is its path below the site."""
    if target.is_dir() and not target.is_symlink():
        for entry in target.iterdir():
            yield from _files(entry, f"{path}/{entry.name}")
    elif os.path.lexists(target):
        yield path


def _same(source: Path, target: Path) -> bool:
    if not source.is_file() or target.is_symlink() or not target.is_file():
        return False
    return source.stat().st_size == target.stat().st_size and source.read_bytes() == target.read_bytes()


def _rank(path: str) -> int:
    """Order renames so that no index names what is not there yet: the one of the whole site comes last."""
    if path.startswith(".well-known/") and path.count("/") == 1:
        return 2
    if path in {".well-known", ".well-known/skills/index.json", ".well-known/agent-skills/index.json"}:
        return 3
    return 1 if path.startswith("@") or path.endswith("/index.json") else 0


def _foreign(message: str, path: Path) -> ConflictError:
    return ConflictError("SITE_FOREIGN", message, place=SourceLocation(str(path)))


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
    rows = [(source, [{"key": name, "value": value} for name, value in fields.items()]) for source, fields in rules]
    return json.dumps({"headers": [{"source": source, "headers": pairs} for source, pairs in rows]}, indent=2) + "\n"


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
        force: see :class:`SiteFolder`.
        skip_broken: publish the other skills when some cannot be published.
        allow_empty: write the site even without a public skill.
        use_record: skip folders that have not changed since the last build.
        listings: returns the files that list the skills of a catalog, by their paths in the site.
        pages: see :class:`~skillwire.adapters.files.loading.SiteWriter`.
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
    pages: tuple[str, ...] = ()
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
        names = [(folder, folder.rpartition("/")[2]) for folder in self.folders]
        doubled = _by_folder(
            find_collisions(IdentifiedSkill(one, name, Identifiers(*[name] * 3)) for one, name in names)
        )
        stale = [folder for folder in self.folders if folder not in skills and folder not in doubled]
        arguments = (str(site.stage), self._options.base_url, *self._options.pages) if site else ()
        for loaded in load_folders(LoadJob(self._options.publisher, "stage" if site else "nothing", arguments), stale):
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


def _by_folder(collisions: Iterable[Finding]) -> dict[str, Finding]:
    return {str(Path(finding.place.source).parent): finding for finding in collisions}
