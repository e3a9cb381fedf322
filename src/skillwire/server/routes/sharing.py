"""Skill Sharing over ASGI: the index, the registry's list, the descriptors.

Indexes and descriptors carry full URLs, so an answer depends on the address under which the client reached us; each
is made when it is first asked for and kept with its audience's other lists (:mod:`skillwire.server.addressed`). A skill
that is hidden is answered as one that is not there. Spec: SSP §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError, UsageError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.agent_skills.server import BlobResponse
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.paths import REGISTRY, WELL_KNOWN, descriptor_path
from skillwire.protocols.skill_sharing.server import Sharing, check_type, encode_descriptor
from skillwire.server.addressed import SiteUrlBody, SiteUrlCache
from skillwire.server.http import read_pairs, site_of
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

    from skillwire.protocols.skill_sharing.messages import AuthConfig
    from skillwire.server.access import AccessView
    from skillwire.server.blob_responses import BlobSender


_DESCRIPTOR: Final = ".json"
_PARAMETERS: Final = 16


class SharingRoutes:
    """Answers ``/.well-known/skill-sharing``, ``/skills`` and ``/skills/NAME.json``.

    Args:
        stored: sends the descriptors that lie in folders.
        provider: who publishes.
        base_url: of the site; as requests say it when empty.
        auth: how callers of skills that are not public authenticate here.
    """

    def __init__(self, stored: BlobSender, provider: str, base_url: str, auth: AuthConfig) -> None:
        self._stored = stored
        self._provider = provider
        self._base_url = base_url
        self._auth = auth
        self._addressed = SiteUrlCache(base_url)

    def owns(self, path: str) -> bool:
        """Whether the path belongs to Skill Sharing."""
        return path in {WELL_KNOWN, REGISTRY} or _skill_of(path) is not None

    async def answer(self, path: str, scope: Scope, send: Send, audience: AccessView) -> None:
        """Answer a GET or HEAD."""
        sharing = Sharing(audience.visible.skills, self._provider, site_of(scope, self._base_url), self._auth)
        try:
            name = _skill_of(path)
            if name is None:
                wanted = check_type(_type_of(scope["query_string"]))
                make = sharing.listing if path == REGISTRY else sharing.index
                made = SiteUrlBody(audience.visible.skills, lambda: make(wanted), audience.cache)
                own_send = _varying(send) if path == REGISTRY else send
                await self._addressed.send(f"{path}?{wanted or ''}", made, audience, scope, own_send)
            else:
                await self._send_descriptor(name, sharing, audience, scope, send)
        except SkillwireError as error:
            await encode_told(error).send(send, head=scope["method"] == "HEAD")

    async def _send_descriptor(
        self, name: str, sharing: Sharing, audience: AccessView, scope: Scope, send: Send
    ) -> None:
        described = sharing.describe(name)
        if isinstance(described, Digest):
            files = audience.visible.skills[name].files
            size = next(file.size for file in files if file.digest == described)
            await self._stored.send(BlobResponse(JSON, audience.cache, described, size), scope, send)
            return
        made = SiteUrlBody((), lambda: encode_descriptor(described), audience.cache)
        await self._addressed.send(descriptor_path(name), made, audience, scope, send)


def _varying(send: Send) -> Send:
    """Return what sends an answer at an address where browsers get a page instead."""

    async def varying(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, b"Accept, " + value if name == b"vary" else value) for name, value in message["headers"]
            ]
        await send(message)

    return varying


def encode_told(error: SkillwireError) -> Problem:
    """Return the answer that tells an error as Skill Sharing does. Spec: SSP §8.2."""
    status, body = encode_error(error)
    return Problem(400 if isinstance(error, UsageError) else status, error.code, error.message, written=body)


def _skill_of(path: str) -> str | None:
    """Return the name in ``/skills/NAME.json``, or None."""
    if not path.startswith(f"{REGISTRY}/") or not path.endswith(_DESCRIPTOR):
        return None
    name = path[len(REGISTRY) + 1 : -len(_DESCRIPTOR)]
    return None if "/" in name else name


def _type_of(query: bytes) -> str | None:
    """Return the parameter ``type``; other parameters mean nothing here.

    Raises:
        UsageError: ``QUERY`` when it is given twice, or there are too many.
    """
    types = [value for key, value in read_pairs(query, _PARAMETERS) if key == "type"]
    if len(types) > 1:
        raise UsageError("QUERY", "type is given twice")
    return types[0] if types else None
