"""Records: what a publisher puts into the DHT, signed once for all its keys.

A record is the MessagePack array ``[body, certificate, signature]`` of at most 1,100 bytes, so that one datagram holds
it. The body is an array, too; its exact bytes are signed, so a field that a later version appends stays covered. A
tombstone is a record that says ``removed``; it outlives every older record of its skill. The signer's certificate names
the agent, and the SHA-256 of its public key is the signer's id, which is also the id of its node.

A record is stored under several keys, 32 bytes each. The text writes a key as SHA-256 of ``skillId + capability`` in
its figure and of ``skillId:capability`` in its code. We write the code's form, and read the figure's where a lookup of
the code's form finds nothing. Two keys are **[ours]**: that of a capability alone, since ``findByCapability`` names no
skill, and that of a skill alone.

Trust: records are untrusted; reading them raises :class:`~skillwire.errors.DecodeError` and
:class:`~skillwire.errors.TrustError` alone. Spec: SDP §6.2, §10; specs §3.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError, TrustError, ValidationError, in_seconds
from skillwire.model.digest import Digest
from skillwire.model.execution import Moment
from skillwire.model.skill import is_version
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.identity import Identity, Judgement, Standing
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.trust.ecdsa import public_key_of


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def skill_key(skill_id: str, capability: str) -> bytes:
    """Return the key of one capability of a skill, as the text's code writes it."""
    return _key(f"{skill_id}:{capability}")


def figure_key(skill_id: str, capability: str) -> bytes:
    """Return the same as the text's figure writes it; it is never written by us."""
    return _key(skill_id + capability)


def capability_key(capability: str) -> bytes:
    """Return the key of all skills with a capability."""
    return _key(f"cap:{capability}")


def name_key(skill_id: str) -> bytes:
    """Return the key of a skill, whatever its capabilities."""
    return _key(f"skill:{skill_id}")


def keys_to_write(skill_id: str, capabilities: Iterable[str]) -> tuple[bytes, ...]:
    """Return the keys under which a record is put."""
    keys = [name_key(skill_id)]
    for capability in capabilities:
        keys += skill_key(skill_id, capability), capability_key(capability)
    return tuple(dict.fromkeys(keys))


def is_key_of(key: bytes, skill_id: str, capabilities: Sequence[str]) -> bool:
    """Return whether a record may be stored under a key: one that we write, or the figure's form."""
    figures = (figure_key(skill_id, capability) for capability in capabilities)
    return key in keys_to_write(skill_id, capabilities) or key in figures


#: Seconds that a record, and a tombstone, may last at most, and that a publisher's clock may be ahead of ours.
LIFETIME: Final = 600.0
TOMBSTONE_LIFETIME: Final = 1200.0
CLOCK_DIFFERENCE: Final = 30.0

_SIGNED: Final = b"skillwire dht 1 record\0"
Identifier = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9._-]{{1,{int(limits.LAN_IDENTIFIER_LENGTH)}}}\Z")]
_Identifiers = Annotated[tuple[Identifier, ...], msgspec.Meta(max_length=int(limits.LAN_LIST_ENTRIES))]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=10**14)]  # until the year 5138
_FIX: Final = "Use fewer or shorter capabilities, scenes or names, or a shorter endpoint."
#: Bytes of the longest signature, and of the MessagePack heads beside body, certificate and signature.
_REST: Final = 72 + 9
#: Any time has as many bytes. Milliseconds since the epoch.
_SOME_TIME: Final = 10**13


class DhtOffer(NamedTuple):
    """What a publisher announces: ``endpoint`` is the URL of its server, ``digest`` that of the artifact or empty."""

    skill_id: str
    version: str
    skill_type: str
    endpoint: str
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    digest: str = ""


class _Body(msgspec.Struct, array_like=True, frozen=True):
    """What a publisher signs; times are milliseconds since the epoch."""

    agent_id: Identifier
    skill_id: Identifier
    version: str
    skill_type: Identifier
    capabilities: _Identifiers
    scenes: _Identifiers
    endpoint: str
    digest: str
    timestamp: _Milliseconds
    expires: _Milliseconds
    removed: bool


class _Envelope(msgspec.Struct, array_like=True, frozen=True):
    body: bytes
    certificate: bytes
    signature: bytes


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Envelope).decode
_DECODE_BODY: Final = msgspec.msgpack.Decoder(_Body).decode

#: Of what the newest record counts: the signer's id, agent and skill.
Stream = tuple[bytes, str, str]


class SignedRecord(_Body, frozen=True):
    """A record whose signature and certificate are valid; ``timestamp`` and ``expires`` as in the body."""

    data: bytes  # its exact bytes
    kid: bytes  # SHA-256 of the signer's public key
    standing: Standing  # CERTIFIED or UNVERIFIED
    is_revoked: Callable[[], bool]  # its certificate; the key itself would take 2 KiB
    ends: float  # seconds since the epoch: when it expires, or its certificate does
    stream: Stream

    def belongs_under(self, key: bytes) -> bool:
        """Return whether it may be stored under a key. Its keys are not kept: those of 64 capabilities take 20 KiB."""
        return is_key_of(key, self.skill_id, self.capabilities)

    def is_valid(self, wall: float) -> bool:
        """Return whether it still counts at ``wall``, seconds since the epoch."""
        return self.ends > wall and not self.is_revoked()


def check_offer(offer: DhtOffer, agent_id: str, certificate: bytes) -> None:
    """Raise ValidationError (``DHT_RECORD``) for an offer that no record of this agent can have. Nothing is signed."""
    _write_body(offer, agent_id, certificate, _SOME_TIME, LIFETIME, is_removed=False)


def sign_record(
    offer: DhtOffer,
    agent_id: str,
    identity: Identity,
    now_ms: int,
    *,
    lifetime: float = LIFETIME,
    is_removed: bool = False,
) -> bytes:
    """Return a record, signed at ``now_ms`` (milliseconds since the epoch), for ``lifetime`` seconds.

    Raises: as :func:`check_offer`.
    """
    body = _write_body(offer, agent_id, identity.certificate, now_ms, lifetime, is_removed=is_removed)
    return _ENCODE(_Envelope(body, identity.certificate, sign(identity, _SIGNED + body)))


def _write_body(
    offer: DhtOffer, agent_id: str, certificate: bytes, now_ms: int, lifetime: float, *, is_removed: bool
) -> bytes:
    """Return the body of a record that fits into a datagram with the longest signature."""
    expires = now_ms + int(1000 * lifetime)
    body = _ENCODE(_Body(agent_id, *offer[:3], offer.capabilities, offer.scenes, offer.endpoint, offer.digest,
                         now_ms, expires, is_removed))  # fmt: skip
    try:
        _read_body(body)
    except DecodeError as error:
        raise ValidationError("DHT_RECORD", error.message) from None
    if (size := len(body) + len(certificate) + _REST) > limits.DHT_RECORD_BYTES:
        message = f"the record of {offer.skill_id} has {size:,} bytes, more than {int(limits.DHT_RECORD_BYTES):,}"
        raise ValidationError("DHT_RECORD", message, fix=_FIX)
    return body


def read_record(data: bytes, authority: Judge, now: Moment) -> SignedRecord:
    """Return a record after its verification. Raises: DecodeError or TrustError (``DHT_RECORD``)."""
    if len(data) > limits.DHT_RECORD_BYTES:
        raise DecodeError("DHT_RECORD", f"a record of {len(data):,} bytes")
    try:
        envelope = _DECODE(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError("DHT_RECORD", f"not a record: {error}") from None
    body = _read_body(envelope.body)
    if body.timestamp > (now.wall + CLOCK_DIFFERENCE) * 1000:
        raise TrustError("DHT_RECORD", f"the record of {body.skill_id} is from the future")
    if body.expires <= now.wall * 1000:
        raise TrustError("DHT_RECORD", f"the record of {body.skill_id} has expired")
    judgement = authority.judge(body.agent_id, envelope.certificate, now.wall)
    standing = None if judgement is None else judgement.standing_of(body.agent_id, body.skill_id)
    if judgement is None or standing is None:
        raise TrustError("DHT_RECORD", f"no certificate of {body.agent_id} for {body.skill_id}")
    if not is_signed(judgement, _SIGNED + envelope.body, envelope.signature):
        raise TrustError("DHT_RECORD", f"the record of {body.skill_id} is forged")
    kid = signer_id(judgement, body.agent_id)
    ends = min(body.expires / 1000, judgement.until if standing is Standing.CERTIFIED else float("inf"))
    return SignedRecord(
        **msgspec.structs.asdict(body),
        data=data,
        kid=kid,
        standing=standing,
        is_revoked=judgement.is_revoked,
        ends=ends,
        stream=(kid, body.agent_id, body.skill_id),
    )


def _read_body(data: bytes) -> _Body:
    try:
        body = _DECODE_BODY(data)
        endpoint = "" if body.removed and not body.endpoint else str(parse_url(body.endpoint))
        if body.digest:
            Digest.parse(body.digest)
    except (ValueError, RecursionError) as error:
        raise DecodeError("DHT_RECORD", f"not the body of a record: {error}") from None
    except ValidationError as error:
        raise DecodeError("DHT_RECORD", error.message) from None
    most = TOMBSTONE_LIFETIME if body.removed else LIFETIME
    if not is_version(body.version):
        raise DecodeError("DHT_RECORD", f"not a version: {body.version[:80]!r}")
    if not 0 < body.expires - body.timestamp <= most * 1000:
        raise DecodeError(
            "DHT_RECORD", f"the record of {body.skill_id} lasts longer than {in_seconds(most)}, or no time"
        )
    return msgspec.structs.replace(body, endpoint=endpoint)


def sign(identity: Identity, text: bytes) -> bytes:
    """Return a signature as bytes: DER, or the HMAC of a group key."""
    return base64.b64decode(identity.sign(text))


def is_signed(judgement: Judgement, text: bytes, signature: bytes) -> bool:
    """Return whether a signature of these bytes is valid. Trust: both are untrusted; it never raises."""
    return judgement.key.verifies(text, base64.b64encode(signature).decode("ascii"))


def signer_id(judgement: Judgement, agent_id: str) -> bytes:
    """Return the id of a signer: SHA-256 of its public key; with a group key, which all share, of its name."""
    return judgement.key.digest or group_id(agent_id)


def own_id(identity: Identity, agent_id: str) -> bytes:
    """Return the id with which an identity signs, as :func:`signer_id`."""
    certificate = identity.certificate
    return hashlib.sha256(public_key_of(certificate)).digest() if certificate else group_id(agent_id)


def group_id(agent_id: str) -> bytes:
    """Return the id of an agent with a group key."""
    return hashlib.sha256(f"agent:{agent_id}".encode()).digest()


class Judge(Protocol):
    """What judges certificates: an authority, or a :class:`RecordReader`."""

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """As :meth:`~skillwire.protocols.skill_discovery.identity.Authority.judge`."""


class RecordReader:
    """Reads records; judges each distinct certificate once, until that ends, and verifies each record once; bounded."""

    def __init__(self, authority: Judge) -> None:
        self._authority = authority
        self._judgements: BoundedDict[tuple[str, bytes], Judgement] = BoundedDict(limits.DHT_JUDGEMENTS)
        self._known: BoundedDict[bytes, SignedRecord] = BoundedDict(limits.DHT_VERIFIED)

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``, s since the epoch; None if refused."""
        key = agent_id, hashlib.sha256(certificate).digest()
        found = self._judgements.get(key)
        if found is not None and found.until > now and not found.is_revoked():
            return found
        found = self._authority.judge(agent_id, certificate, now)
        if found is not None:
            self._judgements.put(key, found)
        return found

    def known(self, data: bytes, now: Moment) -> SignedRecord | None:
        """Return a record that was verified before and still counts, else None."""
        found = self._known.get(data)
        return found if found is not None and found.is_valid(now.wall) else None

    def read(self, data: bytes, now: Moment) -> SignedRecord:
        """Return a record after its verification. Raises: DecodeError or TrustError (``DHT_RECORD``)."""
        found = self.known(data, now)
        if found is None:
            found = read_record(data, self, now)
            self._known.put(data, found)
        return found
