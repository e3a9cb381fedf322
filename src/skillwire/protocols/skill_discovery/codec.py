"""Datagrams to messages and back.

A datagram is ``TYPE:field;field;...``; its type ends at the first ``:``. :data:`SHAPES` has a row for each type: which
fields it has before the timestamp, and whether the text gives it a signature. In the profile *signed* every other type
has one more field, and is refused without it; which profile holds is local policy, never told by a datagram.

What a signature signs are the bytes before the last ``;``, so a message is written by :func:`encode_signed`, which
asks for a signature over exactly those. Spec: SDP §5.2, §10.1; specs §3.

Trust: :func:`decode` takes a stranger's bytes, and raises ``DecodeError`` and nothing else.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import fields as kinds
from skillwire.protocols.skill_discovery import messages
from skillwire.protocols.skill_discovery.messages import DiscoverResponse, Message, Profile, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.protocols.skill_discovery.fields import Field
    from skillwire.protocols.skill_discovery.messages import SkillRecord

_TYPE_LENGTH: Final = 64
_SIGNATURE_LENGTH: Final = 96  # of the longest ECDSA P-256 signature: 72 bytes of DER in base64
_LONGEST_FIELDS: Final = int(limits.LAN_IDENTIFIER_LENGTH) + 14 + _SIGNATURE_LENGTH  # a name, a time, and a signature


class Shape(NamedTuple):
    """How messages of one type are written: the fields before the timestamp, and whether the text signs them."""

    message: type[Message]
    fields: tuple[Field, ...]
    is_signed: bool = False


_PLACE: Final = (kinds.IDENTIFIER, kinds.IDENTIFIER)

#: Type → shape.
SHAPES: Final[dict[str, Shape]] = {
    "SKILL_REGISTER": Shape(
        messages.Register,
        (*_PLACE, kinds.VERSION, kinds.SKILL_TYPE, kinds.ENDPOINT, kinds.IDENTIFIERS, kinds.IDENTIFIERS),
        is_signed=True,
    ),
    "SKILL_REGISTER_ACK": Shape(messages.RegisterAck, (kinds.IDENTIFIER, kinds.OUTCOME, kinds.TEXT)),
    "SKILL_UNREGISTER": Shape(messages.Unregister, (*_PLACE, kinds.REASON), is_signed=True),
    "SKILL_UNREGISTER_ACK": Shape(messages.UnregisterAck, (*_PLACE, kinds.OUTCOME)),
    "SKILL_DISCOVER": Shape(
        messages.Discover, (kinds.IDENTIFIER, kinds.IDENTIFIERS, kinds.IDENTIFIERS, kinds.SKILL_TYPES)
    ),
    "SKILL_DISCOVER_RESPONSE": Shape(DiscoverResponse, (kinds.IDENTIFIER,)),  # and then the skills
    "SKILL_HEARTBEAT": Shape(messages.Heartbeat, (*_PLACE, kinds.TOLD_STATUS), is_signed=True),
    "SKILL_STATUS": Shape(messages.StatusUpdate, (*_PLACE, kinds.TOLD_STATUS, kinds.TEXT), is_signed=True),
    "CHALLENGE": Shape(messages.Challenge, (kinds.IDENTIFIER, kinds.NONCE)),
    "CHALLENGE_RESPONSE": Shape(
        messages.ChallengeResponse, (kinds.IDENTIFIER, kinds.NONCE, kinds.CERTIFICATE), is_signed=True
    ),
    "JOIN_SCENE": Shape(messages.JoinScene, (*_PLACE, kinds.IDENTIFIERS), is_signed=True),
    "REQUEST_SCENE": Shape(messages.RequestScene, (*_PLACE, kinds.IDENTIFIERS), is_signed=True),
    "JOIN_SCENE_RESPONSE": Shape(messages.JoinSceneResponse, (kinds.IDENTIFIER, kinds.SCENE_ANSWER)),
    "SCENE_JOIN_RESPONSE": Shape(messages.SceneJoinResponse, (kinds.IDENTIFIER, kinds.SCENE_ANSWER)),
    "SCENE_NOT_FOUND": Shape(messages.SceneNotFound, _PLACE),
    "SCENE_EVENT": Shape(messages.SceneEvent, (kinds.IDENTIFIER, kinds.GROUP_EVENT, *_PLACE, kinds.STATUS)),
}
#: Type → message, what reads each field and the timestamp, and whether the text signs it.
_READERS: Final = {
    name: (shape.message, tuple([field.read for field in (*shape.fields, kinds.TIMESTAMP)]), shape.is_signed)
    for name, shape in SHAPES.items()
}
#: Message → type, what gets and what writes each field and the timestamp, and whether the text signs it.
_WRITERS: Final = {
    shape.message: (
        f"{name}:",
        tuple(
            [
                (attrgetter(attribute), field.write)
                for attribute, field in zip(
                    (*shape.message.__struct_fields__[: len(shape.fields)], "timestamp"),
                    (*shape.fields, kinds.TIMESTAMP),
                    strict=True,
                )
            ]
        ),
        shape.is_signed,
    )
    for name, shape in SHAPES.items()
}


#: Bytes for one record beside the longest requester, a timestamp, and a signature.
_RECORD_ROOM: Final = limits.DATAGRAM_BYTES - len("SKILL_DISCOVER_RESPONSE:;;;") - _LONGEST_FIELDS


def decode(data: bytes, profile: Profile = Profile.OPEN) -> Message:
    """Return the message that a datagram holds; :class:`Unknown` for a type that is none of ours.

    Raises:
        DecodeError: ``DATAGRAM`` when it is not a message in this profile; a code of JSON's for what holds JSON.
    """
    if len(data) > limits.DATAGRAM_BYTES:
        raise DecodeError("DATAGRAM", f"a datagram of {len(data)} bytes")
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise DecodeError("DATAGRAM", "bytes that are not ASCII; free text is percent-encoded") from None
    name, colon, payload = text.partition(":")
    found = _READERS.get(name) if colon else None
    if found is None:
        if not colon or not _is_type(name):
            kinds.refuse("a message", text)
        return Unknown()
    message, readers, is_signed = found
    parts = payload.split(";")
    signature = kinds.SIGNATURE.read(parts.pop()) if is_signed or profile is Profile.SIGNED else ""
    if message is DiscoverResponse:
        return _read_response(parts, signature)
    if len(parts) != len(readers):
        raise DecodeError("DATAGRAM", f"{name} with a wrong number of fields")
    return message(*[read(part) for read, part in zip(readers, parts, strict=True)], signature)


def _is_type(name: str) -> bool:
    return (
        0 < len(name) <= _TYPE_LENGTH and name.replace("_", "A").isalnum() and name.isupper() and not name[0].isdigit()
    )


def _read_response(parts: list[str], signature: str) -> DiscoverResponse:
    """Return a response: the first field is the requester, the last the timestamp. Spec: specs §3."""
    if len(parts) < len(("requester", "skills", "timestamp")):
        raise DecodeError("DATAGRAM", "SKILL_DISCOVER_RESPONSE with a wrong number of fields")
    requester, *records, timestamp = parts
    found = () if records == [""] else tuple([kinds.read_record(record) for record in records])
    return DiscoverResponse(kinds.read_identifier(requester), found, kinds.TIMESTAMP.read(timestamp), signature)


def encode(message: Message, profile: Profile = Profile.OPEN) -> bytes:
    """Return the datagram of a message, with the signature that it holds.

    Raises:
        ValidationError: ``DATAGRAM_FIELD`` when a field cannot be written; ``DATAGRAM_SIZE`` when it is too large.
    """
    return encode_signed(message, lambda _: getattr(message, "signature", ""), profile)


def encode_signed(message: Message, sign: Callable[[bytes], str], profile: Profile = Profile.OPEN) -> bytes:
    """Return the datagram of a message, signed by ``sign`` where its type or the profile wants a signature.

    Raises:
        ValidationError: as :func:`encode`.
    """
    found = _WRITERS.get(type(message))
    if found is None:
        raise ValidationError("DATAGRAM_FIELD", f"nothing to be sent: {type(message).__name__}")
    name, fields, is_signed = found
    try:
        texts = [write(get(message)) for get, write in fields]
        if isinstance(message, DiscoverResponse):
            texts[1:1] = [kinds.RECORD.write(one) for one in message.skills] or [""]
    except DecodeError as error:
        raise ValidationError("DATAGRAM_FIELD", error.message) from None
    data = (name + ";".join(texts)).encode("ascii")
    if is_signed or profile is Profile.SIGNED:
        signature = sign(data)
        if not kinds.is_signature(signature):
            raise ValidationError("DATAGRAM_FIELD", f"not a signature: {ascii(signature)[:80]}")
        data += b";" + signature.encode("ascii")
    if len(data) > limits.DATAGRAM_BYTES:
        raise ValidationError("DATAGRAM_SIZE", f"{name[:-1]} would be a datagram of {len(data)} bytes")
    return data


def can_be_told(skill: SkillRecord) -> bool:
    """Whether a skill fits into a response to whoever asks, signed or not."""
    return len(kinds.write_record(skill)) < _RECORD_ROOM


def signed_part(data: bytes) -> bytes:
    """Return what the signature of a datagram signs: the bytes before the last ``;``. Spec: specs §3."""
    return data.rpartition(b";")[0]


def encode_responses(
    requester_id: str,
    skills: Iterable[SkillRecord],
    timestamp: int,
    *,
    sign: Callable[[bytes], str] | None = None,
) -> list[bytes]:
    """Return the skills that were found, in as many whole messages as they need; at least one. Spec: specs §3.

    Args:
        requester_id: who asked.
        skills: what was found.
        timestamp: of the messages, in milliseconds since the epoch.
        sign: signs them; None in the profile *open*.

    A skill that is too large to be told at all is passed over, so that it keeps no other from being told.

    Raises:
        ValidationError: ``DATAGRAM_FIELD``.
    """
    profile = Profile.OPEN if sign is None else Profile.SIGNED
    empty = DiscoverResponse(requester_id, (), timestamp, "A" * _SIGNATURE_LENGTH)
    room = limits.DATAGRAM_BYTES - len(encode(empty, profile))
    parts: list[list[SkillRecord]] = [[]]
    left = room
    for skill in skills:
        size = len(kinds.write_record(skill)) + 1
        if size > room:
            continue
        if size > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(skill)
        left -= size
    return [
        encode_signed(DiscoverResponse(requester_id, tuple(part), timestamp), sign or (lambda _: ""), profile)
        for part in parts
    ]
