"""The doors of a server that certifies others: a certificate that is renewed, and the list of what was taken back.

They are open to everybody: a question for a certificate carries its own proof, and the list is signed. Questions are
judged one after the other, off the event loop; when too many wait, others are sent away for a moment. Spec: SDP §10.2.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.skill_discovery.renewal import CERTIFICATES_PATH, REVOCATIONS_PATH
from skillwire.server.authentication import Refusal
from skillwire.server.doors import Annex
from skillwire.server.headers import encode_fields
from skillwire.server.methods import READ, answer_other_method, answer_preflight
from skillwire.server.problems import Problem, method_not_allowed

if TYPE_CHECKING:
    from skillwire.adapters.lan.certificate_desk import CertificateDesk, DeskAnswer
    from skillwire.server.metrics import Route
    from skillwire.server.visit import Visit

_ALLOWED: Final = "POST, OPTIONS"
_WAITING: Final = 32
_CROWDED: Final = Problem(503, "NOT_READY", "too many ask for certificates", fields={"Retry-After": "5"})
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a question has at most {limits.LAN_RENEWAL_BYTES:,} bytes")


class CertificateDoors:
    """Answers for one authority.

    Args:
        desk: that it does.
    """

    def __init__(self, desk: CertificateDesk) -> None:
        self._desk = desk
        self._turn = asyncio.Lock()
        self._waiting = 0

    def annex(self) -> Annex:
        """Return the doors by their paths."""
        return Annex({CERTIFICATES_PATH: self.renew, REVOCATIONS_PATH: self.tell_revocations})

    async def renew(self, visit: Visit) -> Route:
        """Answer a question for a new certificate."""
        await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_ALLOWED, visit.send)
            return "service"
        if visit.method != "POST":
            raise Refusal(method_not_allowed(visit.method, _ALLOWED))
        body = await visit.body(limits.LAN_RENEWAL_BYTES, _TOO_LARGE)
        if self._waiting >= _WAITING:
            raise Refusal(_CROWDED)
        self._waiting += 1
        try:
            async with self._turn:
                answer = await asyncio.to_thread(self._desk.renew, body)
        finally:
            self._waiting -= 1
        await _send(visit, answer)
        return "service"

    async def tell_revocations(self, visit: Visit) -> Route:
        """Answer with the signed list."""
        await visit.identify()
        if visit.method not in READ:
            await answer_other_method(visit.method, visit.send)
            return "service"
        await _send(visit, await asyncio.to_thread(self._desk.revocations))
        return "service"


async def _send(visit: Visit, answer: DeskAnswer) -> None:
    own = {
        "Content-Type": answer.media_type,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-store",
    }
    await visit.send(
        {"type": "http.response.start", "status": answer.status, "headers": encode_fields(own, OPEN_FIELDS)}
    )
    await visit.send({"type": "http.response.body", "body": b"" if visit.method == "HEAD" else answer.body})
