"""Records: what a publisher puts into the DHT, signed once for all its keys, and what a node stores of it.

A record is the MessagePack array ``[body, certificate, signature]`` of at most 1,100 bytes, so that one datagram holds
it. The body is an array, too; its exact bytes are signed, so a field that a later version appends stays covered. A
tombstone is a record that says ``removed``; it outlives every older record of its skill. The signer's certificate names
the agent, and the SHA-256 of its public key is the signer's id, which is also the id of its node.

A record is stored under several keys, 32 bytes each. The text writes a key as SHA-256 of ``skillId + capability`` in
its figure and of ``skillId:capability`` in its code. We write the code's form, and read the figure's where a lookup of
the code's form finds nothing. Two keys are **[ours]**: that of a capability alone, since ``findByCapability`` names no
skill, and that of a skill alone.

Under a key each signer has a place, at most 16; a certified signer displaces an uncertified one, and otherwise the
first come stay. Of the records of one signer, agent and skill the newest timestamp stays, tombstones included. When the
memory is used up, uncertified records under the keys that are farthest from the node's id make room, then certified
ones, the newest first. :class:`OwnOffers` are the skills that the node itself announces.

Trust: records are untrusted; reading them raises :class:`~skillwire.errors.DecodeError` and
:class:`~skillwire.errors.TrustError` alone. Spec: SDP §6.2, §10; specs §3.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Annotated, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError, TrustError, ValidationError, in_seconds
from skillwire.model.digest import Digest
from skillwire.model.execution import Moment
from skillwire.model.lan import DhtOwn
from skillwire.model.skill import is_version
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.identity import CertificateJudge, Identity, Judgement, Standing
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.protocols.skill_discovery.settings import PUT_AGAIN
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


#: Seconds that a record, and a tombstone, may last at most, and that a publisher's clock may be ahead of ours.
LIFETIME: Final = 600.0
TOMBSTONE_LIFETIME: Final = 1200.0
CLOCK_DIFFERENCE: Final = 30.0

_SIGNED: Final = b"skillwire dht 1 record\0"
Identifier = Annotated[str, msgspec.Meta(pattern=rf"^[A-Za-z0-9._-]{{1,{int(limits.LAN_IDENTIFIER_LENGTH)}}}\Z")]
_Identifiers = Annotated[tuple[Identifier, ...], msgspec.Meta(max_length=int(limits.LAN_LIST_ENTRIES))]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=10**14)]  # until the year 5138
_FIX: Final = "Use fewer or shorter capabilities, scenes or names, or a shorter endpoint."
#: Bytes of an envelope beside body and certificate: the longest signature, and the MessagePack heads.
_ENVELOPE_BYTES: Final = 72 + 9
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
        """Return whether it may be stored under a key: one that we write, or the figure's form.

        Its keys are not kept: those of 64 capabilities take 20 KiB.
        """
        statistics = (figure_key(self.skill_id, capability) for capability in self.capabilities)
        return key in keys_to_write(self.skill_id, self.capabilities) or key in statistics

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
    if (size := len(body) + len(certificate) + _ENVELOPE_BYTES) > limits.DHT_RECORD_BYTES:
        message = f"the record of {offer.skill_id} has {size:,} bytes, more than {int(limits.DHT_RECORD_BYTES):,}"
        raise ValidationError("DHT_RECORD", message, fix=_FIX)
    return body


def read_record(data: bytes, judge: CertificateJudge, now: Moment) -> SignedRecord:
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
    judgement = judge.judge(body.agent_id, envelope.certificate, now.wall)
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
        message = f"the record of {body.skill_id} lasts longer than {in_seconds(most)}, or no time"
        raise DecodeError("DHT_RECORD", message)
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


class RecordReader:
    """Reads records; judges each distinct certificate once, until that ends, and verifies each record once; bounded."""

    def __init__(self, judge: CertificateJudge) -> None:
        self._judge = judge
        self._judgements: BoundedDict[tuple[str, bytes], Judgement] = BoundedDict(limits.DHT_JUDGEMENTS)
        self._known: BoundedDict[bytes, SignedRecord] = BoundedDict(limits.DHT_VERIFIED)

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``, s since the epoch; None if refused."""
        key = agent_id, hashlib.sha256(certificate).digest()
        found = self._judgements.get(key)
        if found is not None and found.until > now and not found.is_revoked():
            return found
        found = self._judge.judge(agent_id, certificate, now)
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


#: The status words of STORED.
STORED: Final = "stored"
OLDER: Final = "older"  # than what is kept
FULL: Final = "full"
REFUSED: Final = "refused"  # forged, expired, not certified, or under a key that is not its own
#: Bytes that a record under a key costs beside its own, as measured.
_ENTRY_OVERHEAD_BYTES: Final = 1000

StorageKey = tuple[bytes, Stream]


class Storage:
    """The records of other publishers, by key and signer."""

    def __init__(self, node_id: bytes) -> None:
        self.size = 0
        self._number = int.from_bytes(node_id, "big")
        self._keys: dict[bytes, dict[bytes, dict[Stream, SignedRecord]]] = {}
        self._ends: TimerQueue[StorageKey] = TimerQueue()
        #: Whether each record is certified, and how near its key is to our id; in the order in which they came.
        self._ranks: dict[StorageKey, tuple[bool, int]] = {}
        self.timer = self._ends.timer

    @property
    def count(self) -> int:
        """How many records are stored."""
        return len(self._ranks)

    def put(self, key: bytes, record: SignedRecord, now: Moment) -> str:
        """Keep a verified record; return its status word."""
        signers = self._keys.get(key, {})
        known = signers.get(record.kid, {}).get(record.stream)
        if known is not None:
            if known.data == record.data:
                return STORED
            if known.timestamp >= record.timestamp:
                return OLDER
            self._forget(key, known)
        elif not self._accepts(key, signers, record):
            return FULL
        self._keys.setdefault(key, {}).setdefault(record.kid, {})[record.stream] = record
        storage_key = key, record.stream
        distance = int.from_bytes(key, "big") ^ self._number
        self._ranks[storage_key] = record.standing is Standing.CERTIFIED, -distance.bit_length()
        self._ends.set(storage_key, now.steady + record.ends - now.wall)
        self.size += len(record.data) + _ENTRY_OVERHEAD_BYTES
        while self.size > limits.DHT_STORED_BYTES:
            least = min(reversed(self._ranks), key=self._ranks.__getitem__)  # uncertified, then far, then new
            self._remove(least)
            if least == storage_key:
                return FULL
        return STORED

    def get(self, key: bytes, wall: float) -> list[SignedRecord]:
        """Return the records under a key that still count."""
        signers = self._keys.get(key)
        if signers is None:
            return []
        return [one for one in chain.from_iterable(map(dict.values, signers.values())) if one.is_valid(wall)]

    def on_timer(self, now: Moment) -> None:
        """Forget what has ended."""
        while (storage_key := self._ends.pop(now.steady)) is not None:
            self._remove(storage_key)

    def _accepts(self, key: bytes, signers: dict[bytes, dict[Stream, SignedRecord]], record: SignedRecord) -> bool:
        """Return whether a signer has room for one more record under a key, once another signer has made way."""
        if record.kid in signers:
            return len(signers[record.kid]) < limits.DHT_RECORDS_PER_SIGNER
        if len(signers) < limits.DHT_SIGNERS_PER_KEY:
            return True
        if record.standing is not Standing.CERTIFIED:
            return False
        for kid in reversed(signers):
            if all(one.standing is not Standing.CERTIFIED for one in signers[kid].values()):
                for stream in list(signers[kid]):
                    self._remove((key, stream))
                return True
        return False

    def _forget(self, key: bytes, record: SignedRecord) -> None:
        """Count a record no longer; it keeps its rank among the pages of its key if another replaces it."""
        del self._ranks[key, record.stream]
        self.size -= len(record.data) + _ENTRY_OVERHEAD_BYTES

    def _remove(self, storage_key: StorageKey) -> None:
        key, stream = storage_key
        signers = self._keys[key]
        self._forget(key, signers[stream[0]].pop(stream))
        self._ends.cancel(storage_key)
        if not signers[stream[0]]:
            del signers[stream[0]]
        if not signers:
            del self._keys[key]


#: Seconds after a change of the network in which own records are put again, from and to.
_PUT_AFTER_CHANGE_SECONDS: Final = 0.5, 1.5
#: Puts a second that are begun when many are due at once.
_PUTS_A_SECOND: Final = 50.0
#: Seconds until a put that no node acknowledged is tried again.
_RETRY_PUT_SECONDS: Final = 5.0


@dataclass(slots=True)
class OwnRecord:
    """An own offer, its last put (seconds since the epoch, 0 for never), and on how many nodes it is."""

    offer: DhtOffer
    last_put: float = 0.0
    stored: int = 0


class OwnOffers:
    """The own offers, by skill, and when each is due."""

    def __init__(self, random: Random) -> None:
        self._own: dict[str, OwnRecord] = {}
        self._due: TimerQueue[str] = TimerQueue()
        self._random = random
        self._free_at = 0.0
        self.timer = self._due.timer

    def replace(self, offers: Sequence[DhtOffer], now: float) -> list[tuple[DhtOffer, DhtOffer | None]]:
        """Take the offers from now on; return each earlier one that ended or changed, with what replaces it."""
        earlier, offered = self._own, {offer.skill_id: offer for offer in offers}
        self._own = {}
        for skill_id, offer in offered.items():
            known = earlier.get(skill_id)
            self._own[skill_id] = OwnRecord(offer) if known is None else OwnRecord(offer, known.last_put, known.stored)
            if known is None or known.offer != offer:
                self._set(skill_id, now)
        for skill_id in earlier.keys() - offered.keys():
            self._due.cancel(skill_id)
        pairs = ((own.offer, offered.get(skill_id)) for skill_id, own in earlier.items())
        return [(before, after) for before, after in pairs if before != after]

    def soon(self, now: float) -> None:
        """Put all again soon."""
        for skill_id in self._own:
            self._set(skill_id, now + self._random.uniform(*_PUT_AFTER_CHANGE_SECONDS))

    def _set(self, skill_id: str, due: float) -> None:
        """Make a skill due at ``due``, later where many are due at once, and not later than before."""
        self._free_at = max(self._free_at + 1 / _PUTS_A_SECOND, due)
        self._due.set_earlier(skill_id, self._free_at)

    def pop(self, now: float) -> OwnRecord | None:
        """Return the next offer that is to be put now, and make it due again."""
        skill_id = self._due.pop(now)
        if skill_id is None:
            return None
        self._due.set(skill_id, now + self._random.uniform(*PUT_AGAIN))
        return self._own[skill_id]

    def note(self, own: OwnRecord, stored: int, wall: float, now: float, *, has_room: bool) -> None:
        """Note on how many nodes an offer was stored; one that no node stored is put again soon where it has room."""
        own.stored = stored
        if stored:
            own.last_put = wall
        elif has_room and self._own.get(own.offer.skill_id) is own:
            self._due.set_earlier(own.offer.skill_id, now + _RETRY_PUT_SECONDS)

    def status(self) -> tuple[DhtOwn, ...]:
        """Return the state of each."""
        return tuple(DhtOwn(*own.offer[:2], own.last_put, own.stored) for own in self._own.values())
