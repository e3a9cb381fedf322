"""The API of ClawHub, so that its command ``clawhub`` uses this registry as it is.

A slug is the name of a package, and an owner's handle its namespace. A slug without an owner names the one package
that has this name, or had it, and that the caller may know of; where there are several, the answer lists them, and the
client prints each with the command that names it whole. Published files arrive one by one, each for a ticket. What a
registry here has no place for is left out: display names, changelogs, topics, stars; the only tag is ``latest``.
Deleting a version yanks it. Times are milliseconds since the epoch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, UsageError
from skillwire.model.catalog import SearchQuery
from skillwire.model.digest import Digest
from skillwire.model.package import Package, PackageName, PackageVersion, State, Status
from skillwire.model.skill import FileContent
from skillwire.protocols.agent_skills.messages import media_type
from skillwire.protocols.agent_skills.server import BlobResponse, CachePolicy
from skillwire.registry.accounts import require_account
from skillwire.server.components import RegistryComponents, Services
from skillwire.server.openapi import PART, TEXT, closed, in_parts
from skillwire.server.problems import READ, Problem
from skillwire.server.routes.client_apis import ClientApi, ClientRoutes, read_after, read_limit, report, send_zip
from skillwire.server.routes.registry_requests import (
    actor_of,
    answer,
    decode_request,
    find_package,
    principal_of,
    publisher_of,
    read_query,
    read_request,
    tagged_answer,
)
from skillwire.server.routing import RequestContext, Route
from skillwire.server.transfers import UploadedFiles

_API: Final = "/api/v1"
_UPLOADS: Final = f"{_API}/skills/-/uploads"
_TEXT: Final = "text/plain; charset=utf-8"
_HITS: Final = 25
_YANKED: Final = "deleted by its publisher"
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", "the body is too large")
_OK: Final = {"ok": {"const": True}}
_DONE: Final = closed(_OK)
_PUBLISHED: Final = closed(dict.fromkeys(("skillId", "versionId", "slug", "version", "publicationStatus"), TEXT), _OK)
_TICKET: Final = closed({"uploadUrl": TEXT, "uploadTicket": TEXT})
_NUMBER: Final = {"anyOf": [closed({"version": TEXT}), {"type": "null"}]}
_RESOLUTION: Final = closed({"match": _NUMBER, "latestVersion": _NUMBER})
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
    size: Annotated[int, Meta(ge=0)]
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


_MODERATION: Final = closed({"moderation": {"anyOf": [Moderation, {"type": "null"}]}})
_VERSIONS: Final = closed({"items": {"type": "array", "items": VersionSummary}, "nextCursor": {"type": "null"}})
_SKILL: Final = closed({"slug": TEXT, "displayName": TEXT})
_VERSION: Final = closed({"version": VersionWithFiles, "skill": _SKILL})


def skill_item(package: Package, latest: PackageVersion | None) -> SkillItem:
    """Return a package with its latest version."""
    return SkillItem(
        *_head(package, latest),
        tags={"latest": package.latest} if package.latest else {},
        created_at=_milliseconds(package.created),
        updated_at=_updated(package, latest),
        latest_version=version_summary(latest) if latest and package.latest else UNSET,
    )


def moderation(package: Package, latest: PackageVersion | None) -> Moderation | None:
    """Return the quarantine of a package or of its latest version, if there is one."""
    states = [package.state, *([latest.state] if latest else [])]
    return next((Moderation(state.reason) for state in states if state.status is Status.QUARANTINED), None)


def _match(package: Package, site: str) -> dict[str, str]:
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


class ClawHub(ClientApi):
    """The API of ClawHub."""

    name = "ClawHub"
    refusal: ClassVar[Mapping[str, Any]] = {_TEXT: TEXT, "application/json": {"type": "object"}}

    def shape(self, problem: Problem) -> Problem:
        """Return the problem as the text that the client prints; of an ambiguous slug the list that it reads."""
        if problem.code == "SKILL_AMBIGUOUS":
            document = {"code": "AMBIGUOUS_SKILL_SLUG", "message": problem.message, **problem.details}
            return replace(problem, written=msgspec.json.encode(document))
        begin = "Skill not found: " if problem.code == "PACKAGE_NOT_FOUND" else ""  # the client looks for these words
        return replace(problem, written=f"{begin}{report(problem)}".encode(), media_type=_TEXT)

    def package_routes(self, parts: RegistryComponents, services: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        api = ClawHubRoutes(parts, services.publisher)
        skills, skill = f"{_API}/skills", f"{_API}/skills/{{slug}}"
        version = f"{skill}/versions/{{version}}"
        chosen = ("owner", "hub-version", "tag", *PART)
        row, reads, changes = self.row, self.reads, self.changes
        received = changes(api.receive, closed({"storageId": TEXT}), {"application/octet-stream": {}})
        announced = changes(api.announce, _TICKET, UploadRequest)
        published = changes(api.publish, _PUBLISHED, PublishRequest)
        search = reads(api.search, SearchHits, "words", "hub-limit", "mode")
        resolve = reads(api.resolve, _RESOLUTION, "hub-slug", "owner", "hash")
        archive = in_parts("application/zip")
        return [
            row("/.well-known/clawhub.json", GET=reads(api.about, closed({"apiBase": TEXT}))),
            row(f"{_API}/whoami", GET=reads(api.whoami, closed({"user": User}))),
            row(f"{_API}/search", GET=search),
            row(f"{_API}/resolve", GET=resolve),
            row(f"{_API}/download", GET=self.method(api.download, archive, "hub-slug", *chosen)),
            row(skills, GET=reads(api.list, SkillItems, "hub-limit", "cursor", "prefix"), POST=published),
            row(f"{skills}/-/upload-url", POST=announced),
            row(f"{_UPLOADS}/{{ticket}}", POST=received),
            row(skill, GET=reads(api.skill, SkillDetails, "owner"), DELETE=changes(api.delete, _DONE)),
            row(f"{skill}/moderation", GET=reads(api.moderation, _MODERATION, "owner")),
            row(f"{skill}/versions", GET=reads(api.versions, _VERSIONS, "owner")),
            row(version, GET=reads(api.version, _VERSION, "owner"), DELETE=changes(api.delete_version, _DONE)),
            row(f"{version}/restore", POST=changes(api.delete_version, _DONE)),
            row(f"{skill}/file", GET=self.method(api.file, in_parts("*/*"), "path", *chosen)),
        ]


class ClawHubRoutes(ClientRoutes):
    """Answers of the API; ``folders`` is the publisher of the server's own folders."""

    def __init__(self, parts: RegistryComponents, folders: str) -> None:
        super().__init__(parts)
        self._uploaded = UploadedFiles(parts.announced, parts.uploads, time.time)
        self._folders = folders

    # --- reading -----------------------------------------------------------------------------------------

    async def about(self, context: RequestContext) -> ASGIApp:
        """Answer where the API is."""
        return tagged_answer({"apiBase": context.site})

    async def whoami(self, context: RequestContext) -> ASGIApp:
        """Answer the caller's account."""
        actor = actor_of(context)
        require_account(actor)
        user = User(actor.account, actor.account, role="admin" if actor.is_operator else "user")
        return tagged_answer({"user": user})

    async def search(self, context: RequestContext) -> ASGIApp:
        """Answer packages of these names, then those that the search finds."""
        query, limit, principal = read_query(context), read_limit(context, _HITS), principal_of(context)
        text = query.get("q", "")
        begun, _ = await self._registry.find(principal, text.strip().lower(), PackageName("", ""), limit)
        found = [*begun]
        if query.get("mode") == "exact":
            found = [one for one in found if one.name.name == text]
        else:
            await context.load()
            search, skills = context.revision.search.search, context.view.listed_usable.skills
            page = await asyncio.to_thread(search, SearchQuery(text, {}, min(limit, int(limits.SEARCH_HITS))))
            for skill in (skills[name] for name in page.names):
                with suppress(NotFoundError):  # withdrawn since this revision was made
                    if skill.publisher != self._folders:
                        found.append(await self._registry.package(principal, PackageName(skill.publisher, skill.name)))
        rows = await self._listed({one.name: one for one in found}.values())
        hits = [
            SearchHit(*_head(one, latest), one.latest or None, 1 / rank, _updated(one, latest))
            for rank, (one, latest) in enumerate(rows[:limit], 1)
        ]
        return tagged_answer(SearchHits(hits))

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer the skills."""
        query, principal = read_query(context), principal_of(context)
        prefix = query.get("prefix", "").lower()
        after, limit = read_after(query.get("cursor", "")), read_limit(context, _HITS)
        found, following = await self._registry.find(principal, prefix, after, limit)
        items = [skill_item(*row) for row in await self._listed(found)]
        return tagged_answer(SkillItems(items, str(following) if following else None))

    async def skill(self, context: RequestContext) -> ASGIApp:
        """Answer a skill."""
        package = await self._find(context)
        latest, namespace = await self._latest(package), package.name.namespace
        item, owner = skill_item(package, latest), User(namespace, namespace)
        return tagged_answer(SkillDetails(item, item.latest_version or None, owner, moderation(package, latest)))

    async def moderation(self, context: RequestContext) -> ASGIApp:
        """Answer the quarantine of a skill."""
        package = await self._find(context)
        return tagged_answer({"moderation": moderation(package, await self._latest(package))})

    async def versions(self, context: RequestContext) -> ASGIApp:
        """Answer the versions that are not yanked."""
        versions = await self._resolvable(await self._find(context))
        return tagged_answer({"items": [version_summary(one) for one in versions], "nextCursor": None})

    async def version(self, context: RequestContext) -> ASGIApp:
        """Answer a version with its files."""
        package = await self._find(context)
        found = await self._registry.describe_version(package, context.parameters["version"])
        files = [FileItem(one.path, one.size, one.digest.hex, media_type(one.path)) for one in found.skill.files]
        version = VersionWithFiles(found.version, _milliseconds(found.published), files=files)
        skill = {"slug": package.name.name, "displayName": package.name.name}
        return tagged_answer({"version": version, "skill": skill})

    async def resolve(self, context: RequestContext) -> ASGIApp:
        """Answer which version has these files."""
        wanted, package = read_query(context).get("hash", ""), await self._find(context)
        versions = await self._resolvable(package)
        made = ((fingerprint((file.path, file.digest) for file in one.skill.files), one) for one in versions)
        match = next((one.version for digest, one in made if digest.hex == wanted), "")

        def number(version: str) -> dict[str, str] | None:
            return {"version": version} if version else None

        return tagged_answer({"match": number(match), "latestVersion": number(package.latest)})

    async def file(self, context: RequestContext) -> None:
        """Answer a file of a version."""
        package, found = await self._choose(context)
        path = read_query(context).get("path", "")
        file = found.skill.find_file(path)
        if file is None:
            raise NotFoundError("FILE_NOT_FOUND", f"{package.name} {found.version} has no file {ascii(path)[:200]}")
        response = BlobResponse(media_type(path), CachePolicy.BRIEF, file.digest, file.size)
        await self._parts.downloads.send(context, response, found.skill)

    async def download(self, context: RequestContext) -> None:
        """Answer a version as a .zip."""
        package, found = await self._choose(context)
        await send_zip(self._parts, context, package, found, is_named="version" in read_query(context))

    # --- publishing --------------------------------------------------------------------------------------

    async def announce(self, context: RequestContext) -> ASGIApp:
        """Answer where a file is sent to."""
        actor, asked = publisher_of(context), await read_request(context, UploadRequest)
        digest = Digest.parse(f"sha256:{asked.sha256}")
        ticket = await self._uploaded.announce(actor.account, asked.path, asked.size, digest)
        return answer({"uploadUrl": f"{context.site}{_UPLOADS}/{ticket}", "uploadTicket": ticket})

    async def receive(self, context: RequestContext) -> ASGIApp:
        """Keep a file until it is published."""
        actor, ticket = publisher_of(context), context.parameters["ticket"]
        async with self._parts.publications.bodies.spooling(context.scope, context.receive) as body:
            await self._uploaded.receive(actor.account, ticket, body)
        return answer({"storageId": ticket})

    async def publish(self, context: RequestContext) -> ASGIApp:
        """Publish a version made of uploaded files, in the namespace of the account unless an owner is named."""
        actor, publications = publisher_of(context), self._parts.publications
        asked = decode_request(await context.body(limits.REGISTRY_FILE_LIST_BYTES, _TOO_LARGE), PublishRequest)
        namespace = asked.owner_handle.removeprefix("@") or actor.account
        right = await self._registry.check_publication(actor, namespace)
        files = await self._uploaded.find(actor.account, [one.storage_id for one in asked.files])

        async def load() -> list[FileContent]:
            return [await self._uploaded.read(file) for file in files]

        uploaded = fingerprint((file.path, file.digest) for file in files)
        try:
            published = await publications.publish(right, load, uploaded, name=asked.slug, version=asked.version)
            made = published.version
        finally:
            await self._uploaded.remove(files)
        name = str(made.package)
        document = {"skillId": name, "versionId": f"{name}@{made.version}", "publicationStatus": "published"}
        return answer({"ok": True, "slug": made.package.name, "version": made.version, **document})

    async def delete(self, context: RequestContext) -> ASGIApp:
        """Delete a skill."""
        asked, actor = await self._read_delete(context), actor_of(context)
        package = await self._find(context, asked.owner_handle)
        await self._registry.change_package(actor, package, state=State(Status.DELETED, asked.reason))
        return answer({"ok": True})

    async def delete_version(self, context: RequestContext) -> ASGIApp:
        """Yank a version, or make it active again."""
        asked, actor = await self._read_delete(context), actor_of(context)
        package = await self._find(context, asked.owner_handle)
        state = State(Status.YANKED, asked.reason or _YANKED) if context.method == "DELETE" else State()
        await self._registry.set_version_state(actor, package, context.parameters["version"], state)
        return answer({"ok": True})

    # --- what several need -------------------------------------------------------------------------------

    async def _read_delete(self, context: RequestContext) -> DeleteRequest:
        body = await context.body(limits.REGISTRY_REQUEST_BYTES, _TOO_LARGE)
        return decode_request(body or b"{}", DeleteRequest)

    async def _find(self, context: RequestContext, owner: str = "") -> Package:
        """Return the package of a slug. Raises NotFoundError, ConflictError (``SKILL_AMBIGUOUS``)."""
        query, principal = read_query(context), principal_of(context)
        slug = context.parameters.get("slug") or query.get("slug", "")
        owner = (owner or query.get("ownerHandle", "")).removeprefix("@")
        if not slug:
            raise UsageError("QUERY", "slug is missing", fix="Name a skill: slug=NAME.")
        if owner:
            return await find_package(self._registry, context, PackageName(owner, slug))
        page, _ = await self._registry.find(principal, slug, PackageName("", slug), int(limits.REGISTRY_PAGE))
        found = [one for one in page if one.name.name == slug]
        if context.method in READ or not found:
            found = list({one.name: one for one in (*found, *await self._renamed(context, slug))}.values())
        if not found:
            raise NotFoundError("PACKAGE_NOT_FOUND", f"there is no skill {ascii(slug)[:150]}")
        if len(found) > 1:
            details = {"matches": [_match(one, context.site) for one in found]}
            raise ConflictError("SKILL_AMBIGUOUS", f"several skills are called {slug}", details=details)
        return found[0]

    async def _renamed(self, context: RequestContext, slug: str) -> Sequence[Package]:
        """Return what the packages redirect to that were called ``slug``; for a change these themselves."""
        grants, after = principal_of(context).grants, PackageName("", slug)
        page = await self._store.find_packages(slug, after, limits.REGISTRY_PAGE, grants=grants, among="renamed")
        found = []
        for one in page:
            if one.name.name == slug:
                with suppress(NotFoundError):  # the caller may not know of it, or not of the new one
                    found.append(await find_package(self._registry, context, one.name))
        return found

    async def _choose(self, context: RequestContext) -> tuple[Package, PackageVersion]:
        """Return the version to download: the named one, or the latest."""
        query, package = read_query(context), await self._find(context)
        tag = query.get("tag", "latest")
        version = query.get("version") or (package.latest if tag == "latest" else tag)
        return package, await self._registry.version(principal_of(context), package, version)

    async def _listed(self, packages: Iterable[Package]) -> Sequence[tuple[Package, PackageVersion]]:
        """Return packages with their latest versions; those whose versions are all yanked are left out."""
        rows = [(one, await self._latest(one)) for one in packages]
        return [(one, latest) for one, latest in rows if latest is not None]

    async def _latest(self, package: Package) -> PackageVersion | None:
        """Return the latest version; where none is resolved, the highest in quarantine, if there is one."""
        if package.latest:
            return await self._store.version(package.name, package.latest)
        return next(iter(await self._resolvable(package)), None)

    async def _resolvable(self, package: Package) -> Sequence[PackageVersion]:
        return [one for one in await self._store.versions(package.name) if one.state.status is not Status.YANKED]
