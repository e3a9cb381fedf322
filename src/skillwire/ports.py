"""What the core needs from outside, as protocols; :mod:`skillwire.adapters` fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from skillwire.model.cached_response import CachedResponse
    from skillwire.model.digest import Digest
    from skillwire.model.install import Lock, Placement, StagedSkill
    from skillwire.model.origin_record import OriginRecord
    from skillwire.model.search import SearchPage, SearchQuery
    from skillwire.model.token import Token


class BlobStore(Protocol):
    """Immutable bytes, found by their digest."""

    def put(self, content: bytes) -> Digest:
        """Keep ``content`` durably enough to be served; return its digest. Putting twice is harmless."""

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when the store does not hold them."""

    def path(self, digest: Digest) -> Path | None:
        """Return a file that holds the bytes, or None when they are not in a file."""

    def download(self, digest: Digest) -> Download:
        """Return the download of the bytes with this digest, as far as it came."""


class Download(Protocol):
    """One artifact on its way into a blob store, which may have broken off earlier; a ``Sink`` of the wire, and more.

    Nothing in it is trusted before its digest is the expected one.
    """

    @property
    def size(self) -> int:
        """How many bytes it holds."""

    def begin(self, position: int) -> bool:
        """Go on at ``position``, forgetting what was behind it; False when it cannot take anything."""

    def append(self, data: bytes | bytearray) -> None:
        """Take the next bytes."""

    def digest(self) -> str:
        """Return the digest of what it holds."""

    def discard(self) -> None:
        """Forget everything."""

    def keep(self) -> None:
        """Make it a blob, now that it is whole."""

    def close(self) -> None:
        """Let go of it; what it holds stays, to be continued."""


class SkillSearch(Protocol):
    """A search over one revision of the published skills that everybody may see."""

    def search(self, query: SearchQuery) -> SearchPage:
        """Return the part of the hits that ``query`` asks for.

        Raises:
            UsageError: ``CURSOR`` when ``query.after`` is none of ours.
        """


class TokenStore(Protocol):
    """The tokens of a publisher."""

    def add(self, token: Token) -> None:
        """Keep a new token, durably."""

    def revoke(self, token_id: str, at: float) -> None:
        """Keep that a token was taken back ``at`` this time, durably; one that was before keeps its time."""

    def succeed(self, token_id: str, successor: Token, *, end: float) -> bool:
        """Keep ``successor`` and let the old token end at ``end`` or when it ends anyway: both or neither, durably.

        Returns:
            Whether that was done: not when the old token was taken back.
        """

    def find(self, token_id: str) -> Token | None:
        """Return the token of this ID."""

    def all(self) -> Sequence[Token]:
        """Return every token, oldest first."""


class ResponseCache(Protocol):
    """Answers kept from earlier requests, one for each URL and credential."""

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        """Return what is kept for ``url`` as seen with ``credential``."""

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        """Keep ``response``, in place of an earlier one."""


class OriginBook(Protocol):
    """What is remembered of each publisher's place, across projects."""

    def look_up(self, base: str) -> OriginRecord | None:
        """Return what is remembered of ``base``."""

    def record(self, base: str, record: OriginRecord) -> None:
        """Remember ``record`` for ``base``."""


class SkillsFolder(Protocol):
    """The installed skills of one project, or of the user, and their lock."""

    @property
    def root(self) -> Path:
        """The folder that placements, and local origins in the lock, are relative to."""

    def read_lock(self) -> Lock:
        """Return the lock; an empty one when there is none."""

    def installed_files(self, placement: Placement, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of what stands where ``name`` is or would be; None when no copy does."""

    def missing_places(self, placement: Placement, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` where neither a copy nor a link of it stands."""

    def change(self) -> SkillsFolderChange:
        """Begin a change. One at a time: a second one waits, then fails with ``FOLDER_BUSY``."""


class SkillsFolderChange(Protocol):
    """A change that happens as a whole or not at all."""

    def stage(self, skill: StagedSkill) -> None:
        """Write ``skill`` aside, to be put in place by :meth:`commit`."""

    def take_away(self, name: str, placement: Placement) -> None:
        """Remove ``name`` at :meth:`commit`."""

    def commit(self, lock: Lock) -> None:
        """Put everything in place and write ``lock``."""

    def close(self) -> None:
        """End the change; what was not committed leaves nothing behind."""
