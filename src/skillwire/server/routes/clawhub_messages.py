"""The documents of ClawHub's API, and how values become them. Times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from skillwire import limits
from skillwire.model.digest import Digest
from skillwire.model.package import Package, PackageVersion, Status
from skillwire.protocols.agent_skills.messages import media_type

#: The order of characters in the collation of Unicode, letters without their case.
_ORDER: Final = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"


class User(Struct, rename="camel"):
    """The owner of a skill, or the caller."""

    handle: str
    display_name: str
    image: None = None
    role: Literal["admin", "user"] | UnsetType = UNSET


class VersionSummary(Struct, rename="camel"):
    """A version."""

    version: str
    created_at: int
    changelog: str = ""
    license: None = None  # clients know one licence


class SkillItem(Struct, rename="camel"):
    """A skill; a list leaves its latest version out where there is none."""

    slug: str
    owner_handle: str
    display_name: str
    summary: str
    tags: dict[str, str]
    created_at: int
    updated_at: int
    latest_version: VersionSummary | UnsetType = UNSET
    stats: dict[str, int] = {}


class SkillItems(Struct, rename="camel"):
    """A page of skills, by slug."""

    items: list[SkillItem]
    next_cursor: str | None


class SearchHit(Struct, rename="camel"):
    """A hit of a search."""

    slug: str
    owner_handle: str
    display_name: str
    summary: str
    version: str | None
    score: float
    updated_at: int


class SearchHits(Struct):
    """The hits of a search, best first."""

    results: list[SearchHit]


class Moderation(Struct, rename="camel"):
    """A quarantine with its reason."""

    summary: str
    is_suspicious: bool = False
    is_malware_blocked: bool = True
    verdict: Literal["malicious"] = "malicious"
    reason_codes: tuple[str, ...] = (Status.QUARANTINED.value,)
    evidence: list[dict[str, Any]] = []


class SkillDetails(Struct, rename="camel"):
    """A skill."""

    skill: SkillItem
    latest_version: VersionSummary | None
    owner: User
    moderation: Moderation | None


class FileItem(Struct, rename="camel"):
    """A file of a version."""

    path: str
    size: int
    sha256: str
    content_type: str


class VersionWithFiles(VersionSummary):
    """A version with its files."""

    files: list[FileItem] = []


class UploadRequest(Struct):
    """A file to be uploaded."""

    path: Annotated[str, Meta(max_length=int(limits.ARCHIVE_PATH_BYTES))]
    size: int
    sha256: str


class StoredFile(Struct, rename="camel"):
    """A file that was received, or is to be published."""

    storage_id: str


class PublishRequest(Struct, rename="camel"):
    """A version to publish, made of files that were uploaded."""

    slug: str
    version: str
    files: list[StoredFile]
    owner_handle: str = ""


class DeleteRequest(Struct, rename="camel"):
    """The owner of the skill to delete, and why."""

    owner_handle: str = ""
    reason: str = ""


def search_hit(package: Package, latest: PackageVersion | None, rank: int) -> SearchHit:
    """Return the hit that is the ``rank``-th, from 1."""
    updated = _updated(package, latest)
    return SearchHit(*_head(package, latest), version=package.latest or None, score=1 / rank, updated_at=updated)


def skill_item(package: Package, latest: PackageVersion | None) -> SkillItem:
    """Return a package with its latest version."""
    return SkillItem(
        *_head(package, latest),
        tags={"latest": package.latest} if package.latest else {},
        created_at=_milliseconds(package.created),
        updated_at=_updated(package, latest),
        latest_version=version_summary(latest) if latest and package.latest else UNSET,
    )


def skill_details(package: Package, latest: PackageVersion | None) -> SkillDetails:
    """Return all of a package but its other versions."""
    item, owner = skill_item(package, latest), User(package.name.namespace, package.name.namespace)
    return SkillDetails(item, item.latest_version or None, owner, moderation(package, latest))


def moderation(package: Package, latest: PackageVersion | None) -> Moderation | None:
    """Return the quarantine of a package or of its latest version, if there is one."""
    states = [package.state, *([latest.state] if latest else [])]
    return next((Moderation(state.reason) for state in states if state.status is Status.QUARANTINED), None)


def version_with_files(version: PackageVersion) -> VersionWithFiles:
    """Return a version with its files."""
    files = [FileItem(one.path, one.size, one.digest.hex, media_type(one.path)) for one in version.skill.files]
    return VersionWithFiles(version.version, _milliseconds(version.published), files=files)


def match(package: Package, site: str) -> dict[str, str]:
    """Return a package among those of one slug, with the reference that names it whole."""
    namespace, name = package.name
    url = f"{site}/api/registry/packages/{package.name}"
    return {"ownerHandle": namespace, "slug": name, "ref": f"@{package.name}", "url": url}


def fingerprint(files: Iterable[tuple[str, Digest]]) -> Digest:
    """Return what the client makes of the paths and digests of a skill's files; those with a dot in front are left out.

    It is the ``uploaded`` digest of a version that arrived as single files.
    """
    shown = [(path, digest) for path, digest in files if not any(part.startswith(".") for part in path.split("/"))]
    lines = [f"{path}:{digest.hex}" for path, digest in sorted(shown, key=lambda file: _collated(file[0]))]
    return Digest.of("\n".join(lines).encode())


def _collated(path: str) -> tuple[list[int], list[bool]]:
    """Return a key that sorts paths of ASCII as JavaScript's ``localeCompare`` does."""
    return [_ORDER.find(one) for one in path.lower()], [one.isupper() for one in path]


def _head(package: Package, latest: PackageVersion | None) -> tuple[str, str, str, str]:
    """Return the slug, the owner, the displayed name, and the summary."""
    namespace, name = package.name
    return name, namespace, name, latest.skill.description if latest else ""


def version_summary(version: PackageVersion) -> VersionSummary:
    """Return a version."""
    return VersionSummary(version.version, _milliseconds(version.published))


def _updated(package: Package, latest: PackageVersion | None) -> int:
    return _milliseconds(latest.published if latest else package.created)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
