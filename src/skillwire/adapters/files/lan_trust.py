"""An agent's identity on the local network and its trust: its key, and the files that its settings name.

Missing parts of the identity are made: a P-256 key, a name, and a self-signed certificate for seven days, which is
renewed in time and which others list as unverified. An authority's certificate replaces it: :mod:`skillwire.cli.key`.
With a group key, which only local policy can choose, no certificates are used. Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from skillwire import limits
from skillwire.adapters.files.atomic import read_trust_file
from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys, read_certificates, read_group_key
from skillwire.adapters.files.settings_file import local_authority_folder
from skillwire.errors import SkillwireError, SourceLocation, TrustError, ValidationError, one_line
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.credentials import REVOCATIONS_PATH
from skillwire.protocols.skill_discovery.identity import Authority, ChainAuthority, GroupKey, Identity
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.address import AddressPolicy
from skillwire.trust.certificates import (
    Chain,
    RequestedNames,
    agents_of,
    belongs,
    is_due,
    is_own,
    life_of,
    own_certificate,
)
from skillwire.trust.ecdsa import EcdsaIdentity, key_of
from skillwire.trust.revocations import Revocations, certificate_id


class LanTrust(NamedTuple):
    """An agent's identity and trust.

    Args:
        identity: signs; its certificate is replaced on renewal.
        authority: judges other agents' certificates.
        keys: the key folder; None with a group key.
        revocations: new lists apply from the next message on.
        notes: problems to show to people.
    """

    identity: Identity
    authority: Authority
    agent_id: str
    keys: LanKeys | None = None
    revocations: Revocations | None = None
    notes: tuple[str, ...] = ()


def load_trust(
    settings: LanSettings, *, folder: Path | None = None, now: float | None = None, keeps: bool = True
) -> LanTrust:
    """Return the agent's identity and trust; missing parts of the identity are made, and stored if ``keeps``.

    Raises StorageError (``LAN_KEYS``), ValidationError (``LAN_TRUST``), TrustError for an invalid list or refused URL.
    """
    keys = LanKeys(folder, keeps=keeps)
    if settings.group_key_file:
        with _naming_setting(settings, "group_key_file"):
            group = GroupKey(read_group_key(Path(settings.group_key_file)))
        return LanTrust(group, group, settings.agent_id or keys.agent_id())

    now = time.time() if now is None else now
    local = local_authority(settings)
    for name, urls in (("revocations", settings.revocations), ("renew_from", [settings.renew_from])):
        with _naming_setting(settings, name):
            for url in [parse_url(one) for one in urls if "://" in one]:
                try:
                    AddressPolicy().naming(url).check_url(url)
                except TrustError as error:
                    fix = "Name an https URL or a file; plain http is for hosts of the local network."
                    raise TrustError(error.code, error.message, place=SourceLocation(str(url)), fix=fix) from error
    roots, intermediates = _authorities(settings, local)
    revocations = Revocations([*roots, *intermediates])
    with _naming_setting(settings, "revocations"):
        notes = list(_load_revocations(revocations, _files_of_revocations(settings, local), keys, now))
    user = LanKeys()  # trusted keys belong to the user, not to one agent name
    user.check_trusted()
    authority = ChainAuthority(Chain(roots, intermediates, revocations=revocations), user.trusted_key)
    agent_id = settings.agent_id or keys.agent_id()
    key, certificate = keys.key(), keys.certificate()
    if local and (certificate is None or is_own(certificate) or is_due(certificate, now, revocations)):
        try:
            certificate = local.certify(agent_id, RequestedNames((agent_id,)), key.public_key(), now)
            keys.keep_certificate(certificate)
        except SkillwireError as error:
            notes.append(f"the authority has issued us no certificate: {one_line(error)}")
    if certificate is None or is_own(certificate):
        is_ours = certificate is not None and agent_id in agents_of(certificate) and belongs(certificate, key)
        if certificate is None or not is_ours or is_due(certificate, now):
            certificate = own_certificate(agent_id, key, now)
            keys.keep_certificate(certificate)
    else:
        place = SourceLocation(str(keys.certificate_file))
        agent_id, certificate, note = _certified(key, certificate, settings.agent_id, agent_id, now, place=place)
        notes += [note] if note else []
    identity = EcdsaIdentity(key, certificate)
    return LanTrust(identity, authority, agent_id, keys, revocations, tuple(notes))


def revoked_part(
    settings: LanSettings, certificate: bytes | None, fetched: Sequence[bytes] = ()
) -> Literal["certificate", "authority"] | None:
    """Return whether the lists revoke our certificate or key, or the SkillCenter CA that issued it. Writes nothing.

    All files that the settings name are read; ``fetched`` are lists of :func:`revocation_urls`. Raises: as
    :func:`load_trust`.
    """
    if settings.group_key_file:
        with _naming_setting(settings, "group_key_file"):
            read_group_key(Path(settings.group_key_file))
        return None
    now = time.time()
    local = local_authority(settings)
    roots, intermediates = _authorities(settings, local)
    revocations = Revocations([*roots, *intermediates])
    for kept in (LanKeys().revocations(), *fetched):
        with suppress(TrustError):  # they are another authority's
            revocations.take(kept, now)
    with _naming_setting(settings, "revocations"):
        for name in _files_of_revocations(settings, local):
            revocations.take(read_trust_file(Path(name), limits.LAN_REVOCATIONS_BYTES), now)
    if certificate is None:
        return None
    leaf = x509.load_der_x509_certificate(certificate)
    key = key_of(leaf)
    if revocations.is_revoked(certificate_id(leaf)) or (key is not None and revocations.is_key_revoked(key.digest)):
        return "certificate"
    return "authority" if revocations.is_orphan(certificate) else None


def revocation_urls(settings: LanSettings) -> list[str]:
    """Return the URLs of the lists of revoked certificates, that of the authority which renews ours by default."""
    if settings.revocations or not settings.renew_from or local_authority(settings) is not None:
        return [one for one in settings.revocations if "://" in one]
    return [settings.renew_from.rstrip("/") + REVOCATIONS_PATH]


def local_authority(settings: LanSettings) -> AuthorityFolder | None:
    """Return the authority in a folder of this machine, or None. Raises NotFoundError (``CA_FOLDER``)."""
    folder = local_authority_folder(settings)
    if folder is None:
        return None
    with _naming_setting(settings, "authority" if settings.authority else "renew_from"):
        return AuthorityFolder(folder)


@contextmanager
def _naming_setting(settings: LanSettings, name: str) -> Iterator[None]:
    """Add the place in the settings to an error about an unusable file."""
    try:
        yield
    except SkillwireError as error:
        place = settings.places.get(name)
        if place is None:
            raise
        message = f"{error.place}: {error.message}" if error.place else error.message
        folder = Path(place.source).parent.absolute()
        fix = error.fix or f"Correct the path here, or put the file there; relative paths begin at {folder}."
        raise type(error)(error.code, message, place=place, fix=fix, details=error.details) from error


def _authorities(settings: LanSettings, local: AuthorityFolder | None) -> tuple[list[bytes], list[bytes]]:
    with _naming_setting(settings, "roots"):
        roots = read_certificates(settings.roots)
    with _naming_setting(settings, "intermediates"):
        intermediates = read_certificates(settings.intermediates)
    if local and not roots:
        return [local.root], [*local.centers, *intermediates]
    return roots, intermediates


def _files_of_revocations(settings: LanSettings, local: AuthorityFolder | None) -> list[str]:
    files = [one for one in settings.revocations if "://" not in one]
    return files + ([str(local.revocations_file)] if local and not settings.revocations else [])


def _certified(
    key: EllipticCurvePrivateKey, certificate: bytes, wanted: str, agent_id: str, now: float, *, place: SourceLocation
) -> tuple[str, bytes, str]:
    if not belongs(certificate, key):
        fix = "Install that of ours: skillwire key install FILE."
        raise ValidationError("LAN_TRUST", "our certificate is for another key than ours", place=place, fix=fix)
    agents = agents_of(certificate)
    if agents and agent_id not in agents:
        if wanted:
            fix = f"Set agentId to {agents[0]}, or have a certificate issued for {wanted}."
            message = f"our certificate is for {', '.join(agents)}, not {wanted}"
            raise ValidationError("LAN_TRUST", message, place=place, fix=fix)
        agent_id = agents[0]
    ends = life_of(certificate)[1]
    if ends > now:
        return agent_id, certificate, ""
    when = datetime.fromtimestamp(ends, UTC)
    note = f"our certificate has ended at {when:%Y-%m-%d %H:%M} UTC: until it is renewed we are unverified"
    return agent_id, own_certificate(agent_id, key, now), note


def _load_revocations(revocations: Revocations, files: list[str], keys: LanKeys, now: float) -> Iterator[str]:
    """Take the stored lists, and those in files; yield their problems."""
    kept = keys.revocations() if revocations.authorities else b""  # without trusted authorities no list applies
    if kept:
        try:
            revocations.take(kept, now)
        except TrustError:
            keys.forget_revocations()
            yield "the revocations that were kept are of an authority that is not trusted any more: they are forgotten"
    for name in files:
        try:
            revocations.take(read_trust_file(Path(name), limits.LAN_REVOCATIONS_BYTES), now)
        except TrustError as error:
            raise TrustError(error.code, error.message, place=SourceLocation(name)) from error
    ends = revocations.ends()
    if ends is not None and ends < now:
        when = datetime.fromtimestamp(ends, UTC)
        yield f"the revocation list expired at {when:%Y-%m-%d %H:%M} UTC; later revocations are unknown"
