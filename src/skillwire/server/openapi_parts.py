"""What the OpenAPI document of the server refers to: header fields, parameters, answers, ways to authenticate.

They are tables, so that a route (:mod:`skillwire.server.openapi_paths`) names them and says nothing twice.
"""

from __future__ import annotations

from typing import Any, Final

from skillwire import limits
from skillwire.registry.search import FACETS
from skillwire.server.auth.challenges import API_KEY_HEADER

Node = dict[str, Any]

JSON: Final = "application/json"
HTML: Final = "text/html"
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
NAME: Final = {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": int(limits.NAME_LENGTH)}


def reference(kind: str, name: str) -> Node:
    """Return a reference to a component, such as ``responses`` and ``NotFound``."""
    return {"$ref": f"#/components/{kind}/{name}"}


def closed(required: Node, optional: Node | None = None) -> Node:
    """Return the schema of an object that has these fields and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def listed(items: Node) -> Node:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def _field(meaning: str, schema: Node | None = None, *, required: bool = False) -> Node:
    return {"description": meaning, "schema": schema or _TEXT, "required": required}


HEADERS: Final[Node] = {
    "ETag": _field("Of these bytes; strong, except of pages.", required=True),
    "Cache-Control": _field("How long the answer may be kept, and by whom.", required=True),
    "Vary": _field("What the answer depends on."),
    "Content-Security-Policy": _field("Nothing of a skill is run in the place of this server.", required=True),
    "Accept-Ranges": _field("A part may be asked for.", {"const": "bytes"}, required=True),
    "Content-Range": _field("Which part it is, and of how many bytes.", required=True),
    "Allow": _field("The methods of this resource.", required=True),
    "WWW-Authenticate": _field("How to authenticate.", required=True),
    "Retry-After": _field("Seconds to wait before the next request.", _COUNT, required=True),
    "Pause": _field("As `Retry-After`; where waiting helps.", _COUNT),
    "Location": _field("Where the execution is followed.", required=True),
    "Preference-Applied": _field("`wait=N`, where `Prefer` asked for it."),
    "Webhook-Secret": _field("What signs the webhooks of this execution; where a `Callback-Url` was given."),
    "RateLimit-Limit": _field("Requests that may be made at once after a pause; where they are counted.", _COUNT),
    "RateLimit-Remaining": _field("How many of them are left.", _COUNT),
    "RateLimit-Reset": _field("Seconds until all of them are there again.", _COUNT),
}
_COUNTED: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def headers(*names: str) -> Node:
    """Return references to header fields; every answer may carry those that count requests."""
    fields = {"Pause": "Retry-After"}
    return {fields.get(name, name): reference("headers", name) for name in (*names, *_COUNTED)}


def problem(meaning: str, *fields: str, schema: str | tuple[str, ...] = "Problem") -> Node:
    """Return the description of an answer that tells an error; ``fields`` are the header fields beside the usual."""
    named = (schema,) if isinstance(schema, str) else schema
    found = [reference("schemas", name) for name in named]
    body = found[0] if len(found) == 1 else {"anyOf": found}
    return {"description": meaning, "headers": headers(*fields), "content": {JSON: {"schema": body}}}


_EITHER: Final = ("Problem", "SharingError")
RESPONSES: Final[Node] = {
    "NotModified": {"description": "The client has it already.", "headers": headers("ETag", "Cache-Control")},
    "Options": {"description": "The methods of this resource.", "headers": headers("Allow")},
    "BadQuery": problem("A parameter is beyond its bounds: `QUERY`, `CURSOR`."),
    "BadType": problem("There is no such capability type, or it is given twice.", schema="SharingError"),
    "AuthRequired": problem(
        "Nothing was shown where something is needed, or what was shown is not good. The details say which method is "
        "wanted, and where to begin.",
        "WWW-Authenticate",
        schema="SharingError",
    ),
    "Denied": problem("Who asks is known, and this was not opened to them.", schema="SharingError"),
    "StrayPage": problem(
        "As above; or the page behind the request is of another site, and shows no credential: `PERMISSION_DENIED`, "
        "reason `page_refused`.",
        schema="SharingError",
    ),
    "NotFound": problem("Nothing is here, or nothing that this caller may know of: `NOT_FOUND`."),
    "SkillNotFound": problem("As above: `SKILL_NOT_FOUND`.", schema="SharingError"),
    "Gone": problem("The output is not kept any more: `SKILL_NOT_FOUND`.", schema="SharingError"),
    "TooLarge": problem(
        f"The body is larger than {limits.EXECUTION_REQUEST_BYTES:,} bytes: `VALIDATION_ERROR`.", schema="SharingError"
    ),
    "NoJson": problem("The body is no JSON by its media type: `VALIDATION_ERROR`.", schema="SharingError"),
    "Invalid": problem(
        "The request is not what the skill takes, or its `Idempotency-Key` was used with another one: "
        "`VALIDATION_ERROR`. The details list what is wrong, each with `path`, `message`, `expected` and `actual`.",
        schema="SharingError",
    ),
    "TooManyExecutions": problem(
        "As above, or too many executions of the caller wait: `ENDPOINT_UNREACHABLE`, reason `too_many_executions`.",
        "Retry-After",
        schema=_EITHER,
    ),
    "NotRunning": problem(
        "As above, or the skill does not run here: `ENDPOINT_UNREACHABLE`, reason `not_granted` or `storage`.",
        "Pause",
        schema=_EITHER,
    ),
    "RequestTimeout": problem("The request took too long to arrive: `REQUEST_TIMEOUT`."),
    "UrlTooLong": problem(f"The URL is longer than {limits.URL_LENGTH} characters: `URL_TOO_LONG`."),
    "OutOfRange": problem("The range lies behind the end: `RANGE_UNSATISFIABLE`.", "Content-Range"),
    "TooMany": problem("Requests come too often: `TOO_MANY_REQUESTS`, `TOO_MANY_SIGNATURES`.", "Retry-After"),
    "HeadTooLarge": problem("The head of the request is too large: `HEAD_TOO_LARGE`."),
    "Failed": problem("The server failed, and its log says how: `INTERNAL`."),
    "Unavailable": problem(
        "The skills are still being loaded: `NOT_READY`. Or the authorization server does not answer.",
        "Retry-After",
        schema=_EITHER,
    ),
}
#: What any request may be answered with: status → answer.
COMMON: Final = {
    "401": "AuthRequired", "408": "RequestTimeout", "414": "UrlTooLong", "429": "TooMany", "431": "HeadTooLarge",
    "500": "Failed", "503": "Unavailable",
}  # fmt: skip


def _in_path(name: str, meaning: str, schema: Node, example: str) -> Node:
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": schema, "example": example}


def _in_query(name: str, meaning: str, schema: Node) -> Node:
    return {"name": name, "in": "query", "description": meaning, "schema": schema}


def _in_header(name: str, meaning: str) -> Node:
    return {"name": name, "in": "header", "description": meaning, "schema": _TEXT}


PARAMETERS: Final[Node] = {
    "skill": _in_path("skill", "The name of a skill.", NAME, "csv-profile"),
    "file": _in_path("file", "The path of a file of the skill; slashes in it stand as they are.", _TEXT, "SKILL.md"),
    "scope": _in_path(
        "scope",
        "A skill, a publisher or a scene.",
        {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
        "csv-profile",
    ),
    "archive": _in_path(
        "archive",
        "A skill and the ending of its artifact.",
        {"type": "string", "pattern": r"^[a-z0-9]+(-[a-z0-9]+)*\.(tar\.gz|zip)$"},
        "csv-profile.tar.gz",
    ),
    "artifact": _in_path(
        "artifact",
        "The digest of an artifact, in hexadecimal, and its ending.",
        {"type": "string", "pattern": r"^[0-9a-f]{64}\.(md|tar\.gz|zip)$"},
        f"{'0' * 64}.md",
    ),
    "execution": _in_path(
        "execution",
        "The id of an execution.",
        {"type": "string", "pattern": "^exec-(?:[0-9a-f]{12})?[0-9a-f]{32}$"},
        f"exec-{'0' * 44}",
    ),
    "blob": _in_path(
        "blob", "The id of a blob.", {"type": "string", "pattern": "^blob:[0-9a-f]{64}$"}, f"blob:{'0' * 64}"
    ),
    "asset": _in_path(
        "asset", "As a page names it.", {"type": "string", "pattern": r"^[A-Za-z0-9._-]+$"}, "style.0000.css"
    ),
    "type": _in_query("type", "Skills of this capability type alone.", reference("schemas", "CapabilityType")),
    "q": _in_query("q", "Words, in any order.", {"type": "string", "maxLength": int(limits.SEARCH_TEXT_LENGTH)}),
    "limit": _in_query(
        "limit",
        "Hits on a page.",
        {"type": "integer", "minimum": 1, "maximum": int(limits.SEARCH_HITS), "default": 20},
    ),
    "after": _in_query(
        "after",
        "`next` of the page before; any other is refused.",
        {"type": "string", "pattern": "^([A-Za-z0-9_-]{12,100})?$"},
    ),
    "facets": _in_query("facets", "`1` counts the values of facets among all hits.", _TEXT),
    **{facet: _in_query(facet, f"A `{facet}` of hits; any of several.", listed(_TEXT)) for facet in FACETS},
    "words": _in_query("q", "Words, in any order.", _TEXT),
    "If-None-Match": _in_header("If-None-Match", "The tags that the client holds."),
    "Prefer": _in_header(
        "Prefer", f"`wait=N`: answer when there is news, or after N seconds; at most {limits.EXECUTION_WAIT_SECONDS}."
    ),
    "Idempotency-Key": {
        **_in_header("Idempotency-Key", "The same request with the same key is the same execution."),
        "schema": {"type": "string", "pattern": f"^[ -~]{{1,{limits.IDEMPOTENCY_KEY_LENGTH}}}$"},
    },
    "Callback-Url": {
        **_in_header("Callback-Url", "Who is told of the end, by a signed webhook."),
        "schema": {"type": "string", "format": "uri"},
    },
    "Range": _in_header("Range", "One part, in bytes; what is malformed is passed over."),
    "If-Range": _in_header("If-Range", "The tag of what is going to be continued."),
}

SECURITY_SCHEMES: Final[Node] = {
    "ApiKey": {"type": "apiKey", "in": "header", "name": API_KEY_HEADER, "description": "Of `skillwire token create`."},
    "Bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or an access token of OAuth 2.0."},
    "Signature": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Signature",
        "description": "`KEYID:TIMESTAMP:HEX`: the request, signed with HMAC-SHA256. Each signature counts once.",
    },
}
