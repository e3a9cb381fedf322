"""Certificates of agents and skills: requests for them (PKCS 10, RFC 2986), and their verification.

A leaf is valid when it leads over the configured intermediates to a configured root, at this time, is not revoked, and
has a P-256 key. Its alternative names contain ``urn:skill-discovery:agent:ID``, ``urn:skill-discovery:skill:ID``
**[ours]**, and the hosts that it may announce. The library's policy accepts other curves, so key and signature are
checked here first. A self-signed leaf proves only that its holder stays the same. It is accepted where policy allows
unverified agents, unless its key or name belongs to a revoked certificate.

A certificate in a datagram has about 470 bytes; a larger one is refused before parsing. Spec: SDP §10.2; specs §3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.lan import REVOKED
from skillwire.trust.ecdsa import AGENT, COMMON_NAME_LENGTH, SKILL, EcdsaKey, key_of, self_signed
from skillwire.trust.revocations import (
    SIGNED,
    UNREADABLE,
    CertificateHolder,
    CertificateId,
    Revocations,
    certificate_id,
)  # fmt: skip

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_NAME: Final = re.compile(r"[ -~]{1,64}")
_IDENTIFIER_FIX: Final = "An identifier has 1 to 128 letters, digits, dots, hyphens and underscores."
_REQUEST_FIX: Final = "Give what skillwire key new has printed: it begins with -----BEGIN CERTIFICATE REQUEST-----."


class RequestedNames(NamedTuple):
    """The subjects of a certificate: identifiers of agents and skills, and the hosts that they may announce."""

    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def check(self) -> RequestedNames:
        """Return these names sorted and without duplicates. Raises ValidationError (``CERTIFICATE_REQUEST``)."""
        for one in (*self.agents, *self.skills):
            if not _IDENTIFIER.fullmatch(one):
                raise request_error(f"{ascii(one)[:60]} is no identifier of Skill Discovery", _IDENTIFIER_FIX)
        if not self.agents and not self.skills:
            raise request_error("it names no agent and no skill", "Name one: --agent ID or --skill ID.")
        hosts = {_host(one) for one in self.hosts}
        return RequestedNames(tuple(sorted({*self.agents})), tuple(sorted({*self.skills})), tuple(sorted(hosts)))

    def are_within(self, others: RequestedNames) -> bool:
        """Whether ``others`` contain all of these."""
        return all({*mine} <= {*theirs} for mine, theirs in zip(self, others, strict=True))


class CertificateRequest(NamedTuple):
    """The contents of a request, whose sender has proven possession of the key."""

    key: ec.EllipticCurvePublicKey
    names: RequestedNames


def encode_request(names: RequestedNames, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a signed certificate request, PEM. Raises ValidationError (``CERTIFICATE_REQUEST``)."""
    names = names.check()
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject_of((names.agents or names.skills)[0][:COMMON_NAME_LENGTH]))
        .add_extension(alternatives_of(names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def decode_request(data: bytes) -> CertificateRequest:
    """Return the contents of a request, PEM or DER, after verifying its signature.

    Trust: hostile; the names are only requested. Raises ValidationError (``CERTIFICATE_REQUEST``).
    """
    if len(data) > limits.LAN_REQUEST_BYTES:
        raise request_error(f"the request has {len(data):,} bytes, more than is read", _REQUEST_FIX)
    try:
        request = (x509.load_pem_x509_csr if b"-----BEGIN" in data else x509.load_der_x509_csr)(data)
        key = request.public_key()
        is_signed = isinstance(request.signature_hash_algorithm, hashes.SHA256) and request.is_signature_valid
        names = RequestedNames(*(tuple(sorted(each)) for each in _names(request)))
    except x509.ExtensionNotFound:
        names = RequestedNames()
    except UNREADABLE as error:
        raise request_error("it is no request for a certificate", _REQUEST_FIX) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise request_error("its key is of another kind than P-256", "Have skillwire key new make one.")
    if not is_signed:
        raise request_error("the request is not signed by its own key", _REQUEST_FIX)
    return CertificateRequest(key, names)


def request_error(why: str, fix: str | None = None) -> ValidationError:
    """Return the error of a refused request."""
    return ValidationError("CERTIFICATE_REQUEST", why, fix=fix)


def _host(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        if _DNS_NAME.fullmatch(text.lower()):
            return text.lower()
        fix = "Give an address, such as 192.168.1.7, or a name, such as printer.example.com."
        raise request_error(f"{ascii(text)[:80]} is neither an address nor a name of a host", fix) from None


def alternatives_of(names: RequestedNames) -> x509.SubjectAlternativeName:
    """Return names as a certificate's alternative names."""
    found: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"{AGENT}{one}") for one in names.agents]
    found += [x509.UniformResourceIdentifier(f"{SKILL}{one}") for one in names.skills]
    for host in names.hosts:
        try:
            found.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            found.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(found)


def subject_of(name: str) -> x509.Name:
    """Return a name as a certificate's subject. Raises ValidationError (``CERTIFICATE_REQUEST``)."""
    if not _NAME.fullmatch(name):
        fix = "Choose another: 1 to 64 letters of ASCII, with what is added to it."
        raise request_error(f"{ascii(name)[:80]} can be no name in a certificate", fix)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class VerifiedCertificate(NamedTuple):
    """The contents of a certificate, and whether a trusted authority certified them."""

    key: EcdsaKey
    is_certified: bool  # it leads to a trusted root
    agents: frozenset[str]
    skills: frozenset[str]
    hosts: frozenset[str]  # addresses or names
    until: float  # seconds since the epoch
    #: Whether it, its key, or a certificate above it was revoked since; if it is self-signed, its key or a named agent.
    is_revoked: Callable[[], bool] = lambda: False
    issuer: bytes = b""  # the issuer's name, DER; empty if self-signed


class Chain:
    """Verifies certificates against trusted roots and the intermediates below them, all DER.

    ``revocations`` are consulted on every use of a key; they also hold learned intermediates.
    """

    def __init__(
        self,
        roots: Sequence[bytes] = (),
        intermediates: Sequence[bytes] = (),
        *,
        revocations: Revocations | None = None,
        accepts_self_signed: bool = True,
    ) -> None:
        self._store = Store([x509.load_der_x509_certificate(root) for root in roots]) if roots else None
        self._intermediates = [x509.load_der_x509_certificate(one) for one in intermediates]
        self.revocations = Revocations() if revocations is None else revocations
        self._accepts_self_signed = accepts_self_signed

    def judge(self, certificate: bytes, now: float) -> VerifiedCertificate | None:
        """Return the verified contents of a certificate at ``now``, seconds since the epoch, or None.

        Trust: hostile; this never raises.
        """
        if len(certificate) > limits.LAN_CERTIFICATE_BYTES:
            return None
        try:
            return self._judge(x509.load_der_x509_certificate(certificate), now)
        except Exception:  # noqa: BLE001 - the library reads lazily, and raises a dozen kinds of errors; each is a no
            return None

    def why_refused(self, agent_id: str, certificate: bytes, now: float) -> str:
        """Return why an agent's certificate is refused, ``REVOKED`` first. Trust: hostile; this never raises."""
        try:
            leaf = x509.load_der_x509_certificate(certificate)
            key, agents = key_of(leaf), _names(leaf)[0]
        except Exception:  # noqa: BLE001 - as above
            key = None
        if key is None:
            return "it cannot be read, or its key is on another curve than P-256"
        if self.revocations.is_key_revoked(key.digest):
            return REVOKED
        if not leaf.not_valid_before_utc <= (at := datetime.fromtimestamp(now, UTC)) <= leaf.not_valid_after_utc:
            return "it has expired" if leaf.not_valid_after_utc < at else "it is not valid yet"
        if self.revocations.is_withheld(agent_id):  # a new key has its name by a new certificate alone
            return REVOKED
        if agents and agent_id not in agents:
            return "it names another agent"
        return "it leads to no root that is trusted here"

    def _judge(self, leaf: x509.Certificate, now: float) -> VerifiedCertificate | None:
        key, until = key_of(leaf), leaf.not_valid_after_utc
        is_now = leaf.not_valid_before_utc <= datetime.fromtimestamp(now, UTC) <= until
        if key is None or not is_now or leaf.signature_algorithm_oid != SIGNED:
            return None
        chain: Sequence[x509.Certificate] = ()
        if leaf.issuer == leaf.subject or self._store is None:  # without trusted authorities all are unverified
            if not self._accepts_self_signed:
                return None
            if leaf.issuer == leaf.subject:
                leaf.verify_directly_issued_by(leaf)
        else:  # raises VerificationError without a valid path to a root
            verifier = PolicyBuilder().store(self._store).time(datetime.fromtimestamp(now, UTC)).build_client_verifier()
            chain = verifier.verify(leaf, [*self._intermediates, *self.revocations.learned]).chain
            if not all(key_of(one) and one.signature_algorithm_oid == SIGNED for one in chain):
                return None
        names = _names(leaf)
        holder = CertificateHolder(key.digest, names[0])
        is_revoked = partial(self._is_revoked, [certificate_id(one) for one in chain], holder)
        if is_revoked():
            return None
        issuer = certificate_id(leaf).issuer if chain else b""
        return VerifiedCertificate(key, bool(chain), *names, until.timestamp(), is_revoked, issuer)

    def _is_revoked(self, chain: Sequence[CertificateId], holder: CertificateHolder) -> bool:
        """Whether a certificate is revoked, given its chain to a root, or an empty one if self-signed."""
        known = self.revocations
        if not chain:
            return known.denies(holder)
        if known.is_revoked(chain[0]):
            known.saw(chain[0], holder)
            return True
        return known.is_key_revoked(holder.key, chain[0].issuer) or any(map(known.is_revoked, chain[1:]))


def read_key(certificate: bytes) -> EcdsaKey | None:
    """Return the key of a certificate, DER, unverified, or None. Trust: hostile; this never raises."""
    if len(certificate) > limits.LAN_CERTIFICATE_BYTES:
        return None
    try:
        return key_of(x509.load_der_x509_certificate(certificate))
    except Exception:  # noqa: BLE001 - as in Chain.judge
        return None


def names_of(certificate: bytes) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the agents, skills and hosts in a certificate, DER; empty if it cannot be read."""
    try:
        return _names(x509.load_der_x509_certificate(certificate))
    except (ValueError, x509.ExtensionNotFound):
        return frozenset(), frozenset(), frozenset()


def _names(
    document: x509.Certificate | x509.CertificateSigningRequest,
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    names = document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    links = names.get_values_for_type(x509.UniformResourceIdentifier)
    agents = frozenset(link.removeprefix(AGENT) for link in links if link.startswith(AGENT))
    skills = frozenset(link.removeprefix(SKILL) for link in links if link.startswith(SKILL))
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return agents, skills, frozenset(addresses | set(names.get_values_for_type(x509.DNSName)))


#: Of the life of a certificate, after which a new one is asked for. Spec: SPEC.md SDP-renewal.
RENEWED_AFTER: Final = 2 / 3


def is_own(certificate: bytes) -> bool:
    """Whether a certificate is by its own key."""
    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.issuer == leaf.subject


def is_due(certificate: bytes, now: float, revocations: Revocations | None = None) -> bool:
    """Whether an agent should renew: two thirds of the certificate's life are over, or its CA was revoked."""
    begins, ends = life_of(certificate)
    is_old = now >= begins + (ends - begins) * RENEWED_AFTER
    return is_old or (revocations is not None and revocations.is_orphan(certificate))


def life_of(certificate: bytes) -> tuple[float, float]:
    """Return when a certificate begins and ends, in seconds since the epoch."""
    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()


def own_certificate(agent_id: str, key: ec.EllipticCurvePrivateKey, now: float) -> bytes:
    """Return a self-signed certificate of an agent, DER, for seven days from ``now`` on."""
    return self_signed(agent_id, key, datetime.fromtimestamp(now, UTC)).certificate


def agents_of(certificate: bytes) -> list[str]:
    """Return the agents that a certificate is for, by name."""
    return sorted(names_of(certificate)[0])


def belongs(certificate: bytes, key: ec.EllipticCurvePrivateKey) -> bool:
    """Whether a certificate is for a key."""
    return x509.load_der_x509_certificate(certificate).public_key() == key.public_key()


def serial_of(certificate: bytes) -> str:
    """Return the serial number of a certificate, DER, in hexadecimal."""
    return f"{x509.load_der_x509_certificate(certificate).serial_number:x}"


def name_of(certificate: bytes) -> str:
    """Return the common name in a certificate, DER; empty when it has none."""
    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def private_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    """Return a private key as PEM, encrypted when there is a passphrase."""
    cipher = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)


def certificate_pem(certificate: bytes) -> bytes:
    """Return a certificate, DER, as PEM."""
    return x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM)
