"""JSON-RPC 2.0 for both ends, and the results of the methods.

:func:`decode` reads one request or a batch: each part is a :class:`Call`, or :class:`Refused` if it is invalid. A
server answers in this order::

    request = decode(body)                              Single, Batch, or Refused as a whole
    result = method(decode_params(call.params, Params))  whatever the method gives
    encode_result(call.request_id, result)              or encode_error(call.request_id, error)
    join_batch(answers)                                 for a batch

A notification has no answer, and :func:`join_batch` omits it. A result is a JSON value, or bytes that are already JSON:
a list of ten thousand skills is joined from parts encoded once.

Our choices where the text is open **[ours]**: every error with a known ``id`` carries it; positional parameters are
refused, except an empty list; a batch is bounded. Decoders of results require what the text promises, ignore unknown
fields, and refuse the rest with its place. Text for people is bounded and cleaned of hidden characters; manifests,
files and outputs are unchanged data. Spec: JSON-RPC 2.0 §4 to §6; SKP; specs §4. Trust: all input is hostile; only the
named errors are raised, or returned where a request is expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from skillwire import limits
from skillwire.errors import DecodeError, NotFoundError, SkillwireError, SourceLocation, ValidationError
from skillwire.protocols.skills_rpc.errors import error_object, raised_error
from skillwire.protocols.skills_rpc.messages import (
    METHODS,
    BlobContent,
    CreatedBlob,
    DescribedSkill,
    Encoding,
    FileContent,
    ListedSkill,
    OutputBlob,
    Params,
    RunError,
    RunResult,
    RunStatus,
    SkillPage,
)
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


P = TypeVar("P", bound=Params)
#: What a request is known by. Spec: JSON-RPC §4.
RequestId = str | int | float | None

_VERSION: Final = "2.0"
_WHERE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<where>.*)`)?", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
_EXPECTED: Final = re.compile(
    r"Expected `(?P<type>[^`]*)`(?P<length> of length)?(?: (?P<sign><=|>=) (?P<bound>[0-9]+))?"
    r"(?:, got `(?P<got>[^`]*)`)?"
)
_SIGNS: Final = {"<=": "at most", ">=": "at least"}
#: Type, as the decoder calls it → in words.
_TYPES: Final = {
    "int": "a whole number",
    "float": "a fraction",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_STEP: Final = re.compile(r"\.([a-z_]+)|\[(\d+)\]")
_SHOWN: Final = 80
_REQUEST: Final = (
    'A request is {"jsonrpc": "2.0", "id": 1, "method": "list_skills", "params": {}}, a batch a list of them.'
)


class Call(NamedTuple):
    """One request: a method and its parameters, by name or, which no method here takes, by position."""

    method: str
    params: Mapping[str, Any] | list[Any]
    request_id: RequestId = None
    is_notification: bool = False


class Refused(NamedTuple):
    """An invalid request and its error; ``request_id`` is None when unknown."""

    error: SkillwireError
    request_id: RequestId = None


class Single(NamedTuple):
    """One request."""

    item: Call | Refused


class Batch(NamedTuple):
    """Several requests, to be answered together and in any order. Spec: JSON-RPC §6."""

    items: tuple[Call | Refused, ...]


def decode(data: bytes, *, max_bytes: int = limits.RPC_REQUEST_BYTES) -> Single | Batch | Refused:
    """Return the requests in ``data``, of at most ``max_bytes``; :class:`Refused` if none can be answered."""
    try:
        document = load_json(data, max_bytes=max_bytes, source="request")
    except DecodeError as error:
        is_too_much = error.code in {"LIMIT_SIZE", "LIMIT_ENTRIES"}
        return Refused(_bad_request(error.message) if is_too_much else error)
    if not isinstance(document, list):
        return Single(_read(document))
    if not document:
        return Refused(_bad_request("a batch holds at least one request"))
    if len(document) > limits.RPC_BATCH:
        return Refused(_bad_request(f"a batch of {len(document)} requests, at most {limits.RPC_BATCH} are answered"))
    return Batch(tuple(_read(item) for item in document))


def params_type(method: str) -> type[Params]:
    """Return the parameters of ``method``. Raises NotFoundError (``RPC_METHOD``). Spec: JSON-RPC §5.1."""
    found = METHODS.get(method)
    if found is None:
        fix = f"The methods are {', '.join(METHODS)}."
        raise NotFoundError("RPC_METHOD", f"there is no method {ascii(method)[:_SHOWN]}", fix=fix)
    return found


def decode_params(params: Mapping[str, Any] | list[Any], kind: type[P]) -> P:
    """Return a call's parameters.

    Raises ValidationError (``RPC_PARAMS``) with the place and the method's parameters.
    """
    if isinstance(params, list):
        if params:
            raise _bad_params("parameters are given by name, in an object", "", kind)
        params = {}
    known = kind.__struct_fields__
    given = {name: value for name, value in params.items() if value is not None or name not in known}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error), kind) from None


def encode_result(request_id: RequestId, result: object) -> bytes:
    """Return the answer to a call; ``result`` is a JSON value, or JSON that is written already, as bytes."""
    written = result if isinstance(result, bytes) else msgspec.json.encode(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (msgspec.json.encode(request_id), written)


def encode_error(request_id: RequestId, error: SkillwireError) -> bytes:
    """Return the response for an error. Spec: JSON-RPC §5.1."""
    written = msgspec.json.encode(error_object(error))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (msgspec.json.encode(request_id), written)


def join_batch(answers: Iterable[bytes | None]) -> bytes | None:
    """Return the answer to a batch; None, which is no answer, when it held notifications alone. Spec: JSON-RPC §6."""
    written = [answer for answer in answers if answer is not None]
    return b"[%b]" % b",".join(written) if written else None


def encode_request(method: str, params: Params | Mapping[str, Any], request_id: RequestId) -> bytes:
    """Return the request that calls ``method``. Raises ValidationError (``RPC_PARAMS``)."""
    document = {"jsonrpc": _VERSION, "id": request_id, "method": method, "params": params}
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError("RPC_PARAMS", f"the parameters are no JSON: {error}") from None


def decode_answer(data: bytes, request_id: RequestId, *, source: str, max_bytes: int) -> Any:
    """Return the result in a response. Trust: hostile.

    Args:
        data: the body.
        request_id: of the call.
        source: the URL of the endpoint.
        max_bytes: size limit.

    Raises:
        SkillwireError: the endpoint's error; see :func:`~skillwire.protocols.skills_rpc.errors.raised_error`.
        DecodeError: invalid JSON. ValidationError: ``RPC_ANSWER`` for any other invalid response.
    """
    answer = load_json(data, max_bytes=max_bytes, source=source)
    if not isinstance(answer, dict) or answer.get("jsonrpc") != _VERSION:
        raise _bad_answer("no answer of JSON-RPC 2.0", source)
    error = answer.get("error")
    if (error is not None) == ("result" in answer) or (error is not None and not isinstance(error, dict)):
        raise _bad_answer("an answer with neither a result nor an error, or with both", source)
    given = answer.get("id")
    is_ours = given == request_id and not isinstance(given, bool)
    if not is_ours and not (error is not None and given is None):
        raise _bad_answer("an answer to another request", source)
    if error is not None:
        raise raised_error(error, source)
    return answer["result"]


def _read(document: object) -> Call | Refused:
    if not isinstance(document, dict):
        return Refused(_bad_request("a request is an object"))
    request_id = document.get("id")
    if isinstance(request_id, bool | dict | list):
        return Refused(_bad_request("an id is a text, a number or null", "/id"))
    if document.get("jsonrpc") != _VERSION:
        return Refused(_bad_request('jsonrpc is "2.0"', "/jsonrpc"), request_id)
    method = document.get("method")
    if not isinstance(method, str):
        return Refused(_bad_request("method is a text", "/method"), request_id)
    params = document.get("params", {})
    if not isinstance(params, dict | list):
        return Refused(_bad_request("params is an object", "/params"), request_id)
    return Call(method, params, request_id, is_notification="id" not in document)


def _bad_request(message: str, pointer: str = "") -> ValidationError:
    return ValidationError("RPC_REQUEST", message, place=SourceLocation(pointer) if pointer else None, fix=_REQUEST)


def _bad_answer(message: str, source: str) -> ValidationError:
    return ValidationError("RPC_ANSWER", f"{message} came", place=SourceLocation(source))


def _bad_params(message: str, pointer: str, kind: type[Params]) -> ValidationError:
    fields = msgspec.structs.fields(kind)
    takes = ", ".join(field.encode_name + ("*" if field.required else "") for field in fields)
    starred = " (* required)" if "*" in takes else " (all optional)"
    fix = f"It takes {takes}{starred}." if takes else "It takes no parameters."
    return ValidationError("RPC_PARAMS", message, place=SourceLocation(f"/params{pointer}"), fix=fix)


def _explain(message: str, kind: type[Params]) -> ValidationError:
    """Return the error for the decoder's message: the place, and what is allowed there."""
    match = _WHERE.fullmatch(message)
    what, where = (match["what"], match["where"] or "") if match else (message, "")
    pointer = _STEP.sub(lambda step: f"/{step[1] or step[2]}", where)
    if named := _UNKNOWN.fullmatch(what):
        name = ascii(named["name"])[1:-1][:_SHOWN]
        pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        return _bad_params(f"there is no parameter {name}", pointer, kind)
    if named := _MISSING.fullmatch(what):
        return _bad_params(f"{named['name']} is missing", f"{pointer}/{named['name']}", kind)
    name = pointer.rpartition("/")[2]
    choices = get_args(_annotation(kind, pointer))
    if what.startswith("Invalid enum value") and choices:
        return _bad_params(f"{name} is one of {', '.join(map(str, choices))}", pointer, kind)
    return _bad_params(f"{pointer.removeprefix('/') or 'params'} {_plain(what)}", pointer, kind)


def _plain(what: str) -> str:
    """Return the decoder's message in plain words: ``Expected `int` >= 1`` is about a whole number."""
    match = _EXPECTED.fullmatch(what)
    if match is None:
        return f"does not fit: {what[:1].lower()}{what[1:]}"
    names = [_TYPES.get(name.strip(), name.strip()) for name in match["type"].split("|") if name.strip() != "null"]
    expected = " or ".join(names)
    if match["bound"] is not None:
        unit = " characters" if match["bound"] != "1" else " character"
        expected += f" of {_SIGNS[match['sign']]} {match['bound']}{unit if match['length'] else ''}"
    return f"has to be {expected}" + (f", not {_TYPES.get(match['got'], match['got'])}" if match["got"] else "")


def _annotation(kind: type[Params], pointer: str) -> object:
    return get_type_hints(kind).get(pointer.removeprefix("/"), Literal[()])


T = TypeVar("T")

_TEXT_LENGTH: Final = 1000


class _Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result in its JSON form."""


class _Listed(_Wire, frozen=True, kw_only=True):
    name: str
    version: str
    description: str = ""
    namespace: str = ""
    kind: str = ""


class _Page(_Wire, frozen=True, kw_only=True):
    skills: list[_Listed]
    next_cursor: str | None = None


class _Skill(_Wire, frozen=True, kw_only=True):
    manifest: dict[str, Any]
    skill_md_frontmatter: dict[str, Any] | None = None
    skill_md_content: str | None = None


class _Described(_Wire, frozen=True, kw_only=True):
    skill: _Skill


class _File(_Wire, frozen=True, kw_only=True):
    content: str
    encoding: Encoding = "text"


class _Created(_Wire, frozen=True, kw_only=True):
    blob_id: str
    size_bytes: int


class _Blob(_Wire, frozen=True, kw_only=True):
    content: str
    size_bytes: int
    truncated: bool = False
    encoding: Encoding = "text"
    kind: str = ""


class _OutputBlob(_Wire, frozen=True, kw_only=True):
    blob_id: str
    kind: str = ""
    size_bytes: int = 0
    name: str = ""


class _Error(_Wire, frozen=True, kw_only=True):
    type: str
    message: str


class _Run(_Wire, frozen=True, kw_only=True):
    status: RunStatus
    run_id: str
    summary: str = ""
    output: Any | UnsetType = UNSET
    output_blobs: list[_OutputBlob | str] = []
    logs_preview: str = ""
    error: _Error | None = None


def encode_listed(skill: ListedSkill) -> bytes:
    """Return one skill of a list as JSON."""
    return msgspec.json.encode(_Listed(**skill._asdict()))


def encode_page(skills: bytes, next_cursor: str | None) -> bytes:
    """Return a page of ``skills``, which are written and joined already."""
    return b'{"skills":[%b],"next_cursor":%b}' % (skills, msgspec.json.encode(next_cursor))


def encode_described(skill: DescribedSkill) -> bytes:
    """Return a described skill as JSON; dates of TOML become texts."""
    wire = _Skill(manifest=skill.manifest, skill_md_frontmatter=skill.frontmatter, skill_md_content=skill.content)
    return msgspec.json.encode(_Described(skill=wire))


def encode_file(file: FileContent) -> bytes:
    """Return a file as JSON; ``encoding`` is given if it is not text."""
    return msgspec.json.encode(_File(content=file.content, encoding=file.encoding))


def encode_created(blob: CreatedBlob) -> bytes:
    """Return a new blob's facts as JSON."""
    return msgspec.json.encode(blob._asdict())


def encode_blob(blob: BlobContent) -> bytes:
    """Return a part of a blob as JSON; ``truncated`` is always given."""
    fields = {name: value for name, value in blob._asdict().items() if name != "kind" or value}
    if blob.encoding == "text":
        del fields["encoding"]
    return msgspec.json.encode(fields)


def encode_run(run: RunResult) -> bytes:
    """Return a run as JSON: ``output`` when it completed, ``error`` when it failed. Spec: specs §4."""
    wire = _Run(
        status=run.status,
        run_id=run.run_id,
        summary=run.summary,
        output=UNSET if run.status == "failed" else run.output,
        output_blobs=[_OutputBlob(**blob._asdict()) for blob in run.output_blobs],
        logs_preview=run.logs_preview,
        error=run.error and _Error(type=run.error.type, message=run.error.message),
    )
    return msgspec.json.encode(wire)


def decode_page(result: object, source: str) -> SkillPage:
    """Return the page of ``list_skills``; ``source`` is the endpoint's URL.

    All decoders raise ValidationError (``RPC_ANSWER``).
    """
    page = _convert(result, _Page, source)
    if len(page.skills) > limits.INDEX_ENTRIES:
        raise ValidationError("RPC_ANSWER", f"a page of {len(page.skills):,} skills came", place=SourceLocation(source))
    return SkillPage(tuple(_listed(one) for one in page.skills), page.next_cursor)


def decode_described(result: object, source: str) -> DescribedSkill:
    """Return the skill that ``describe_skill`` gave."""
    skill = _convert(result, _Described, source).skill
    return DescribedSkill(skill.manifest, skill.skill_md_frontmatter, skill.skill_md_content)


def decode_file(result: object, source: str) -> FileContent:
    """Return the file that ``read_skill_file`` gave."""
    file = _convert(result, _File, source)
    return FileContent(file.content, file.encoding)


def decode_created(result: object, source: str) -> CreatedBlob:
    """Return what ``create_blob`` gave."""
    blob = _convert(result, _Created, source)
    return CreatedBlob(_shown(blob.blob_id), blob.size_bytes)


def decode_blob(result: object, source: str) -> BlobContent:
    """Return what ``read_blob`` gave."""
    blob = _convert(result, _Blob, source)
    return BlobContent(blob.content, blob.size_bytes, blob.truncated, blob.encoding, _shown(blob.kind))


def decode_run(result: object, source: str) -> RunResult:
    """Return what ``execute_skill`` or ``run_code`` gave."""
    run = _convert(result, _Run, source)
    return RunResult(
        status=run.status,
        run_id=_shown(run.run_id),
        summary=_shown(run.summary),
        output=None if run.output is UNSET else run.output,
        output_blobs=tuple(_output_blob(one) for one in run.output_blobs),
        logs_preview=neutralise(run.logs_preview[: limits.SANDBOX_LOG_SHOWN_BYTES]),
        error=RunError(_shown(run.error.type), _shown(run.error.message)) if run.error else None,
    )


def decode_guide(result: object, source: str) -> str:
    """Return the text that ``load_skills_protocol_guide`` gave."""
    return _convert(result, _File, source).content


def _listed(one: _Listed) -> ListedSkill:
    description = neutralise(one.description)[: limits.DESCRIPTION_LENGTH]
    return ListedSkill(_shown(one.name), _shown(one.version), description, _shown(one.namespace), _shown(one.kind))


def _output_blob(one: _OutputBlob | str) -> OutputBlob:
    if isinstance(one, str):  # some servers give the ids alone
        return OutputBlob(_shown(one), "", 0)
    return OutputBlob(_shown(one.blob_id), _shown(one.kind), one.size_bytes, _shown(one.name))


def _convert(result: object, kind: type[T], source: str) -> T:
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        reason = neutralise(str(error))[:_TEXT_LENGTH]
        raise ValidationError(
            "RPC_ANSWER", f"not a result of this method: {reason}", place=SourceLocation(source)
        ) from None


def _shown(text: str) -> str:
    return neutralise(text[:_TEXT_LENGTH])
