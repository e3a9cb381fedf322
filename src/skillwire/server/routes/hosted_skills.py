"""The API of hosted skills, ``/v1/skills``, for the SDKs of platforms that host skills by it.

The ID of a skill is ``NAMESPACE--NAME``, and that of a version its number: neither part of a package's name has two
hyphens together. A skill is uploaded in a form, as single files in one folder, or as one archive. It is published in
the namespace of the caller's account, unless ``?namespace=`` names another. A version that the folder states is kept;
without one, an upload makes the next patch version, since SDKs upload without a thought of versions. Deleting a version
yanks it. The name that is displayed is the skill's; another one in the form has no place in a registry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import ASGIApp, Scope

from skillwire import limits
from skillwire.errors import DecodeError, NotFoundError, UsageError
from skillwire.folder.publish import PreparedSkill
from skillwire.folder.rules import VERSION_RULES
from skillwire.model.digest import Digest
from skillwire.model.package import Package, PackageName, PackageVersion, State, Status, version_order
from skillwire.model.skill import FileContent
from skillwire.registry.accounts import Actor
from skillwire.registry.packages import PublishedVersion
from skillwire.server.components import RegistryComponents, Services
from skillwire.server.openapi import PART, TEXT, closed, in_parts
from skillwire.server.problems import Problem
from skillwire.server.routes.client_apis import ClientApi, ClientRoutes, read_after, read_limit, report, send_zip
from skillwire.server.routes.registry_requests import (
    actor_of,
    answer,
    find_package,
    principal_of,
    read_query,
    tagged_answer,
)
from skillwire.server.routing import RequestContext, Route
from skillwire.trust.archive import is_archive

_API: Final = "/v1/skills"
_ROWS: Final = 20
_BETWEEN: Final = "--"
_FORM: Final = {"multipart/form-data": {"type": "object"}}
_YANKED: Final = "deleted by its publisher"
_FIELDS: Final = 16
#: Status → the type of an error; others are ``api_error``.
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


class Source(Struct, frozen=True):
    """Where a skill comes from: a user."""

    type: Literal["custom"] = "custom"


class HostedSkill(Struct):
    """A skill."""

    id: str
    created_at: datetime
    updated_at: datetime
    display_name: str
    latest_version_id: str
    source: Source = Source()
    type: Literal["skill"] = "skill"


class HostedVersion(Struct):
    """A version of a skill."""

    id: str
    skill_id: str
    name: str
    description: str
    created_at: datetime
    type: Literal["skill_version"] = "skill_version"


_ERROR: Final = closed(
    {
        "type": {"const": "error"},
        "error": closed({"type": TEXT, "message": TEXT, "code": TEXT, "details": {"type": "object"}}),
    }
)
_DELETED: Final = closed({"id": TEXT, "type": TEXT})


def _pages(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a page; the next one is at ``next_page``."""
    following = {"anyOf": [TEXT, {"type": "null"}]}
    return closed({"data": {"type": "array", "items": kind}, "next_page": following, "has_more": {"type": "boolean"}})


def _page(rows: Sequence[Struct], following: str | None) -> dict[str, Any]:
    return {"data": rows, "next_page": following, "has_more": following is not None}


class HostedSkillsApi(ClientApi):
    """The API of hosted skills."""

    name = "Hosted skills"
    refusal: ClassVar[Mapping[str, Any]] = {"application/json": _ERROR}

    def shape(self, problem: Problem) -> Problem:
        """Return the problem as the error object that SDKs read."""
        kind = _TYPES.get(problem.status, "api_error")
        error = {"type": kind, "message": report(problem), "code": problem.code, "details": dict(problem.details)}
        return replace(problem, written=msgspec.json.encode({"type": "error", "error": error}))

    def package_routes(self, parts: RegistryComponents, _: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        api = HostedSkillRoutes(parts)
        versions = f"{_API}/{{hosted}}/versions"
        version = f"{versions}/{{version}}"
        page = ("hub-limit", "page")
        archive = in_parts("application/zip")
        return [
            self.row(
                _API,
                GET=self.reads(api.list, _pages(HostedSkill), *page, "source"),
                POST=self.changes(api.create, HostedSkill, _FORM),
            ),
            self.row(
                f"{_API}/{{hosted}}", GET=self.reads(api.skill, HostedSkill), DELETE=self.changes(api.delete, _DELETED)
            ),
            self.row(
                versions,
                GET=self.reads(api.versions, _pages(HostedVersion), *page),
                POST=self.changes(api.create_version, HostedVersion, _FORM),
            ),
            self.row(
                version, GET=self.reads(api.version, HostedVersion), DELETE=self.changes(api.delete_version, _DELETED)
            ),
            self.row(f"{version}/content", GET=self.method(api.content, archive, *PART)),
        ]


class HostedSkillRoutes(ClientRoutes):
    """Answers of the API."""

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer the skills."""
        after = read_after(context, "page")
        if read_query(context).get("source") not in {None, "", "custom"}:
            return tagged_answer(_page([], None))
        found, following = await self._registry.find(principal_of(context), "", after, read_limit(context, _ROWS))
        rows = [await self._describe(one) for one in found if one.latest]
        return tagged_answer(_page(rows, str(following) if following else None))

    async def skill(self, context: RequestContext) -> ASGIApp:
        """Answer a skill."""
        return tagged_answer(await self._describe(await self._find(context)))

    async def versions(self, context: RequestContext) -> ASGIApp:
        """Answer the versions that are resolved."""
        package, limit, after = await self._find(context), read_limit(context, _ROWS), read_query(context).get("page")
        found = await self._registry.resolved(package)
        names = [one.version for one in found]
        if after and after not in names:
            raise UsageError("CURSOR", "this is no page of this list")
        start = names.index(after) + 1 if after else 0
        rows = [_version(one) for one in found[start : start + limit]]
        return tagged_answer(_page(rows, rows[-1].id if len(found) > start + limit else None))

    async def version(self, context: RequestContext) -> ASGIApp:
        """Answer a version, or ``latest``."""
        package = await self._find(context)
        return tagged_answer(_version(await self._registry.describe_version(package, _asked(context, package))))

    async def content(self, context: RequestContext) -> None:
        """Answer a version as a .zip, in a folder named as the skill."""
        package = await self._find(context)
        version = _asked(context, package)
        found = await self._registry.version(principal_of(context), package, version)
        is_named = context.parameters["version"] == version
        await send_zip(self._parts, context, package, found, folder=package.name.name, is_named=is_named)

    async def create(self, context: RequestContext) -> ASGIApp:
        """Publish a skill; where it is there, a version of it."""
        actor = actor_of(context)
        made = await self._publish(context, actor, read_query(context).get("namespace") or actor.account)
        return answer(await self._describe(made.package))

    async def create_version(self, context: RequestContext) -> ASGIApp:
        """Publish a version of a skill."""
        actor, package = actor_of(context), await self._find(context)
        made = await self._publish(context, actor, package.name.namespace, package.name.name)
        return answer(_version(made.version))

    async def delete(self, context: RequestContext) -> ASGIApp:
        """Delete a skill."""
        actor, package = actor_of(context), await self._find(context)
        await self._registry.change_package(actor, package, state=State(Status.DELETED))
        return answer({"id": _id(package.name), "type": "skill_deleted"})

    async def delete_version(self, context: RequestContext) -> ASGIApp:
        """Yank a version."""
        actor, package = actor_of(context), await self._find(context)
        state, version = State(Status.YANKED, _YANKED), _asked(context, package)
        yanked = await self._registry.set_version_state(actor, package, version, state)
        return answer({"id": yanked.version, "type": "skill_version_deleted"})

    async def _publish(self, context: RequestContext, actor: Actor, namespace: str, name: str = "") -> PublishedVersion:
        """Publish the files in the body, under a version that is free unless they state one."""
        right = await self._registry.check_publication(actor, namespace)
        publications = self._parts.publications
        async with publications.bodies.reading(context.scope, context.receive) as body:
            files = await read_files(context.scope, body.data)
            first = bytes(files[0].content) if len(files) == 1 else b""
            content = first if is_archive(first) else files
            uploaded = await asyncio.to_thread(Digest.of, content if isinstance(content, bytes) else body.data)
            prepared = await publications.read(content, right.namespace, name=name)
            version = await self._free_version(prepared)
            return await self._registry.publish(right, prepared, uploaded, version=version)

    async def _free_version(self, prepared: PreparedSkill) -> str:
        """Return the version to publish as, empty for the folder's own."""
        skill = prepared.skill
        if prepared.folder.manifest.version or VERSION_RULES.isdisjoint(one.code for one in skill.findings):
            return ""
        versions = await self._store.versions(PackageName(skill.publisher, skill.name))
        if not versions:
            return ""
        if versions[0].skill.artifact.digest == skill.artifact.digest:
            return versions[0].version
        major, minor, patch = version_order(versions[0].version)[0]
        return f"{major}.{minor}.{patch + 1}"

    async def _find(self, context: RequestContext) -> Package:
        """Return the package of an ID. Raises NotFoundError."""
        namespace, between, name = context.parameters["hosted"].partition(_BETWEEN)
        if not between:
            raise NotFoundError("PACKAGE_NOT_FOUND", f"there is no skill {ascii(namespace)[:150]}")
        return await find_package(self._registry, context, PackageName(namespace, name))

    async def _describe(self, package: Package) -> HostedSkill:
        latest = await self._store.version(package.name, package.latest) if package.latest else None
        created, updated = _time(package.created), _time(latest.published if latest else package.created)
        return HostedSkill(_id(package.name), created, updated, package.name.name, package.latest)


logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a refusal says what is wrong with a form


class _Parser(MultiPartParser):
    spool_max_size = int(limits.ARCHIVE_BYTES)  # the body is in memory already


async def read_files(scope: Scope, body: bytes) -> list[FileContent]:
    """Return the files of a form. Raises DecodeError (``MULTIPART_SYNTAX``). Trust: the body is hostile."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), limits.SERVER_PIECE_BYTES):
            yield body[start : start + limits.SERVER_PIECE_BYTES]
            await asyncio.sleep(0)

    headers = Headers({"content-type": Headers(scope=scope).get("content-type", "")})
    try:
        form = await _Parser(headers, pieces(), max_files=int(limits.ARCHIVE_ENTRIES), max_fields=_FIELDS).parse()
    except (MultiPartException, UnicodeError) as error:  # the client names the encoding of names
        raise DecodeError("MULTIPART_SYNTAX", f"the form cannot be read: {error}") from error
    parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
    files = [FileContent(part.filename or "", part.file.read()) for part in parts]
    await form.close()
    return files


def _asked(context: RequestContext, package: Package) -> str:
    version = context.parameters["version"]
    return package.latest if version == "latest" else version


def _version(version: PackageVersion) -> HostedVersion:
    name, published = version.package.name, _time(version.published)
    return HostedVersion(version.version, _id(version.package), name, version.skill.description, published)


def _id(name: PackageName) -> str:
    return _BETWEEN.join(name)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
