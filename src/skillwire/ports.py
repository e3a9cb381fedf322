"""What the core needs from outside, as protocols; :mod:`skillwire.adapters` fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.model.digest import Digest


class BlobStore(Protocol):
    """Immutable bytes, found by their digest."""

    def put(self, content: bytes) -> Digest:
        """Keep ``content`` durably enough to be served; return its digest. Putting twice is harmless."""

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when the store does not hold them."""

    def path(self, digest: Digest) -> Path | None:
        """Return a file that holds the bytes, or None when they are not in a file."""
