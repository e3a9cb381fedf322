"""Six words for a key, which two people compare to trust it without an authority.

The words are the first 66 bits of the key's SHA-256, eleven bits a word, from the English list of BIP-39 (MIT licence):
each word is known by its first four letters. Another key with the same words takes about 2^66 attempts.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

_COUNT: Final = 6
_BITS: Final = 11  # of a word, in a list of 2,048


def words_of(digest: bytes) -> tuple[str, ...]:
    """Return the words for a key's SHA-256."""
    words = files("skillwire.trust").joinpath("words.txt").read_text("ascii").split()
    number = int.from_bytes(digest, "big") >> (8 * len(digest) - _COUNT * _BITS)
    return tuple(words[number >> _BITS * place & (1 << _BITS) - 1] for place in reversed(range(_COUNT)))
