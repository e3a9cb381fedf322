"""Skills of an endpoint of the Skills Protocol, their files, and blobs there.

The endpoint is asked anew each time, since no cache keeps answers to a ``POST`` (only the names of a whole list are
kept, for completion in a shell). A list is read page by page within bounds: pages, skills, and no cursor twice. Names
and paths are checked before they are sent. Text is requested as text, which every endpoint knows; other bytes in
base64, which is ours; content too large for a message goes beside the endpoint. A description may state the digest of
the skill's artifact **[extension]**: a ``SKILL.md`` that is the artifact is verified. Nothing here is installed.
Spec: SKP; specs §4.

Trust: every answer is hostile, and read by :mod:`~skillwire.protocols.skills_rpc.codec`; names are checked, texts are
bounded and have no hidden characters, manifests are as they were sent, base64 is read strictly.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from skillwire import limits
from skillwire.errors import (
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    ValidationError,
    did_you_mean,
)
from skillwire.model.digest import Digest
from skillwire.model.ref import BLOB_PREFIX, CachedResponse, RpcFacts, SkillRef
from skillwire.model.skill import SKILL_MD, Finding, is_dotted_name
from skillwire.protocols.skills_rpc.client import INLINE_BYTES, call, fetch_blob, send_blob
from skillwire.protocols.skills_rpc.codec import decode_blob, decode_created, decode_described, decode_file, decode_page
from skillwire.protocols.skills_rpc.errors import INVALID_PARAMS
from skillwire.protocols.skills_rpc.messages import (
    METHODS,
    BlobContent,
    CreateBlob,
    CreatedBlob,
    DescribedSkill,
    DescribeSkill,
    FileContent,
    ListSkills,
    Params,
    ReadBlob,
    ReadSkillFile,
    SkillPage,
)
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources import SKILLS_RPC, Lookup, Source
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import Flow, work

T = TypeVar("T")

_KINDS: Final = frozenset({"action", "instruction"})
_VERSION_LENGTH: Final = 64
_METHOD_OF: Final = {kind: name for name, kind in METHODS.items()}


class Pages:
    """The pages of one list, which a hostile endpoint could make endless."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._seen: set[str] = set()
        self._skills = 0

    def after(self, page: SkillPage) -> str | None:
        """Return the cursor of the page that follows ``page``; None after the last.

        Raises ValidationError (``RPC_ANSWER``) for a cursor that repeats or is too long; ``LIMIT_ENTRIES``.
        """
        cursor = page.next_cursor
        self._skills += len(page.skills)
        if cursor is None:
            return None
        code = "RPC_ANSWER"
        if cursor in self._seen:
            message = "the list of skills goes in a circle: a cursor came twice"
        elif len(cursor) > limits.RPC_CURSOR_LENGTH:
            message = f"a cursor of {len(cursor):,} characters came"
        elif self._skills <= limits.INDEX_ENTRIES and len(self._seen) + 1 < limits.RPC_PAGES:
            self._seen.add(cursor)
            return cursor
        else:
            code, message = (
                "LIMIT_ENTRIES",
                f"{self._skills:,} skills on {len(self._seen) + 1:,} pages, and more",
            )
        fix = f"Ask for one namespace, {self._endpoint}#ns., or for one skill; and inform the endpoint's owner."
        raise ValidationError(code, message, place=SourceLocation(self._endpoint), fix=fix)


def ask(
    endpoint: str,
    params: Params,
    context: ResolveContext,
    decode: Callable[[object, str], T],
    *,
    timeout: float = limits.HTTP_REQUEST_SECONDS,
) -> Flow[T]:
    """Call the method of ``params``; return its decoded result, or raise the endpoint's error by its code."""
    return decode((yield from ask_any(endpoint, _METHOD_OF[type(params)], params, context, timeout=timeout)), endpoint)


def ask_any(
    endpoint: str,
    method: str,
    params: Params | Mapping[str, Any],
    context: ResolveContext,
    *,
    timeout: float = limits.HTTP_REQUEST_SECONDS,
) -> Flow[Any]:
    """Call any method; return its result as it came."""
    check_online(endpoint, context)
    authorization = context.credential_for(endpoint)
    return (yield from call(endpoint, method, params, authorization=authorization, timeout=timeout))


def check_online(endpoint: str, context: ResolveContext) -> None:
    """Raise ``OFFLINE`` for a request to an endpoint while offline."""
    if context.offline:
        raise FetchError("OFFLINE", "an endpoint cannot be asked offline", place=SourceLocation(endpoint))


class SkillsRpc(Source):
    """The source of the Skills Protocol."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the named skill, those of a namespace for a name that ends in a dot, or every skill."""
        endpoint, name, context = lookup.url, lookup.name, self._context
        with context.attempt(endpoint) as attempt:
            if name is None or name.endswith("."):
                found = yield from _list(endpoint, context, None if name is None else name.removesuffix("."))
            else:
                found = [(yield from _describe(endpoint, context, name))]
        context.trace(attempt._replace(answered_by="origin", generation=SKILLS_RPC, entries=len(found)))
        return found


def describe(skill: SkillRef, context: ResolveContext) -> Flow[DescribedSkill]:
    """Return the manifest and the frontmatter of a skill of an endpoint, asked for once."""
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
            fix = "The skill is left out. Inform the endpoint's owner."
            if not is_dotted_name(skill.name):
                message = f"{skill.name[:80]} is no name of a skill"
                context.report(Finding("NAME_FORM", "warning", message, SourceLocation(endpoint), fix))
            elif skill.name in found:
                message = f"{skill.name} is listed twice"
                context.report(Finding("NAME_DUPLICATE", "warning", message, SourceLocation(endpoint), fix))
            else:
                facts = RpcFacts(endpoint, skill.namespace, skill.kind if skill.kind in _KINDS else "")
                listed = _skill(skill.name, skill.description, _version(skill.version), facts, context)
                found[skill.name] = listed._replace(requested_by_name=False)
        cursor = pages.after(page)
        if cursor is None:
            if namespace is None:
                # A small index for completion, at an address that no request goes to.
                body = json.dumps({"skills": [{"name": name} for name in found]}).encode()
                address = f"{endpoint}#"
                document = CachedResponse(address, body, {"cache-control": "no-cache"}, context.clock(), address)
                yield from work(partial(context.keep, document, context.credential_for(endpoint)))
            return list(found.values())


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
    try:
        digest = Digest.parse(described.digest) if described.digest is not None else None
    except ValidationError as error:
        error.place = SourceLocation(endpoint)
        raise
    return _skill(name, description, version, facts, context)._replace(described=described, digest=digest)


def _names_alike(endpoint: str, context: ResolveContext, name: str) -> Flow[str | None]:
    """Return a hint at similar names in the same namespace, if there are any."""
    namespace = name.partition(".")[0] if "." in name else None
    params = ListSkills(namespace=namespace, limit=int(limits.RPC_PAGE))
    try:
        page = yield from ask(endpoint, params, context, decode_page)
    except SkillwireError:
        return None
    return did_you_mean(name, [skill.name for skill in page.skills if is_dotted_name(skill.name)])


def _version(value: object) -> str | None:
    """Return a well-formed version; None for anything else."""
    is_plain = isinstance(value, str) and 0 < len(value) <= _VERSION_LENGTH and value.isascii() and value.isprintable()
    return str(value) if is_plain else None


def _text(value: object) -> str:
    return neutralise(value[: 2 * limits.DESCRIPTION_LENGTH]) if isinstance(value, str) else ""


def read_file(skill: SkillRef, path: str, context: ResolveContext) -> Flow[bytes]:
    """Return a file of a skill of an endpoint; or a blob there, for a ``path`` that is the id of one.

    Raises:
        TrustError: a ``PATH_...`` code, before any request; ``DIGEST_MISMATCH``. NotFoundError: ``FILE_NOT_FOUND``.
        DecodeError: ``LIMIT_SIZE`` for a blob that is larger than an answer.
    """
    assert skill.rpc is not None  # noqa: S101  # only such skills come here
    endpoint = skill.rpc.endpoint
    if path.startswith(BLOB_PREFIX):
        blob = yield from read_text_or_bytes(endpoint, ReadBlob(blob_id=path, mode="full"), context, decode_blob)
        if not blob.truncated:
            return bytes_of(blob, endpoint)
        return (yield from fetch_blob(endpoint, path, authorization=context.credential_for(endpoint)))
    params = ReadSkillFile(name=skill.name, path=check_path(path), version=skill.version)
    try:
        file = yield from read_text_or_bytes(endpoint, params, context, decode_file)
    except NotFoundError as error:
        if error.code == "FILE_NOT_FOUND":
            fix = f"Its SKILL.md names the files that matter: skillwire cat {reference_to(skill)} SKILL.md"
            error.fix = error.fix or fix
        raise
    content = bytes_of(file, endpoint)
    is_artifact = skill.described is not None and skill.described.artifact_type == "skill-md"
    if is_artifact and path == SKILL_MD and skill.digest not in {None, found := Digest.of(content)}:
        message = f"the endpoint states {skill.digest}, and SKILL.md has {found}"
        raise TrustError("DIGEST_MISMATCH", message, place=SourceLocation(endpoint))
    return content


def create_blob(endpoint: str, content: bytes, kind: str, context: ResolveContext) -> Flow[CreatedBlob]:
    """Create a blob at an endpoint: as text, in base64, or, if too large for a request, beside the endpoint."""
    check_online(endpoint, context)
    if len(content) > INLINE_BYTES:
        authorization = context.credential_for(endpoint)
        return (yield from send_blob(endpoint, content, kind, authorization=authorization))
    try:
        params = CreateBlob(content=content.decode(), kind=kind)
    except UnicodeDecodeError:
        params = CreateBlob(content=b64encode(content).decode("ascii"), kind=kind, encoding="base64")
    return (yield from ask(endpoint, params, context, decode_created))


def bytes_of(content: FileContent | BlobContent, source: str) -> bytes:
    """Return the bytes that an answer holds as text or in base64; raise ``RPC_ANSWER`` for malformed base64."""
    if content.encoding == "text":
        return content.content.encode()
    try:
        data = b64decode(content.content, validate=True)
    except ValueError:
        data = b""
    if b64encode(data).decode("ascii") != content.content:  # one content has one text, to every reader
        raise ValidationError("RPC_ANSWER", "the answer's base64 is malformed", place=SourceLocation(source))
    return data


def read_text_or_bytes(
    endpoint: str, params: ReadSkillFile | ReadBlob, context: ResolveContext, decode: Callable[[object, str], T]
) -> Flow[T]:
    """Ask for text and, where the endpoint refuses that, for base64; the first refusal counts."""
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
