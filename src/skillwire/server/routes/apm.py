"""The registry API of APM, whose command ``apm`` lists, downloads and publishes skills here.

An owner is a namespace, and a repository a package. An archive is a skill, or a package of APM with one skill in
``.apm/skills/NAME``, whose manifest and documents beside it are left out. A published version is refused when it comes
again (409), even with the same bytes: APM's clients expect it. Errors are problem documents. Spec: RFC 7807.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final

import msgspec
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.codes import CODES, DOCS_PAGE
from skillwire.errors import ConflictError, documentation_link
from skillwire.model.digest import Digest
from skillwire.model.package import (
    Package,
    PackageName,
    PackageVersion,
)
from skillwire.server.components import RegistryComponents, Services
from skillwire.server.openapi import COUNT, PART, TEXT, closed, in_parts, listed
from skillwire.server.problems import Problem
from skillwire.server.routes.client_apis import ClientApi, ClientRoutes, report, send_zip
from skillwire.server.routes.registry_requests import (
    ARCHIVES,
    actor_of,
    answer,
    find_package,
    principal_of,
    tagged_answer,
)
from skillwire.server.routing import RequestContext, Route

_VERSIONS: Final = "/v1/packages/{namespace}/{package}/versions"
_TIME: Final = {**TEXT, "format": "date-time"}
_VERSION: Final = {"version": TEXT, "digest": TEXT, "published_at": _TIME}
_PROBLEM: Final = closed({"type": TEXT, "title": TEXT, "status": COUNT, "detail": TEXT, "code": TEXT})


class ApmRegistry(ClientApi):
    """The registry API of APM: its command ``apm`` lists, downloads and publishes skills here."""

    name = "APM"
    refusal: ClassVar[Mapping[str, Any]] = {"application/problem+json": _PROBLEM}

    def shape(self, problem: Problem) -> Problem:
        """Return the problem as a problem document."""
        link = documentation_link(f"{DOCS_PAGE}#{problem.code.lower()}")
        document = {
            "type": link or "about:blank",
            "title": CODES[problem.code].summary if link else HTTPStatus(problem.status).phrase,
            "status": problem.status,
            "detail": report(problem),
            "code": problem.code,
        }
        return replace(problem, written=msgspec.json.encode(document), media_type="application/problem+json")

    def package_routes(self, parts: RegistryComponents, _: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        api = ApmRoutes(parts)
        versions = closed({"package": TEXT, "versions": listed(closed(_VERSION))})
        archives = {media_type: {"type": "string", "format": "binary"} for media_type in ARCHIVES}
        published = self.changes(api.publish, closed({"package": TEXT, **_VERSION}), archives, status=201)
        download = self.method(api.download, in_parts(*ARCHIVES), *PART)
        return [
            self.row(_VERSIONS, GET=self.reads(api.versions, versions)),
            self.row(f"{_VERSIONS}/{{version}}", PUT=published),
            self.row(f"{_VERSIONS}/{{version}}/download", GET=download),
        ]


class ApmRoutes(ClientRoutes):
    """Answers of the API."""

    async def versions(self, context: RequestContext) -> ASGIApp:
        """Answer the highest versions that are resolved, the highest first.

        Clients need the digest of each archive, so those of single files are made.
        """
        package = await self._find(context)
        found = (await self._registry.resolved(package))[: limits.REGISTRY_APM_VERSIONS]
        rows = [await self._describe(package, one) for one in found]
        return tagged_answer({"package": str(package.name), "versions": rows})

    async def download(self, context: RequestContext) -> None:
        """Answer a version; a skill of one file as a .zip, since clients unpack archives alone."""
        package = await self._find(context)
        found = await self._registry.version(principal_of(context), package, context.parameters["version"])
        if found.skill.artifact.artifact_type == "archive":
            await self._parts.downloads.send_artifact(context, package, found)
        else:
            await send_zip(self._parts, context, package, found)

    async def publish(self, context: RequestContext) -> ASGIApp:
        """Publish the skill in an archive as this version."""
        where, publications = context.parameters, self._parts.publications
        right = await self._registry.check_publication(actor_of(context), where["namespace"])
        async with publications.bodies.reading(context.scope, context.receive) as body:
            name, digest = where["package"], await asyncio.to_thread(Digest.of, body.data)
            made = await publications.publish(
                right, body.data, digest, name=name, inside=f".apm/skills/{name}", version=where["version"]
            )
        if made.how == "repeated":
            raise ConflictError("VERSION_EXISTS", f"{made.version.package} {made.version.version} is published already")
        document = {"package": str(made.package.name), **await self._describe(made.package, made.version)}
        return answer(document, 201)

    async def _find(self, context: RequestContext) -> Package:
        name = PackageName(context.parameters["namespace"], context.parameters["package"])
        return await find_package(self._registry, context, name)

    async def _describe(self, package: Package, version: PackageVersion) -> dict[str, str]:
        artifact = version.skill.artifact
        is_archive = artifact.artifact_type == "archive"
        digest = artifact.digest if is_archive else (await self._parts.downloads.zipped(package, version)).digest
        return {
            "version": version.version,
            "digest": str(digest),
            "published_at": datetime.fromtimestamp(version.published, UTC).isoformat(),
        }
