"""What a certificate of an agent or a skill is worth: the chain of SDP 10.2, and what we check beside the library.

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

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import SignatureAlgorithmOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from skillwire import limits
from skillwire.trust.ecdsa import AGENT, SKILL, EcdsaKey, key_of
from skillwire.trust.revocations import Revocations
from skillwire.trust.taken_back import Holder, Numbered, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SIGNED: Final = SignatureAlgorithmOID.ECDSA_WITH_SHA256


def _never() -> bool:
    return False


class Leaf(NamedTuple):
    """What tells a certificate of an agent in the book of its authority: its number there, and the key."""

    serial_number: int
    key: EcdsaKey


class Certified(NamedTuple):
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

    def judge(self, certificate: bytes, now: float) -> Certified | None:
        """Return what a certificate is worth at ``now``, seconds since the epoch; None when it is refused.

        Trust: it is a stranger's; this never raises.
        """
        if len(certificate) > limits.LAN_CERTIFICATE_BYTES:
            return None
        try:
            return self._judge(x509.load_der_x509_certificate(certificate), now)
        except Exception:  # noqa: BLE001 - the library reads lazily, and raises a dozen kinds of errors; each is a no
            return None

    def _judge(self, leaf: x509.Certificate, now: float) -> Certified | None:
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
        is_revoked = partial(self._is_revoked, [numbered(one) for one in chain], Holder(key.digest, names[0]))
        if is_revoked():
            return None
        issuer = numbered(leaf).issuer if chain else b""
        return Certified(key, bool(chain), *names, until.timestamp(), is_revoked, issuer)

    def _way_to_root(self, leaf: x509.Certificate, now: float) -> Sequence[x509.Certificate]:
        """Return the certificates from a leaf to a root; none when there is no way, or one of them is not as ours."""
        assert self._store is not None  # noqa: S101 - for the type checker; without roots nobody looks for a way
        verifier = PolicyBuilder().store(self._store).time(datetime.fromtimestamp(now, UTC)).build_client_verifier()
        try:
            chain = verifier.verify(leaf, [*self._intermediates, *self.revocations.learned]).chain
        except VerificationError:
            return ()
        return chain if all(key_of(one) and one.signature_algorithm_oid == _SIGNED for one in chain) else ()

    def _is_revoked(self, chain: Sequence[Numbered], holder: Holder) -> bool:
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
