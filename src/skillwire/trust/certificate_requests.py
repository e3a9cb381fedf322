"""What a certificate is asked for: names, and a request that is signed by the key that it is for.

Spec: SDP §10.2; specs §3. PKCS 10 (RFC 2986) is its form.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.trust.ecdsa import AGENT, SKILL

COMMON_NAME_LENGTH: Final = 64
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_NAME: Final = re.compile(r"[ -~]{1,64}")
_IDENTIFIER_FIX: Final = "An identifier has 1 to 128 letters, digits, dots, hyphens and underscores."
_REQUEST_FIX: Final = "Give what skillwire key new has printed: it begins with -----BEGIN CERTIFICATE REQUEST-----."
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class Names(NamedTuple):
    """Whom a certificate is for: identifiers of agents and skills, and the hosts that they may announce."""

    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def check(self) -> Names:
        """Return these names, each once and in order.

        Raises:
            ValidationError: ``CERTIFICATE_REQUEST`` for what cannot be certified.
        """
        for one in (*self.agents, *self.skills):
            if not _IDENTIFIER.fullmatch(one):
                raise refusal(f"{ascii(one)[:60]} is no identifier of Skill Discovery", _IDENTIFIER_FIX)
        if not self.agents and not self.skills:
            raise refusal("it names no agent and no skill", "Name one: --agent ID or --skill ID.")
        hosts = {_host(one) for one in self.hosts}
        return Names(tuple(sorted({*self.agents})), tuple(sorted({*self.skills})), tuple(sorted(hosts)))

    def are_within(self, others: Names) -> bool:
        """Whether all of these are among others."""
        return all({*mine} <= {*theirs} for mine, theirs in zip(self, others, strict=True))


class Request(NamedTuple):
    """What somebody asks a certificate for, having proven to hold the key."""

    key: ec.EllipticCurvePublicKey
    names: Names


def make_request(names: Names, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a request for a certificate, PEM, signed by the key that it is for.

    Raises:
        ValidationError: ``CERTIFICATE_REQUEST``.
    """
    names = names.check()
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject_of((names.agents or names.skills)[0][:COMMON_NAME_LENGTH]))
        .add_extension(alternatives_of(names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def read_request(data: bytes) -> Request:
    """Return what a request asks for, PEM or DER, whose sender has its key.

    Trust: it is a stranger's; what it names is asked for, and by no means granted.

    Raises:
        ValidationError: ``CERTIFICATE_REQUEST``.
    """
    if len(data) > limits.LAN_REQUEST_BYTES:
        raise refusal(f"the request has {len(data):,} bytes, more than is read", _REQUEST_FIX)
    try:
        load = x509.load_pem_x509_csr if b"-----BEGIN" in data else x509.load_der_x509_csr
        request = load(data)
        key = request.public_key()
        is_signed = isinstance(request.signature_hash_algorithm, hashes.SHA256) and request.is_signature_valid
        names = _asked(request)
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise refusal("it is no request for a certificate", _REQUEST_FIX) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise refusal("its key is of another kind than P-256", "Have skillwire key new make one.")
    if not is_signed:
        raise refusal("the request is not signed by its own key", _REQUEST_FIX)
    return Request(key, names)


def refusal(why: str, fix: str | None = None) -> ValidationError:
    """Return why no certificate is issued."""
    return ValidationError("CERTIFICATE_REQUEST", why, fix=fix)


def _asked(request: x509.CertificateSigningRequest) -> Names:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names()
    links = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = [*map(str, names.get_values_for_type(x509.IPAddress)), *names.get_values_for_type(x509.DNSName)]
    return Names(
        tuple(link.removeprefix(AGENT) for link in links if link.startswith(AGENT)),
        tuple(link.removeprefix(SKILL) for link in links if link.startswith(SKILL)),
        tuple(hosts),
    )


def _host(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        if _DNS_NAME.fullmatch(text.lower()):
            return text.lower()
        fix = "Give an address, such as 192.168.1.7, or a name, such as printer.example.com."
        raise refusal(f"{ascii(text)[:80]} is neither an address nor a name of a host", fix) from None


def alternatives_of(names: Names) -> x509.SubjectAlternativeName:
    """Return names as they stand in a certificate."""
    links = [f"{AGENT}{one}" for one in names.agents] + [f"{SKILL}{one}" for one in names.skills]
    return x509.SubjectAlternativeName([*map(x509.UniformResourceIdentifier, links), *map(_general_name, names.hosts)])


def subject_of(name: str) -> x509.Name:
    """Return a name as it stands in a certificate.

    Raises:
        ValidationError: ``CERTIFICATE_REQUEST``.
    """
    if not _NAME.fullmatch(name):
        fix = "Choose another: 1 to 64 letters of ASCII, with what is added to it."
        raise refusal(f"{ascii(name)[:80]} can be no name in a certificate", fix)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
