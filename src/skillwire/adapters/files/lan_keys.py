"""The keys of an agent of the local network: what it signs with, and what it holds others against.

They lie in the folder ``lan`` of the state directory, for their owner alone: ``agent.key`` (PEM, PKCS 8),
``agent.pem`` (its certificate), ``agent-id`` and ``revocations.pem`` (the last good lists). What is missing is made
when it is needed: a P-256 key, a name, and a certificate by the agent's own key for seven days, which is made anew in
time and with which others list it as unverified. A certificate of an authority takes its place:
:mod:`skillwire.cli.key`.

With a group key, which is local policy and nothing that a message could ask for, there are no certificates at all.
Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.adapters.files.authority_folder import AuthorityFolder
from skillwire.adapters.files.directories import make_folder, state_directory
from skillwire.adapters.files.locks import release_lock, take_lock
from skillwire.adapters.files.trust_files import (
    certificate_pem,
    private_pem,
    read_certificates,
    read_group_key,
    read_private_key,
    read_trust_file,
)
from skillwire.errors import SkillwireError, StorageError, TrustError, ValidationError
from skillwire.protocols.skill_discovery.identity import GroupKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.protocols.skill_discovery.configuration import LanSettings
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.trust.revocations import Revocations

#: Of the life of a certificate, after which a new one is asked for. Spec: issue "7-day leaves renewed automatically".
RENEWED_AFTER: Final = 2 / 3
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


class LanTrust(NamedTuple):
    """Who an agent is, and what it trusts.

    Args:
        identity: what it signs with. Its certificate is set anew when it is renewed.
        authority: judges the certificates of others.
        agent_id: its name.
        keys: where its key lies; None with a group key.
        revocations: what was taken back; new lists count from the next message on.
        notes: what is not as it should be, for people.
        authorities: the certificates that are trusted, and those between them and leaves, DER.
    """

    identity: Identity
    authority: Authority
    agent_id: str
    keys: LanKeys | None = None
    revocations: Revocations | None = None
    notes: tuple[str, ...] = ()
    authorities: tuple[bytes, ...] = ()


class LanKeys:
    """The folder of an agent's key and certificate.

    Args:
        folder: that they lie in; the one of the state directory unless given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = state_directory() / "lan" if folder is None else folder
        self.key_file = self.folder / "agent.key"
        self.certificate_file = self.folder / "agent.pem"
        self.revocations_file = self.folder / "revocations.pem"
        self._id_file = self.folder / "agent-id"

    def known_id(self) -> str | None:
        """Return the name that the agent has; None when none was made yet."""
        return _read(self._id_file, limits.LAN_IDENTIFIER_LENGTH).decode("ascii", "replace").strip() or None

    def agent_id(self) -> str:
        """Return the agent's name, which is made of the machine's and some random characters, once."""
        found = self.known_id()
        if found is None:
            with self._alone():
                found = self.known_id()
                if found is None:
                    host = _NOT_IN_NAMES.sub("-", socket.gethostname().partition(".")[0].lower()).strip("-")[:40]
                    found = f"{host or 'agent'}-{secrets.token_hex(3)}"
                    self.keep_id(found)
        return found

    def keep_id(self, agent_id: str) -> None:
        """Keep a name for the agent."""
        self._write(self._id_file, agent_id.encode("ascii"))

    def key(self) -> EllipticCurvePrivateKey:
        """Return the agent's key, which is made when there is none.

        Raises:
            StorageError: ``LAN_KEYS``, ``STORAGE``.
        """
        from skillwire.trust.ecdsa import new_key  # noqa: PLC0415 - who only reads the name needs no cryptography

        if not self.key_file.exists():
            with self._alone():
                if not self.key_file.exists():
                    self.keep_key(new_key())
        return read_private_key(self.key_file)

    def keep_key(self, key: EllipticCurvePrivateKey) -> None:
        """Keep a key; the certificate of the one before is worth nothing any more, and goes."""
        self.certificate_file.unlink(missing_ok=True)
        self._write(self.key_file, private_pem(key))

    def certificate(self) -> bytes | None:
        """Return the agent's certificate, DER; None when there is none.

        Raises:
            ValidationError: ``LAN_TRUST``.
        """
        return read_certificates([self.certificate_file])[0] if self.certificate_file.exists() else None

    def keep_certificate(self, certificate: bytes) -> None:
        """Keep a certificate, DER."""
        self._write(self.certificate_file, certificate_pem(certificate))

    def keep_revocations(self, pem: bytes) -> None:
        """Keep the lists that are in force."""
        self._write(self.revocations_file, pem)

    def _write(self, path: Path, content: bytes) -> None:
        self._make()
        write_atomically(path, content, mode=0o600, durable=True)

    def _make(self) -> None:
        with storage_errors(self.folder):
            make_folder(self.folder, mode=0o700)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from making the same a moment later."""
        self._make()
        lock = self.folder / ".lock"
        handle = take_lock(lock, wait=True)
        try:
            yield
        finally:
            release_lock(handle, lock)


def load_trust(settings: LanSettings, *, folder: Path | None = None, now: float | None = None) -> LanTrust:
    """Return who we are and what we trust; what is missing of our own is made.

    Args:
        settings: names the files that others are held against.
        folder: of our key; the one of the state directory unless given.
        now: seconds since the epoch.

    Raises:
        StorageError: ``LAN_KEYS``, ``STORAGE``.
        ValidationError: ``LAN_TRUST``.
        TrustError: ``LAN_REVOCATIONS`` for a list in a file that is no good.
    """
    keys = LanKeys(folder)
    if settings.group_key_file:
        group = GroupKey(read_group_key(Path(settings.group_key_file)))
        return LanTrust(group, group, settings.agent_id or keys.agent_id())
    from skillwire.protocols.skill_discovery.certified import ChainAuthority  # noqa: PLC0415 - loads cryptography
    from skillwire.trust.certificate_requests import Names  # noqa: PLC0415 - same
    from skillwire.trust.certificates import Chain  # noqa: PLC0415 - same
    from skillwire.trust.ecdsa import EcdsaIdentity  # noqa: PLC0415 - same
    from skillwire.trust.revocations import Revocations  # noqa: PLC0415 - same

    now = time.time() if now is None else now
    local = local_authority(settings)
    roots, intermediates = read_certificates(settings.roots), read_certificates(settings.intermediates)
    if local and not roots:
        roots, intermediates = [local.root], [local.center, *intermediates]
    revocations = Revocations([*roots, *intermediates])
    files = [one for one in settings.revocations if "://" not in one]
    files += [str(local.revocations_file)] if local and not settings.revocations else []
    notes = list(_load_revocations(revocations, files, keys, now))
    authority = ChainAuthority(Chain(roots, intermediates, is_revoked=revocations.is_revoked))
    agent_id = settings.agent_id or keys.agent_id()
    key, certificate = keys.key(), keys.certificate()
    if local and (certificate is None or is_own(certificate) or is_due(certificate, now)):
        try:
            certificate = local.certify(agent_id, Names((agent_id,)), key.public_key(), now)
            keys.keep_certificate(certificate)
        except SkillwireError as error:
            notes.append(f"the authority has issued us no certificate: {error}")
    if certificate is None or is_own(certificate):
        certificate = _own(keys, key, certificate, agent_id, now)
    else:
        agent_id, certificate, note = _certified(key, certificate, settings.agent_id, agent_id, now)
        notes += [note] if note else []
    identity, trusted = EcdsaIdentity(key, certificate), (*roots, *intermediates)
    return LanTrust(identity, authority, agent_id, keys, revocations, tuple(notes), trusted)


def local_authority(settings: LanSettings) -> AuthorityFolder | None:
    """Return the authority whose folder is here; None when there is none, or it is another machine's.

    Raises:
        NotFoundError: ``CA_FOLDER``.
    """
    name = settings.authority or settings.renew_from
    return AuthorityFolder(Path(name)) if name and "://" not in name else None


def is_own(certificate: bytes) -> bool:
    """Whether a certificate is by its own key."""
    from cryptography import x509  # noqa: PLC0415 - loaded when there is a certificate

    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.issuer == leaf.subject


def is_due(certificate: bytes, now: float) -> bool:
    """Whether so much of a certificate's life is over that it is time for a new one, at seconds since the epoch."""
    begins, ends = life_of(certificate)
    return now >= begins + (ends - begins) * RENEWED_AFTER


def life_of(certificate: bytes) -> tuple[float, float]:
    """Return when a certificate begins and ends, in seconds since the epoch."""
    from cryptography import x509  # noqa: PLC0415 - same

    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()


def own_certificate(agent_id: str, key: EllipticCurvePrivateKey, now: float) -> bytes:
    """Return a certificate of an agent by its own key, DER, for seven days from ``now`` on."""
    from skillwire.trust.ecdsa import self_signed  # noqa: PLC0415 - same

    return self_signed(agent_id, key, datetime.fromtimestamp(now, UTC)).certificate


def _own(keys: LanKeys, key: EllipticCurvePrivateKey, known: bytes | None, agent_id: str, now: float) -> bytes:
    if known is not None and agent_id in agents_of(known) and belongs(known, key) and not is_due(known, now):
        return known
    made = own_certificate(agent_id, key, now)
    keys.keep_certificate(made)
    return made


def _certified(
    key: EllipticCurvePrivateKey, certificate: bytes, wanted: str, agent_id: str, now: float
) -> tuple[str, bytes, str]:
    """Return the name and the certificate that are used, and what is to be said of them."""
    if not belongs(certificate, key):
        message = "our certificate is for another key than ours"
        raise ValidationError("LAN_TRUST", message, fix="Install the certificate for it: skillwire key install FILE.")
    agents = agents_of(certificate)
    if agents and agent_id not in agents:
        if wanted:
            fix = f"Set agentId to {agents[0]}, or have a certificate issued for {wanted}."
            raise ValidationError("LAN_TRUST", f"our certificate is for {', '.join(agents)}, not {wanted}", fix=fix)
        agent_id = agents[0]
    ends = life_of(certificate)[1]
    if ends > now:
        return agent_id, certificate, ""
    when = datetime.fromtimestamp(ends, UTC)
    note = f"our certificate has ended at {when:%Y-%m-%d %H:%M} UTC: until it is renewed we are unverified"
    return agent_id, own_certificate(agent_id, key, now), note


def agents_of(certificate: bytes) -> list[str]:
    """Return the agents that a certificate is for, by name."""
    from skillwire.trust.certificates import names_of  # noqa: PLC0415 - same

    return sorted(names_of(certificate)[0])


def belongs(certificate: bytes, key: EllipticCurvePrivateKey) -> bool:
    """Whether a certificate is for a key."""
    from cryptography import x509  # noqa: PLC0415 - same

    return x509.load_der_x509_certificate(certificate).public_key() == key.public_key()


def _load_revocations(revocations: Revocations, files: list[str], keys: LanKeys, now: float) -> Iterator[str]:
    """Take the lists that were kept, and those in files; yield what is wrong with them."""
    kept = _read(keys.revocations_file, limits.LAN_REVOCATIONS_BYTES)
    if kept:
        try:
            revocations.take(kept, now)
        except TrustError:
            yield "the revocations that were kept are of an authority that is not trusted any more: passed over"
    for name in files:
        revocations.take(read_trust_file(Path(name), limits.LAN_REVOCATIONS_BYTES), now)
    ends = revocations.ends()
    if ends is not None and ends < now:
        when = datetime.fromtimestamp(ends, UTC)
        yield f"the list of revoked certificates has ended at {when:%Y-%m-%d %H:%M} UTC: what came since is not known"


def _read(path: Path, most: int) -> bytes:
    """Return what a file of ours holds; nothing when it is not there."""
    try:
        with storage_errors(path), path.open("rb") as file:
            return file.read(most)
    except StorageError:
        if path.exists():
            raise
        return b""
