"""An agent's certificate stays good: at two thirds of its life, and at the start, a new one is had in its place.

It is had at once when the SkillCenter CA that has issued it was taken back. A certificate of an authority is renewed by
the server that holds it, or by the authority's folder when that is here; one by the agent's own key is made anew. The
key stays, so that others, who know it, see nothing of it. A new certificate is taken when it is for our key and our
name and leads to a root of ours, and the old one serves until then; so is one that somebody installs, within seconds,
and with a key of its own where ours was taken back. What fails is tried again, later and later, and
said. Spec: SDP §10.2.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.agent_certificates import belongs, is_due, is_own, life_of, own_certificate
from skillwire.adapters.files.lan_trust import local_authority
from skillwire.adapters.lan.asking import ask
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.protocols.skill_discovery.renewal import CERTIFICATES_PATH, read_issued, write_renewal
from skillwire.trust.certificate_requests import Names
from skillwire.trust.certificates import names_of
from skillwire.trust.ecdsa import EcdsaIdentity
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.protocols.skill_discovery.configuration import LanSettings

#: Seconds until what failed is tried again, at first and at most; and between two looks at the clock, which may be set.
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 3600.0
_LOOK: Final = 600.0
#: Seconds between two looks whether somebody has installed a certificate.
INSTALLED: Final = 5.0
_OK: Final = 200


class Renewal:
    """Keeps one agent's certificate good.

    Args:
        trust: whose identity is renewed.
        settings: says who renews.
        clock: seconds since the epoch.
        tell: takes what a person should know, once for each failure.
        first_pause: seconds until what failed is tried again.
        look: seconds at most until the clock is looked at again.
        installed: seconds until a certificate is seen that somebody has installed.
    """

    def __init__(
        self,
        trust: LanTrust,
        settings: LanSettings,
        *,
        clock: Callable[[], float] = time.time,
        tell: Callable[[str], object] = lambda _: None,
        first_pause: float = _FIRST_PAUSE,
        look: float = _LOOK,
        installed: float = INSTALLED,
    ) -> None:
        self._trust = trust
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._first_pause = first_pause
        self._look = look
        self._installed = installed
        self._seen = self._stamp()
        self._warned = b""
        self._random = SystemRandom()
        self._is_awake = asyncio.Event()

    async def run(self) -> None:
        """Renew whenever it is time, until this is cancelled."""
        pause, told = self._first_pause, ""
        while isinstance(self._trust.identity, EcdsaIdentity):
            try:
                await self.renew()
            except (SkillwireError, TimeoutError) as error:
                if str(error) != told:
                    told = str(error)
                    self._tell(f"our certificate is not renewed: {told}")
                await self._wait(pause * self._random.uniform(0.8, 1.2))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause, told = self._first_pause, ""
                await self._wait(self._look * self._random.uniform(0.8, 1.0))

    def wake(self) -> None:
        """Have it looked at now whether it is time: something was taken back, or a SkillCenter CA is new."""
        self._is_awake.set()

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until there is something to look at: :meth:`wake`, or a certificate that was installed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_awake.is_set() and await asyncio.to_thread(self._stamp) == self._seen:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._installed):
                            await self._is_awake.wait()
        self._is_awake.clear()

    def _stamp(self) -> tuple[int, int] | None:
        return None if self._trust.keys is None else self._trust.keys.installed_at()

    async def renew(self) -> bool:
        """Renew the certificate if it is time; return whether there is a new one.

        Raises:
            SkillwireError: there is none.
        """
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
            if not is_due(kept, now, revoked):  # somebody has installed it
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
        """Go on with the key that a certificate was installed for, where our own was taken back and is worth nothing.

        A key that counts stays: others know us by it, and would have to forget us first.
        """
        identity, keys, agent_id = self._trust.identity, self._trust.keys, self._trust.agent_id
        if keys is None or not isinstance(identity, EcdsaIdentity) or belongs(kept, identity.key):
            return
        is_lost = self._trust.authority.judge(agent_id, identity.certificate, now) is None
        found = self._trust.authority.judge(agent_id, kept, now)
        if is_lost and found is not None and found.standing_of(agent_id) is not None:
            key = keys.key()
            if belongs(kept, key):
                identity.key, identity.certificate = key, kept

    async def _fresh(self, identity: EcdsaIdentity, now: float) -> bytes | None:
        """Return a new certificate; None when the one that there is stays the best that can be had."""
        local, url = local_authority(self._settings), self._settings.renew_from
        held = names_of(identity.certificate)
        names = Names(*(tuple(sorted(one)) for one in held)) if any(held) else Names((self._trust.agent_id,))
        if local is not None:
            if is_own(identity.certificate):
                names = Names((self._trust.agent_id,))
            issued = await asyncio.to_thread(local.certify, self._trust.agent_id, names, identity.key.public_key(), now)
            return self._good(issued, now)
        if not is_own(identity.certificate):
            if not url:
                self._warn(identity.certificate)
                return None
            body = write_renewal(identity, identity.key, names, now)
            return self._good(read_issued(await post(url.rstrip("/") + CERTIFICATES_PATH, body)), now)
        if is_due(identity.certificate, now):
            return own_certificate(self._trust.agent_id, identity.key, now)
        return None

    def _warn(self, certificate: bytes) -> None:
        """Say once of a certificate that it ends."""
        if certificate != self._warned:
            self._warned = certificate
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(life_of(certificate)[1]))
            fix = "set renewFrom, or have another one issued and install it"
            self._tell(f"our certificate ends at {when} UTC, and nobody is set who renews it: {fix}")

    def _good(self, certificate: bytes, now: float) -> bytes:
        """Return a certificate that may take the place of ours.

        Raises:
            TrustError: ``CERTIFICATE_REFUSED``.
        """
        identity, agent_id = self._trust.identity, self._trust.agent_id
        assert isinstance(identity, EcdsaIdentity)  # noqa: S101 - for the type checker; only then there is one
        found = self._trust.authority.judge(agent_id, certificate, now)
        if found is None or found.standing_of(agent_id) is None or is_own(certificate):
            raise TrustError("CERTIFICATE_REFUSED", "what was issued does not lead to a root that is trusted here")
        if not belongs(certificate, identity.key):
            raise TrustError("CERTIFICATE_REFUSED", "what was issued is for another key")
        return certificate


async def post(url: str, body: bytes) -> bytes:
    """Return what a server answers, of which nothing is proven.

    Raises:
        FetchError: it does not answer, or refuses. TrustError: ``CERTIFICATE_REFUSED`` when it refuses for good.
    """
    headers = {"content-type": "application/json", "accept": "application/json"}
    response = await ask(HttpRequest(url, "POST", headers, body, limits.LAN_RENEWAL_BYTES))
    if response.status != _OK:
        kind = TrustError if response.status in {400, 403} else FetchError
        code = "CERTIFICATE_REFUSED" if kind is TrustError else "HTTP_STATUS"
        raise kind(code, f"{url} answers {response.status}: {response.body[:200].decode('utf-8', 'replace')!a}")
    return response.body
