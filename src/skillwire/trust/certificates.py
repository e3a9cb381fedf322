"""What a certificate is asked for: names, and a request that is signed by the key that it is for.

Spec: SDP §10.2; specs §3. PKCS 10 (RFC 2986) is its form.

What a certificate of an agent or a skill is worth: the chain of SDP 10.2, and what we check beside the library.

A leaf is good when it leads over the configured intermediates to a configured root, at this time, is not revoked, and
has a P-256 key. Whom it is for stands among its alternative names: ``urn:skill-discovery:agent:ID`` and
``urn:skill-discovery:skill:ID`` **[ours]**, and beside them the hosts that it may announce. The library's own policy
takes leaves on other curves, so key and signature of each are looked at here first. A leaf that its own key signed is
nobody's word but its holder's: it is worth a name that stays the same, where policy allows strangers at all, and where
neither its key nor its name is one of a certificate that was taken back.

Certificates on their way through a datagram have about 470 bytes; what is larger is refused before it is parsed.
Spec: SDP §10.2; specs §3.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, SignatureAlgorithmOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.trust.ecdsa import AGENT, SKILL, EcdsaKey, key_of
from skillwire.trust.revocations import CertificateHolder, CertificateId, Revocations, certificate_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


class RequestedNames(NamedTuple):
    """Whom a certificate is for: identifiers of agents and skills, and the hosts that they may announce."""

    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def check(self) -> RequestedNames:
        """Return these names, each once and in order.

        Raises:
            ValidationError: ``CERTIFICATE_REQUEST`` for what cannot be certified.
        """
        for one in (*self.agents, *self.skills):
            if not _IDENTIFIER.fullmatch(one):
                raise request_error(f"{ascii(one)[:60]} is no identifier of Skill Discovery", _IDENTIFIER_FIX)
        if not self.agents and not self.skills:
            raise request_error("it names no agent and no skill", "Name one: --agent ID or --skill ID.")
        hosts = {_host(one) for one in self.hosts}
        return RequestedNames(tuple(sorted({*self.agents})), tuple(sorted({*self.skills})), tuple(sorted(hosts)))

    def are_within(self, others: RequestedNames) -> bool:
        """Whether all of these are among others."""
        return all({*mine} <= {*theirs} for mine, theirs in zip(self, others, strict=True))


class CertificateRequest(NamedTuple):
    """What somebody asks a certificate for, having proven to hold the key."""

    key: ec.EllipticCurvePublicKey
    names: RequestedNames


def encode_request(names: RequestedNames, key: ec.EllipticCurvePrivateKey) -> bytes:
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


def decode_request(data: bytes) -> CertificateRequest:
    """Return what a request asks for, PEM or DER, whose sender has its key.

    Trust: it is a stranger's; what it names is asked for, and by no means granted.

    Raises:
        ValidationError: ``CERTIFICATE_REQUEST``.
    """
    if len(data) > limits.LAN_REQUEST_BYTES:
        raise request_error(f"the request has {len(data):,} bytes, more than is read", _REQUEST_FIX)
    try:
        load = x509.load_pem_x509_csr if b"-----BEGIN" in data else x509.load_der_x509_csr
        request = load(data)
        key = request.public_key()
        is_signed = isinstance(request.signature_hash_algorithm, hashes.SHA256) and request.is_signature_valid
        names = _requested_names(request)
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise request_error("it is no request for a certificate", _REQUEST_FIX) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise request_error("its key is of another kind than P-256", "Have skillwire key new make one.")
    if not is_signed:
        raise request_error("the request is not signed by its own key", _REQUEST_FIX)
    return CertificateRequest(key, names)


def request_error(why: str, fix: str | None = None) -> ValidationError:
    """Return why no certificate is issued."""
    return ValidationError("CERTIFICATE_REQUEST", why, fix=fix)


def _requested_names(request: x509.CertificateSigningRequest) -> RequestedNames:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return RequestedNames()
    links = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = [*map(str, names.get_values_for_type(x509.IPAddress)), *names.get_values_for_type(x509.DNSName)]
    return RequestedNames(
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
        raise request_error(f"{ascii(text)[:80]} is neither an address nor a name of a host", fix) from None


def alternatives_of(names: RequestedNames) -> x509.SubjectAlternativeName:
    """Return names as they stand in a certificate."""
    links = [f"{AGENT}{one}" for one in names.agents] + [f"{SKILL}{one}" for one in names.skills]
    return x509.SubjectAlternativeName([*map(x509.UniformResourceIdentifier, links), *map(_general_name, names.hosts)])


def subject_of(name: str) -> x509.Name:
    """Return a name as it stands in a certificate. Raises ValidationError (``CERTIFICATE_REQUEST``)."""
    if not _NAME.fullmatch(name):
        fix = "Choose another: 1 to 64 letters of ASCII, with what is added to it."
        raise request_error(f"{ascii(name)[:80]} can be no name in a certificate", fix)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


_SIGNED: Final = SignatureAlgorithmOID.ECDSA_WITH_SHA256


def _never() -> bool:
    return False


class Leaf(NamedTuple):
    """What tells a certificate of an agent in the book of its authority: its number there, and the key."""

    serial_number: int
    key: EcdsaKey


class VerifiedCertificate(NamedTuple):
    """What a certificate says, and whether somebody whom we trust says it.

    Args:
        key: that it is for.
        is_certified: whether it leads to a root of ours.
        agents: that it names.
        skills: that it names.
        hosts: that it names, as addresses or names.
        until: seconds since the epoch.
        is_revoked: whether it, its key, or a certificate above it, was taken back since; where nobody certified it,
            its key or an agent that it names.
        issuer: its name, DER; empty where nobody certified it.
    """

    key: EcdsaKey
    is_certified: bool
    agents: frozenset[str]
    skills: frozenset[str]
    hosts: frozenset[str]
    until: float
    is_revoked: Callable[[], bool] = _never
    issuer: bytes = b""


class Chain:
    """What certificates are held against.

    Args:
        roots: trusted certificates, DER.
        intermediates: certificates between them and leaves, DER.
        revocations: what was taken back, asked again whenever a key is used, and which intermediates were learned.
        takes_strangers: whether a certificate that its own key signed is worth anything.
    """

    def __init__(
        self,
        roots: Sequence[bytes] = (),
        intermediates: Sequence[bytes] = (),
        *,
        revocations: Revocations | None = None,
        takes_strangers: bool = True,
    ) -> None:
        self._store = Store([x509.load_der_x509_certificate(root) for root in roots]) if roots else None
        self._intermediates = [x509.load_der_x509_certificate(one) for one in intermediates]
        self.revocations = Revocations() if revocations is None else revocations
        self._takes_strangers = takes_strangers

    def judge(self, certificate: bytes, now: float) -> VerifiedCertificate | None:
        """Return what a certificate is worth at ``now``, seconds since the epoch; None when it is refused.

        Trust: it is a stranger's; this never raises.
        """
        if len(certificate) > limits.LAN_CERTIFICATE_BYTES:
            return None
        try:
            return self._judge(x509.load_der_x509_certificate(certificate), now)
        except Exception:  # noqa: BLE001 - the library reads lazily, and raises a dozen kinds of errors; each is a no
            return None

    def _judge(self, leaf: x509.Certificate, now: float) -> VerifiedCertificate | None:
        key, until = key_of(leaf), leaf.not_valid_after_utc
        is_now = leaf.not_valid_before_utc <= datetime.fromtimestamp(now, UTC) <= until
        if key is None or not is_now or leaf.signature_algorithm_oid != _SIGNED:
            return None
        is_own = leaf.issuer == leaf.subject
        if is_own or self._store is None:  # who trusts no authority cannot tell one from another: all are strangers
            if not self._takes_strangers:
                return None
            if is_own:
                leaf.verify_directly_issued_by(leaf)
            chain: Sequence[x509.Certificate] = ()
        elif not (chain := self._way_to_root(leaf, now)):
            return None
        names = _names(leaf)
        is_revoked = partial(
            self._is_revoked, [certificate_id(one) for one in chain], CertificateHolder(key.digest, names[0])
        )
        if is_revoked():
            return None
        issuer = certificate_id(leaf).issuer if chain else b""
        return VerifiedCertificate(key, bool(chain), *names, until.timestamp(), is_revoked, issuer)

    def _way_to_root(self, leaf: x509.Certificate, now: float) -> Sequence[x509.Certificate]:
        """Return the certificates from a leaf to a root; none when there is no way, or one of them is not as ours."""
        assert self._store is not None  # noqa: S101 - for the type checker; without roots nobody looks for a way
        verifier = PolicyBuilder().store(self._store).time(datetime.fromtimestamp(now, UTC)).build_client_verifier()
        try:
            chain = verifier.verify(leaf, [*self._intermediates, *self.revocations.learned]).chain
        except VerificationError:
            return ()
        return chain if all(key_of(one) and one.signature_algorithm_oid == _SIGNED for one in chain) else ()

    def _is_revoked(self, chain: Sequence[CertificateId], holder: CertificateHolder) -> bool:
        """Whether a certificate of somebody counts no more: one with a chain to a root, or nobody's with none."""
        known = self.revocations
        if not chain:
            return known.denies(holder)
        if known.is_revoked(chain[0]):
            known.saw(chain[0], holder)
            return True
        return known.is_key_revoked(holder.key, chain[0].issuer) or any(map(known.is_revoked, chain[1:]))


def read_leaf(certificate: bytes) -> Leaf | None:
    """Return the number and the key of a certificate, DER; None when it cannot be one of ours.

    Trust: it is a stranger's, and whether anybody has signed it is not looked at; this never raises.
    """
    if len(certificate) > limits.LAN_CERTIFICATE_BYTES:
        return None
    try:
        leaf = x509.load_der_x509_certificate(certificate)
        key = key_of(leaf)
    except Exception:  # noqa: BLE001 - as in Chain.judge
        return None
    return None if key is None else Leaf(leaf.serial_number, key)


def names_of(certificate: bytes) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the agents, skills and hosts that a certificate names, DER; none when it cannot be read."""
    try:
        return _names(x509.load_der_x509_certificate(certificate))
    except (ValueError, x509.ExtensionNotFound):
        return frozenset(), frozenset(), frozenset()


def _names(leaf: x509.Certificate) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    links = names.get_values_for_type(x509.UniformResourceIdentifier)
    agents = frozenset(link.removeprefix(AGENT) for link in links if link.startswith(AGENT))
    skills = frozenset(link.removeprefix(SKILL) for link in links if link.startswith(SKILL))
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return agents, skills, frozenset(addresses | set(names.get_values_for_type(x509.DNSName)))
