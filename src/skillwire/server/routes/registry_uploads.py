"""Publishing over the registry's API: an archive in one request, or an upload that resumes after a break.

``POST /uploads`` names the size and the digest of an archive, and answers the upload of these bytes, begun now or
before. ``PATCH`` writes at ``Upload-Offset``, which is how far it came. A complete upload is published, or checked, by
``POST /namespaces/NAMESPACE/packages?upload=NUMBER``, and ends when it is published.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request

from skillwire.errors import UsageError
from skillwire.model.digest import Digest
from skillwire.registry.skill_center import unmet_capabilities
from skillwire.server.problems import ProblemError
from skillwire.server.responses import no_content
from skillwire.server.routes import registry_messages as messages
from skillwire.server.routes.registry_requests import (
    ARCHIVES,
    CHANGE_REFUSALS,
    REFUSALS,
    Method,
    actor_of,
    answer,
    changes,
    principal_of,
    publisher_of,
    read_query,
    read_request,
    row,
)
from skillwire.server.routing import Answer, Operation
from skillwire.server.uploads import read_upload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.package import Upload
    from skillwire.registry.packages import PublishRight
    from skillwire.server.components import RegistryComponents
    from skillwire.server.context import RequestContext
    from skillwire.server.routing import Route

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


class UploadRoutes:
    """Answers for publications and uploads; ``parts`` are those of the registry."""

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
        read = partial(read_upload, namespace=right.namespace, name=query.get("name", ""))
        if number := query.get("upload"):
            upload = await self._uploads.find(actor.account, number)
            content = partial(self._uploads.read, actor.account, number)
            published = await self._publish(context, right, lambda: read(content()), upload.digest)
            if published.status != "checked":
                await self._uploads.remove(actor.account, number)
        else:
            async with self._publications.bodies.spooling(context.scope, context.receive, self._uploads.spool) as body:
                published = await self._publish(context, right, lambda: read(body.read()), body.digest)
        return answer(published, 201 if published.status == "created" else 200)

    async def _publish(
        self, context: RequestContext, right: PublishRight, read: Callable[[], PreparedSkill], uploaded: Digest
    ) -> messages.PublicationObject:
        query = read_query(context)
        version, dry_run = query.get("version", ""), query.get("dry_run", "0") != "0"
        made = await self._publications.publish(right, read, uploaded, version=version, dry_run=dry_run)
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


_DIGITS: Final = 12


def _progress(upload: Upload, status: int = 200) -> ASGIApp:
    fields = {"Upload-Offset": str(upload.offset), "Upload-Length": str(upload.size)}
    return answer(messages.make(messages.UploadObject, upload, id=upload.number), status, **fields)
