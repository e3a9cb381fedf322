"""The six words of a key: fixed for ever, since two machines compare them."""

import hashlib

from skillwire.trust.words import words_of


def test_the_words_of_a_digest_are_its_first_66_bits():
    assert words_of(bytes(32)) == ("abandon",) * 6
    assert words_of(b"\xff" * 32) == ("zoo",) * 6
    assert words_of(bytes([0, 32, *bytes(30)])) == ("ability", *["abandon"] * 5)


def test_one_other_bit_makes_another_word():
    digest = hashlib.sha256(b"a key").digest()
    other = bytes([digest[0] ^ 1]) + digest[1:]
    assert words_of(digest)[0] != words_of(other)[0]
    assert words_of(digest)[1:] == words_of(other)[1:]
    assert words_of(digest) == words_of(digest[:9] + bytes(23)), "what follows does not count"
