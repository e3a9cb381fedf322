"""Bytes to indexes and descriptors, and the rules for descriptors beyond the schema.

Decoding is strict about a document and lenient about an index's entries: an invalid one is skipped and reported. An id
that occurs twice invalidates the whole index, because either entry could be meant.

A descriptor is hostile: it directs our requests and credentials, and contains schemas that we apply. These rules are
ours unless a clause is named:

- URLs are valid, lead where the address policy allows, and contain no placeholder but ``{execution_id}``, followed by
  nothing that leaves its path. Status and result have the invocation's origin: a token goes to one origin only.
- A nested schema is valid, refers to nothing outside of itself, and has no pattern that could take exponential time in
  a backtracking engine.
- Numbers are plausible, input names are unique, a default fits its schema.

The descriptor's size is bounded, and the checks are linear in it. Spec: SSP §3, §4, §6; SSB §5; specs §2. Trust:
hostile; only ``DecodeError`` and ``ValidationError`` are raised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.skill import Finding, is_sharing_id, is_version, major
from skillwire.model.url import Url, parse_url, reached_from, resolve_url
from skillwire.protocols.skill_sharing.messages import (
    PROTOCOL_VERSION,
    IndexProvider,
    InvocationEndpoint,
    SkillDescriptor,
    StatedDescriptor,
    StatedEntry,
)
from skillwire.protocols.skill_sharing.validation import (
    Violation,
    convert,
    find_unsafe_keywords,
    invalid,
    judge_default,
    parse,
    shown,
    validate,
)
from skillwire.trust.address import AddressPolicy, is_local_host
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise


class VersionRule(NamedTuple):
    """Whether a consumer reads a document of a major version in this relation to its own."""

    document: str
    compatible: bool
    meaning: str


#: How the document's MAJOR is, beside the consumer's. Spec: SSP §6.3.
VERSION_RULES: Final[dict[int, VersionRule]] = {
    1: VersionRule("newer", False, "A consumer cannot read a newer major version."),
    0: VersionRule("same", True, "Minor and patch versions only add."),
    -1: VersionRule("older", True, "A consumer reads older major versions."),
}


def check_version(version: str, *, consumer: str = PROTOCOL_VERSION, place: SourceLocation | None = None) -> None:
    """Check that a client of protocol version ``consumer`` can read a document of ``version``.

    Raises ValidationError: ``VERSION_INCOMPATIBLE``, or ``VALIDATION_ERROR`` for an invalid version.
    """
    if not is_version(version):
        raise ValidationError("VALIDATION_ERROR", f"not a version: {ascii(version)[:80]}", place=place)
    theirs, ours = major(version), major(consumer)
    rule = VERSION_RULES[(theirs > ours) - (theirs < ours)]
    if not rule.compatible:
        message = f"Protocol version {version} is not compatible with consumer version {consumer}"
        supported = {"supported_major": ours, "supported_range": f"<{ours + 1}.0.0"}
        details = {"descriptor_version": version, "consumer_version": consumer, **supported}
        raise ValidationError("VERSION_INCOMPATIBLE", message, place=place, details=details)


#: What a template may hold. Spec: SSP §5.5.
EXECUTION_PLACEHOLDER: Final = "{execution_id}"
LONGEST_PAUSE_MS: Final = 24 * 3600 * 1000
#: A week, since people do what is asked of them when they come to it. The text bounds neither.
LONGEST_TIMEOUT_MS: Final = 7 * LONGEST_PAUSE_MS
MOST_ATTEMPTS: Final = 20
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
#: Header fields that belong to the connection or to the browser's own credentials.
_TAKEN_FIELDS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "cookie", "te", "upgrade", "expect", "content-type"}
)


def find_violations(
    descriptor: SkillDescriptor, check_url: Callable[[Url], None] = lambda _: None
) -> Iterator[Violation]:
    """Yield every rule that a descriptor breaks; ``check_url`` raises for a URL that leads where it must not."""
    if not is_sharing_id(descriptor.id.lower()):
        yield Violation("/id", "must be provider/skill or com.example.skill-v1", "an id", shown(descriptor.id))
    yield from _check_endpoint(descriptor.endpoint, check_url)
    auth = descriptor.auth
    if auth.header is not UNSET and (not _TOKEN.fullmatch(auth.header) or auth.header.lower() in _TAKEN_FIELDS):
        message = "must name a header field that is free"
        yield Violation("/auth/header", message, "such as X-API-Key", shown(auth.header))
    for field in ("authorization_url", "token_url") if auth.oauth2 else ():
        url = _read(text := getattr(auth.oauth2, field), check_url)
        if isinstance(url, str):
            yield Violation(f"/auth/oauth2/{field}", url, "a URL that may be called", shown(text))
    for position, parameter in enumerate(auth.custom.parameters if auth.custom else ()):
        yield from find_unsafe_keywords(parameter.schema or {}, f"/auth/custom/parameters/{position}/schema")
    names: set[str] = set()
    for position, parameter in enumerate(descriptor.inputs):
        path = f"/inputs/{position}"
        if parameter.name in names:
            yield Violation(f"{path}/name", "is the name of two inputs", "another name", shown(parameter.name))
        names.add(parameter.name)
        dangers = list(find_unsafe_keywords(parameter.schema or {}, f"{path}/schema"))
        yield from dangers
        if not dangers and parameter.has_default:
            yield from judge_default(parameter, path)
    yield from find_unsafe_keywords(descriptor.output.schema or {}, "/output/schema")


def _check_endpoint(endpoint: InvocationEndpoint, check_url: Callable[[Url], None]) -> Iterator[Violation]:
    url = _read(endpoint.url, check_url)
    if isinstance(url, str):
        yield Violation("/endpoint/url", url, "a URL that may be called", shown(endpoint.url))
    for field in ("status_url", "result_url"):
        template = getattr(endpoint, field)
        if template is UNSET:
            continue
        why = _template_flaw(template, check_url)
        filled = template.replace(EXECUTION_PLACEHOLDER, "0")
        if why is None and not isinstance(url, str) and parse_url(filled).origin != url.origin:
            why = "must have the origin of url: credentials are for that one alone"
        if why is not None:
            yield Violation(f"/endpoint/{field}", why, "a URL with {execution_id} last", shown(template))
    retry = endpoint.retry or None
    for path, message, number, least, most in (
        ("timeout_ms", "must be 1 ms to 7 days", endpoint.timeout_ms, 1, LONGEST_TIMEOUT_MS),
        ("retry/max_attempts", "must be a small whole number", retry and retry.max_attempts, 0, MOST_ATTEMPTS),
        ("retry/backoff_ms", "must be 0 ms to 24 h", retry and retry.backoff_ms, 0, LONGEST_PAUSE_MS),
    ):
        if not isinstance(number, int | float):
            continue
        is_fraction = path == "retry/max_attempts" and math.isfinite(number) and number != int(number)
        if is_fraction or not (math.isfinite(number) and least <= number <= most):
            yield Violation(f"/endpoint/{path}", message, f"{least} to {most}", number)


def _read(text: str, check_url: Callable[[Url], None]) -> Url | str:
    """Return the URL, or why it must not be called."""
    try:
        url = parse_url(text)
        check_url(url)
    except SkillwireError as error:
        return error.message
    return url


def _template_flaw(template: str, check_url: Callable[[Url], None]) -> str | None:
    head, _, tail = template.partition(EXECUTION_PLACEHOLDER)
    if EXECUTION_PLACEHOLDER in tail or re.search(r"[{}]", head + tail):
        return "may hold {execution_id} once and no other placeholder"
    if not head.rstrip("/").count("/") > 1:
        return "must not have its placeholder in the host"
    if any(part in {".", ".."} for part in re.split(r"[/\\]|%2f|%5c", (head + tail).lower().replace("%2e", "."))):
        return "must not climb out of its path"
    url = _read(template.replace(EXECUTION_PLACEHOLDER, "0"), check_url)
    return url if isinstance(url, str) else None


def execution_url(template: str, execution_id: str) -> str:
    """Return the URL of one execution; without a placeholder the id is put behind. Spec: SSP §5.5; specs §2."""
    name = quote(execution_id, safe="")
    if EXECUTION_PLACEHOLDER in template:
        return template.replace(EXECUTION_PLACEHOLDER, name)
    return f"{template.rstrip('/')}/{name}"


_RETRY: Final = {"max_attempts": 0, "backoff_ms": 0}


class SharingIndex(NamedTuple):
    """A decoded index: its publisher, valid entries by id, and findings about the rest."""

    provider: IndexProvider | None
    entries: Mapping[str, StatedEntry]
    findings: tuple[Finding, ...] = ()


def decode_index(
    data: bytes, index_url: str, *, addresses: AddressPolicy | None = None, is_registry: bool = False
) -> SharingIndex:
    """Return a Skill Index, or a list of entries as a registry answers, with absolute descriptor URLs.

    ``addresses`` allow hosts of descriptors; by default that of ``index_url`` also. ``is_registry``: skills of other
    domains are expected. Raises DecodeError, ValidationError (``VALIDATION_ERROR``, ``VERSION_INCOMPATIBLE``,
    ``INDEX_ENTRIES``, ``ID_DUPLICATE``).
    """
    document = load_json(data, max_bytes=limits.INDEX_BYTES, source=index_url)
    base = parse_url(index_url)
    is_list = isinstance(document, list)
    items: object = document
    if not is_list:
        _check_protocol(document, index_url)
        convert({**document, "skills": []} if isinstance(document, dict) else document, "SkillIndex", source=index_url)
        items = document.get("skills") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise invalid("SkillIndex", [Violation("/skills", "must be of type array", "array")], index_url)
    if len(items) > limits.INDEX_ENTRIES:
        message = f"{len(items):,} entries, at most {limits.INDEX_ENTRIES:,} are read"
        raise ValidationError("INDEX_ENTRIES", message, place=SourceLocation(index_url))
    reader = _EntryReader(base, addresses or AddressPolicy().naming(base), is_registry=is_registry or is_list)
    entries: dict[str, StatedEntry] = {}
    ids: set[str] = set()  # of skipped entries, too
    for position, item in enumerate(items):
        place = SourceLocation(f"{index_url}#{'' if is_list else '/skills'}/{position}")
        identifier = item.get("id") if isinstance(item, dict) else None
        if isinstance(identifier, str):
            if identifier in ids:
                message = f"the index lists the id {ascii(identifier)[:80]} twice"
                raise ValidationError("ID_DUPLICATE", message, place=place)
            ids.add(identifier)
        if (entry := reader.read(item, place)) is not None:
            entries[entry.id] = entry
    return SharingIndex(
        msgspec.convert(document["provider"], IndexProvider) if isinstance(document, dict) else None,
        entries,
        tuple(reader.findings),
    )


def decode_descriptor(
    data: bytes,
    url: str,
    *,
    addresses: AddressPolicy | None = None,
    expected_id: str | None = None,
    is_own: bool = False,
) -> SkillDescriptor:
    """Return the descriptor in ``data``, fully checked; ``expected_id`` is that of the index.

    ``addresses`` allow hosts of its URLs; by default that of ``url`` also. A descriptor that ``is_own`` may name every
    host, since a server does not call it. Raises DecodeError, ValidationError (``VERSION_INCOMPATIBLE``,
    ``VALIDATION_ERROR``, ``DESCRIPTOR`` with every violation in ``details``, ``ID_DIFFERS``, ``DIGEST_FORM``).
    """
    document = load_json(data, max_bytes=limits.DESCRIPTOR_BYTES, source=url)
    _check_protocol(document, url)
    match document:
        case {"endpoint": {"retry": dict(retry), **endpoint}, **rest}:  # the blueprint lets either field be absent
            document = {**rest, "endpoint": {**endpoint, "retry": {**_RETRY, **retry}}}
    base = parse_url(url)
    descriptor = _reached(parse(document, source=url), base)
    policy = addresses or AddressPolicy().naming(base)
    violations = list(find_violations(descriptor) if is_own else find_violations(descriptor, policy.check_url))
    if violations:
        first, more = violations[0], f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise ValidationError(
            "DESCRIPTOR",
            f"{first.path} {first.message}{more}",
            place=SourceLocation(f"{url}#{first.path}"),
            details={"errors": [violation._asdict() for violation in violations]},
        )
    if expected_id is not None and descriptor.id != expected_id:
        message = f"the index has {expected_id!r}, the descriptor {descriptor.id!r}"
        raise ValidationError("ID_DIFFERS", message, place=SourceLocation(f"{url}#/id"))
    digest = document.get("digest", msgspec.UNSET) if isinstance(document, dict) else msgspec.UNSET
    fields = msgspec.structs.asdict(descriptor)
    fields |= {"name": neutralise(descriptor.name), "description": neutralise(descriptor.description)}
    return StatedDescriptor(**fields, digest=digest if digest is msgspec.UNSET else str(Digest.parse(digest)))


def _reached(descriptor: SkillDescriptor, base: Url) -> SkillDescriptor:
    """Return a descriptor that leads back to its own host by the interface that ``base`` names, where it names one."""
    if "%" not in base.host:
        return descriptor
    endpoint, fields = descriptor.endpoint, ("url", "status_url", "result_url")
    texts = {field: getattr(endpoint, field) for field in fields}
    reached = {field: reached_from(base, text) for field, text in texts.items() if isinstance(text, str)}
    return msgspec.structs.replace(descriptor, endpoint=msgspec.structs.replace(endpoint, **reached))


def _check_protocol(document: object, source: str) -> None:
    """Check the version first: the form of a newer one is unknown. Spec: SSP §6.4."""
    protocol = document.get("protocol") if isinstance(document, dict) else None
    version = protocol.get("version") if isinstance(protocol, dict) else None
    if isinstance(version, str):
        check_version(version, place=SourceLocation(f"{source}#/protocol/version"))


class _EntryReader:
    def __init__(self, base: Url, addresses: AddressPolicy, *, is_registry: bool) -> None:
        self.findings: list[Finding] = []
        self._base = base
        self._addresses = addresses
        self._is_registry = is_registry

    def read(self, item: object, place: SourceLocation) -> StatedEntry | None:
        """Return the entry, or None when it is skipped."""
        try:
            entry = self._read(item, place)
        except SkillwireError as error:
            fix = error.diagnostics().fix
            self.findings.append(Finding(error.code, "warning", f"entry skipped: {error.message}", place, fix))
            return None
        if entry.description != neutralise(entry.description):
            message = "the description holds hidden characters"
            self.findings.append(Finding("HIDDEN_TEXT", "warning", message, place, "They are shown as escapes."))
        return msgspec.structs.replace(
            entry, name=neutralise(entry.name), description=neutralise(entry.description)[: limits.DESCRIPTION_LENGTH]
        )

    def _read(self, item: object, place: SourceLocation) -> StatedEntry:
        try:
            entry = msgspec.convert(item, StatedEntry)
        except msgspec.ValidationError as error:
            flaws = validate(item, "SkillIndexEntry").errors
            raise ValidationError("FIELD", f"{flaws[0].path} {flaws[0].message}" if flaws else str(error)) from None
        if not is_sharing_id(entry.id.lower()):
            raise ValidationError("FIELD", f"not an id: {ascii(entry.id)[:80]}")
        if entry.digest is not msgspec.UNSET:
            Digest.parse(entry.digest)
        self._check_domain(entry.id, place)
        url = resolve_url(self._base, entry.descriptor_url)
        try:
            self._addresses.check_url(url)
        except SkillwireError as error:
            raise ValidationError("FIELD", f"descriptor_url: {error.message}") from None
        return msgspec.structs.replace(entry, descriptor_url=str(url))

    def _check_domain(self, identifier: str, place: SourceLocation) -> None:
        """Check that an id which names a domain names that of the index. Spec: SSB §5.7."""
        host = self._base.host
        if "/" in identifier or is_local_host(host):
            return
        labels = identifier.split(".")[:-1]
        claimed = ".".join(reversed(labels))
        domains = (".".join(reversed(labels[:count])) for count in range(2, len(labels) + 1))
        if any(f".{host}".endswith(f".{domain}") for domain in domains):
            return
        message = f"the id {identifier} belongs to {claimed}, but {host} lists it"
        if not self._is_registry:
            raise ValidationError("FIELD", message)
        fix = "Look at the domain's own index before you trust it."
        self.findings.append(Finding("UNVERIFIED", "note", message, place, fix))
