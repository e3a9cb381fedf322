"""The certificates of an agent: renewal, revocations, and the service that renews the certificates of others.

**Renewal.** At the start, and after two thirds of its life, a certificate is replaced: by the server of its authority,
by the authority's folder on this machine, or by a new self-signed one; at once when its SkillCenter CA was revoked. The
key stays the same, so other agents notice nothing. A new certificate is accepted when it is for our key and our name
and leads to a root of ours. An installed certificate is used within seconds. Failures are retried and reported.

**Revocations.** Signed lists come from files (every few seconds), from URLs and from the server that renews our
certificate (every few minutes), with new SkillCenter CAs, and are stored. Without a valid new list the last one stays
in force; an expired one is reported: otherwise a withheld newer list would go unnoticed. :class:`RenewalService`
answers ``POST /lan/certificates`` and ``GET /lan/revocations``. Spec: SDP §10.2.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from skillwire import limits
from skillwire.adapters.files.atomic import read_trust_file
from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import INSTALLED_SECONDS, stamp_of
from skillwire.adapters.files.lan_trust import LanTrust, local_authority, revocation_urls
from skillwire.adapters.lan.probes import send_to_known_address
from skillwire.errors import DecodeError, FetchError, SkillwireError, TrustError, ValidationError, one_line
from skillwire.protocols.skill_discovery import credentials as messages
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import (
    RequestedNames,
    belongs,
    certificate_pem,
    decode_request,
    is_due,
    is_own,
    life_of,
    names_of,
    own_certificate,
    serial_of,
)
from skillwire.trust.ecdsa import EcdsaIdentity
from skillwire.wire.exchange import HttpRequest

#: Seconds until what failed is tried again, at first and at most; and between two looks at the clock, which may be set.
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 3600.0
_LOOK: Final = 600.0
_OK: Final = 200


class Renewal:
    """Keeps one agent's certificate good."""

    def __init__(
        self,
        trust: LanTrust,
        settings: LanSettings,
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._trust = trust
        self._settings = settings
        self._clock = clock
        self._notify = notify
        self._seen = self._stamp()
        self._warned = b""
        self._random = SystemRandom()
        self._is_awake = asyncio.Event()

    async def run(self) -> None:
        """Renew whenever it is time, until this is cancelled."""
        pause, reported = _FIRST_PAUSE, ""
        while isinstance(self._trust.identity, EcdsaIdentity):
            try:
                await self.renew()
            except (SkillwireError, TimeoutError) as error:
                if one_line(error) != reported:
                    reported = one_line(error)
                    self._notify(f"our certificate is not renewed: {reported}")
                await self._wait(pause * self._random.uniform(0.8, 1.2))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause, reported = _FIRST_PAUSE, ""
                await self._wait(_LOOK * self._random.uniform(0.8, 1.0))

    def wake(self) -> None:
        """Have it looked at now whether it is time: something was revoked, or a SkillCenter CA is new."""
        self._is_awake.set()

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until there is something to look at: :meth:`wake`, or a certificate that was installed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_awake.is_set() and await asyncio.to_thread(self._stamp) == self._seen:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(INSTALLED_SECONDS):
                            await self._is_awake.wait()
        self._is_awake.clear()

    def _stamp(self) -> tuple[int, int] | None:
        return None if self._trust.keys is None else stamp_of(self._trust.keys.certificate_file)

    async def renew(self) -> bool:
        """Renew the certificate if it is time; return whether there is a new one. Raises: SkillwireError."""
        identity, keys = self._trust.identity, self._trust.keys
        now = self._clock()
        if not isinstance(identity, EcdsaIdentity):
            return False
        current = identity.certificate
        revoked = self._trust.revocations
        self._seen = self._stamp()
        kept = keys.certificate() if keys is not None else None
        if kept is not None and kept != current and not is_own(kept):
            self._take_key(kept, now)
        if kept is not None and kept != current and belongs(kept, identity.key) and not is_own(kept):
            if not is_due(kept, now, revoked):  # it was installed meanwhile
                identity.certificate = self._good(kept, now)
                return True
            current = kept
        if not is_own(current) and not is_due(current, now, revoked):
            return False
        fresh = await self._fresh(EcdsaIdentity(identity.key, current), now)
        if fresh is None:
            return False
        if keys is not None:
            await asyncio.to_thread(keys.keep_certificate, fresh)
        identity.certificate = fresh
        return True

    def _take_key(self, kept: bytes, now: float) -> None:
        """Use another key that was installed with its certificate: a person did so, since ours was revoked or lost."""
        identity, keys, agent_id = self._trust.identity, self._trust.keys, self._trust.agent_id
        if keys is None or not isinstance(identity, EcdsaIdentity) or belongs(kept, identity.key):
            return
        found = self._trust.authority.judge(agent_id, kept, now)
        if found is not None and found.standing_of(agent_id) is not None:
            key = keys.key()
            if belongs(kept, key):
                identity.key, identity.certificate = key, kept

    async def _fresh(self, identity: EcdsaIdentity, now: float) -> bytes | None:
        """Return a new certificate; None when the one that there is stays the best that can be had."""
        local, url = local_authority(self._settings), self._settings.renew_from
        held = names_of(identity.certificate)
        names = (
            RequestedNames(*(tuple(sorted(one)) for one in held))
            if any(held)
            else RequestedNames((self._trust.agent_id,))
        )
        if local is not None:
            if is_own(identity.certificate):
                names = RequestedNames((self._trust.agent_id,))
            issued = await asyncio.to_thread(local.certify, self._trust.agent_id, names, identity.key.public_key(), now)
            return self._good(issued, now)
        if not is_own(identity.certificate):
            if not url:
                if identity.certificate != self._warned:
                    self._warned = identity.certificate
                    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(life_of(identity.certificate)[1]))
                    fix = "set renewFrom, or have another one issued and install it"
                    self._notify(f"our certificate ends at {when} UTC, and renewFrom is not set: {fix}")
                return None
            body = messages.write_renewal(identity, identity.key, names, now)
            return self._good(messages.read_issued(await post(url.rstrip("/") + messages.CERTIFICATES_PATH, body)), now)
        if is_due(identity.certificate, now):
            return own_certificate(self._trust.agent_id, identity.key, now)
        return None

    def _good(self, certificate: bytes, now: float) -> bytes:
        """Return a certificate that may replace ours. Raises: TrustError: ``CERTIFICATE_REFUSED``."""
        identity, agent_id = self._trust.identity, self._trust.agent_id
        assert isinstance(identity, EcdsaIdentity)  # noqa: S101 - for the type checker; only then there is one
        found = self._trust.authority.judge(agent_id, certificate, now)
        if found is None or found.standing_of(agent_id) is None or is_own(certificate):
            raise TrustError("CERTIFICATE_REFUSED", "what was issued does not lead to a root that is trusted here")
        if not belongs(certificate, identity.key):
            raise TrustError("CERTIFICATE_REFUSED", "what was issued is for another key")
        return certificate


async def post(url: str, body: bytes) -> bytes:
    """Return the unproven answer of a server. Raises: FetchError; TrustError: ``CERTIFICATE_REFUSED``, for good."""
    headers = {"content-type": "application/json", "accept": "application/json"}
    response = await send_to_known_address(HttpRequest(url, "POST", headers, body, limits.LAN_RENEWAL_BYTES))
    if response.status != _OK:
        kind = TrustError if response.status in {400, 403} else FetchError
        code = "CERTIFICATE_REFUSED" if kind is TrustError else "HTTP_STATUS"
        raise kind(code, f"{url} answers {response.status}: {response.body[:200].decode('utf-8', 'replace')!a}")
    return response.body


#: Seconds between two looks at the files, and at the URLs.
_FILES: Final = 3.0
_URLS: Final = 300.0


class RevocationRefresh:
    """Keeps one agent's lists of revocations up to date."""

    def __init__(
        self,
        trust: LanTrust,
        settings: LanSettings,
        on_change: Callable[[], object],
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._trust = trust
        self._settings = settings
        self._on_change = on_change
        self._clock = clock
        self._notify = notify
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._reported: dict[str, str] = {}
        self._random = SystemRandom()

    async def run(self) -> None:
        """Look whenever it is time, until this is cancelled."""
        sources = list(self._sources())
        if not sources or self._trust.revocations is None:
            return
        due = dict.fromkeys(sources, 0.0)
        while True:
            now = asyncio.get_running_loop().time()
            for source in [one for one in sources if due[one] <= now]:
                await self.refresh(source)
                due[source] = now + (_URLS if "://" in source else _FILES) * self._random.uniform(0.8, 1.0)
            revocations = self._trust.revocations
            ends = None if revocations is None else revocations.ends()
            if ends is not None and ends < self._clock():
                when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(ends))
                text = f"the revocation list expired at {when} UTC; later revocations are unknown"
                self._report("", text)
            await asyncio.sleep(max(min(due.values()) - now, 0.01))

    async def refresh(self, source: str) -> bool:
        """Look at one source; return whether something new has come into force. It never raises for the source."""
        revocations = self._trust.revocations
        if revocations is None:
            return False
        try:
            data = await self._read(source)
            is_new = data is not None and revocations.take(data, self._clock())
            if is_new and self._trust.keys is not None:
                await asyncio.to_thread(self._trust.keys.keep_revocations, revocations.pem())
        except (SkillwireError, TimeoutError) as error:
            known = "the last revocations that were good stay in force"
            holds = "nothing is known of what was revoked" if revocations.ends() is None else known
            self._report(source, f"{source}: {holds}: {one_line(error)}")
            return False
        self._reported.pop(source, None)
        if is_new:
            self._report_own()
            self._on_change()
        return is_new

    def _report_own(self) -> None:
        """Say when it is we whose certificate was revoked, or the SkillCenter CA that has issued it."""
        trust = self._trust
        certificate = trust.identity.certificate
        if not certificate or trust.revocations is None:
            return
        if trust.revocations.is_orphan(certificate):
            self._report(
                "own", "the SkillCenter CA of our certificate was revoked: others refuse us until it is renewed"
            )
        elif trust.authority.judge(trust.agent_id, certificate, self._clock()) is None:
            self._report("own", "our own certificate was revoked: others refuse us until another one is installed")

    async def _read(self, source: str) -> bytes | None:
        """Return the lists of a source; None when they are those that were read before."""
        if "://" in source:
            return await _fetch(source)
        path = Path(source)
        local = local_authority(self._settings)
        if local is not None and path == local.revocations_file:
            try:
                await asyncio.to_thread(local.revocations, self._clock())  # signs it anew when it is a day old
            except SkillwireError as error:
                self._report("authority", f"the list of revoked certificates is not signed anew: {one_line(error)}")
        stamp = await asyncio.to_thread(stamp_of, path)
        if stamp is not None and stamp == self._stamps.get(source):
            return None
        data = await asyncio.to_thread(read_trust_file, path, limits.LAN_REVOCATIONS_BYTES)
        self._stamps[source] = stamp
        return data

    def _sources(self) -> Iterator[str]:
        yield from (one for one in self._settings.revocations if "://" not in one)
        local = local_authority(self._settings)
        if local is not None:
            yield str(local.revocations_file)
        yield from revocation_urls(self._settings)

    def _report(self, source: str, text: str) -> None:
        if self._reported.get(source) != text:
            self._reported[source] = text
            self._notify(text)


async def _fetch(url: str) -> bytes:
    response = await send_to_known_address(HttpRequest(url, max_bytes=limits.LAN_REVOCATIONS_BYTES))
    if response.status != _OK:
        raise FetchError("HTTP_STATUS", f"{url} answers {response.status}")
    return response.body


_LOG: Final = logging.getLogger("skillwire.lan")
_LOG.addHandler(logging.NullHandler())  # for commands; a server has handlers of its own
_NOTES: Final = 16


class CertificateTasks:
    """Renews the certificate of one agent, and refreshes its revocations; ``notes`` are the last failures."""

    def __init__(self, trust: LanTrust, settings: LanSettings, on_revoked: Callable[[], object]) -> None:
        self.notes: list[str] = list(trust.notes)
        self.renewal = Renewal(trust, settings, notify=self._notify)
        self._on_revoked = on_revoked
        self.refresh = RevocationRefresh(trust, settings, self._learned, notify=self._notify)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the running loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.renewal.run()), loop.create_task(self.refresh.run())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _learned(self) -> None:
        """Go on with what more was revoked, by us it may be, or with a SkillCenter CA that is new."""
        self._on_revoked()
        self.renewal.wake()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a task for certificates failed", exc_info=error)

    def _notify(self, text: str) -> None:
        _LOG.warning("%s", text)
        self.notes = [*self.notes[1 - _NOTES :], text]


_JSON: Final = "application/json"
_PEM: Final = "application/x-pem-file"
#: Share of its life that must be over before a certificate is renewed: agents ask after two thirds, and clocks differ.
#: A fresh one renews nothing, or its holder could fill the book, unless its SkillCenter CA was revoked.
_RENEWED_FROM: Final = 1 / 2
#: Renewals within an hour for the same names, whatever certificate asks: an answer may be lost.
_RENEWALS: Final = 4
_HOUR: Final = 3600.0


class RenewalResponse(NamedTuple):
    """A status of HTTP, the media type, and the body."""

    status: int
    media_type: str
    body: bytes


class RenewalService:
    """The answers of one authority."""

    def __init__(self, folder: AuthorityFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def renew(self, body: bytes) -> RenewalResponse:
        """Answer a request for a new certificate; reads and writes files. Trust: the request is untrusted."""
        now = self._clock()
        try:
            asked = messages.judge_renewal(body, self._folder.judge, now)
            begins, ends = life_of(asked.certificate)
            is_early = now < begins + (ends - begins) * _RENEWED_FROM
            if is_early and not self._folder.is_orphan(asked.certificate):
                return _problem(429, TrustError("CERTIFICATE_REFUSED", "it is good for long; ask when it ends soon"))
            return self._issue(asked.names, asked.key, now, renews=serial_of(asked.certificate))
        except SkillwireError as error:
            return _refusal(error)

    def enroll(self, request: bytes, *, refusal: Callable[[RequestedNames], str]) -> RenewalResponse:
        """Answer a request for a first certificate, PEM; ``refusal`` says why the caller may not have its names."""
        now = self._clock()
        try:
            asked = decode_request(request)
            names = asked.names.check()
            if reason := refusal(names):
                return _problem(403, TrustError("CERTIFICATE_REFUSED", reason))
            return self._issue(names, asked.key, now)
        except SkillwireError as error:
            return _refusal(error)

    def _issue(
        self, names: RequestedNames, key: EllipticCurvePublicKey, now: float, *, renews: str = ""
    ) -> RenewalResponse:
        wanted = names.check()
        lately = [row for row in self._folder.book().rows if row.issued > now - _HOUR]
        if renews:  # renewals count renewals only; a first certificate counts all
            lately = [row for row in lately if row.renews]
        if sum((row.agents, row.skills, row.hosts) == wanted for row in lately) >= _RENEWALS:
            reason = f"it was {'renewed' if renews else 'issued'} often enough; try in an hour"
            return _problem(429, TrustError("CERTIFICATE_REFUSED", reason))
        issued = self._folder.issue(names, key, now, renews=renews)
        return RenewalResponse(200, _JSON, messages.write_issued(issued))

    def chain(self) -> RenewalResponse:
        """Answer with the valid SkillCenter CAs, the issuing one first, and the root."""
        try:
            found = [*self._folder.centers, self._folder.root]
            return RenewalResponse(200, _PEM, b"".join(map(certificate_pem, found)))
        except SkillwireError as error:
            return _problem(503, error)

    def revocations(self) -> RenewalResponse:
        """Answer with the signed list."""
        try:
            return RenewalResponse(200, _PEM, self._folder.revocations(self._clock()))
        except SkillwireError as error:
            return _problem(503, error)


def _refusal(error: SkillwireError) -> RenewalResponse:
    """Return the answer to a request for a certificate that failed."""
    if isinstance(error, DecodeError | ValidationError):
        return _problem(400, error)
    is_refused = isinstance(error, TrustError) and error.code != "CA_PASSPHRASE"
    return _problem(403 if is_refused else 503, error)


def _problem(status: int, error: SkillwireError) -> RenewalResponse:
    """Return an error as an answer; details about our own files are left out."""
    is_ours = status == 503  # noqa: PLR2004 - as above
    message = "the authority cannot sign at the moment" if is_ours else error.message
    code = "NOT_READY" if is_ours else error.code
    document = {"error": {"code": code, "message": message, "details": {}}}
    return RenewalResponse(status, _JSON, json.dumps(document).encode())
