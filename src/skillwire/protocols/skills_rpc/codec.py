"""JSON-RPC 2.0 for both ends, and the results of the methods.

:func:`decode` reads one request or a batch: each part is a :class:`Call`, or :class:`Refused` if it is invalid. A
server answers in this order::

    request = decode(body)                              Call, Batch, or Refused as a whole
    result = method(decode_params(call.params, Params))  whatever the method gives
    encode_result(call.request_id, result)              or encode_error(call.request_id, error)
    join_batch(answers)                                 for a batch

A notification has no answer, and :func:`join_batch` omits it. A result is a JSON value, or bytes that are already JSON:
a list of ten thousand skills is joined from parts encoded once.

Our choices where the text is open **[extension]**: every error with a known ``id`` carries it; positional parameters
are refused, except an empty list; a batch is bounded. Decoders of results require the fields that the text promises,
ignore unknown ones, and refuse the rest with its place. Text for people is bounded and cleaned of hidden characters;
manifests, files and outputs are unchanged data. Spec: JSON-RPC 2.0 §4 to §6; SKP; specs §4. Trust: all input is
hostile; only the named errors are raised, or returned where a request is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from skillwire import limits
from skillwire.errors import DecodeError, NotFoundError, SkillwireError, SourceLocation, ValidationError
from skillwire.protocols.skills_rpc.errors import error_object, raised_error
from skillwire.protocols.skills_rpc.messages import (
    METHODS,
    BlobContent,
    CreatedBlob,
    DescribedSkill,
    FileContent,
    ListedSkill,
    OutputBlob,
    Params,
    RunResult,
    SkillPage,
)
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

P = TypeVar("P", bound=Params)
S = TypeVar("S", bound=msgspec.Struct)
#: The id of a request. Spec: JSON-RPC §4.
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
#: The decoder's name of a type → in words.
_TYPES: Final = {
    "int": "a whole number", "float": "a fraction", "str": "a text", "bool": "true or false", "object": "an object",
    "array": "a list", "null": "null",
}  # fmt: skip
_STEP: Final = re.compile(r"\.([a-z_]+)|\[(\d+)\]")
_SHOWN: Final = 80
_TEXT_LENGTH: Final = 1000
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


class Batch(NamedTuple):
    """Several requests, to be answered together and in any order. Spec: JSON-RPC §6."""

    items: tuple[Call | Refused, ...]


def decode(data: bytes, *, max_bytes: int = limits.RPC_REQUEST_BYTES) -> Call | Batch | Refused:
    """Return the requests in ``data``, of at most ``max_bytes``; :class:`Refused` if none can be answered."""
    try:
        document = load_json(data, max_bytes=max_bytes, source="request")
    except DecodeError as error:
        is_too_much = error.code in {"LIMIT_SIZE", "LIMIT_ENTRIES"}
        return Refused(_bad_request(error.message) if is_too_much else error)
    if not isinstance(document, list):
        return _read(document)
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
    """Return a call's parameters. Raises ValidationError (``RPC_PARAMS``), with place and the known parameters."""
    if isinstance(params, list):
        if params:
            raise _bad_params("parameters are given by name, in an object", "", kind)
        params = {}
    known = kind.__struct_fields__
    given = {name: _as_integer(value) for name, value in params.items() if value is not None or name not in known}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _bad_params(*explain_invalid(str(error), kind, "parameter"), kind) from None


def _as_integer(value: Any) -> Any:
    """Return a number without a fraction as a whole one: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def encode_result(request_id: RequestId, result: object) -> bytes:
    """Return the answer to a call; ``result`` is a JSON value, or encoded JSON as bytes."""
    written = result if isinstance(result, bytes) else msgspec.json.encode(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (msgspec.json.encode(request_id), written)


def encode_error(request_id: RequestId, error: SkillwireError) -> bytes:
    """Return the response for an error. Spec: JSON-RPC §5.1."""
    written = msgspec.json.encode(error_object(error))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (msgspec.json.encode(request_id), written)


def join_batch(answers: Iterable[bytes | None]) -> bytes | None:
    """Return the answer to a batch, or None for notifications alone. Spec: JSON-RPC §6."""
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
    """Return the result in the response of the endpoint ``source``. Trust: hostile.

    Raises the endpoint's error (:func:`~skillwire.protocols.skills_rpc.errors.raised_error`), DecodeError, and
    ValidationError (``RPC_ANSWER``).
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


def explain_invalid(message: str, kind: type[msgspec.Struct], noun: str = "field") -> tuple[str, str]:
    """Return the decoder's message about a document of ``kind`` in plain words, and the JSON pointer to the place."""
    match = _WHERE.fullmatch(message)
    what, where = (match["what"], match["where"] or "") if match else (message, "")
    pointer = _STEP.sub(lambda step: f"/{step[1] or step[2]}", where)
    if named := _UNKNOWN.fullmatch(what):
        name = ascii(named["name"])[1:-1][:_SHOWN]
        pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        return f"there is no {noun} {name}", pointer
    if named := _MISSING.fullmatch(what):
        return f"{named['name']} is missing", f"{pointer}/{named['name']}"
    choices = list(_choices(get_type_hints(kind).get(pointer.removeprefix("/"))))
    if what.startswith("Invalid enum value") and choices:
        return f"{pointer.rpartition('/')[2]} is one of {', '.join(map(str, choices))}", pointer
    return f"{pointer.removeprefix('/') or ('params' if noun == 'parameter' else 'it')} {_plain(what)}", pointer


def _choices(hint: object) -> Iterable[object]:
    """Return the values of an enum or literals, also where the type allows others beside them."""
    if isinstance(hint, type):
        return hint if issubclass(hint, Enum) and hint is not msgspec.UnsetType else ()
    parts = get_args(hint)
    return parts if get_origin(hint) is Literal else [one for part in parts for one in _choices(part)]


def _plain(what: str) -> str:
    """Return the decoder's message in plain words, such as "a whole number" for ``int``."""
    match = _EXPECTED.fullmatch(what)
    if match is None:
        return f"does not fit: {what[:1].lower()}{what[1:]}"
    names = [_TYPES.get(name.strip(), name.strip()) for name in match["type"].split("|") if name.strip() != "null"]
    expected = " or ".join(names)
    if match["bound"] is not None:
        unit = " characters" if match["bound"] != "1" else " character"
        expected += f" of {_SIGNS[match['sign']]} {match['bound']}{unit if match['length'] else ''}"
    return f"has to be {expected}" + (f", not {_TYPES.get(match['got'], match['got'])}" if match["got"] else "")


def encode_page(skills: bytes, next_cursor: str | None) -> bytes:
    """Return a page of encoded and joined ``skills``."""
    return b'{"skills":[%b],"next_cursor":%b}' % (skills, msgspec.json.encode(next_cursor))


def encode_described(skill: DescribedSkill) -> bytes:
    """Return a described skill as JSON; dates of TOML become texts."""
    return msgspec.json.encode({"skill": skill})


def encode_blob(blob: BlobContent) -> bytes:
    """Return a part of a blob as JSON; ``truncated`` is always given."""
    return msgspec.json.encode({**msgspec.to_builtins(blob), "truncated": blob.truncated})


def encode_run(run: RunResult) -> bytes:
    """Return a run as JSON: ``output`` when it completed, ``error`` when it failed. Spec: specs §4."""
    is_complete = run.status == "completed"
    fields = msgspec.structs.asdict(run).items()
    return msgspec.json.encode({name: value for name, value in fields if (is_complete if name == "output" else value)})


def decode_page(result: object, source: str) -> SkillPage:
    """Return the page of ``list_skills``; ``source`` is the endpoint's URL.

    All decoders raise ValidationError (``RPC_ANSWER``).
    """
    page = _convert(result, SkillPage, source)
    if len(page.skills) > limits.INDEX_ENTRIES:
        raise ValidationError("RPC_ANSWER", f"a page of {len(page.skills):,} skills came", place=SourceLocation(source))
    return SkillPage(tuple(_cleaned(one) for one in page.skills), page.next_cursor)


def decode_described(result: object, source: str) -> DescribedSkill:
    """Return the skill of ``describe_skill``."""
    return _convert(result, _Described, source).skill


def decode_file(result: object, source: str) -> FileContent:
    """Return the file of ``read_skill_file``."""
    return _convert(result, FileContent, source)


def decode_created(result: object, source: str) -> CreatedBlob:
    """Return the result of ``create_blob``."""
    return _cleaned(_convert(result, CreatedBlob, source))


def decode_blob(result: object, source: str) -> BlobContent:
    """Return the result of ``read_blob``."""
    blob = _convert(result, BlobContent, source)
    return replace(blob, kind=_shown(blob.kind))


def decode_run(result: object, source: str) -> RunResult:
    """Return the result of ``execute_skill`` or ``run_code``."""
    run = _convert(result, _Run, source)
    return RunResult(
        run.status,
        _shown(run.run_id),
        _shown(run.summary),
        run.output,  # some servers give the ids of blobs alone
        tuple(_cleaned(OutputBlob(blob) if isinstance(blob, str) else blob) for blob in run.output_blobs),
        neutralise(run.logs_preview[: limits.SANDBOX_LOG_SHOWN_BYTES]),
        _cleaned(run.error) if run.error else None,
    )


class _Described(msgspec.Struct):
    skill: DescribedSkill


class _Run(RunResult, frozen=True):
    output_blobs: tuple[OutputBlob | str, ...] = ()  # type: ignore[assignment]  # as other servers write it


def _cleaned(value: S) -> S:
    """Return ``value`` with its texts bounded and without hidden characters."""
    shown = {name: _shown(text) for name, text in msgspec.structs.asdict(value).items() if isinstance(text, str)}
    if isinstance(value, ListedSkill):
        shown["description"] = neutralise(value.description)[: limits.DESCRIPTION_LENGTH]
    return replace(value, **shown)


def _convert(result: object, kind: type[S], source: str) -> S:
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        message = f"not a result of this method: {neutralise(str(error))[:_TEXT_LENGTH]}"
        raise ValidationError("RPC_ANSWER", message, place=SourceLocation(source)) from None


def _shown(text: str) -> str:
    return neutralise(text[:_TEXT_LENGTH])
