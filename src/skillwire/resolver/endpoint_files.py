"""Files of skills of an endpoint, and blobs there: bytes, where the wire has text or base64.

A text is asked for as it is, which every endpoint knows; what is none, in base64, which is ours. What is too large for
a request or an answer goes as it is, beside the endpoint. The path of a file is checked before it is asked for.

Spec: SKP ``read_skill_file``; specs §4. Trust: every answer is hostile; base64 is read strictly.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final, TypeVar

from skillwire.errors import NotFoundError, Place, SkillwireError, ValidationError
from skillwire.protocols.skills_rpc.blob_client import INLINE_BYTES, fetch_blob, send_blob
from skillwire.protocols.skills_rpc.errors import INVALID_PARAMS
from skillwire.protocols.skills_rpc.messages import CreateBlob, ReadBlob, ReadSkillFile
from skillwire.protocols.skills_rpc.results import decode_blob, decode_created, decode_file
from skillwire.resolver.endpoint import ask, check_online
from skillwire.resolver.flow import fetch
from skillwire.resolver.reference import reference_to
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.protocols.skills_rpc.messages import BlobContent, CreatedBlob, FileContent
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import LocatedSkill, Session

T = TypeVar("T")

#: What the id of a blob begins with. Spec: specs §4.
BLOB: Final = "blob:"


def read_file(skill: LocatedSkill, path: str, session: Session) -> Flow[bytes]:
    """Return a file of a skill of an endpoint; or a blob there, for a ``path`` that is the id of one.

    A text is asked for as it is, which every endpoint knows; what is none, in base64, which is ours.

    Raises:
        TrustError: a ``PATH_...`` code; nothing is asked then. NotFoundError: ``FILE_NOT_FOUND``.
        DecodeError: ``LIMIT_SIZE`` for a blob that is larger than an answer. Otherwise as :func:`ask`.
    """
    assert skill.ref.rpc is not None  # noqa: S101  # only such skills come here
    endpoint = skill.ref.rpc.endpoint
    if path.startswith(BLOB):
        return (yield from _read_whole_blob(endpoint, path, session))
    params = ReadSkillFile(name=skill.ref.name, path=check_path(path), version=skill.ref.version)
    try:
        file = yield from read_text_or_bytes(endpoint, params, session, decode_file)
    except NotFoundError as error:
        if error.code == "FILE_NOT_FOUND":
            fix = f"Its SKILL.md names the files that matter: skillwire cat {reference_to(skill.ref)} SKILL.md"
            error.fix = error.fix or fix
        raise
    return bytes_of(file, endpoint)


def create_blob(endpoint: str, content: bytes, kind: str, session: Session) -> Flow[CreatedBlob]:
    """Make a blob at an endpoint: as text where it is that, which every endpoint knows, else in base64.

    What is too large for a request is sent as it is, which is ours. Raises what :func:`ask` does, and ``DecodeError``
    with ``LIMIT_SIZE`` where the endpoint has no place for it.
    """
    check_online(endpoint, session)
    if len(content) > INLINE_BYTES:
        exchange = send_blob(endpoint, content, kind, authorization=session.credential_for(endpoint))
        return (yield from fetch(exchange))
    try:
        params = CreateBlob(content=content.decode(), kind=kind)
    except UnicodeDecodeError:
        params = CreateBlob(content=b64encode(content).decode("ascii"), kind=kind, encoding="base64")
    return (yield from ask(endpoint, params, session, decode_created))


def read_blob(endpoint: str, params: ReadBlob, session: Session) -> Flow[BlobContent]:
    """Return a part of a blob, or all of it, as text where it is that."""
    return read_text_or_bytes(endpoint, params, session, decode_blob)


def bytes_of(told: FileContent | BlobContent, source: str) -> bytes:
    """Return the bytes that stand in an answer as text or in base64.

    Raises:
        ValidationError: ``RPC_ANSWER`` for base64 that is none.
    """
    if told.encoding == "text":
        return told.content.encode()
    try:
        content = b64decode(told.content, validate=True)
    except ValueError:
        content = b""
    if b64encode(content).decode("ascii") != told.content:  # one content has one text, to every reader
        raise ValidationError("RPC_ANSWER", "base64 that is none came", place=Place(source))
    return content


def read_text_or_bytes(
    endpoint: str, params: ReadSkillFile | ReadBlob, session: Session, decode: Callable[[object, str], T]
) -> Flow[T]:
    """Ask for a text, and where the endpoint refuses that, once more for base64; the first refusal counts.

    Raises what :func:`ask` does.
    """
    try:
        return (yield from ask(endpoint, params, session, decode))
    except SkillwireError as error:
        if error.details.get("rpc_code") != INVALID_PARAMS or params.encoding != "text":
            raise
        refused = error
    import msgspec  # noqa: PLC0415  # few files are no text

    try:
        return (yield from ask(endpoint, msgspec.structs.replace(params, encoding="base64"), session, decode))
    except SkillwireError as error:
        raise refused from error


def _read_whole_blob(endpoint: str, blob_id: str, session: Session) -> Flow[bytes]:
    told = yield from read_blob(endpoint, ReadBlob(blob_id=blob_id, mode="full"), session)
    if not told.truncated:
        return bytes_of(told, endpoint)
    return (yield from fetch(fetch_blob(endpoint, blob_id, authorization=session.credential_for(endpoint))))
