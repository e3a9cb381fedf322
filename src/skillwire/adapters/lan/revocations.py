"""What was taken back is known soon: signed lists from files, from URLs, and from whoever renews our certificate.

With them come SkillCenter CAs that are new, and are known as soon.

A file is looked at every few seconds and a URL every few minutes. What is taken is kept over a restart. When a list
cannot be had, or is no good, the last good one stays in force, and it is said; so it is when one has ended, since who
keeps the newer one from us is seen by nothing else. Lists are signed, so it does not matter which way they come.
Spec: SDP §10.2; docs/decisions/0032.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.lan_trust import local_authority
from skillwire.adapters.files.trust_files import read_trust_file
from skillwire.adapters.lan.asking import ask
from skillwire.errors import FetchError, SkillwireError
from skillwire.protocols.skill_discovery.renewal import REVOCATIONS_PATH
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.protocols.skill_discovery.configuration import LanSettings

#: Seconds between two looks at the files, and at the URLs.
FILES: Final = 3.0
URLS: Final = 300.0
_OK: Final = 200


class RevocationRefresh:
    """Keeps one agent's lists of what was taken back up to date.

    Args:
        trust: whose lists they are.
        settings: says where they come from.
        on_change: is called after a list that is new has come into force.
        clock: seconds since the epoch.
        tell: takes what a person should know, each once.
        files: seconds between two looks at files.
        urls: seconds between two looks at URLs.
    """

    def __init__(
        self,
        trust: LanTrust,
        settings: LanSettings,
        on_change: Callable[[], object],
        *,
        clock: Callable[[], float] = time.time,
        tell: Callable[[str], object] = lambda _: None,
        files: float = FILES,
        urls: float = URLS,
    ) -> None:
        self._trust = trust
        self._settings = settings
        self._on_change = on_change
        self._clock = clock
        self._tell = tell
        self._pauses = {False: files, True: urls}
        self._stamps: dict[str, tuple[int, int]] = {}
        self._told: dict[str, str] = {}
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
                due[source] = now + self._pauses["://" in source] * self._random.uniform(0.8, 1.0)
            self._tell_end()
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
            holds = "nothing is known of what was taken back" if revocations.ends() is None else known
            self._say(source, f"{source}: {holds}: {error}")
            return False
        self._told.pop(source, None)
        if is_new:
            self._tell_own()
            self._on_change()
        return is_new

    def _tell_own(self) -> None:
        """Say when it is we whose certificate was taken back, or the SkillCenter CA that has issued it."""
        trust = self._trust
        certificate = trust.identity.certificate
        if not certificate or trust.revocations is None:
            return
        if trust.revocations.is_orphan(certificate):
            self._say(
                "own", "the SkillCenter CA of our certificate was taken back: others refuse us until it is renewed"
            )
        elif trust.authority.judge(trust.agent_id, certificate, self._clock()) is None:
            self._say("own", "our own certificate was taken back: others refuse us until another one is installed")

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
                self._say("authority", f"the list of revoked certificates is not signed anew: {error}")
        stamp = await asyncio.to_thread(_stamp, path)
        if stamp is not None and stamp == self._stamps.get(source):
            return None
        data = await asyncio.to_thread(read_trust_file, path, limits.LAN_REVOCATIONS_BYTES)
        if stamp is not None:
            self._stamps[source] = stamp
        return data

    def _sources(self) -> Iterator[str]:
        yield from self._settings.revocations
        local = local_authority(self._settings)
        if local is not None:
            yield str(local.revocations_file)
        elif self._settings.renew_from and not self._settings.revocations:
            yield self._settings.renew_from.rstrip("/") + REVOCATIONS_PATH

    def _tell_end(self) -> None:
        revocations = self._trust.revocations
        ends = None if revocations is None else revocations.ends()
        if ends is not None and ends < self._clock():
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(ends))
            self._say("", f"the list of revoked certificates has ended at {when} UTC: what came since is not known")

    def _say(self, source: str, text: str) -> None:
        if self._told.get(source) != text:
            self._told[source] = text
            self._tell(text)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


async def _fetch(url: str) -> bytes:
    response = await ask(HttpRequest(url, max_bytes=limits.LAN_REVOCATIONS_BYTES))
    if response.status != _OK:
        raise FetchError("HTTP_STATUS", f"{url} answers {response.status}")
    return response.body
