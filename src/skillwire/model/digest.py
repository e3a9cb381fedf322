"""A SHA-256 content digest, ``sha256:`` and 64 lower-case hexadecimal characters. Spec: ASD Integrity."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from skillwire.errors import ValidationError

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class Digest(str):
    """A digest in its one written form; compares and hashes as that string."""

    __slots__ = ()

    @classmethod
    def of(cls, content: bytes) -> Digest:
        """Return the digest of ``content``."""
        return cls("sha256:" + hashlib.sha256(content).hexdigest())

    @classmethod
    def parse(cls, text: object) -> Digest:
        """Return ``text`` as a digest. Raises ValidationError (``DIGEST_FORM``) for any other form."""
        if isinstance(text, str) and _DIGEST.fullmatch(text):
            return cls(text)
        message = "there is no digest" if text is None else f"not a sha256 digest: {str(text)[:80]!r}"
        raise ValidationError("DIGEST_FORM", message)

    @property
    def hex(self) -> str:
        """The 64 hexadecimal characters."""
        return self[7:]
