"""The registry's own API: namespaces, packages and their versions, and uploads.

:mod:`skillwire.registry.packages` decides who may do what. Every answer starts from the caller's principal: what it may
not know of is answered as what is not there, on every path. A renamed namespace or package redirects (308). See
``docs/reference/registry-api.md``.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.errors import (
    NotFoundError,
    SkillwireError,
    StorageError,
    UsageError,
)
from skillwire.model.digest import Digest
from skillwire.model.package import UPLOAD, Package, PackageName, Proof, Role, State, Status, Upload, read_package_name
from skillwire.registry.access import is_member
from skillwire.registry.accounts import ADMIN
from skillwire.registry.packages import PublishRight
from skillwire.registry.skill_center import unmet_capabilities
from skillwire.server.components import Protocol, RegistryComponents, Services
from skillwire.server.openapi import PART, in_parts
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.responses import no_content
from skillwire.server.routes import registry_messages as messages
from skillwire.server.routes.registry_requests import (
    API,
    ARCHIVES,
    CHANGE_REFUSALS,
    REFUSALS,
    Method,
    actor_of,
    answer,
    changes,
    find_package,
    moved,
    principal_of,
    publisher_of,
    read_flag,
    read_page,
    read_query,
    read_request,
    reads,
    registry_problem,
    row,
    tagged_answer,
)
from skillwire.server.routing import Answer, Operation, RequestContext, Route
from skillwire.server.transfers import LoadContent, first_day, zip_skill

#: Of an offset.
_DIGITS: Final = 12
_COPIED: Final = 10  # digests of a quarantined package that are looked for in others
_JSON: Final = "application/json"
_BYTES: Final = {"type": "string", "format": "binary"}
_CONTINUED: Final = Operation(
    "Write the next bytes of an upload; the field `Upload-Offset` is how far it came",
    {"200": Answer("They are here.", {_JSON: messages.UploadObject}), **CHANGE_REFUSALS},
    (),
    {"application/octet-stream": _BYTES},
)
_PUBLISH: Final = Operation(
    "Publish the skill in an archive",
    {
        "200": Answer("The same bytes were there before, or this was a dry run.", {_JSON: messages.PublicationObject}),
        "201": Answer("It is published.", {_JSON: messages.PublicationObject}),
        **CHANGE_REFUSALS,
        "415": "RegistryCoding",
        "422": "RegistrySkill",
    },
    ("package-version", "package-name", "dry_run", "upload-number"),
    dict.fromkeys(ARCHIVES, _BYTES),
)


class RegistryApi(Protocol):
    """The registry's own API; a server that publishes folders alone has no rows of it."""

    name = "Registry"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        parts = services.packages
        if parts is None:
            return []
        return [*PackageRoutes(parts).routes(), *UploadRoutes(parts).routes()]

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error``; findings of a refused skill are in its details."""
        return registry_problem(error)


class PackageRoutes:
    """Answers for namespaces and packages; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents) -> None:
        self._registry = parts.registry
        self._store = parts.registry.store
        self._downloads = parts.downloads
        self._proofs = parts.proofs

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        namespace, package = "/namespaces/{namespace}", "/packages/{namespace}/{package}"
        downloaded = Operation("The artifact of a version", {**in_parts(*ARCHIVES, "text/markdown"), **REFUSALS}, PART)
        return [
            row(
                "/namespaces",
                GET=reads(self.namespaces, messages.NamespaceList, "after-name", "rows"),
                POST=changes(self.create, messages.NamespaceObject, messages.NamespaceRequest, status=201),
            ),
            row(namespace, GET=reads(self.namespace, messages.NamespaceDetails, "after-name", "rows")),
            row(f"{namespace}/proof", POST=changes(self.prove, messages.NamespaceObject, messages.ProofRequest)),
            row(f"{namespace}/rename", POST=changes(self.rename, messages.NamespaceObject, messages.RenameRequest)),
            row(
                f"{namespace}/members/{{account}}",
                PUT=changes(self.set_member, None, messages.RoleRequest),
                DELETE=changes(self.set_member, None),
            ),
            row(
                package,
                GET=reads(self.package, messages.PackageObject),
                PATCH=changes(self.change, messages.PackageObject, messages.PackageRequest),
                DELETE=changes(self.delete, None),
            ),
            row(
                f"{package}/readers/{{account}}",
                PUT=changes(self.set_reader, None),
                DELETE=changes(self.set_reader, None),
            ),
            row(
                f"{package}/{{version}}",
                GET=reads(self.version, messages.VersionObject),
                PATCH=changes(self.change_version, messages.VersionObject, messages.VersionRequest),
            ),
            row(f"{package}/{{version}}/download", GET=Method(self.download, downloaded)),
        ]

    # --- namespaces --------------------------------------------------------------------------------------

    async def namespaces(self, context: RequestContext) -> ASGIApp:
        """Answer the namespaces."""
        after, limit = read_page(context)
        found = await self._store.namespaces(after, limit + 1)
        rows = [messages.namespace_object(one) for one in found[:limit]]
        return tagged_answer(messages.NamespaceList(rows, rows[-1].name if len(found) > limit else None))

    async def create(self, context: RequestContext) -> ASGIApp:
        """Make a namespace."""
        asked = await read_request(context, messages.NamespaceRequest)
        made = await self._registry.create_namespace(actor_of(context), asked.name)
        return answer(messages.namespace_object(made), 201)

    async def namespace(self, context: RequestContext) -> ASGIApp:
        """Answer a namespace and its packages."""
        asked, principal = context.parameters["namespace"], principal_of(context)
        found = await self._registry.namespace(asked)
        if found.name != asked:
            return moved(context, f"{API}/namespaces/{found.name}", found.name)
        packages, following = await self._registry.packages(principal, found.name, *read_page(context))
        proof = messages.ProofObject(*found.proof)
        rows = [
            messages.make(messages.PackageSummary, one.name, one, status=messages.StateObject(*one.state))
            for one in await self._registry.shown(principal, packages)
        ]
        described = messages.make(messages.NamespaceDetails, found, proof=proof, packages=rows, next=following)
        if is_member(principal, found.name):
            described.members = dict(await self._store.members(found.name))
        return tagged_answer(described)

    async def prove(self, context: RequestContext) -> ASGIApp:
        """Prove a namespace."""
        asked, actor = await read_request(context, messages.ProofRequest), actor_of(context)
        name = await self._registry.require(actor, Role.OWNER, context.parameters["namespace"], scope=ADMIN)
        domain = "" if asked.kind == "operator" else asked.domain.lower()
        if asked.kind != "operator":
            await self._proofs.check(asked.kind, domain, name)
        proven = await self._registry.prove_namespace(actor, name, Proof(asked.kind, domain, time.time()))
        return answer(messages.namespace_object(proven))

    async def rename(self, context: RequestContext) -> ASGIApp:
        """Rename a namespace."""
        asked, actor = await read_request(context, messages.RenameRequest), actor_of(context)
        renamed = await self._registry.rename_namespace(actor, context.parameters["namespace"], asked.to)
        return answer(messages.namespace_object(renamed))

    async def set_member(self, context: RequestContext) -> ASGIApp:
        """Set or remove the role of a member."""
        where, actor = context.parameters, actor_of(context)
        role = (await read_request(context, messages.RoleRequest)).role if context.method == "PUT" else None
        await self._registry.set_role(actor, where["namespace"], where["account"], role)
        return no_content

    # --- packages ----------------------------------------------------------------------------------------

    async def package(self, context: RequestContext) -> ASGIApp:
        """Answer a package with its versions."""
        return tagged_answer(await self._describe(context, await self._find(context)))

    async def change(self, context: RequestContext) -> ASGIApp:
        """Set the access, the state or the new name of a package; a refused request changes nothing."""
        asked, actor = await read_request(context, messages.PackageRequest), actor_of(context)
        found = await self._find(context)
        if asked.access is None and asked.status is None and not asked.renamed_to:
            raise UsageError("QUERY", "neither access, status nor renamed_to is given")
        if asked.renamed_to:
            if asked != messages.PackageRequest(renamed_to=asked.renamed_to):
                advice = "Set the access and the state in requests of their own, before the package redirects."
                raise UsageError("QUERY", "renamed_to stands beside other fields", fix=advice)
            if (to := read_package_name(asked.renamed_to)) is None:
                raise UsageError("REFERENCE", f"{ascii(asked.renamed_to)[:80]} is not NAMESPACE/NAME")
            return answer(await self._describe(context, await self._registry.redirect(actor, found, to)))
        await self._check_successor(context, found, asked.successor)
        state = None if asked.status is None else State(Status(asked.status), asked.reason, asked.successor)
        found = await self._registry.change_package(actor, found, access=asked.access, state=state)
        described = await self._describe(context, found)
        if asked.status == "quarantined":
            described.copies, described.more_copies = await self._copies(found, described.versions)
        return answer(described)

    async def delete(self, context: RequestContext) -> ASGIApp:
        """Delete a package; its name stays taken."""
        actor = actor_of(context)
        await self._registry.change_package(actor, await self._find(context), state=State(Status.DELETED))
        return no_content

    async def set_reader(self, context: RequestContext) -> ASGIApp:
        """Add or remove a reader of a package."""
        actor, may_read = actor_of(context), context.method == "PUT"
        account = context.parameters["account"]
        await self._registry.set_reader(actor, await self._find(context), account, may_read=may_read)
        return no_content

    async def version(self, context: RequestContext) -> ASGIApp:
        """Answer a version."""
        package = await self._find(context)
        found = await self._registry.describe_version(package, context.parameters["version"])
        [found] = await self._registry.shown(principal_of(context), [found])
        return tagged_answer(messages.version_object(found, package, context.site, with_files=True))

    async def change_version(self, context: RequestContext) -> ASGIApp:
        """Yank, deprecate or quarantine a version, or make it active again."""
        asked, actor = await read_request(context, messages.VersionRequest), actor_of(context)
        package = await self._find(context)
        await self._check_successor(context, package, asked.successor)
        state = State(Status(asked.status), asked.reason, asked.successor)
        changed = await self._registry.set_version_state(actor, package, context.parameters["version"], state)
        [changed] = await self._registry.shown(principal_of(context), [changed])
        described = messages.version_object(changed, package, context.site, with_files=True)
        if state.status is Status.QUARANTINED:
            described.copies, described.more_copies = await self._copies(package, [described])
        return answer(described)

    async def _copies(self, package: Package, versions: Sequence[messages.VersionObject]) -> tuple[list[str], bool]:
        """Return what else has the bytes of these versions, and whether there may be more.

        These are other packages, and other versions of ``package``, which it has as ``namespace/name@version``, unless
        it is itself in quarantine. Versions in quarantine do not count. The highest ``_COPIED`` digests are looked for.
        """
        digests, most = list(dict.fromkeys(one.digest for one in versions)), limits.REGISTRY_PAGE
        looked = [self._store.by_artifact(Digest(one), most + 1) for one in digests[:_COPIED]]
        found = await asyncio.gather(*looked)
        served = [one for one in itertools.chain.from_iterable(found) if one.state.status is not Status.QUARANTINED]
        copies = sorted({str(one.package) for one in served if one.package != package.name})
        if package.state.status is not Status.QUARANTINED:
            copies += [f"{one.package}@{one.version}" for one in served if one.package == package.name]
        is_cut = len(digests) > _COPIED or len(copies) > most or any(len(rows) > most for rows in found)
        return copies[:most], is_cut

    async def download(self, context: RequestContext) -> None:
        """Send the artifact of a version."""
        package = await self._find(context)
        found = await self._registry.version(principal_of(context), package, context.parameters["version"])
        await self._downloads.send_artifact(context, package, found)

    # --- what several need -------------------------------------------------------------------------------

    async def _check_successor(self, context: RequestContext, package: Package, successor: str) -> None:
        """Check that the successor is another package that the caller may know of.

        Raises TrustError, NotFoundError (``PACKAGE_NOT_FOUND``), UsageError (``REFERENCE``).
        """
        try:
            if name := read_package_name(successor):
                publisher_of(context)
                found = await self._registry.package(principal_of(context), name)
                if found.name == package.name:
                    advice = "Name another package, or leave the successor out."
                    raise UsageError("REFERENCE", f"{package.name} cannot be its own successor", fix=advice)
        except NotFoundError as error:
            advice = "Publish the successor first, or name another package of this registry."
            raise NotFoundError(error.code, error.message, fix=advice) from error

    async def _find(self, context: RequestContext) -> Package:
        """Return the package that the path names. Raises NotFoundError, ProblemError (308 for a renamed one).

        A change is never redirected to another package.
        """
        asked = PackageName(context.parameters["namespace"], context.parameters["package"])
        found = await find_package(self._registry, context, asked)
        if found.name != asked:
            rest = context.path.removeprefix(f"{API}/packages/{asked}")
            raise ProblemError(moved(context, f"{API}/packages/{found.name}{quote(rest)}", str(found.name)))
        return found

    async def _describe(self, context: RequestContext, package: Package) -> messages.PackageObject:
        principal = principal_of(context)
        [package] = await self._registry.shown(principal, [package])
        versions = await self._registry.shown(principal, await self._store.versions(package.name))
        namespace = await self._registry.namespace(package.name.namespace)
        described = messages.make(
            messages.PackageObject,
            package.name,
            package,
            status=messages.StateObject(*package.state),
            proof=messages.ProofObject(*namespace.proof),
            versions=[messages.version_object(one, package, context.site) for one in versions],
            downloads=dict(await self._store.downloads(package.name, first_day(time.time()))),
            dependents=[
                *map(str, await self._store.dependents(package.name, limits.REGISTRY_PAGE, grants=principal.grants))
            ],
        )
        if is_member(principal, package.name.namespace):
            described.readers = list(await self._store.readers(package.name))
        return described


class UploadRoutes:
    """Answers for publications, each in one request or in an upload that resumes after a break.

    ``POST /uploads`` names the size and the digest of an archive, and answers the upload of these bytes, begun now or
    before. ``PATCH`` writes at ``Upload-Offset``, which is how far it came. A complete upload is published, or checked,
    by ``POST /namespaces/NAMESPACE/packages?upload=NUMBER``, and ends when it is published.
    """

    def __init__(self, parts: RegistryComponents) -> None:
        self._registry = parts.registry
        self._publications = parts.publications
        self._uploads = parts.uploads

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        shown: dict[str, Answer | str] = {"200": Answer("How far it came.", {_JSON: messages.UploadObject}), **REFUSALS}
        return [
            row("/namespaces/{namespace}/packages", POST=Method(self.publish, _PUBLISH)),
            row("/uploads", POST=changes(self.begin, messages.UploadObject, messages.UploadRequest, status=201)),
            row(
                "/uploads/{upload}",
                GET=Method(self.find, Operation("The state of an upload", shown)),
                PATCH=Method(self.proceed, _CONTINUED),
                PUT=Method(self.proceed, _CONTINUED),
                DELETE=changes(self.remove, None),
            ),
        ]

    async def publish(self, context: RequestContext) -> ASGIApp:
        """Publish the skill in an archive, or check it in a dry run; its size is bounded, and its sender authorised."""
        query, actor = read_query(context), actor_of(context)
        right = await self._registry.check_publication(actor, context.parameters["namespace"])
        dry_run = read_flag(context, "dry_run")
        if number := query.get("upload"):
            load, uploaded = partial(self._read, right, number), Digest(f"sha256:{number.rpartition('-')[2]}")
            published = await self._publish(context, right, load, uploaded, dry_run=dry_run)
            if not dry_run:
                with suppress(NotFoundError, StorageError):  # what is left expires
                    await self._uploads.remove(actor.account, number)
        else:
            async with self._publications.bodies.spooling(context.scope, context.receive) as body:
                published = await self._publish(context, right, body.read, body.digest, dry_run=dry_run)
        return answer(published, 201 if published.status == "created" else 200)

    async def _read(self, right: PublishRight, number: str) -> bytes:
        """Return the bytes of an upload; of one that another request has published, the files of the version."""
        try:
            return await self._uploads.read(right.actor.account, number)
        except NotFoundError:
            store, known = self._registry.store, UPLOAD.fullmatch(number)
            version = await store.uploaded(right.namespace, Digest(f"sha256:{known[2]}")) if known else None
            artifact = await store.artifact(version.skill.artifact.digest) if version else None
            if version is None or artifact is None:
                raise
            return await asyncio.to_thread(zip_skill, version.skill, artifact)

    async def _publish(
        self, context: RequestContext, right: PublishRight, load: LoadContent, uploaded: Digest, *, dry_run: bool
    ) -> messages.PublicationObject:
        name, version = (read_query(context).get(field, "") for field in ("name", "version"))
        made = await self._publications.publish(right, load, uploaded, name=name, version=version, dry_run=dry_run)
        context.change = made.change
        skill = made.version.skill
        unmet = await self._registry.unmet(principal_of(context), skill)
        if skill.requires:
            with suppress(ProblemError):  # the catalog is still being loaded
                usable = (await context.load()).listed_usable.skills
                unmet += await asyncio.to_thread(unmet_capabilities, usable, skill.requires)
        return messages.publication_object(made, unmet)

    async def begin(self, context: RequestContext) -> ASGIApp:
        """Start an upload, or find a started one."""
        asked, account = await read_request(context, messages.UploadRequest), publisher_of(context).account
        upload = await self._uploads.begin(account, asked.size, Digest.parse(asked.digest))
        return _progress(upload, 201)

    async def find(self, context: RequestContext) -> ASGIApp:
        """Answer how far an upload came."""
        upload = await self._uploads.find(publisher_of(context).account, context.parameters["upload"])
        return _progress(upload)

    async def proceed(self, context: RequestContext) -> ASGIApp:
        """Write the next bytes; those that came before a break stay."""
        account, number = publisher_of(context).account, context.parameters["upload"]
        offset = context.fields(b"upload-offset").get(b"upload-offset", "0")
        if not (offset.isascii() and offset.isdigit() and len(offset) <= _DIGITS):
            raise UsageError("QUERY", "Upload-Offset is a whole number of bytes")
        pieces = Request(context.scope, context.receive).stream()
        with suppress(ClientDisconnect):  # what came stays
            await self._uploads.append(account, number, int(offset), pieces)
        return _progress(await self._uploads.find(account, number))

    async def remove(self, context: RequestContext) -> ASGIApp:
        """Remove an upload."""
        await self._uploads.remove(publisher_of(context).account, context.parameters["upload"])
        return no_content


def _progress(upload: Upload, status: int = 200) -> ASGIApp:
    fields = {"Upload-Offset": str(upload.offset), "Upload-Length": str(upload.size)}
    return answer(messages.make(messages.UploadObject, upload, id=upload.number), status, **fields)
