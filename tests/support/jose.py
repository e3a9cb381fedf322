"""Keys and tokens as an issuer makes them, and as one who is not makes them."""

import base64
import json
from functools import cache

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER = "https://issuer.example"
AUDIENCE = "https://skills.example/"
NOW = 1_700_000_000.0


def encode(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value, size=None):
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """A private key for one algorithm: ``jwk()`` is its public half, ``token()`` what it signs."""

    def __init__(self, algorithm, key_id, private):
        self.algorithm = algorithm
        self.key_id = key_id
        self.private = private

    def jwk(self, **more):
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            members = {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        elif isinstance(public, ec.EllipticCurvePublicKey):
            point = public.public_numbers()
            members = {"kty": "EC", "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)}
        else:
            members = {"kty": "OKP", "crv": "Ed25519", "x": encode(public.public_bytes_raw())}
        return {**members, "kid": self.key_id, "use": "sig", "alg": self.algorithm, **more}

    def sign(self, data):
        if self.algorithm == "RS256":
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "PS256":
            return self.private.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
        if self.algorithm == "ES256":
            r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return self.private.sign(data)

    def token(self, claims=None, **header):
        head = {"alg": self.algorithm, "kid": self.key_id, "typ": "at+jwt", **header}
        head = {name: value for name, value in head.items() if value is not None}
        signed = f"{encode(head)}.{encode(good_claims() if claims is None else claims)}"
        return f"{signed}.{encode(self.sign(signed.encode()))}"


def good_claims(**changes):
    """Return the claims of a good token, changed; a None takes one away."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "client_id": "app",
        "exp": NOW + 300,
        "iat": NOW,
        "scope": "skill:forecast read",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


@cache
def signing_key(algorithm, key_id="one"):
    """Return a key; the same for the same arguments."""
    if algorithm in ("RS256", "PS256"):
        return SigningKey(algorithm, key_id, rsa.generate_private_key(65537, 2048))
    if algorithm == "ES256":
        return SigningKey(algorithm, key_id, ec.generate_private_key(ec.SECP256R1()))
    return SigningKey(algorithm, key_id, ed25519.Ed25519PrivateKey.generate())
