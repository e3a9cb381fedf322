"""The address space of a site, and its encoded indexes, as functions of the catalog.

A :class:`Site` is made from a catalog that is already reduced to what the caller may see. It opens no file and has no
table of URLs: a path is split, the skill found by name and the file by its exact path in the skill's list. So a path
cannot lead outside of a skill, and 10,000 skills cost one table of digests. The live server (:meth:`Site.lookup`) and
the static build (:meth:`Site.paths`) use the same value and give the same bytes::

    /.well-known/agent-skills/index.json                0.2.0, with files and version for older clients
    /.well-known/skills/index.json                      0.1.0
    /.well-known/{agent-skills,skills}/NAME/PATH        one file
    /.well-known/agent-skills/NAME.tar.gz               the artifact of a skill of several files (or .zip)
    /.well-known/agent-skills/sha256/HEX.EXT            an artifact by its digest: never changes
    /@SCOPE/.well-known/...                             the same for one skill, publisher or scene
    /@PUBLISHER/NAME/.well-known/...                    the same for one skill of a publisher
    /@NAME@VERSION/.well-known/...                      the same for a skill while it has this version
    /@NAME/versions.json                                the versions of a skill; also below a publisher
    /.well-known/agent-skills/.well-known/...           the same again, for a client given a pasted index URL

An index names artifacts by their digest URLs, so an index and an artifact fetched before and after a change still fit.
Its URLs are relative without a base URL, so a site may be mounted anywhere.
Spec: ASD URI Structure, Discovery Index, HTTP Considerations; specs §1.
"""

from __future__ import annotations

import io
import re
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.model.catalog import Catalog, SkillChanges, SkillSummary, summarize
from skillwire.model.digest import Digest
from skillwire.model.ref import IndexedFile
from skillwire.model.skill import Artifact, Skill
from skillwire.protocols.agent_skills.messages import (
    JSON,
    MEDIA_TYPES,
    SCHEMA_URI,
    VERSIONS,
    WELL_KNOWN,
    WELL_KNOWN_OLD,
    IndexEntry,
    VersionEntry,
    VersionList,
    media_type,
)

#: Prefix of the URLs of an index that is encoded once for several places.
UNPLACED: Final = "\0"
_ENTRIES_PER_CALL: Final = 64  # so that only their objects are in memory at once
#: What stands before the entries of an index of each generation, and what behind them.
INDEX_HEAD: Final = msgspec.json.encode({"$schema": SCHEMA_URI})[:-1] + b',"skills":['
OLD_INDEX_HEAD: Final = b'{"skills":['
INDEX_END: Final = b"]}"


def encode_index(entries: Iterable[IndexEntry]) -> bytes:
    """Return a 0.2.0 index: the protocol's fields, and ``version`` and ``files`` for older clients.

    Tags, capabilities, scenes, requirements and a state other than active are added **[extension]**; other clients
    ignore them.
    """
    return INDEX_HEAD + encode_entries(entries) + INDEX_END


def encode_entries(entries: Iterable[IndexEntry]) -> bytes:
    """Return the entries of a 0.2.0 index, between its :data:`INDEX_HEAD` and its :data:`INDEX_END`."""
    return _encode(map(_entry_object, entries))


def encode_old_entries(entries: Iterable[IndexEntry]) -> bytes:
    """Return the entries of a 0.1.0 index: names, descriptions and files, nothing else."""
    return _encode(
        {"name": entry.name, "description": entry.description, "files": [file.path for file in entry.files]}
        for entry in entries
    )


def encode_versions(found: VersionList) -> bytes:
    """Return the list of a skill's versions; what is empty is left out."""
    head = {"publisher": found.publisher, "name": found.name, "latest": found.latest, "status": _state(found)}
    versions = [
        {
            "version": one.version,
            "type": one.artifact_type,
            "description": one.description,
            "url": one.url,
            "digest": str(one.digest),
            "size": one.size,
            "status": _state(one),
            **({"published": one.published, "published_by": one.published_by} if one.published is not None else {}),
            **_names_object(one),
        }
        for one in found.versions
    ]
    return msgspec.json.encode({**head, "versions": versions})


def _names_object(entry: IndexEntry | VersionEntry) -> dict[str, Any]:
    named = {"capabilities": entry.capabilities, "scenes": entry.scenes, "requires": entry.requires}
    return {key: names for key, names in named.items() if names}


def _state(one: IndexEntry | VersionEntry | VersionList) -> dict[str, str]:
    fields = {"status": one.status, "reason": one.reason, "successor": one.successor}
    return {key: text for key, text in fields.items() if text}


def _entry_object(entry: IndexEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": entry.name,
        "type": entry.artifact_type,
        "description": entry.description,
        "url": entry.url,
        "digest": str(entry.digest),
    }
    if entry.version is not None:
        fields["version"] = entry.version
    if entry.tags:
        fields["tags"] = entry.tags
    fields |= _names_object(entry)
    if entry.status != "active":
        fields["status"] = _state(entry)
    if entry.files:
        fields["files"] = [file.path for file in entry.files]
    return fields


def _encode(entries: Iterable[dict[str, Any]]) -> bytes:
    written = io.BytesIO()
    separator = b""
    rest = iter(entries)
    while some := list(islice(rest, _ENTRIES_PER_CALL)):
        written.write(separator + msgspec.json.encode(some)[1:-1])
        separator = b","
    return written.getvalue()


INDEX_PATH: Final = f"{WELL_KNOWN}/index.json"
OLD_INDEX_PATH: Final = f"{WELL_KNOWN_OLD}/index.json"

_SCOPE: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_SCOPED: Final = re.compile(
    r"/@(?P<scope>[A-Za-z0-9._-]{1,128})(?:/(?P<name>[a-z0-9-]{1,64}))?(?:@(?P<version>[^/@]{1,128}))?"
    r"(?P<rest>/(?:\.well-known/.+|versions\.json))",
    re.ASCII | re.DOTALL,
)
_PASTED: Final = re.compile(r"/\.well-known/(?:agent-skills|skills)(?:/index\.json)?(?=/\.well-known/)")
_WELL_KNOWN: Final = re.compile(r"/\.well-known/(agent-skills|skills)/([^/]+)(?:/(.+))?", re.DOTALL)
_BY_DIGEST: Final = re.compile(r"sha256/([0-9a-f]{64})(\.md|\.tar\.gz|\.zip)", re.ASCII)
#: A path that a 0.1.0 client can append to a URL unchanged: printable ASCII without ``\ ? # [ ] %`` or ``..``.
_PLAIN_PATH: Final = re.compile(r"(?!.*\.\.)[ !\"$&->@-Z^-~]+", re.ASCII)


class CachePolicy(StrEnum):
    """How long a response may be reused without revalidation: a ``Cache-Control`` value. Spec: ASD HTTP."""

    BRIEF = "public, max-age=60, stale-while-revalidate=300"
    FOREVER = "public, max-age=31536000, immutable"
    PRIVATE = "private, no-cache"


@dataclass(frozen=True, slots=True)
class BlobResponse:
    """A response whose bytes are in a blob store: a file or an artifact. Content coding must not change them."""

    media_type: str
    cache: CachePolicy
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class IndexResponse:
    """An index of the skills ``names``, encoded on demand; ``artifacts`` is the prefix of ``sha256/`` in its URLs."""

    skills: Mapping[str, Skill]
    names: Sequence[str]
    artifacts: str
    old: bool
    media_type: str = JSON
    cache: CachePolicy = CachePolicy.BRIEF

    def encode(self) -> bytes:
        """Return the index's bytes."""
        listed = (summarize(self.skills, name) for name in self.names)
        if self.old:
            entries = (_entry(skill, self.artifacts) for skill in listed if _is_plain(skill))
            return OLD_INDEX_HEAD + encode_old_entries(entries) + INDEX_END
        return encode_index(_entry(skill, self.artifacts) for skill in listed)


def encode_indexes(listings: Iterable[IndexResponse]) -> Iterator[bytes]:
    """Yield the bytes of each of ``listings``; those that differ only in their URLs are encoded once."""
    encoded: dict[tuple[tuple[str, ...], bool], bytes] = {}
    for listing in listings:
        key = tuple(listing.names), listing.old
        if key not in encoded:
            encoded[key] = replace(listing, artifacts=UNPLACED).encode()
        # JSON escapes each quote within a text, so no description can contain the searched bytes.
        unplaced, placed = ((b'"url":' + msgspec.json.encode(start))[:-1] for start in (UNPLACED, listing.artifacts))
        yield encoded[key].replace(unplaced, placed)


@dataclass(frozen=True, slots=True)
class VersionsResponse:
    """The versions of a skill, encoded on demand."""

    found: VersionList
    media_type: str = JSON
    cache: CachePolicy = CachePolicy.BRIEF

    @property
    def skills(self) -> Sequence[VersionEntry]:
        """What it lists."""
        return self.found.versions

    def encode(self) -> bytes:
        """Return the document's bytes."""
        return encode_versions(self.found)


Representation = BlobResponse | IndexResponse | VersionsResponse


class ScopedPath(NamedTuple):
    """The parts of a path below ``/@``: a scope, a skill of it, its version, and the path in that site."""

    scope: str
    name: str | None
    version: str | None
    rest: str


def read_scoped_path(path: str) -> ScopedPath | None:
    """Return the parts of a path of a scope; None for any other. Trust: hostile."""
    found = _SCOPED.fullmatch(path)
    return ScopedPath(*found.group("scope", "name", "version", "rest")) if found else None


class SiteTables(NamedTuple):
    """The lookup tables of a site: names of skills by the digest of the artifact, by publisher and by scene.

    Digests are 32 bytes, to save memory.
    """

    names: AbstractSet[str]
    by_digest: ChainMap[bytes, str]
    publishers: Mapping[str, Sequence[str]]
    scenes: Mapping[str, Sequence[str]]
    superseded: Mapping[Digest, Artifact]

    def without(self, skills: Mapping[str, Skill], names: Iterable[str]) -> SiteTables:
        """Return the tables without these ``skills``."""
        by_digest, publishers, scenes = self.by_digest.copy(), dict(self.publishers), dict(self.scenes)
        for name in names:
            skill = summarize(skills, name)
            del by_digest[skill.artifact.raw_digest]
            for groups, scopes in ((publishers, [skill.publisher]), (scenes, skill.scenes)):
                for scope in groups.keys() & scopes:
                    groups[scope] = [one for one in groups[scope] if one != name]
                    if not groups[scope]:
                        del groups[scope]
        return SiteTables(self.names, by_digest, publishers, scenes, {})

    def joined(self, skills: Mapping[str, Skill], names: Iterable[str], superseded: Iterable[Artifact]) -> SiteTables:
        """Return the tables of ``skills``, given those without ``names``; the digests of these are added in place."""
        publishers: defaultdict[str, list[str]] = defaultdict(list)
        scenes: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            skill = summarize(skills, name)
            self.by_digest[skill.artifact.raw_digest] = name
            publishers[skill.publisher].append(name)
            for scene in dict.fromkeys(skill.scenes):
                scenes[scene].append(name)
        own = _grouped(self.publishers, publishers), _grouped(self.scenes, scenes)
        replaced = {artifact.digest: artifact for artifact in superseded}
        return SiteTables(skills.keys(), self.by_digest, *own, {**self.superseded, **replaced})


def _grouped(groups: Mapping[str, Sequence[str]], more: Mapping[str, list[str]]) -> dict[str, Sequence[str]]:
    """Return groups of names with those of ``more``, sorted; scopes that no URL can have are left out."""
    scopes = filter(_SCOPE.fullmatch, more)
    return {**groups, **{scope: sorted([*groups.get(scope, ()), *more[scope]]) for scope in scopes}}


class Site:
    """The address space of a catalog, reduced to what the caller may see; ``names`` lists its skills in order.

    ``base_url`` has no final slash; URLs in indexes are relative without it. ``superseded`` artifacts are no longer in
    the catalog but still served by digest. ``below`` is the site of a part of the catalog, whose tables are reused;
    ``tables`` are those of the catalog where they are known.
    """

    def __init__(
        self,
        catalog: Catalog,
        base_url: str = "",
        superseded: Iterable[Artifact] = (),
        *,
        below: Site | None = None,
        tables: SiteTables | None = None,
    ) -> None:
        self._skills = catalog.skills
        self.names = tuple(catalog.skills)
        self._base_url = base_url
        if tables is None:
            base = below.tables if below else SiteTables(frozenset(), ChainMap(), {}, {}, {})
            base = base._replace(by_digest=base.by_digest.new_child())
            names = catalog.skills.keys() - base.names if base.names else catalog.skills
            tables = base.joined(catalog.skills, names, superseded)
        self.tables: SiteTables = tables

    def followed_by(self, catalog: Catalog, changes: SkillChanges, superseded: Iterable[Artifact]) -> Site:
        """Return the site of the next catalog, given how it differs; this one has no site below."""
        added, changed, removed = changes
        tables = self.tables.without(self._skills, (*removed, *changed))
        return Site(catalog, self._base_url, tables=tables.joined(catalog.skills, (*added, *changed), superseded))

    def lookup(self, path: str) -> Representation | None:
        """Return the response at ``path`` (percent-decoded, from the site's root), or None. Trust: hostile."""
        scoped = read_scoped_path(path)
        names = self.names if scoped is None else self._scope(scoped)
        if scoped is not None and scoped.rest == VERSIONS:
            return VersionsResponse(self._versions(path, names[0])) if names == (scoped.name or scoped.scope,) else None
        found = _in_site(scoped.rest if scoped else path)
        if found is None or (scoped is not None and not names):
            return None
        generation, name, file = found.groups()
        if name == "index.json" and file is None:
            return IndexResponse(self._skills, names, artifacts_url(path, self._base_url), old=generation == "skills")
        if file is None:
            return self._archive(name)
        if by_digest := _BY_DIGEST.fullmatch(f"{name}/{file}"):
            return self._artifact(Digest(f"sha256:{by_digest[1]}"), by_digest[2])
        return self._file(name, file) if len(names) == len(self.names) or name in names else None

    def encode_part(self, names: Iterable[str]) -> tuple[bytes, bytes]:
        """Return the entries of these skills in the indexes of the whole site: in that of 0.2.0, and in the old one."""
        artifacts = artifacts_url(INDEX_PATH, self._base_url)
        entries = [_entry(summarize(self._skills, name), artifacts) for name in names]
        return encode_entries(entries), encode_old_entries(entry for entry in entries if entry.files)

    def skill_at(self, path: str) -> str | None:
        """Return the name of the skill at ``path``, where :meth:`lookup` finds something; None for several skills."""
        scoped = read_scoped_path(path)
        if scoped is not None and len(names := self._scope(scoped)) == 1:
            return names[0]
        if (found := _in_site(scoped.rest if scoped else path)) is None:
            return None
        _, name, file = found.groups()
        if by_digest := _BY_DIGEST.fullmatch(f"{name}/{file}"):
            return self.tables.by_digest.get(bytes.fromhex(by_digest[1]))
        name = name if file is not None else name.partition(".")[0]
        return name if name in self._skills else None

    def paths(self) -> Iterator[str]:
        """Yield every path of a static site, the indexes of the whole site last, without most alternative paths."""
        for skill in self._skills.values():
            yield from skill_paths(skill.name, artifact_name(skill), [file.path for file in skill.files])
        yield from self.listing_paths()

    def listing_paths(self) -> Iterator[str]:
        """Yield the part of :meth:`paths` that depends on more than one skill."""
        for scope in sorted((self.tables.publishers.keys() | self.tables.scenes.keys()) - self._skills.keys()):
            yield f"/@{scope}{INDEX_PATH}"
        yield WELL_KNOWN + INDEX_PATH
        yield OLD_INDEX_PATH
        yield INDEX_PATH

    def _scope(self, scoped: ScopedPath) -> tuple[str, ...]:
        """Return the names of a scope: a skill's goes before a publisher's, and that before a scene's."""
        scope, name, version, _ = scoped
        group = self.tables.publishers.get(scope) or self.tables.scenes.get(scope, ())
        names = (scope,) if scope in self._skills and name is None else tuple(group)
        if name is not None:
            names = (name,) if name in names and self._skills[name].publisher == scope else ()
        if version is not None:
            names = names if len(names) == 1 and self._skills[names[0]].version == version else ()
        return names

    def _versions(self, path: str, name: str) -> VersionList:
        skill = self._skills[name]
        entry = version_entry(skill, artifacts_url(path, self._base_url))
        return VersionList(skill.publisher, name, (entry,), skill.version)

    def _artifact(self, digest: Digest, extension: str) -> BlobResponse | None:
        name = self.tables.by_digest.get(bytes.fromhex(digest.hex))
        artifact = self._skills[name].artifact if name is not None else self.tables.superseded.get(digest)
        if artifact is None or artifact.extension != extension:
            return None
        return BlobResponse(MEDIA_TYPES[extension], CachePolicy.FOREVER, digest, artifact.size)

    def _archive(self, file: str) -> BlobResponse | None:
        name, dot, extension = file.partition(".")
        skill = self._skills.get(name)
        if skill is None or skill.artifact.artifact_type != "archive" or skill.artifact.extension != dot + extension:
            return None
        return BlobResponse(MEDIA_TYPES[dot + extension], CachePolicy.BRIEF, skill.artifact.digest, skill.artifact.size)

    def _file(self, name: str, path: str) -> BlobResponse | None:
        skill = self._skills.get(name)
        file = skill.find_file(path) if skill else None
        return BlobResponse(media_type(path), CachePolicy.BRIEF, file.digest, file.size) if file else None


def artifacts_url(path: str, base_url: str) -> str:
    """Return the prefix of ``sha256/`` in URLs of the document at ``path``."""
    if base_url:
        return f"{base_url}{WELL_KNOWN}/"
    return "" if path == INDEX_PATH else "../" * (path.count("/") - 1) + WELL_KNOWN[1:] + "/"


def artifact_at(path: str) -> tuple[Digest, str] | None:
    """Return the digest and the ending of the artifact that a path names by its digest. Trust: hostile."""
    found = _BY_DIGEST.fullmatch(path[path.rfind("/sha256/") + 1 :])
    return (Digest(f"sha256:{found[1]}"), found[2]) if found and "/.well-known/" in path else None


def _in_site(path: str) -> re.Match[str] | None:
    return _WELL_KNOWN.fullmatch(_PASTED.sub("", path, count=1))


def artifact_name(skill: Skill) -> str:
    """Return the last part of the digest URL of the skill's artifact."""
    return f"{skill.artifact.digest.hex}{skill.artifact.extension}"


def skill_paths(name: str, artifact: str, files: Iterable[str]) -> Iterator[str]:
    """Yield the paths of a static site that depend on one skill alone, its indexes last."""
    yield f"{WELL_KNOWN}/sha256/{artifact}"
    extension = artifact[artifact.index(".") :]
    if extension != ".md":
        yield f"{WELL_KNOWN}/{name}{extension}"
    for file in files:
        if not _BY_DIGEST.fullmatch(f"{name}/{file}"):  # a digest's URL means the artifact
            yield f"{WELL_KNOWN}/{name}/{file}"
            yield f"{WELL_KNOWN_OLD}/{name}/{file}"
            yield f"/@{name}{WELL_KNOWN_OLD}/{name}/{file}"
    yield f"/@{name}{VERSIONS}"
    yield f"/@{name}{OLD_INDEX_PATH}"
    yield f"/@{name}{INDEX_PATH}"


def _entry(skill: SkillSummary, artifacts: str) -> IndexEntry:
    artifact = skill.artifact
    return IndexEntry(
        name=skill.name,
        description=skill.description,
        artifact_type=artifact.artifact_type,
        url=f"{artifacts}sha256/{artifact.raw_digest.hex()}{artifact.extension}",
        digest=artifact.digest,
        files=tuple([_indexed(file.path) for file in skill.files]) if _is_plain(skill) else (),
        version=skill.version,
        capabilities=skill.capabilities,
        scenes=skill.scenes,
        requires=skill.requires,
        tags=skill.sharing.tags[: limits.SEARCH_TAGS] if skill.sharing else (),
        **dict(zip(("status", "reason", "successor"), skill.state or (), strict=False)),
    )


def version_entry(skill: Skill, artifacts: str) -> VersionEntry:
    """Return a version as its package lists it; ``artifacts`` is the prefix of ``sha256/`` in its URL."""
    artifact = skill.artifact
    return VersionEntry(
        version=skill.version,
        description=skill.description,
        artifact_type=artifact.artifact_type,
        url=f"{artifacts}sha256/{artifact_name(skill)}",
        digest=artifact.digest,
        size=artifact.size,
        capabilities=skill.capabilities,
        scenes=skill.scenes,
        requires=skill.requires,
    )


def _is_plain(skill: SkillSummary) -> bool:
    """Whether a 0.1.0 client can fetch the skill; one bad path makes such a client refuse the whole index."""
    for file in skill.files:  # noqa: SIM110  # a generator for each of 10,000 skills in five indexes costs too much
        if not _is_plain_path(file.path):
            return False
    return True


@lru_cache(maxsize=4096)  # skills name their files alike
def _is_plain_path(path: str) -> bool:
    return _PLAIN_PATH.fullmatch(path) is not None


@lru_cache(maxsize=4096)
def _indexed(path: str) -> IndexedFile:
    return IndexedFile(path, path)
