"""The keys of an issuer: a JSON Web Key Set, read with care.

A set is the issuer's, who may be wrong or taken over, so it is bounded, and of each key only its public members are
read. A key that we cannot use is passed over, as RFC 7517 §5 asks: another kind, another purpose, too small to be safe
or so large that it costs time. Two different keys under one name for one algorithm name nothing, so neither is used.

joserfc does the arithmetic. Which key and which algorithm are used is decided here: an algorithm belongs to a kind of
key, so a token cannot have an RSA key taken for the secret of an HMAC. Spec: RFC 7517, RFC 8725 §3.1, §3.2.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import JWSRegistry

from skillwire import limits
from skillwire.errors import DecodeError, Place
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from joserfc.jwk import Key


class _Kind(NamedTuple):
    """A kind of key: its public members, and the algorithms of JWS that it serves; the name → that of joserfc."""

    members: tuple[str, ...]
    algorithms: dict[str, str]


_KINDS: Final[dict[tuple[str, str | None], _Kind]] = {
    ("RSA", None): _Kind(("kty", "n", "e"), {"RS256": "RS256", "PS256": "PS256"}),
    ("EC", "P-256"): _Kind(("kty", "crv", "x", "y"), {"ES256": "ES256"}),
    ("OKP", "Ed25519"): _Kind(("kty", "crv", "x"), {"EdDSA": "Ed25519", "Ed25519": "Ed25519"}),
}
#: The algorithms that are accepted; ``none`` and those with a shared secret never are.
ALGORITHMS: Final = frozenset(name for kind in _KINDS.values() for name in kind.algorithms)
_RSA_BITS: Final = range(2048, 8192 + 1)
_RSA_EXPONENT_BITS: Final = 33  # larger ones cost time and are used by nobody
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]{1,2048}", re.ASCII)


class VerifyingKey:
    """One public key for one algorithm."""

    def __init__(self, key: Key, algorithm: str) -> None:
        self._key = key
        self._algorithm = algorithm

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's for ``signed``. Trust: both are a stranger's."""
        return JWSRegistry.algorithms[self._algorithm].verify(signed, signature, self._key)


class KeySet:
    """The usable keys of one issuer.

    Args:
        rows: key ID, algorithm and key; an ID is None where the key has none.
    """

    def __init__(self, rows: list[tuple[str | None, str, VerifyingKey, object]]) -> None:
        self._keys: dict[tuple[str | None, str], VerifyingKey | None] = {}
        members: dict[tuple[str | None, str], object] = {}
        for key_id, algorithm, key, facts in rows:
            name = (key_id, algorithm)
            is_other = name in members and members[name] != facts
            self._keys[name] = None if is_other else self._keys.get(name, key)
            members.setdefault(name, facts)
        self._only = {algorithm: found[0] for algorithm in ALGORITHMS if len(found := self._all_for(algorithm)) == 1}

    def find(self, key_id: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key of this name for this algorithm; without a name, the only one that there is for it."""
        return self._only.get(algorithm) if key_id is None else self._keys.get((key_id, algorithm))

    def __len__(self) -> int:
        """Return how many names have a key."""
        return sum(key is not None for key in self._keys.values())

    def _all_for(self, algorithm: str) -> list[VerifyingKey | None]:
        return [key for (_, name), key in self._keys.items() if name == algorithm]


def read_key_set(data: bytes, source: str) -> KeySet:
    """Return the usable keys of a JSON Web Key Set.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``LIMIT_ENTRIES``, ``JSON_...``, or ``JSON_SYNTAX`` when it is another document.

    Trust: ``data`` is the issuer's. Nothing else escapes, and no number in it makes reading slow.
    """
    document = load_json(data, max_bytes=limits.JWKS_BYTES, source=source)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise DecodeError("JSON_SYNTAX", "this is no JSON Web Key Set", place=Place(source))
    if len(keys) > limits.JWKS_KEYS:
        message = f"{len(keys)} keys, at most {limits.JWKS_KEYS} are read"
        raise DecodeError("LIMIT_ENTRIES", message, place=Place(source))
    return KeySet([row for key in keys if isinstance(key, dict) for row in _rows(key)])


def _rows(jwk: dict[str, Any]) -> list[tuple[str | None, str, VerifyingKey, object]]:
    kind = _kind(jwk)
    key_id = jwk.get("kid")
    if kind is None or not isinstance(key_id, str | None) or not _is_for_signatures(jwk):
        return []
    public = {member: value for member in kind.members if isinstance(value := jwk.get(member), str)}
    if len(public) < len(kind.members) or not _is_sound(public):
        return []
    try:
        key = JWKRegistry.import_key({**public})
    except (JoseError, ValueError):  # a point that is not on its curve, and the like: not a key that can be used
        return []
    wanted = jwk.get("alg")
    names = {name: known for name, known in kind.algorithms.items() if wanted is None or _is_same(wanted, known, kind)}
    return [(key_id, name, VerifyingKey(key, known), public) for name, known in names.items()]


def _kind(jwk: dict[str, Any]) -> _Kind | None:
    kty, curve = jwk.get("kty"), jwk.get("crv")
    if kty == "RSA":
        return _KINDS["RSA", None]
    return _KINDS.get((kty, curve)) if isinstance(kty, str) and isinstance(curve, str) else None


def _is_same(wanted: object, known: str, kind: _Kind) -> bool:
    return isinstance(wanted, str) and kind.algorithms.get(wanted) == known


def _is_for_signatures(jwk: dict[str, Any]) -> bool:
    operations = jwk.get("key_ops")
    return jwk.get("use") in (None, "sig") and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _is_sound(public: dict[str, str]) -> bool:
    """Whether the numbers of a key are of a size that is safe and cheap."""
    if not all(_BASE64URL.fullmatch(value) for member, value in public.items() if member not in ("kty", "crv")):
        return False
    if public["kty"] != "RSA":
        return True
    modulus, exponent = _number(public["n"]), _number(public["e"])
    return modulus.bit_length() in _RSA_BITS and exponent % 2 == 1 and 1 < exponent < 2**_RSA_EXPONENT_BITS


def _number(text: str) -> int:
    padded = text + "=" * (-len(text) % 4)
    try:
        return int.from_bytes(base64.urlsafe_b64decode(padded), "big")
    except ValueError:  # of a length that nothing encodes to
        return 0
