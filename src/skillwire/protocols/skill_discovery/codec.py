"""Datagrams to messages and back: the fields, each with its two directions, and the shapes of the messages.

A datagram is ``TYPE:field;field;...``; :data:`SHAPES` has a row for each type. In the profile *signed* every type has a
signature, and is refused without it; the profile is local policy and never follows from a datagram. A signature covers
the bytes before the last ``;``. Identifiers are strict: an invalid one is refused and never escaped, so that ``;``,
``,`` and ``|`` only separate. Free text is percent-encoded. A value that would not decode to itself is refused when it
is encoded. Spec: SDP §2.1, §3.2, §5.2, §10.1; specs §3. Trust: datagrams are untrusted; decoding raises
:class:`~skillwire.errors.DecodeError` and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote, unquote_to_bytes

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError
from skillwire.model.skill import is_version
from skillwire.model.url import is_ipv4
from skillwire.protocols.skill_discovery import messages as m
from skillwire.trust.address import AddressScope, classify, read_address
from skillwire.trust.guarded_json import load_json

Sign = Callable[[bytes], str]

E = TypeVar("E", bound=StrEnum)

NONCE_BYTES: Final = 32
#: Bytes of another implementation's longest nonce.
_MOST_NONCE_BYTES: Final = 64
#: Bytes of a SHA-256 that name a datagram, after the random bytes of a nonce.
ABOUT_BYTES: Final = 8
_IDENTIFIER: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{int(limits.LAN_IDENTIFIER_LENGTH)}}}", re.ASCII).fullmatch
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: A name's last label begins with a letter: what looks like an address in another notation is none, and no name.
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)*[A-Za-z](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_MAX_PORT: Final = 65535
#: Until the year 5138; longer numbers are no time.
_TIMESTAMP: Final = re.compile(r"0|[1-9][0-9]{0,13}", re.ASCII).fullmatch
_END_OF_TIME: Final = 10**14
#: Base64, of other curves too, or hexadecimal for HMAC; and dots, since the text's own examples end in an ellipsis.
#: Verifying judges.
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/.]{1,190}={0,2}", re.ASCII).fullmatch
_TEXT: Final = re.compile(r"[ -$&-:<-~]*(?:%[0-9A-Fa-f]{2}[ -$&-:<-~]*)*", re.ASCII).fullmatch
_PLAIN: Final = re.compile(r"[ -$&-:<-{}~]*", re.ASCII).fullmatch
_SAFE: Final = " !\"#$&'()*+,/:=?@[]^`{}<>\\"
_RECORD_PARTS: Final = 5
#: Addresses that no skill can have, or that an untrusted peer must not send us to.
_NO_PLACE: Final = frozenset({AddressScope.NOWHERE, AddressScope.METADATA})


class Field(NamedTuple):
    """A kind of field: reads a text, and writes a value as a text that reads back as the same."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def refuse(what: str, text: str) -> NoReturn:
    """Raise DecodeError ``DATAGRAM``: ``text`` is not ``what``."""
    raise DecodeError("DATAGRAM", f"not {what}: {text[:80]!r}")


def _matching(what: str, form: Callable[[str], object]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not form(text):
            refuse(what, text)
        return text

    return read


#: Returns an identifier as it is.
read_identifier: Final = _matching("an identifier", _IDENTIFIER)


def is_identifier(text: str) -> bool:
    """Whether a text may name an agent, a skill, a capability or a scene."""
    return _IDENTIFIER(text) is not None


#: Versions, endpoints and lists repeat, so each text is decoded once; the cache is bounded.
_once: Final = lru_cache(maxsize=1024)


@_once
def read_identifiers(text: str) -> tuple[str, ...]:
    """Return identifiers that are separated by commas, each once; none when there is no text."""
    if not text:
        return ()
    names = text.split(",")
    if len(names) > limits.LAN_LIST_ENTRIES:
        raise DecodeError("DATAGRAM", f"a list of {len(names)} identifiers")
    return tuple(dict.fromkeys([read_identifier(name) for name in names]))


def _write_identifiers(names: Iterable[str]) -> str:
    return ",".join(read_identifiers(",".join(map(read_identifier, names))))


@_once
def read_endpoint(text: str) -> m.Endpoint:
    """Return an endpoint; ``[`` and ``]`` stand around an IPv6 address. Spec: SDP §2.1; specs §3."""
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
        refuse("an endpoint", text)
    if host.startswith("[") and host.endswith("]"):
        return m.Endpoint(_read_ipv6(host[1:-1]), int(port))
    if is_ipv4(host):
        return m.Endpoint(_reachable(host), int(port))
    if len(host) > limits.LAN_HOST_LENGTH or not _HOST_NAME.fullmatch(host):
        refuse("an endpoint", text)
    return m.Endpoint(host, int(port))


def _read_ipv6(text: str) -> str:
    if "%" in text:  # a zone means something on the machine that wrote it alone
        refuse("an endpoint", text)
    try:
        return _reachable(str(ipaddress.IPv6Address(text)))
    except ValueError:
        refuse("an endpoint", text)


def _reachable(host: str) -> str:
    if classify(read_address(host)) in _NO_PLACE:
        refuse("an endpoint", host)
    return host


_read_version: Final = _once(_matching("a version", is_version))


def _read_timestamp(text: str) -> int:
    if _TIMESTAMP(text) is None:
        refuse("a timestamp", text)
    return int(text)


def _write_timestamp(timestamp: int) -> str:
    if type(timestamp) is not int or not 0 <= timestamp < _END_OF_TIME:
        refuse("a timestamp", str(timestamp))
    return str(timestamp)


def _read_text(text: str) -> str:
    """Return free text. It may hold hidden characters, which are neutralised for display."""
    if _TEXT(text) is None:
        refuse("percent-encoded text", text)
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        refuse("percent-encoded UTF-8", text)


def write_text(text: str) -> str:
    """Return free text percent-encoded; ASCII stays readable as far as the format allows."""
    if _PLAIN(text) is not None:
        return text
    try:
        return quote(text, safe=_SAFE)
    except UnicodeEncodeError:
        raise ValidationError("DATAGRAM_FIELD", f"not a text: {ascii(text)[:80]}") from None


def _read_base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        refuse("base64", text)
    if _write_base64(data) != text:  # unused bits would give one value two texts
        refuse("base64", text)
    return data


def _write_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _read_nonce(text: str) -> bytes:
    nonce = _read_base64(text)
    if not NONCE_BYTES <= len(nonce) <= _MOST_NONCE_BYTES:
        refuse(f"a nonce of {NONCE_BYTES} to {_MOST_NONCE_BYTES} bytes", text)
    return nonce


def _read_answer(text: str) -> m.SceneAnswer:
    document = load_json(_read_text(text).encode(), max_bytes=limits.DATAGRAM_BYTES, source="datagram")
    try:
        answer = msgspec.convert(document, m.SceneAnswer)
    except msgspec.ValidationError as error:
        raise DecodeError("DATAGRAM", f"not a scene group: {error}") from None
    info, skill = answer.connection_info, answer.skill_info
    read_endpoint(str(m.Endpoint(info.host, info.port)))
    if info.endpoint:
        read_endpoint(info.endpoint)
    _read_version(skill.version)
    members = [name for member in answer.members for name in (member.agent_id, member.skill_id, member.role)]
    for name in (answer.scene_id, answer.group_id, skill.skill_id, *skill.capabilities, *members):
        read_identifier(name)
    return answer


def _write_answer(answer: m.SceneAnswer) -> str:
    """Return the JSON of SDP 4.3 with all of its keys; the key itself is empty."""
    document = msgspec.to_builtins(answer)
    document["connectionInfo"]["apiKey"] = ""
    return write_text(msgspec.json.encode(document).decode())


def read_record(text: str) -> m.SkillRecord:
    """Return one skill of a response. Spec: SDP §3.2."""
    parts = text.split("|")
    if len(parts) != _RECORD_PARTS:
        refuse("a skill of five parts", text)
    skill_id, version, endpoint, capabilities, scenes = parts
    return m.SkillRecord(
        read_identifier(skill_id),
        _read_version(version),
        read_endpoint(endpoint),
        read_identifiers(capabilities),
        read_identifiers(scenes),
    )


def write_record(record: m.SkillRecord) -> str:
    """Return the record of a skill in a response."""
    lists = ",".join(record.capabilities), ",".join(record.scenes)
    return "|".join((record.skill_id, record.version, str(record.endpoint), *lists))


def _reading_back(read: Callable[[str], Any], write: Callable[[Any], str]) -> Field:
    """Return a kind of field whose texts are read back, since what writes them looks at nothing."""

    def checked(value: Any) -> str:
        text = write(value)
        if read(text) != value:
            refuse("written as what it is", ascii(value))
        return text

    return Field(read, checked)


def _of_itself(read: Callable[[str], str]) -> Field:
    return Field(read, read)


def _of(kind: type[E], *excluded: E) -> Field:
    values = {member.value: member for member in kind if member not in excluded}

    def read(text: str) -> E:
        found = values.get(text)
        return found if found is not None else refuse(f"one of {', '.join(values)}", text)

    return _of_itself(read)


IDENTIFIER: Final = _of_itself(read_identifier)
IDENTIFIERS: Final = Field(read_identifiers, _write_identifiers)
VERSION: Final = _of_itself(_read_version)
ENDPOINT: Final = _reading_back(read_endpoint, str)
TIMESTAMP: Final = Field(_read_timestamp, _write_timestamp)
SIGNATURE: Final = _of_itself(_matching("a signature", _SIGNATURE))
TEXT: Final = Field(_read_text, write_text)
NONCE: Final = _reading_back(_read_nonce, _write_base64)
BYTES: Final = _reading_back(_read_base64, _write_base64)
RECORD: Final = _reading_back(read_record, write_record)
SCENE_ANSWER: Final = _reading_back(_read_answer, _write_answer)
SKILL_TYPE: Final = _of(m.SkillType)
SKILL_TYPES: Final = _reading_back(lambda text: tuple(map(SKILL_TYPE.read, text.split(","))) if text else (), ",".join)
OUTCOME: Final = _of(m.Outcome)
REASON: Final = _of(m.Reason)
REPORTED_STATUS: Final = _of(m.HealthStatus, m.HealthStatus.UNKNOWN)
STATUS: Final = _of(m.HealthStatus)
GROUP_EVENT: Final = _of(m.GroupEvent)


_TYPE_NAME: Final = re.compile(r"(?=.*[A-Z])[A-Z_][A-Z0-9_]{0,63}", re.ASCII).fullmatch
_SIGNATURE_LENGTH: Final = 96  # of the longest ECDSA P-256 signature: 72 bytes of DER in base64
_LONGEST_FIELDS: Final = int(limits.LAN_IDENTIFIER_LENGTH) + 14 + _SIGNATURE_LENGTH  # a name, a time, and a signature


class Shape(NamedTuple):
    """How messages of one type are written: the fields before the timestamp, and whether the text signs them."""

    message: type[m.Message]
    fields: tuple[Field, ...]
    is_signed: bool = False


_ENDPOINT_FIELD: Final = (IDENTIFIER, IDENTIFIER)

#: Type → shape.
SHAPES: Final[dict[str, Shape]] = {
    "SKILL_REGISTER": Shape(
        m.Register, (*_ENDPOINT_FIELD, VERSION, SKILL_TYPE, ENDPOINT, IDENTIFIERS, IDENTIFIERS), is_signed=True
    ),
    "SKILL_REGISTER_ACK": Shape(m.RegisterAck, (IDENTIFIER, OUTCOME, TEXT)),
    "SKILL_UNREGISTER": Shape(m.Unregister, (*_ENDPOINT_FIELD, REASON), is_signed=True),
    "SKILL_UNREGISTER_ACK": Shape(m.UnregisterAck, (*_ENDPOINT_FIELD, OUTCOME)),
    "SKILL_DISCOVER": Shape(m.Discover, (IDENTIFIER, IDENTIFIERS, IDENTIFIERS, SKILL_TYPES)),
    "SKILL_DISCOVER_RESPONSE": Shape(m.DiscoverResponse, (IDENTIFIER,)),  # and then the skills
    "SKILL_HEARTBEAT": Shape(m.Heartbeat, (*_ENDPOINT_FIELD, REPORTED_STATUS), is_signed=True),
    "SKILL_STATUS": Shape(m.StatusUpdate, (*_ENDPOINT_FIELD, REPORTED_STATUS, TEXT), is_signed=True),
    "CHALLENGE": Shape(m.Challenge, (IDENTIFIER, NONCE)),
    "CHALLENGE_RESPONSE": Shape(m.ChallengeResponse, (IDENTIFIER, NONCE, BYTES), is_signed=True),
    "JOIN_SCENE": Shape(m.JoinScene, (*_ENDPOINT_FIELD, IDENTIFIERS), is_signed=True),
    "REQUEST_SCENE": Shape(m.RequestScene, (*_ENDPOINT_FIELD, IDENTIFIERS), is_signed=True),
    "JOIN_SCENE_RESPONSE": Shape(m.JoinSceneResponse, (IDENTIFIER, SCENE_ANSWER)),
    "SCENE_JOIN_RESPONSE": Shape(m.SceneJoinResponse, (IDENTIFIER, SCENE_ANSWER)),
    "SCENE_NOT_FOUND": Shape(m.SceneNotFound, _ENDPOINT_FIELD),
    "SCENE_EVENT": Shape(m.SceneEvent, (IDENTIFIER, GROUP_EVENT, *_ENDPOINT_FIELD, STATUS)),
}
#: Type → message, what reads each field and the timestamp, and whether the text signs it.
_READERS: Final = {
    name: (shape.message, tuple([field.read for field in (*shape.fields, TIMESTAMP)]), shape.is_signed)
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
                    (*shape.fields, TIMESTAMP),
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


def decode(data: bytes, profile: m.Profile = m.Profile.OPEN) -> m.Message:
    """Return the message of a datagram, :class:`m.Unknown` for an unknown type. Raises: DecodeError."""
    if len(data) > limits.DATAGRAM_BYTES:
        raise DecodeError("DATAGRAM", f"a datagram of {len(data)} bytes")
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise DecodeError("DATAGRAM", "bytes that are not ASCII; free text is percent-encoded") from None
    name, colon, payload = text.partition(":")
    found = _READERS.get(name) if colon else None
    if found is None:
        if not colon or not _TYPE_NAME(name):
            refuse("a message", text)
        return m.Unknown()
    message, readers, is_signed = found
    parts = payload.split(";")
    signature = SIGNATURE.read(parts.pop()) if is_signed or profile is m.Profile.SIGNED else ""
    if message is m.DiscoverResponse:
        if len(parts) < len(("requester", "skills", "timestamp")):
            raise DecodeError("DATAGRAM", "SKILL_DISCOVER_RESPONSE with a wrong number of fields")
        requester, *records, timestamp = parts
        skills = () if records == [""] else tuple([read_record(record) for record in records])
        return m.DiscoverResponse(read_identifier(requester), skills, TIMESTAMP.read(timestamp), signature=signature)
    if len(parts) != len(readers):
        raise DecodeError("DATAGRAM", f"{name} with a wrong number of fields")
    return message(*[read(part) for read, part in zip(readers, parts, strict=True)], signature=signature)


def encode(message: m.Message, profile: m.Profile = m.Profile.OPEN) -> bytes:
    """Return the datagram of a message, with the signature that it holds. Raises: ValidationError."""
    return encode_signed(message, lambda _: getattr(message, "signature", ""), profile)


def encode_signed(message: m.Message, sign: Sign, profile: m.Profile = m.Profile.OPEN) -> bytes:
    """Return the datagram of a message, signed where its type or the profile requires it. Raises: ValidationError."""
    found = _WRITERS.get(type(message))
    if found is None:
        raise ValidationError("DATAGRAM_FIELD", f"nothing to be sent: {type(message).__name__}")
    name, fields, is_signed = found
    try:
        texts = [write(get(message)) for get, write in fields]
        if isinstance(message, m.DiscoverResponse):
            texts[1:1] = [RECORD.write(one) for one in message.skills] or [""]
    except DecodeError as error:
        raise ValidationError("DATAGRAM_FIELD", error.message) from None
    data = (name + ";".join(texts)).encode("ascii")
    if is_signed or profile is m.Profile.SIGNED:
        signature = sign(data)
        if not _SIGNATURE(signature):
            raise ValidationError("DATAGRAM_FIELD", f"not a signature: {ascii(signature)[:80]}")
        data += b";" + signature.encode("ascii")
    if len(data) > limits.DATAGRAM_BYTES:
        raise ValidationError("DATAGRAM_SIZE", f"{name[:-1]} would be a datagram of {len(data)} bytes")
    return data


def read_registrant(data: bytes) -> m.Register:
    """Return a registration that cannot be read, with no more than the names in it: empty ones where there are none."""
    names = data.partition(b":")[2].decode("ascii", "replace").split(";")[:2]
    agent_id, skill_id = (name if _IDENTIFIER(name) else "" for name in (*names, "", "")[:2])
    return m.Register(agent_id, skill_id, "", m.SkillType.TOOL, m.Endpoint("", 0), (), (), 0)


def record_fits(skill: m.SkillRecord) -> bool:
    """Return whether a skill fits into a response to any requester, signed or not."""
    return len(write_record(skill)) < _RECORD_ROOM


def signed_part(data: bytes) -> bytes:
    """Return what the signature of a datagram signs: the bytes before the last ``;``. Spec: specs §3."""
    return data.rpartition(b";")[0]


def encode_responses(
    requester_id: str, skills: Iterable[m.SkillRecord], timestamp: int, *, sign: Sign | None = None, most: float = inf
) -> list[bytes]:
    """Return skills in as many messages as they need, or in one of ``most`` bytes; too long ones are skipped."""
    profile = m.Profile.OPEN if sign is None else m.Profile.SIGNED
    empty = m.DiscoverResponse(requester_id, (), timestamp, signature="A" * _SIGNATURE_LENGTH)
    room = min(most, limits.DATAGRAM_BYTES) - len(encode(empty, profile))
    parts: list[list[m.SkillRecord]] = [[]]
    left = room
    for skill in skills:
        size = len(write_record(skill)) + 1
        if size > room:
            continue
        if size > left and parts[-1]:
            if most < inf:
                break
            parts.append([])
            left = room
        parts[-1].append(skill)
        left -= size
    return [
        encode_signed(m.DiscoverResponse(requester_id, tuple(part), timestamp), sign or (lambda _: ""), profile)
        for part in parts
        if part
    ]
