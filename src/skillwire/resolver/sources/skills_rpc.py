"""What an endpoint of the Skills Protocol lists and describes.

It is asked anew each time: an answer to a ``POST`` is kept by no cache. (The names of a whole list are, for completion
in a shell, and for nothing else.) A list is asked for page by page, and has an end: so many pages, so many skills, and
no cursor twice. The name of a skill is checked before it is asked for.

Nothing here has a digest, so nothing is installed: a skill of an endpoint is read and called where it is. Spec: SKP;
specs §4. Trust: every answer is hostile, and read by :mod:`~skillwire.protocols.skills_rpc.codec`; what comes back
from here has names that are names, texts of bounded length without hidden characters, and manifests as they were sent.

Files of skills of an endpoint, and blobs there: bytes, where the wire has text or base64.

A text is asked for as it is, which every endpoint knows; what is none, in base64, which is ours. What is too large for
a request or an answer goes as it is, beside the endpoint. The path of a file is checked before it is asked for.

Spec: SKP ``read_skill_file``; specs §4. Trust: every answer is hostile; base64 is read strictly.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from skillwire import limits
from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, StorageError, ValidationError
from skillwire.model.install import CachedResponse
from skillwire.model.ref import RpcFacts, SkillRef
from skillwire.model.skill import Finding, is_dotted_name
from skillwire.protocols.skills_rpc.client import INLINE_BYTES, call, fetch_blob, send_blob
from skillwire.protocols.skills_rpc.codec import decode_blob, decode_created, decode_described, decode_file, decode_page
from skillwire.protocols.skills_rpc.errors import INVALID_PARAMS
from skillwire.protocols.skills_rpc.messages import (
    METHODS,
    CreateBlob,
    DescribeSkill,
    ListedSkill,
    ListSkills,
    ReadBlob,
    ReadSkillFile,
)
from skillwire.resolver.context import Attempt
from skillwire.resolver.lockfile import did_you_mean
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources import SKILLS_RPC
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.protocols.skills_rpc.messages import (
        BlobContent,
        CreatedBlob,
        DescribedSkill,
        FileContent,
        Params,
        SkillPage,
    )
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow


T = TypeVar("T")

_KINDS: Final = frozenset({"action", "instruction"})
_VERSION_LENGTH: Final = 64
_METHOD_OF: Final = {kind: name for name, kind in METHODS.items()}


class Pages:
    """Keeps count of the pages of one list, which a hostile endpoint could make endless.

    Args:
        source: the URL of the endpoint.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: set[str] = set()
        self._skills = 0

    def after(self, page: SkillPage) -> str | None:
        """Return the cursor of the page that follows ``page``; None when it was the last.

        Raises:
            ValidationError: ``RPC_ANSWER`` for a list that goes in a circle; ``LIMIT_ENTRIES`` for one that is longer
                than any.
        """
        cursor = page.next_cursor
        self._skills += len(page.skills)
        if cursor is None:
            return None
        if cursor in self._seen:
            raise self._endless("RPC_ANSWER", "the list of skills goes in a circle: a cursor came twice")
        self._seen.add(cursor)
        if len(cursor) > limits.RPC_CURSOR_LENGTH:
            raise self._endless("RPC_ANSWER", f"a cursor of {len(cursor):,} characters came")
        if self._skills > limits.INDEX_ENTRIES or len(self._seen) >= limits.RPC_PAGES:
            message = f"{self._skills:,} skills on {len(self._seen):,} pages, and the list goes on"
            raise self._endless("LIMIT_ENTRIES", message)
        return cursor

    def _endless(self, code: str, message: str) -> ValidationError:
        fix = f"Ask for one namespace, {self._source}#ns., or for one skill; and tell the endpoint's owner."
        return ValidationError(code, message, place=SourceLocation(self._source), fix=fix)


def ask(
    endpoint: str,
    params: Params,
    context: ResolveContext,
    decode: Callable[[object, str], T],
    *,
    timeout: float = limits.HTTP_REQUEST_SECONDS,
) -> Flow[T]:
    """Call the method that ``params`` are of; return what ``decode`` makes of its result.

    Raises:
        FetchError: ``OFFLINE``; what the network says.
        SkillwireError: what the endpoint says, by the code that it gives. DecodeError, ValidationError: the answer is
            malformed.
    """
    return decode((yield from ask_any(endpoint, _METHOD_OF[type(params)], params, context, timeout=timeout)), endpoint)


def ask_any(
    endpoint: str,
    method: str,
    params: Params | Mapping[str, Any],
    context: ResolveContext,
    *,
    timeout: float = limits.HTTP_REQUEST_SECONDS,
) -> Flow[Any]:
    """Call any method; return its result as it came. Raises what :func:`ask` does."""
    check_online(endpoint, context)
    authorization = context.credential_for(endpoint)
    return (yield from call(endpoint, method, params, authorization=authorization, timeout=timeout))


def check_online(endpoint: str, context: ResolveContext) -> None:
    """Refuse to ask an endpoint where nothing may be asked.

    Raises:
        FetchError: ``OFFLINE``.
    """
    if context.offline:
        raise FetchError("OFFLINE", "an endpoint cannot be asked offline", place=SourceLocation(endpoint))


class SkillsRpc:
    """The source of the Skills Protocol."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def find(self, lookup: Lookup, capability_type: str | None = None) -> Flow[list[SkillRef]]:
        """Return every skill of an endpoint, or of a namespace; it knows no capability types."""
        if capability_type is not None:
            return []
        return (yield from self.resolve(lookup))

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the named skill of an endpoint, those of a namespace for what ends in a dot, or every skill.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, with names that look alike. Otherwise as :func:`ask`.
        """
        endpoint, name, context = lookup.url, lookup.name, self._context
        attempt = Attempt(endpoint, context.credential_for(endpoint) is not None)
        try:
            if name is None or name.endswith("."):
                found = yield from _list(endpoint, context, None if name is None else name.removesuffix("."))
            else:
                found = [(yield from _describe(endpoint, context, name))]
        except SkillwireError as error:
            context.trace_failure(attempt, error)
            raise
        context.trace(attempt._replace(answered_by="origin", generation=SKILLS_RPC, entries=len(found)))
        return found


def describe(skill: SkillRef, context: ResolveContext) -> Flow[DescribedSkill]:
    """Return the manifest and the frontmatter of a skill of an endpoint; what is known already is not asked for."""
    assert skill.rpc is not None  # noqa: S101  # only such skills come here
    if skill.described is None:
        skill = yield from _describe(skill.rpc.endpoint, context, skill.name)
    described: DescribedSkill = skill.described
    return described


def _list(endpoint: str, context: ResolveContext, namespace: str | None) -> Flow[list[SkillRef]]:
    pages, cursor = Pages(endpoint), None
    found: dict[str, SkillRef] = {}
    while True:
        params = ListSkills(namespace=namespace, detail="summary", limit=int(limits.RPC_PAGE), cursor=cursor)
        page = yield from ask(endpoint, params, context, decode_page)
        for skill in page.skills:
            if flaw := _flaw(skill, found):
                context.report(Finding(*flaw, SourceLocation(endpoint), "Tell the endpoint's owner. It is left out."))
            else:
                facts = RpcFacts(endpoint, skill.namespace, skill.kind if skill.kind in _KINDS else "")
                listed = _skill(skill.name, skill.description, _version(skill.version), facts, context)
                found[skill.name] = listed._replace(requested_by_name=False)
        cursor = pages.after(page)
        if cursor is None:
            if namespace is None:
                yield from _keep_names(endpoint, list(found), context)
            return list(found.values())


def _keep_names(endpoint: str, names: list[str], context: ResolveContext) -> Flow[None]:
    """Keep names under an address that nothing is fetched from, as a small index."""
    body = json.dumps({"skills": [{"name": name} for name in names]}).encode()
    address = f"{endpoint}#"
    document = CachedResponse(address, body, {"cache-control": "no-cache"}, context.clock(), address)
    try:
        yield from work(lambda: context.cache.keep(document, context.credential_for(endpoint)))
    except StorageError as error:
        context.note(error)


def _flaw(skill: ListedSkill, found: Mapping[str, SkillRef]) -> tuple[Any, Any, str] | None:
    if not is_dotted_name(skill.name):
        return "NAME_FORM", "warning", f"{skill.name[:80]} is no name of a skill"
    if skill.name in found:
        return "NAME_DUPLICATE", "warning", f"{skill.name} is listed twice"
    return None


def _skill(name: str, description: str, version: str | None, facts: RpcFacts, context: ResolveContext) -> SkillRef:
    ref = SkillRef(name, facts.endpoint, description, version, None, SKILLS_RPC, context.clock(), rpc=facts)
    return ref._replace(artifact_type="files", url=facts.endpoint, index_url=facts.endpoint)


def _describe(endpoint: str, context: ResolveContext, name: str) -> Flow[SkillRef]:
    try:
        described = yield from ask(endpoint, DescribeSkill(name=name), context, decode_described)
    except NotFoundError as error:
        if error.code == "SKILL_NOT_FOUND":
            error.fix = (yield from _names_alike(endpoint, context, name)) or error.fix
        raise
    manifest = described.manifest
    if manifest.get("name", name) != name:
        message = f"asked for {name}, the endpoint describes {_text(manifest['name'])[:80]}"
        raise ValidationError("ID_DIFFERS", message, place=SourceLocation(endpoint))
    kind = _text(manifest.get("kind"))
    facts = RpcFacts(endpoint, _text(manifest.get("namespace"))[:_VERSION_LENGTH], kind if kind in _KINDS else "")
    about = described.frontmatter or {}
    texts = (manifest.get("description"), about.get("description"), about.get("short_description"))
    description = next((text for text in map(_text, texts) if text), "")[: limits.DESCRIPTION_LENGTH]
    version = _version(manifest.get("version"))
    return _skill(name, description, version, facts, context)._replace(described=described)


def _names_alike(endpoint: str, context: ResolveContext, name: str) -> Flow[str | None]:
    """Return a hint at skills of the same namespace; None where that finds none, or fails."""
    namespace = name.partition(".")[0] if "." in name else None
    params = ListSkills(namespace=namespace, limit=int(limits.RPC_PAGE))
    try:
        page = yield from ask(endpoint, params, context, decode_page)
    except SkillwireError:
        return None
    return did_you_mean(name, [skill.name for skill in page.skills if is_dotted_name(skill.name)])


def _version(value: object) -> str | None:
    """Return a version as it may be asked for again; None for what is none."""
    is_plain = isinstance(value, str) and 0 < len(value) <= _VERSION_LENGTH and value.isascii() and value.isprintable()
    return str(value) if is_plain else None


def _text(value: object) -> str:
    return neutralise(value[: 2 * limits.DESCRIPTION_LENGTH]) if isinstance(value, str) else ""


#: What the id of a blob begins with. Spec: specs §4.
BLOB: Final = "blob:"


def read_file(skill: SkillRef, path: str, context: ResolveContext) -> Flow[bytes]:
    """Return a file of a skill of an endpoint; or a blob there, for a ``path`` that is the id of one.

    A text is asked for as it is, which every endpoint knows; what is none, in base64, which is ours.

    Raises:
        TrustError: a ``PATH_...`` code; nothing is asked then. NotFoundError: ``FILE_NOT_FOUND``.
        DecodeError: ``LIMIT_SIZE`` for a blob that is larger than an answer. Otherwise as :func:`ask`.
    """
    assert skill.rpc is not None  # noqa: S101  # only such skills come here
    endpoint = skill.rpc.endpoint
    if path.startswith(BLOB):
        return (yield from _read_whole_blob(endpoint, path, context))
    params = ReadSkillFile(name=skill.name, path=check_path(path), version=skill.version)
    try:
        file = yield from read_text_or_bytes(endpoint, params, context, decode_file)
    except NotFoundError as error:
        if error.code == "FILE_NOT_FOUND":
            fix = f"Its SKILL.md names the files that matter: skillwire cat {reference_to(skill)} SKILL.md"
            error.fix = error.fix or fix
        raise
    return bytes_of(file, endpoint)


def create_blob(endpoint: str, content: bytes, kind: str, context: ResolveContext) -> Flow[CreatedBlob]:
    """Make a blob at an endpoint: as text where it is that, which every endpoint knows, else in base64.

    What is too large for a request is sent as it is, which is ours. Raises what :func:`ask` does, and ``DecodeError``
    with ``LIMIT_SIZE`` where the endpoint stores no blob of that size.
    """
    check_online(endpoint, context)
    if len(content) > INLINE_BYTES:
        authorization = context.credential_for(endpoint)
        return (yield from send_blob(endpoint, content, kind, authorization=authorization))
    try:
        params = CreateBlob(content=content.decode(), kind=kind)
    except UnicodeDecodeError:
        params = CreateBlob(content=b64encode(content).decode("ascii"), kind=kind, encoding="base64")
    return (yield from ask(endpoint, params, context, decode_created))


def read_blob(endpoint: str, params: ReadBlob, context: ResolveContext) -> Flow[BlobContent]:
    """Return a part of a blob, or all of it, as text where it is that."""
    return read_text_or_bytes(endpoint, params, context, decode_blob)


def bytes_of(content: FileContent | BlobContent, source: str) -> bytes:
    """Return the bytes that an answer holds as text or in base64.

    Raises:
        ValidationError: ``RPC_ANSWER`` for base64 that is none.
    """
    if content.encoding == "text":
        return content.content.encode()
    try:
        data = b64decode(content.content, validate=True)
    except ValueError:
        data = b""
    if b64encode(data).decode("ascii") != content.content:  # one content has one text, to every reader
        raise ValidationError("RPC_ANSWER", "base64 that is none came", place=SourceLocation(source))
    return data


def read_text_or_bytes(
    endpoint: str, params: ReadSkillFile | ReadBlob, context: ResolveContext, decode: Callable[[object, str], T]
) -> Flow[T]:
    """Ask for a text, and where the endpoint refuses that, once more for base64; the first refusal counts.

    Raises what :func:`ask` does.
    """
    try:
        return (yield from ask(endpoint, params, context, decode))
    except SkillwireError as error:
        if error.details.get("rpc_code") != INVALID_PARAMS or params.encoding != "text":
            raise
        refused = error
    try:
        return (yield from ask(endpoint, msgspec.structs.replace(params, encoding="base64"), context, decode))
    except SkillwireError as error:
        raise refused from error


def _read_whole_blob(endpoint: str, blob_id: str, context: ResolveContext) -> Flow[bytes]:
    blob = yield from read_blob(endpoint, ReadBlob(blob_id=blob_id, mode="full"), context)
    if not blob.truncated:
        return bytes_of(blob, endpoint)
    return (yield from fetch_blob(endpoint, blob_id, authorization=context.credential_for(endpoint)))
