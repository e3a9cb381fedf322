"""``/openapi.json``: the route table as OpenAPI 3.1, and the parts that describe its rows.

Each row of the table describes its answers (:class:`~skillwire.server.routing.Operation`); this module adds what holds
for all rows: authentication, rate limits, errors, HEAD and preflights. Schemas are made from message types; components
without a reference are left out. The document contains nothing that is published, so every caller gets the same.

OpenAPI cannot describe a parameter with slashes, such as ``{file}``, nor the paths of Agent Skills behind the URL of an
index, which are answered to clients that take that URL for the site's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from starlette.routing import BaseRoute

from skillwire import limits
from skillwire.model.catalog import ORDERS
from skillwire.protocols.skill_sharing.validation import json_schema
from skillwire.registry.search import FACETS
from skillwire.server.auth.authentication import API_KEY_HEADER
from skillwire.server.routing import Answer, Route
from skillwire.version import VERSION

Node = dict[str, Any]

OPENAPI_PATH: Final = "/openapi.json"
JSON: Final = "application/json"
HTML: Final = "text/html"
TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
NAME: Final = {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": int(limits.NAME_LENGTH)}
#: The parameter of a request whose answer the client may hold already, and those of one that may want a part.
CONDITION: Final = "If-None-Match"
PART: Final = (CONDITION, "Range", "If-Range")
#: The header fields of what caches may keep.
KEPT: Final = ("ETag", "Cache-Control", "Vary")
_ABOUT: Final = (
    "Skills published over Agent Skills Discovery, the Skill Sharing Protocol and the Skills Protocol, and called over "
    "the latter two; beside them MCP, documents of other ecosystems, and the local network, where the operator turned "
    "them on. Pages for people who sign in are not described: each of their forms carries a token of the session. "
    "Requests without credentials get public access; credentials that are sent must be good, whatever is asked for."
)


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


def kept(schema: Any, media_type: str = JSON) -> dict[str, Answer | str]:
    """Return the answers of a document that clients may keep."""
    return {"200": Answer("The document.", {media_type: schema}, KEPT), "304": "NotModified"}


def in_parts(*media_types: str) -> dict[str, Answer | str]:
    """Return the answers of what clients may fetch in parts."""
    content: Node = {media_type: {} for media_type in media_types}
    fields = ("ETag", "Cache-Control", "Accept-Ranges", "Content-Security-Policy")
    return {
        "200": Answer("All of it.", content, fields),
        "206": Answer("A part of it.", content, (*fields, "Content-Range")),
        "304": "NotModified",
        "416": "OutOfRange",
    }


def problem(meaning: str, *fields: str, schema: str | tuple[str, ...] = "Problem") -> Answer:
    """Return an answer that reports an error; ``fields`` are the header fields beside the usual."""
    found = [reference("schemas", name) for name in ((schema,) if isinstance(schema, str) else schema)]
    return Answer(meaning, {JSON: found[0] if len(found) == 1 else {"anyOf": found}}, fields)


def document(routes: Iterable[BaseRoute]) -> Node:
    """Return the whole document of these rows; others than ours are left out."""
    schemas = _Schemas()
    found: Node = {}
    for route in routes:
        if not isinstance(route, Route):
            continue
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        if route.operations:
            names = next(iter(route.operations.values())).parameters
            described: Node = {
                "parameters": [reference("parameters", one) for one in names if PARAMETERS[one]["in"] == "path"]
            }
            for method, operation in route.operations.items():
                answers = {
                    status: reference("responses", answer) if isinstance(answer, str) else schemas.answer(answer)
                    for status, answer in sorted({**COMMON, **operation.answers}.items())
                }
                own = [reference("parameters", one) for one in operation.parameters if PARAMETERS[one]["in"] != "path"]
                asked = {"tags": [route.tag], "summary": operation.summary, "parameters": own}
                described[method] = {**asked, "responses": answers}
                if operation.body:
                    content = {media: {"schema": schemas.schema(kind)} for media, kind in operation.body.items()}
                    described[method]["requestBody"] = {"required": True, "content": content}
                if method == "get":
                    bodiless = {  # the answers to HEAD: their fields alone
                        status: {"description": f"As GET with {status}."}
                        if "$ref" in answer
                        else {name: value for name, value in answer.items() if name != "content"}
                        for status, answer in answers.items()
                    }
                    described["head"] = {**asked, "responses": bodiless}
                if route.answers_preflight and "options" not in described:
                    refusals = {status: answer for status, answer in answers.items() if status >= "4"}
                    preflight = {**refusals, "204": reference("responses", "Options")}
                    described["options"] = {"tags": [route.tag], "summary": operation.summary, "responses": preflight}
            found[path] = described
    components = {
        "schemas": schemas.named,
        "headers": HEADERS,
        "responses": {name: schemas.answer(answer) for name, answer in RESPONSES.items()},
        "parameters": PARAMETERS,
        "securitySchemes": SECURITY_SCHEMES,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "skillwire", "version": VERSION, "description": _ABOUT},
        "servers": [{"url": "./"}],  # from where the document is: the site may be mounted anywhere
        "security": [{}, *({name: []} for name in SECURITY_SCHEMES)],
        "paths": found,
        "components": _referred_to(found, components),
    }


class _Schemas:
    """The schemas of a document; those of message types are added as they are referred to."""

    def __init__(self) -> None:
        sharing = json.dumps(json_schema()["$defs"]).replace('"#/$defs/', '"#/components/schemas/')
        self.named: Node = {**json.loads(sharing), **_ERRORS}

    def schema(self, kind: Any) -> Any:
        """Return the schema of a message type, or of a name of ours; in a schema, types stand for theirs."""
        if isinstance(kind, str):
            return reference("schemas", kind)
        return self._resolved(kind)

    def _resolved(self, node: Any) -> Any:
        if isinstance(node, dict):
            return {name: self._resolved(inner) for name, inner in node.items()}
        if isinstance(node, list):
            return [self._resolved(inner) for inner in node]
        if not isinstance(node, type):
            return node
        (found,), named = msgspec.json.schema_components([node], ref_template="#/components/schemas/{name}")
        for name, schema in msgspec.json.decode(msgspec.json.encode(named)).items():  # defaults are lists in JSON
            if "description" in schema:
                schema["description"] = schema["description"].partition("\n")[0]
            self.named[name] = schema
        return found

    def answer(self, answer: Answer) -> Node:
        """Return the description of an answer; every one may carry the fields that count requests."""
        names = {"Pause": "Retry-After"}
        fields = {names.get(name, name): reference("headers", name) for name in (*answer.fields, *_COUNTED)}
        content = {media: {"schema": self.schema(kind)} for media, kind in answer.content.items()}
        return {"description": answer.meaning, "headers": fields, **({"content": content} if content else {})}


def _referred_to(paths: Node, components: Node) -> Node:
    """Return those of the components that the paths need, directly or not."""
    wanted, left = {f"#/components/securitySchemes/{name}" for name in SECURITY_SCHEMES}, [*_references(paths)]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            _, _, kind, one = name.split("/")
            left += _references(components[kind][one])
    return {
        kind: {name: node for name, node in named.items() if f"#/components/{kind}/{name}" in wanted}
        for kind, named in components.items()
    }


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(found := node.get("$ref"), str):
            yield found
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _field(meaning: str, schema: Node | None = None, *, required: bool = False) -> Node:
    return {"description": meaning, "schema": schema or TEXT, "required": required}


HEADERS: Final[Node] = {
    "ETag": _field("Of these bytes; strong, except of pages.", required=True),
    "Cache-Control": _field("How long the answer may be kept, and by whom.", required=True),
    "Vary": _field("What the answer depends on."),
    "Content-Security-Policy": _field("Nothing of a skill is run in the place of this server.", required=True),
    "Accept-Ranges": _field("A part may be asked for.", {"const": "bytes"}, required=True),
    "Content-Range": _field("Which part it is, and of how many bytes.", required=True),
    "Allow": _field("The methods of this resource.", required=True),
    "WWW-Authenticate": _field("How to authenticate.", required=True),
    "Retry-After": _field("Seconds to wait before the next request.", COUNT, required=True),
    "Pause": _field("As `Retry-After`; where waiting helps.", COUNT),
    "Location": _field("Where the new resource is.", required=True),
    "Preference-Applied": _field("`wait=N`, where `Prefer` requested it."),
    "Skillwire-Revision": _field("The last change; a request that sends it back is answered with it."),
    "Webhook-Secret": _field("What signs the webhooks of this execution; where a `Callback-Url` was given."),
    "RateLimit-Limit": _field("Requests that may be made at once after a pause; where they are counted.", COUNT),
    "RateLimit-Remaining": _field("How many of them are left.", COUNT),
    "RateLimit-Reset": _field("Seconds until all of them are there again.", COUNT),
}
_COUNTED: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_EITHER: Final = ("Problem", "SharingError")
RESPONSES: Final[dict[str, Answer]] = {
    "NotModified": Answer("The client has it already.", {}, ("ETag", "Cache-Control")),
    "Options": Answer("The methods of this resource.", {}, ("Allow",)),
    "BadQuery": problem("A parameter is beyond its bounds: `QUERY`, `CURSOR`."),
    "BadType": problem("There is no such capability type, or it is given twice.", schema="SharingError"),
    "AuthRequired": problem(
        "Credentials are missing or invalid. The details name the method that is wanted, and where to begin.",
        "WWW-Authenticate",
        schema="SharingError",
    ),
    "Denied": problem("The caller is authenticated and not permitted.", schema="SharingError"),
    "StrayPage": problem(
        "The caller is authenticated and not permitted. Or a page of another site made the request, without a "
        "credential: `PERMISSION_DENIED`, reason `page_refused`.",
        schema="SharingError",
    ),
    "NotFound": problem("Nothing is here, or nothing that this caller may know of: `NOT_FOUND`."),
    "SkillNotFound": problem(
        "Nothing is here, or nothing that this caller may know of: `SKILL_NOT_FOUND`.", schema="SharingError"
    ),
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
        "Requests come too often, or too many executions of the caller wait: `ENDPOINT_UNREACHABLE`, reason "
        "`too_many_executions`.",
        "Retry-After",
        schema=_EITHER,
    ),
    "NotRunning": problem(
        "The skills are still being loaded, or the skill does not run here: `ENDPOINT_UNREACHABLE`, reason "
        "`not_granted` or `storage`.",
        "Pause",
        schema=_EITHER,
    ),
    "RequestTimeout": problem("The request took too long to arrive: `REQUEST_TIMEOUT`."),
    "UrlTooLong": problem(f"The URL is longer than {limits.URL_LENGTH} characters: `URL_TOO_LONG`."),
    "OutOfRange": problem("The range lies behind the end: `RANGE_UNSATISFIABLE`.", "Content-Range"),
    "TooMany": problem("Requests come too often: `TOO_MANY_REQUESTS`, `TOO_MANY_SIGNATURES`.", "Retry-After"),
    "HeadTooLarge": problem("The head of the request is too large: `HEAD_TOO_LARGE`."),
    "Failed": problem("The server failed, and its log says how: `INTERNAL`."),
    "BadRegistryRequest": problem(
        "A parameter or the body does not fit: `QUERY`, `JSON_SYNTAX`, or the code of what is malformed."
    ),
    "RegistryDenied": problem("The caller's role or token does not allow it, or a moderator does not."),
    "RegistryNotFound": problem("It is not there, or nothing that this caller may know of."),
    "RegistryConflict": problem(
        "The name or version is taken: `NAMESPACE_TAKEN`, `VERSION_EXISTS`. Or the package takes no versions."
    ),
    "RegistryTooLarge": problem("The body is larger than anything that is needed here."),
    "RegistryCoding": problem("The body is compressed once more: `MEDIA_TYPE`."),
    "RegistrySkill": problem("The skill breaks rules: `SKILL_INVALID` with `findings`, or a code of archives."),
    "CenterQuery": problem("A parameter is beyond its bounds, or there is no such capability type.", schema=_EITHER),
    "CenterNotFound": problem("No skill that this caller may know of has this ID, or this version: `DISC_002`."),
    "CenterUnavailable": problem(
        "The caller may not use the skill, or it is in quarantine: `DISC_006`.", schema=_EITHER
    ),
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


def _parameter(
    place: str, meaning: str, schema: Node | str | None = None, *, name: str = "", example: str = ""
) -> Node:
    """Return a parameter; ``schema`` may be a pattern."""
    found: Node = {"name": name, "in": place, "description": meaning}
    found["schema"] = {**TEXT, "pattern": schema} if isinstance(schema, str) else schema or TEXT
    return {**found, "required": True, "example": example} if place == "path" else found


_PARAMETERS: Final[Node] = {
    "skill": _parameter("path", "The name of a skill.", NAME, example="csv-profile"),
    "center-skill": _parameter(
        "path", "The skillId of a skill.", "^[A-Za-z0-9._-]{1,128}$", name="skill", example="csv-profile"
    ),
    "download-version": _parameter("query", "The version, on a registry any.", name="version"),
    "file": _parameter("path", "The path of a file of the skill; slashes in it stand as they are.", example="SKILL.md"),
    "scope": _parameter(
        "path",
        "A skill, one version of it (`name@1.2.0`), a publisher or a scene.",
        "^[A-Za-z0-9._-]{1,128}$",
        example="csv-profile",
    ),
    "archive": _parameter(
        "path",
        "A skill and the ending of its artifact.",
        r"^[a-z0-9]+(-[a-z0-9]+)*\.(tar\.gz|zip)$",
        example="csv-profile.tar.gz",
    ),
    "artifact": _parameter(
        "path",
        "The digest of an artifact, in hexadecimal, and its ending.",
        r"^[0-9a-f]{64}\.(md|tar\.gz|zip)$",
        example=f"{'0' * 64}.md",
    ),
    "execution": _parameter(
        "path", "The id of an execution.", "^exec-(?:[0-9a-f]{12})?[0-9a-f]{32}$", example=f"exec-{'0' * 44}"
    ),
    "blob": _parameter("path", "The id of a blob.", "^blob:[0-9a-f]{64}$", example=f"blob:{'0' * 64}"),
    "asset": _parameter("path", "As a page names it.", r"^[A-Za-z0-9._-]+$", example="style.0000.css"),
    "namespace": _parameter("path", "A namespace.", NAME, example="acme"),
    "package": _parameter("path", "The name of a package in its namespace.", NAME, example="csv-profile"),
    "version": _parameter("path", "A version of Semantic Versioning.", example="1.2.0"),
    "account": _parameter("path", "An account.", example="ann"),
    "token": _parameter("path", "The ID of a token.", example="abcdefgh23456723"),
    "after-name": _parameter("query", "`next` of the page before.", name="after"),
    "after-entry": _parameter("query", "`next` of the page before.", "^[0-9]{0,15}$", name="after"),
    "rows": _parameter(
        "query",
        "Rows on a page.",
        {"type": "integer", "minimum": 1, "maximum": int(limits.REGISTRY_PAGE)},
        name="limit",
    ),
    "from": _parameter("query", "The older version.", example="1.1.0"),
    "to": _parameter("query", "The newer version.", example="1.2.0"),
    "package-version": _parameter("query", "The version, instead of the one in the skill.", name="version"),
    "package-name": _parameter("query", "The name that the skill must have.", name="name"),
    "upload": _parameter("path", "The ID of an upload.", "^[1-9][0-9]{0,11}-[0-9a-f]{64}$", example=f"1-{'0' * 64}"),
    "upload-number": _parameter("query", "The ID of the upload that holds the archive.", name="upload"),
    "dry_run": _parameter("query", "`1` or `true` checks the skill and stores nothing; `0` or `false` publishes it."),
    "slug": _parameter("path", "The name of a package.", NAME, example="csv-profile"),
    "hosted": _parameter("path", "A namespace and a name, with two hyphens between.", example="acme--csv-profile"),
    "page": _parameter("query", "`next_page` of the page before."),
    "after-id": _parameter("query", "The ID of the last row of the page before.", name="after"),
    "direction": _parameter("query", "`desc`, or `asc`.", {"enum": ["asc", "desc"]}, name="order"),
    "publisher": _parameter("query", "The namespace; that of the account by default.", name="namespace"),
    "times-as-text": _parameter(
        "header", "With any value, times are text (RFC 3339); without it, seconds since 1970.", name="Anthropic-Version"
    ),
    "source": _parameter("query", "`custom`, the only source."),
    "ticket": _parameter("path", "The ticket of a file.", example="J3k"),
    "hub-slug": _parameter("query", "The name of a package.", name="slug"),
    "owner": _parameter("query", "The namespace, where the name alone is ambiguous.", name="ownerHandle"),
    "hub-version": _parameter("query", "A version; the latest one by default.", name="version"),
    "hub-limit": _parameter("query", "Rows on a page.", {"type": "integer", "minimum": 1}, name="limit"),
    "tag": _parameter("query", "`latest`, the only tag."),
    "hash": _parameter("query", "The fingerprint of a skill's files, as the client makes it."),
    "mode": _parameter("query", "`exact` finds the skill of this name alone."),
    "cursor": _parameter("query", "`nextCursor` of the page before."),
    "prefix": _parameter("query", "Skills whose names begin so."),
    "path": _parameter("query", "The path of a file of the skill."),
    "type": _parameter("query", "Skills of this capability type alone.", reference("schemas", "CapabilityType")),
    "q": _parameter("query", "Words, in any order.", {**TEXT, "maxLength": int(limits.SEARCH_TEXT_LENGTH)}),
    "limit": _parameter(
        "query", "Hits on a page.", {"type": "integer", "minimum": 1, "maximum": int(limits.SEARCH_HITS), "default": 20}
    ),
    "after": _parameter("query", "`next` of the page before; any other is refused.", "^([A-Za-z0-9_-]{12,100})?$"),
    "facets": _parameter("query", "`1` counts the values of facets among all hits."),
    **{facet: _parameter("query", f"A `{facet}` of hits; any of several.", listed(TEXT)) for facet in FACETS},
    "words": _parameter("query", "Words, in any order.", name="q"),
    "order": _parameter("query", f"One of {', '.join(ORDERS)}, the last two on a registry; otherwise the best first."),
    "If-None-Match": _parameter("header", "The tags that the client holds."),
    "Prefer": _parameter(
        "header", f"`wait=N`: answer when there is news, or after N seconds; at most {limits.EXECUTION_WAIT_SECONDS}."
    ),
    "Idempotency-Key": _parameter(
        "header",
        "The same request with the same key is the same execution.",
        f"^[ -~]{{1,{limits.IDEMPOTENCY_KEY_LENGTH}}}$",
    ),
    "Callback-Url": _parameter("header", "The URL that gets a signed webhook at the end.", {**TEXT, "format": "uri"}),
    "Range": _parameter("header", "One part, in bytes; what is malformed is passed over."),
    "If-Range": _parameter("header", "The tag of what is going to be continued."),
}
PARAMETERS: Final[Node] = {key: {**one, "name": one["name"] or key} for key, one in _PARAMETERS.items()}

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

_RETRY: Final = {"retry": closed({"suggested_delay_ms": {"type": "number"}, "max_attempts": {"type": "number"}})}
_ERRORS: Final = {
    "Problem": {
        **closed({"error": closed({"code": TEXT, "message": TEXT, "details": {"type": "object"}}, _RETRY)}),
        "description": "An error of the server; `code` is one of its table of codes.",
    },
    "SharingError": {
        **closed({"error": closed({"code": TEXT, "message": TEXT}, {"details": {}, **_RETRY})}),
        "description": "An error in the unified form of Skill Sharing, with one of its seven codes.",
    },
}
