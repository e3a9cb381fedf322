"""The tables ``[executor]`` and ``[health]`` of ``skill.toml``, the URL of a call, and the title of a task.

An ``[executor]`` table runs with the operator's secrets and takes inputs from untrusted callers. So a placeholder is
allowed only in the path or the query, and its value stays one percent-encoded piece there: never empty in the path,
never a dot segment under repeated decoding. A header field may describe the request or the caller; fields that frame a
message, route it or claim an address are refused. A secret is written ``${NAME}`` and must be listed in
``[permissions]``, where a person who grants the skill reads it. ``[health]`` (ours; SDP §8.1) needs only the grant of
the skill: its function runs in the same sandbox, and its URL's origin counts as one of the permissions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote

from skillwire.errors import ValidationError
from skillwire.folder.fields import Fields, check_entrypoint, check_export
from skillwire.model.skill import HealthCheck
from skillwire.model.url import parse_url
from skillwire.trust.guarded_json import pointer_keys

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Those whose inputs go into the query, since they have no body.
BODILESS: Final = frozenset({"GET", "DELETE"})
BODIES: Final = ("json", "form")
#: The inputs of these types may fill a placeholder.
SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "blob"})

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_-]{1,64})\}")
_SECRET: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]{0,127})\}")
#: Fields that say what is wanted, who asks, or which version, account or region is meant.
_FIELD: Final = re.compile(
    r"accept|accept-language|authorization|content-language|prefer|user-agent|apikey|api-key"
    r"|x(?:-[a-z0-9]+)+"
    r"|[a-z0-9]+(?:-[a-z0-9]+)*-(?:account|beta|client|id|key|organization|project|region|tenant|token|version)"
)
#: Of those, the ones by which a proxy, a framework or a browser takes orders, or believes an address.
_ORDERS: Final = re.compile(
    r"(?:proxy|sec|access-control|cf|fastly|forwarded)-.*|(?:true|fastly|cf)-client-.*|x-forwarded(?:-.*)?"
    r"|x-http-method(?:-.*)?|x-method-override|x-original-.*|x-rewrite-.*|x-accel-.*|x-sendfile.*|x-arr-.*|x-envoy-.*"
    r"|x-real-ip|x-client-ip|x-cluster-client-ip|x-remote-.*|x-host|x-middleware-.*|x-amzn?-.*"
)
_VALUE: Final = re.compile(r"[!-~](?:[ -~]{0,1022}[!-~])?")
POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DECODINGS: Final = 4
TITLE_LENGTH: Final = 120
_TITLE_VALUE: Final = 40
_NO_VALUE: Final = "–"  # noqa: RUF001  # a dash, as in a table
_SHOWN: Final = 80


class Upstream(NamedTuple):
    """Where a call goes, and how."""

    url: str  # https, with ``{input}`` placeholders
    method: str = "POST"
    headers: Mapping[str, str] = {}  # with ``${NAME}`` for secrets
    body: Literal["json", "form"] = "json"  # the form of the inputs that are not in the URL
    result: str | None = None  # JSON Pointer to the output in the answer; the whole answer if empty


class CallUrl(NamedTuple):
    """The URL of one call, and the inputs that are not in it yet."""

    url: str
    rest: Mapping[str, Any]


def check_upstream_url(template: str) -> str:
    """Return an https URL with placeholders in path or query only. Raises ValidationError (``FIELD``, ``URL``)."""
    plain = _PLACEHOLDER.sub("0", template)
    if "{" in plain or "}" in plain:
        raise ValidationError("FIELD", "url has a brace that belongs to no placeholder such as {order_id}")
    url = parse_url(plain)
    if url.scheme != "https":
        raise ValidationError("FIELD", "url must be https")
    if "{" in "".join(template.split("/", 3)[:3]):
        raise ValidationError("FIELD", "url has a placeholder in its host; placeholders are allowed in path and query")
    path = plain.partition("?")[0].split("/", 3)
    if "#" in template or url.path != "/" + "".join(path[3:]):
        raise ValidationError("FIELD", "url has a fragment, or dots that lead elsewhere")
    return template


def check_title(template: str) -> str:
    """Return the title of a task, with inputs such as ``{order}``. Raises ValidationError (``FIELD``)."""
    if not template.strip() or len(template) > TITLE_LENGTH or not template.isprintable():
        raise ValidationError("FIELD", f"title is a text of one line, of 1 to {TITLE_LENGTH} characters")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", template)):
        fix = "Write each input as {order}, in a pair of braces with nothing but its name between."
        raise ValidationError("FIELD", "title has a brace that belongs to no input such as {order}", fix=fix)
    return template


def fill_title(template: str, inputs: Mapping[str, Any]) -> str:
    """Return the title of a task in one line, with its inputs, each shortened. Trust: inputs are hostile."""

    def value_of(found: re.Match[str]) -> str:
        value = inputs.get(found[1])
        text = (
            value if isinstance(value, str) else _NO_VALUE if value is None else json.dumps(value, ensure_ascii=False)
        )
        line = " ".join(text[:TITLE_LENGTH].split()) or _NO_VALUE
        return line if len(line) <= _TITLE_VALUE else f"{line[: _TITLE_VALUE - 1]}…"

    return _PLACEHOLDER.sub(value_of, template)


def check_header_name(name: str) -> str:
    """Return ``name`` if a skill may set this header field. Raises ValidationError (``FIELD``)."""
    lower = name.lower()
    if not _FIELD.fullmatch(lower) or _ORDERS.fullmatch(lower):
        raise ValidationError("FIELD", f"the header field {name[:_SHOWN]!a} is not one that may be set")
    return name


def check_header_value(value: str) -> str:
    """Return ``value`` if a header field can carry it unchanged. Raises ValidationError (``FIELD``)."""
    if not _VALUE.fullmatch(value) or "${" in _SECRET.sub("", value):
        raise ValidationError("FIELD", "a header field is printable ASCII, with secrets as ${EXAMPLE_API_KEY}")
    return value


def check_result(result: str) -> str:
    """Return ``result`` if it is a JSON Pointer. Raises ValidationError (``FIELD``)."""
    if not POINTER.fullmatch(result):
        raise ValidationError("FIELD", "result is a JSON Pointer such as /data/items")
    return result


def read_upstream(settings: Mapping[str, Any]) -> Upstream:
    """Return the ``[executor]`` table as a value; it was checked when the skill was loaded."""
    return Upstream(**{field: settings[field] for field in Upstream._fields if field in settings})


def upstream_origin(template: str) -> str:
    """Return the origin that a URL of an upstream leads to, whatever fills its placeholders."""
    return parse_url(_PLACEHOLDER.sub("0", template)).origin


def placeholders(text: str) -> list[str]:
    """Return the names of the inputs in a URL template."""
    return _PLACEHOLDER.findall(text)


def secret_names(value: str) -> list[str]:
    """Return the names of the secrets in a header field's value."""
    return _SECRET.findall(value)


def fill_secrets(value: str, secrets: Mapping[str, str]) -> str:
    """Return the value of a header field with its secrets in it."""
    return _SECRET.sub(lambda found: secrets[found[1]], value)


def fill(upstream: Upstream, inputs: Mapping[str, Any]) -> CallUrl:
    """Return the URL of a call, with the template's origin and path segments. Raises ValidationError."""
    given = {name: value for name, value in inputs.items() if value is not None}  # null counts as absent
    path, _, query = upstream.url.partition("?")
    named = set(placeholders(upstream.url))
    rest = {name: value for name, value in given.items() if name not in named}
    pairs = [_filled(pair, given) for pair in query.split("&") if pair and given.keys() >= set(placeholders(pair))]
    if upstream.method in BODILESS:
        pairs += query_pairs(rest)
        rest = {}
    filled = "/".join(_segment(segment, given) for segment in path.split("/"))
    url = f"{filled}?{'&'.join(pairs)}" if pairs else filled
    try:
        read = parse_url(url)
    except ValidationError as error:
        raise _unfit(None, "make no URL, or one that is too long") from error
    plain = parse_url(_PLACEHOLDER.sub("0", upstream.url))
    if read.origin != plain.origin or read.path.count("/") != plain.path.count("/"):  # whatever passed the rules above
        raise _unfit(None, "lead elsewhere")
    return CallUrl(url, rest)


def query_pairs(inputs: Mapping[str, Any]) -> list[str]:
    """Return inputs as ``name=value``, as in a query or a form; one for each item of a list of texts and numbers."""
    pairs = []
    for name, value in inputs.items():
        several = isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)
        for item in value if several else [value]:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))
            pairs.append(f"{_quoted(name, name)}={_quoted(name, text)}")
    return pairs


def point(document: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer. Raises LookupError when there is none. Spec: RFC 6901 §4."""
    for key in pointer_keys(pointer):
        if isinstance(document, list) and key.isascii() and key.isdigit():
            document = document[int(key)]
        elif isinstance(document, dict):
            document = document[key]
        else:
            raise LookupError(key)
    return document


def _filled(text: str, inputs: Mapping[str, Any]) -> str:
    def value_of(found: re.Match[str]) -> str:
        value = inputs.get(found[1])
        if value is None or isinstance(value, dict | list):
            raise _unfit(found[1], "is missing" if value is None else "is not one text or number")
        return _quoted(found[1], value if isinstance(value, str) else json.dumps(value))

    return _PLACEHOLDER.sub(value_of, text)


def _segment(segment: str, inputs: Mapping[str, Any]) -> str:
    """Return one segment of the path, which stays one under repeated decoding."""
    names = placeholders(segment)
    if not names:
        return segment
    if any(inputs.get(name) == "" for name in names):
        raise _unfit(names[0], "is empty")
    decoded = filled = _filled(segment, inputs)
    for _ in range(_DECODINGS):
        # Servlet containers take "..;x" for "..": what follows a semicolon is a parameter.
        parts = {part.partition(";")[0] for part in re.split(r"[/\\]", decoded)}
        if _CONTROL.search(decoded) or {".", "..", ""} & parts:
            raise _unfit(names[0], "cannot be part of a path")
        decoded = unquote(decoded, errors="replace")
    return filled


def _quoted(name: str, text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise _unfit(name, "is not Unicode text") from error


def _unfit(name: str | None, why: str) -> ValidationError:
    subject, path = ("the inputs", "/inputs") if name is None else (f"the input {name}", f"/inputs/{name}")
    return ValidationError("VALIDATION_ERROR", f"{subject} {why}", details={"errors": [{"path": path, "message": why}]})


#: Defaults of a health check, in seconds.
INTERVAL: Final = 30
TIMEOUT: Final = 5
#: The usual pause between two heartbeats, which report health to the network.
LEAST_INTERVAL: Final = 5
MOST_INTERVAL: Final = 3600
MOST_TIMEOUT: Final = 30
_PATH: Final = "https://example.com"  # prefix of a path, to parse it as a URL


def check_health_url(url: str) -> str:
    """Return ``url`` if it is https, or a path of the API. Raises ValidationError (``FIELD``, ``URL``)."""
    is_path = url.startswith("/")
    if url.startswith("//") or "#" in url or not (is_path or url.lower().startswith("https:")):
        raise ValidationError("FIELD", "url is https, or a path such as /healthz, without a fragment")
    read = parse_url(_PATH + url if is_path else url)
    if is_path and read.target != url:
        raise ValidationError("FIELD", "url has dots that lead elsewhere")
    return url


def read_health(fields: Fields) -> HealthCheck | None:
    """Return the table ``[health]`` as written; :func:`~skillwire.folder.manifest.load_action` adds the defaults."""
    table = fields.table("health")
    if "health" not in fields.values:
        return None
    return HealthCheck(
        url=table.checked("url", check_health_url) or "",
        entrypoint=table.checked("entrypoint", check_entrypoint) or "",
        export=table.checked("export", check_export) or "",
        interval=table.number("interval", least=LEAST_INTERVAL, most=MOST_INTERVAL) or INTERVAL,
        timeout=table.number("timeout", most=MOST_TIMEOUT) or TIMEOUT,
    )
