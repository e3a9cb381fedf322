"""What a server that holds an authority answers: renewed certificates, and the list of what was taken back.

Bytes in, status and bytes out: whoever routes ``POST /lan/certificates`` and ``GET /lan/revocations`` knows nothing of
certificates. The form is that of :mod:`skillwire.protocols.skill_discovery.renewal`. Spec: SDP §10.2.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.adapters.files.agent_certificates import life_of, serial_of
from skillwire.errors import DecodeError, SkillwireError, TrustError, ValidationError
from skillwire.protocols.skill_discovery.renewal import judge_renewal, write_issued

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.authority_folder import AuthorityFolder

_JSON: Final = "application/json"
_PEM: Final = "application/x-pem-file"
#: Of its life, that must be over before a certificate is renewed: agents ask after two thirds, and clocks differ. A
#: fresh one renews nothing, or whoever has one could fill the book with it; but for one of a SkillCenter CA that was
#: taken back, which counts no more.
_RENEWED_FROM: Final = 1 / 2
#: Renewals within an hour for the same names, whatever certificate asks: an answer may be lost.
_RENEWALS: Final = 4
_HOUR: Final = 3600.0


class DeskAnswer(NamedTuple):
    """A status of HTTP, the media type, and the body."""

    status: int
    media_type: str
    body: bytes


class CertificateDesk:
    """The answers of one authority.

    Args:
        folder: of the authority.
        clock: seconds since the epoch.
    """

    def __init__(self, folder: AuthorityFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def renew(self, body: bytes) -> DeskAnswer:
        """Answer a question for a new certificate. It reads and writes files. Trust: the question is a stranger's."""
        now = self._clock()
        try:
            asked = judge_renewal(body, self._folder.judge, now)
            if not (_may_be_renewed(asked.certificate, now) or self._folder.is_orphan(asked.certificate)):
                return _problem(429, TrustError("CERTIFICATE_REFUSED", "it is good for long; ask when it ends soon"))
            lately = [row for row in self._folder.book().rows if row.renews and row.issued > now - _HOUR]
            if sum((row.agents, row.skills, row.hosts) == asked.names.check() for row in lately) >= _RENEWALS:
                return _problem(429, TrustError("CERTIFICATE_REFUSED", "it was renewed often enough; try in an hour"))
            issued = self._folder.issue(asked.names, asked.key, now, renews=serial_of(asked.certificate))
        except (DecodeError, ValidationError) as error:
            return _problem(400, error)
        except TrustError as error:
            return _problem(503 if error.code == "CA_PASSPHRASE" else 403, error)
        except SkillwireError as error:
            return _problem(503, error)
        return DeskAnswer(200, _JSON, write_issued(issued))

    def revocations(self) -> DeskAnswer:
        """Answer with the signed list."""
        try:
            return DeskAnswer(200, _PEM, self._folder.revocations(self._clock()))
        except SkillwireError as error:
            return _problem(503, error)


def _may_be_renewed(certificate: bytes, now: float) -> bool:
    begins, ends = life_of(certificate)
    return now >= begins + (ends - begins) * _RENEWED_FROM


def _problem(status: int, error: SkillwireError) -> DeskAnswer:
    """Return an error as an answer; of what is wrong with our own files a stranger learns that there is something."""
    is_ours = status == 503  # noqa: PLR2004 - as above
    message = "the authority cannot sign at the moment" if is_ours else error.message
    code = "NOT_READY" if is_ours else error.code
    return DeskAnswer(status, _JSON, json.dumps({"error": {"code": code, "message": message, "details": {}}}).encode())
