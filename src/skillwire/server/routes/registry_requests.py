"""What the routes of the registry's API share: their rows, the caller, request bodies, pages, and answers with tags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from skillwire import limits
from skillwire.errors import (
    ConflictError,
    DecodeError,
    NotFoundError,
    SkillwireError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS, JSON
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.protocols.skills_rpc.codec import explain_invalid
from skillwire.registry.accounts import ADMIN, PUBLISH, actor_for, require_account
from skillwire.server.http import read_pairs
from skillwire.server.openapi import CONDITION, PARAMETERS, kept
from skillwire.server.problems import READ, Problem
from skillwire.server.responses import CachedResponse, json_response
from skillwire.server.routing import Answer, Operation, Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp

    from skillwire.model.access import Principal
    from skillwire.model.package import Package, PackageName
    from skillwire.registry.accounts import Actor
    from skillwire.registry.packages import Registry
    from skillwire.server.routing import Handler, RequestContext

#: The path of the API, and the media types of archives.
API: Final = "/api/registry"
ARCHIVES: Final = ("application/gzip", "application/zip")
T = TypeVar("T", bound=msgspec.Struct)
_PARAMETERS: Final = 8
#: What a client waits for that reads what it has just changed. Spec: RFC 7240 §4.3.
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=([0-9]{1,3})\b")
_LONGEST_WAIT: Final = 5
_FLAGS: Final = {"0": False, "1": True, "false": False, "true": True}
_DIGITS: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a request has at most {limits.REGISTRY_REQUEST_BYTES:,} bytes")
REFUSALS: Final = {"400": "BadRegistryRequest", "403": "RegistryDenied", "404": "RegistryNotFound"}
CHANGE_REFUSALS: Final = {**REFUSALS, "409": "RegistryConflict", "413": "RegistryTooLarge"}


_STATUSES: Final = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (ValidationError, 422),
    (TrustError, 422),
    (DecodeError, 400),
    (UsageError, 400),
)
_STATUS_OF_CODE: Final = {
    "AUTH_REQUIRED": 401,
    "PERMISSION_DENIED": 403,
    "QUARANTINED": 403,
    "YANKED": 404,
    "ARCHIVE_SIZE": 413,
    "DIGEST_FORM": 400,
    "UPLOADS_FULL": 429,
}
_FIELDS_OF_CODE: Final = {
    "AUTH_REQUIRED": {"WWW-Authenticate": 'Bearer realm="skillwire"'},
    "UPLOADS_FULL": {"Retry-After": str(int(limits.REGISTRY_UPLOADS_FULL_SECONDS))},
}


def registry_problem(error: SkillwireError) -> Problem:
    """Return the response that reports ``error`` of a use case of the registry."""
    status = _STATUS_OF_CODE.get(error.code) or next((one for kind, one in _STATUSES if isinstance(error, kind)), None)
    if status is None:
        raise error
    fields = _FIELDS_OF_CODE.get(error.code, {})
    details = {**error.details, "fix": error.diagnostics().fix}
    return Problem(status, error.code, error.message, details, fields)


class Method(NamedTuple):
    """A method of a row: its handler, and its description without the parameters of the path."""

    handler: Handler
    operation: Operation


def summary_of(handler: Handler) -> str:
    """Return what the description of an API says of a handler, from the first line of its docstring."""
    line = (handler.__doc__ or "").partition("\n")[0].removeprefix("Answer ").removesuffix(".")
    return f"{line[:1].upper()}{line[1:]}"


def reads(handler: Handler, kind: Any, *parameters: str) -> Method:
    """Return a GET of a document that clients may keep."""
    return Method(handler, Operation(summary_of(handler), {**kept(kind), **REFUSALS}, (*parameters, CONDITION)))


def changes(handler: Handler, kind: Any, body: Any = None, *, status: int = 200) -> Method:
    """Return a method that changes something, and answers with a document, or with nothing (204)."""
    fields = ("Cache-Control", "Skillwire-Revision") if kind else ("Skillwire-Revision",)
    answer = Answer("The document.", {JSON: kind}, fields) if kind else Answer("Done.", {}, fields)
    answers: dict[str, Answer | str] = {str(status if kind else 204): answer, **CHANGE_REFUSALS}
    return Method(handler, Operation(summary_of(handler), answers, (), {JSON: body} if body else {}))


def row(path: str, *, base: str = API, authenticates: bool = True, **methods: Method) -> Route:
    """Return a row of an API at ``base``; each method has its handler and its description.

    A method of the registry's own API that takes parameters refuses others, since a misspelt ``dry_run`` would publish.
    """
    known = {name: _query_names(one.operation) if base == API else [] for name, one in methods.items()}

    async def handle(context: RequestContext) -> ASGIApp | None:
        name = "GET" if context.method == "HEAD" else context.method
        if known[name]:
            _check_query(context, known[name])
        response = await methods[name].handler(context)
        if context.method not in READ:
            await context.stamp_change()
            if wait := _WAIT.search(context.fields(b"prefer").get(b"prefer", "")):
                await context.follow_changes(min(int(wait[1]), _LONGEST_WAIT))
        return response

    named = tuple(re.findall(r"\{(\w+)\}", path))
    described = {
        name.lower(): one.operation._replace(parameters=(*named, *one.operation.parameters))
        for name, one in methods.items()
    }
    every = (*methods, "HEAD") if "GET" in methods else tuple(methods)
    return Route(
        f"{base}{path}", handle, "service", methods=every, authenticates=authenticates, loads=False, describes=described
    )


def principal_of(context: RequestContext) -> Principal:
    """Return the caller."""
    return context.principal or ANONYMOUS


def actor_of(context: RequestContext) -> Actor:
    """Return the caller as one who may change things."""
    return actor_for(context.principal, context.address, context.ids.request_id)


def publisher_of(context: RequestContext) -> Actor:
    """Return the caller. Raises TrustError for one that may publish nowhere, before its body is read."""
    actor = actor_of(context)
    require_account(actor)
    if actor.scopes.isdisjoint({PUBLISH, ADMIN}):
        message = "publishing needs the scope publish, which the token does not allow"
        raise TrustError("PERMISSION_DENIED", message, details={"scope": PUBLISH})
    return actor


async def find_package(registry: Registry, context: RequestContext, name: PackageName) -> Package:
    """Return a package that the caller may know of; only a read finds it by an earlier name. Raises NotFoundError."""
    return await registry.package(principal_of(context), name, redirects=context.method in READ)


async def read_request(context: RequestContext, kind: type[T]) -> T:
    """Return the document in the body. Raises DecodeError (``JSON_SYNTAX``), UsageError (``QUERY``), ProblemError."""
    return decode_request(await context.body(limits.REGISTRY_REQUEST_BYTES, _TOO_LARGE), kind)


def decode_request(body: bytes, kind: type[T]) -> T:
    """Return the document in a body. Raises DecodeError (``JSON_SYNTAX``), UsageError (``QUERY``)."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        what, pointer = explain_invalid(str(error), kind)
        details = {"place": pointer} if pointer else {}
        fix = f"Correct it; its fields are {', '.join(field.encode_name for field in msgspec.structs.fields(kind))}."
        raise UsageError("QUERY", f"the request body is invalid: {what}", fix=fix, details=details) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last for deep nesting
        what = f"is no JSON: {error}" if body else "is empty"
        raise DecodeError("JSON_SYNTAX", f"the request body {what}", fix="Send one JSON object.") from error


def read_query(context: RequestContext) -> Mapping[str, str]:
    """Return the parameters of the query, of equal ones the last. Raises UsageError (``QUERY``)."""
    return dict(read_pairs(context.scope["query_string"], _PARAMETERS))


def _query_names(operation: Operation) -> list[str]:
    described = [PARAMETERS[one] for one in operation.parameters]
    return [one["name"] for one in described if one["in"] == "query"]


def _check_query(context: RequestContext, known: Sequence[str]) -> None:
    if unknown := read_query(context).keys() - known:
        what, fix = ascii(min(unknown))[:80], f"Correct it; the parameters are {', '.join(known)}."
        raise UsageError("QUERY", f"the query has the unknown parameter {what}", fix=fix)


def read_flag(context: RequestContext, name: str) -> bool:
    """Return a parameter that is on or off; off where it is absent. Raises UsageError (``QUERY``)."""
    text = read_query(context).get(name, "0")
    if text not in _FLAGS:
        fix = f"Write {name}=1 or {name}=0, or leave it out."
        raise UsageError("QUERY", f"{name} is {', '.join(_FLAGS)}, and not {ascii(text)[:80]}", fix=fix)
    return _FLAGS[text]


def read_page(context: RequestContext) -> tuple[str, int]:
    """Return ``after`` and ``limit`` of a list. Raises UsageError (``QUERY``)."""
    query = read_query(context)
    text = query.get("limit", str(int(limits.REGISTRY_PAGE)))
    if not (_DIGITS.fullmatch(text) and 1 <= int(text) <= limits.REGISTRY_PAGE):
        raise UsageError("QUERY", f"limit is a whole number from 1 to {limits.REGISTRY_PAGE}")
    return query.get("after", ""), int(text)


def moved(context: RequestContext, path: str, name: str) -> Problem:
    """Return the redirect to ``path``, from the root of the site, with the request's query."""
    query = context.scope["query_string"].decode("latin-1")
    location = f"{context.root}{path}{'?' * bool(query)}{query}"
    fix = "Use the new name."
    return Problem(308, "RENAMED", f"it is called {name} now", {"name": name, "fix": fix}, {"Location": location})


def answer(document: Any, status: int = 200, **fields: str) -> ASGIApp:
    """Return the answer to a change, which no cache keeps."""
    return json_response(msgspec.json.encode(document), status, **fields)


def tagged_answer(document: Any, vary: str = IDENTITY_FIELDS) -> ASGIApp:
    """Return an answer with a strong tag; caches may keep that of an anonymous client for a while."""
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return CachedResponse(body, JSON, CachePolicy.BRIEF, vary=vary)
