"""Bytes to indexes and descriptors, for a client.

Decoding is strict about a document and lenient about an index's entries: an invalid one is skipped and reported. An id
that occurs twice invalidates the whole index, because either entry could be meant.
Spec: SSP §3, §4; SSB §5; specs §2. Trust: hostile; only ``DecodeError`` and ``ValidationError`` are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.skill import Finding, is_sharing_id
from skillwire.model.url import Url, parse_url, reached_from, resolve_url
from skillwire.protocols.skill_sharing.messages import IndexProvider, SkillDescriptor, StatedDescriptor, StatedEntry
from skillwire.protocols.skill_sharing.rules import check_descriptor, check_version
from skillwire.protocols.skill_sharing.validation import Violation, convert, invalid, parse, validate
from skillwire.trust.address import AddressPolicy, is_local_host
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

_RETRY: Final = {"max_attempts": 0, "backoff_ms": 0}


class SharingIndex(NamedTuple):
    """A decoded index: its publisher, valid entries by id, and findings about the rest."""

    provider: IndexProvider | None
    entries: Mapping[str, StatedEntry]
    findings: tuple[Finding, ...] = ()


def decode_index(data: bytes, index_url: str, *, addresses: AddressPolicy | None = None) -> SharingIndex:
    """Return a Skill Index, or a registry's list of entries, with absolute descriptor URLs.

    ``addresses`` allow hosts of descriptors; by default that of ``index_url`` also. Raises DecodeError, ValidationError
    (``VALIDATION_ERROR``, ``VERSION_INCOMPATIBLE``, ``INDEX_ENTRIES``, ``ID_DUPLICATE``).
    """
    document = load_json(data, max_bytes=limits.INDEX_BYTES, source=index_url)
    base = parse_url(index_url)
    is_registry = isinstance(document, list)
    items: object = document
    if not is_registry:
        _check_protocol(document, index_url)
        convert({**document, "skills": []} if isinstance(document, dict) else document, "SkillIndex", source=index_url)
        items = document.get("skills") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise invalid("SkillIndex", [Violation("/skills", "must be of type array", "array")], index_url)
    if len(items) > limits.INDEX_ENTRIES:
        message = f"{len(items):,} entries, at most {limits.INDEX_ENTRIES:,} are read"
        raise ValidationError("INDEX_ENTRIES", message, place=SourceLocation(index_url))
    reader = _EntryReader(base, addresses or AddressPolicy().naming(base), is_registry=is_registry)
    entries: dict[str, StatedEntry] = {}
    for position, item in enumerate(items):
        place = SourceLocation(f"{index_url}#{'' if is_registry else '/skills'}/{position}")
        entry = reader.read(item, place)
        if entry is None:
            continue
        if entry.id in entries:
            raise ValidationError("ID_DUPLICATE", f"the index lists the id {entry.id!r} twice", place=place)
        entries[entry.id] = entry
    return SharingIndex(
        msgspec.convert(document["provider"], IndexProvider) if isinstance(document, dict) else None,
        entries,
        tuple(reader.findings),
    )


def decode_descriptor(
    data: bytes, url: str, *, addresses: AddressPolicy | None = None, expected_id: str | None = None
) -> SkillDescriptor:
    """Return the descriptor in ``data``, fully checked; ``expected_id`` is that of the index.

    ``addresses`` allow hosts of its URLs; by default that of ``url`` also. Raises DecodeError, ValidationError
    (``VERSION_INCOMPATIBLE``, ``VALIDATION_ERROR``, ``DESCRIPTOR``, ``ID_DIFFERS``, ``DIGEST_FORM``).
    """
    document = load_json(data, max_bytes=limits.DESCRIPTOR_BYTES, source=url)
    _check_protocol(document, url)
    match document:
        case {"endpoint": {"retry": dict(retry), **endpoint}, **rest}:  # the blueprint lets either field be absent
            document = {**rest, "endpoint": {**endpoint, "retry": {**_RETRY, **retry}}}
    base = parse_url(url)
    descriptor = _reached(parse(document, source=url), base)
    check_descriptor(descriptor, source=url, addresses=addresses or AddressPolicy().naming(base))
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
    """Reads the entries of one index and collects findings."""

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
