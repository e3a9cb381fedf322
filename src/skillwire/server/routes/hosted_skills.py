"""The API of hosted skills, ``/v1/skills``, for the SDKs of platforms that host skills by it.

The ID of a skill is ``NAMESPACE--NAME``, and that of a version its number: neither part of a package's name has two
hyphens together. A skill is uploaded in a form, as single files in one folder, or as one archive. It is published in
the namespace of the caller's account, unless ``?namespace=`` names another. A version that the folder states is kept;
without one, an upload makes the next patch version, since SDKs upload without a thought of versions. Deleting a version
yanks it. The name that is displayed is the skill's; another one in the form has no place in a registry. The default
version is the latest, since a registry has no other.

The official SDKs differ in one thing: ``anthropic`` reads times as text, ``openai`` as seconds. All other fields that
either of them reads are in every answer, and both go on in a list behind the ID of its last row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import ASGIApp, Scope

from skillwire import limits
from skillwire.errors import ConflictError, DecodeError, NotFoundError, UsageError
from skillwire.folder.rules import VERSION_RULES
from skillwire.model.digest import Digest
from skillwire.model.package import (
    Package,
    PackageName,
    PackageVersion,
    Role,
    State,
    Status,
    latest_version,
    read_package_name,
    version_order,
)
from skillwire.model.skill import FileContent, Skill
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS
from skillwire.registry.accounts import PUBLISH, Actor
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
    read_request,
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
#: How often a free version is chosen: of uploads at once that choose the same, one gets it.
_CHOICES: Final = 32
#: The header field that one of the SDKs always sends.
_TIMES_AS_TEXT: Final = "Anthropic-Version"
_VARY: Final = f"{_TIMES_AS_TEXT}, {IDENTITY_FIELDS}"
#: Status → the type of an error; others are ``invalid_request_error``, or ``api_error`` of the server.
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Source(Struct, frozen=True):
    """Where a skill comes from: a user."""

    type: Literal["custom"] = "custom"


class HostedSkill(Struct):
    """A skill."""

    id: str
    created_at: datetime | int
    updated_at: datetime | int
    name: str
    display_name: str
    description: str
    latest_version: str
    latest_version_id: str
    default_version: str
    source: Source = Source()
    type: Literal["skill"] = "skill"
    object: Literal["skill"] = "skill"


class HostedVersion(Struct):
    """A version of a skill."""

    id: str
    version: str
    skill_id: str
    name: str
    description: str
    created_at: datetime | int
    type: Literal["skill_version"] = "skill_version"
    object: Literal["skill.version"] = "skill.version"


class DefaultVersion(Struct):
    """The version that is asked for as the default."""

    default_version: str


_ERROR: Final = closed(
    {
        "type": {"const": "error"},
        "error": closed({"type": TEXT, "message": TEXT, "code": TEXT, "details": {"type": "object"}}),
    }
)
_DELETED: Final = closed({"id": TEXT, "type": TEXT, "object": TEXT, "deleted": {"const": True}}, {"version": TEXT})


def _pages(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a page; the next one is behind ``last_id``, which is also ``next_page``."""
    row = {"anyOf": [TEXT, {"type": "null"}]}
    edges = dict.fromkeys(("first_id", "last_id", "next_page"), row)
    rows = {"object": {"const": "list"}, "data": {"type": "array", "items": kind}}
    return closed({**rows, **edges, "has_more": {"type": "boolean"}})


def _page(rows: Sequence[HostedSkill] | Sequence[HostedVersion], limit: int) -> ASGIApp:
    """Answer a page of ``rows``; one more than ``limit`` shows that others follow."""
    has_more, rows = len(rows) > limit, rows[:limit]
    first, last = (rows[0].id, rows[-1].id) if rows else (None, None)
    edges = {"first_id": first, "last_id": last, "next_page": last if has_more else None}
    return tagged_answer({"object": "list", "data": rows, **edges, "has_more": has_more}, _VARY)


class HostedSkillsApi(ClientApi):
    """The API of hosted skills."""

    name = "Hosted skills"
    refusal: ClassVar[Mapping[str, Any]] = {"application/json": _ERROR}

    def shape(self, problem: Problem) -> Problem:
        """Return the problem as the error object that SDKs read; they would repeat a request that conflicts."""
        own = "api_error" if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
        kind = _TYPES.get(problem.status, own)
        error = {"type": kind, "message": report(problem), "code": problem.code, "details": dict(problem.details)}
        fields = (
            {**problem.fields, "X-Should-Retry": "false"} if problem.status == HTTPStatus.CONFLICT else problem.fields
        )
        return replace(problem, written=msgspec.json.encode({"type": "error", "error": error}), fields=fields)

    def package_routes(self, parts: RegistryComponents, _: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        api = HostedSkillRoutes(parts)
        skill = f"{_API}/{{hosted}}"
        versions = f"{skill}/versions"
        version = f"{versions}/{{version}}"
        times, page = "times-as-text", ("hub-limit", "page", "after-id")
        archive = in_parts("application/zip")
        return [
            self.row(
                _API,
                GET=self.reads(api.list, _pages(HostedSkill), *page, "source", times),
                POST=self.changes(api.create, HostedSkill, _FORM, "publisher", times),
            ),
            self.row(
                skill,
                GET=self.reads(api.skill, HostedSkill, times),
                POST=self.changes(api.update, HostedSkill, DefaultVersion, times),
                DELETE=self.changes(api.delete, _DELETED),
            ),
            self.row(f"{skill}/content", GET=self.method(api.content, archive, *PART)),
            self.row(
                versions,
                GET=self.reads(api.versions, _pages(HostedVersion), *page, "direction", times),
                POST=self.changes(api.create_version, HostedVersion, _FORM, times),
            ),
            self.row(
                version,
                GET=self.reads(api.version, HostedVersion, times),
                DELETE=self.changes(api.delete_version, _DELETED),
            ),
            self.row(f"{version}/content", GET=self.method(api.content, archive, *PART)),
        ]


class HostedSkillRoutes(ClientRoutes):
    """Answers of the API."""

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer the skills, by name."""
        query, limit, principal = read_query(context), read_limit(context, _ROWS), principal_of(context)
        after = read_after(_after(query).replace(_BETWEEN, "/", 1))
        if query.get("order"):
            raise UsageError("QUERY", "skills are listed by name", fix="Leave order out.")
        if query.get("source") not in {None, "", "custom"}:
            return _page([], limit)
        found = await self._store.find_packages("", after, limit + 1, grants=principal.grants, among="latest")
        return _page([await self._describe(context, one) for one in found], limit)

    async def skill(self, context: RequestContext) -> ASGIApp:
        """Answer a skill."""
        return tagged_answer(await self._describe(context, await self._find(context)), _VARY)

    async def update(self, context: RequestContext) -> ASGIApp:
        """Check that a version is the default one."""
        actor, package = actor_of(context), await self._find(context)
        await self._registry.require(actor, Role.PUBLISHER, package.name.namespace, scope=PUBLISH)
        asked = (await read_request(context, DefaultVersion)).default_version
        if (await self._registry.describe_version(package, asked)).version != package.latest:
            raise _no_default(package.latest)
        return answer(await self._describe(context, package))

    async def versions(self, context: RequestContext) -> ASGIApp:
        """Answer the versions that are resolved, the highest first."""
        query, limit, package = read_query(context), read_limit(context, _ROWS), await self._find(context)
        found, after, order = await self._registry.resolved(package), _after(query), query.get("order") or "desc"
        if order not in {"asc", "desc"}:
            raise UsageError("QUERY", "order is asc or desc")
        if order == "asc":
            found.reverse()
        names = [one.version for one in found]
        if after and after not in names:
            raise UsageError("CURSOR", "this is no page of this list")
        start = names.index(after) + 1 if after else 0
        return _page([_version(context, one) for one in found[start : start + limit + 1]], limit)

    async def version(self, context: RequestContext) -> ASGIApp:
        """Answer a version, or ``latest``."""
        package = await self._find(context)
        found = await self._registry.describe_version(package, _asked(context, package))
        return tagged_answer(_version(context, found), _VARY)

    async def content(self, context: RequestContext) -> None:
        """Answer a version as a .zip, in a folder named as the skill; the latest one where none is named."""
        package = await self._find(context)
        version = _asked(context, package)
        found = await self._registry.version(principal_of(context), package, version)
        is_named = context.parameters.get("version") == version
        await send_zip(self._parts, context, package, found, folder=package.name.name, is_named=is_named)

    async def create(self, context: RequestContext) -> ASGIApp:
        """Publish a skill; where it is there, a version of it."""
        actor = actor_of(context)
        made = await self._publish(context, actor, read_query(context).get("namespace") or actor.account)
        return answer(await self._describe(context, made.package))

    async def create_version(self, context: RequestContext) -> ASGIApp:
        """Publish a version of a skill."""
        actor, package = actor_of(context), await self._find(context)
        made = await self._publish(context, actor, package.name.namespace, package)
        return answer(_version(context, made.version))

    async def delete(self, context: RequestContext) -> ASGIApp:
        """Delete a skill."""
        actor, package = actor_of(context), await self._find(context)
        await self._registry.change_package(actor, package, state=State(Status.DELETED))
        kind = {"type": "skill_deleted", "object": "skill.deleted"}
        return answer({"id": _id(package.name), **kind, "deleted": True})

    async def delete_version(self, context: RequestContext) -> ASGIApp:
        """Yank a version."""
        actor, package = actor_of(context), await self._find(context)
        state, version = State(Status.YANKED, _YANKED), _asked(context, package)
        yanked = await self._registry.set_version_state(actor, package, version, state)
        kind = {"type": "skill_version_deleted", "object": "skill.version.deleted"}
        return answer({"id": yanked.version, "version": yanked.version, **kind, "deleted": True})

    async def _publish(
        self, context: RequestContext, actor: Actor, namespace: str, package: Package | None = None
    ) -> PublishedVersion:
        """Publish the files in the body, under a version that is free unless they state one."""
        right = await self._registry.check_publication(actor, namespace)
        publications, name = self._parts.publications, package.name.name if package else ""
        async with publications.bodies.reading(context.scope, context.receive) as body:
            files, default = await read_form(context.scope, body.data)
            first = bytes(files[0].content) if len(files) == 1 else b""
            content = first if is_archive(first) else files
            uploaded = await asyncio.to_thread(Digest.of, content if isinstance(content, bytes) else body.data)
            prepared = await publications.read(content, right.namespace, name=name)
            findings, choices = {one.code for one in prepared.skill.findings}, 0
            is_stated = prepared.folder.manifest.version or findings.isdisjoint(VERSION_RULES)
            while True:
                version = "" if is_stated else await self._free_version(prepared.skill)
                if package and default:
                    made = version or prepared.skill.version
                    latest = latest_version((one, Status.ACTIVE) for one in (package.latest or made, made))
                    if (default == "true") != (latest == made):
                        raise _no_default(latest)
                choices += 1
                try:
                    return await self._registry.publish(right, prepared, uploaded, version=version)
                except ConflictError as error:
                    if error.code != "VERSION_EXISTS" or is_stated or choices == _CHOICES:
                        raise

    async def _free_version(self, skill: Skill) -> str:
        """Return the version to publish as, empty for the skill's own."""
        versions = await self._store.versions(PackageName(skill.publisher, skill.name))
        if not versions:
            return ""
        if versions[0].skill.artifact.digest == skill.artifact.digest:
            return versions[0].version
        major, minor, patch = version_order(versions[0].version)[0]
        return f"{major}.{minor}.{patch + 1}"

    async def _find(self, context: RequestContext) -> Package:
        """Return the package of an ID. Raises NotFoundError."""
        asked = context.parameters["hosted"]
        name = read_package_name(asked.replace(_BETWEEN, "/", 1))
        if name is None:
            raise NotFoundError("PACKAGE_NOT_FOUND", f"there is no skill {ascii(asked)[:150]}")
        return await find_package(self._registry, context, name)

    async def _describe(self, context: RequestContext, package: Package) -> HostedSkill:
        version, name = package.latest, package.name.name
        latest = await self._store.version(package.name, version) if version else None
        created, updated = (_time(context, one.published if one else package.created) for one in (None, latest))
        description = latest.skill.description if latest else ""
        return HostedSkill(_id(package.name), created, updated, name, name, description, version, version, version)


logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a refusal says what is wrong with a form


class _Parser(MultiPartParser):
    spool_max_size = int(limits.ARCHIVE_BYTES)  # the body is in memory already


async def read_form(scope: Scope, body: bytes) -> tuple[list[FileContent], str]:
    """Return the files of a form, and its field ``default``. Raises DecodeError (``MULTIPART_SYNTAX``).

    Trust: the body is hostile.
    """

    async def pieces() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), limits.SERVER_PIECE_BYTES):
            yield body[start : start + limits.SERVER_PIECE_BYTES]
            await asyncio.sleep(0)

    headers = Headers({"content-type": Headers(scope=scope).get("content-type", "")})
    if "boundary=" not in headers["content-type"].lower():
        fix = "Send Content-Type: multipart/form-data; boundary=TEXT, which curl -F and HTTP libraries write."
        raise DecodeError("MULTIPART_SYNTAX", "the body is no form with a boundary", fix=fix)
    try:
        form = await _Parser(headers, pieces(), max_files=int(limits.ARCHIVE_ENTRIES), max_fields=_FIELDS).parse()
    except (MultiPartException, UnicodeError) as error:  # the client names the encoding of names
        raise DecodeError("MULTIPART_SYNTAX", f"the form cannot be read: {error}") from error
    parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
    files = [FileContent(part.filename or "", part.file.read()) for part in parts]
    default = form.get("default")
    await form.close()
    return files, default if isinstance(default, str) else ""


def _after(query: Mapping[str, str]) -> str:
    return query.get("after") or query.get("page", "")


def _asked(context: RequestContext, package: Package) -> str:
    version = context.parameters.get("version", "latest")
    return package.latest if version == "latest" else version


def _no_default(latest: str) -> UsageError:
    fix = "Leave the default out, or delete newer versions, which yanks them."
    return UsageError("QUERY", f"the default version is always the latest: {latest or 'none'}", fix=fix)


def _version(context: RequestContext, version: PackageVersion) -> HostedVersion:
    number, name, published = version.version, version.package.name, _time(context, version.published)
    return HostedVersion(number, number, _id(version.package), name, version.skill.description, published)


def _id(name: PackageName) -> str:
    return _BETWEEN.join(name)


def _time(context: RequestContext, seconds: float) -> datetime | int:
    """Return a time as the client's SDK reads it."""
    is_text = context.fields(_TIMES_AS_TEXT.lower().encode("ascii"))
    return datetime.fromtimestamp(seconds, UTC) if is_text else int(seconds)
