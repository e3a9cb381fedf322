"""The catalog: an immutable snapshot of published skills with a rising revision, and searches over it.

A change makes the next snapshot; readers of the old one are unaffected. Access is decided here, once: every protocol
lists :meth:`Catalog.visible_to` and delivers :meth:`Catalog.usable_by`.

Skills are packed as bytes for records on disk and worker processes, and to keep thousands in memory: 10,000 of four
files take 7 MB packed and 37 MB as values. The form is private and may change with any version. Unpacking a skill takes
about 6 µs; reading only the fields that lists show takes 3 µs.

The cursor of a list is bytes in base64url without padding, in one canonical form. Its holder knows all that it
contains, so it is not signed. Trust: cursors are hostile.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import is_not
from typing import Any, Final, NamedTuple

import msgspec

from skillwire.model.access import Access, Principal
from skillwire.model.digest import Digest
from skillwire.model.skill import ArtifactType, Skill


@dataclass(frozen=True, slots=True)
class Catalog:
    """Published skills by name, sorted by name."""

    revision: int = 0
    skills: Mapping[str, Skill] = field(default_factory=dict)

    @classmethod
    def of(cls, skills: Iterable[Skill], revision: int = 0) -> Catalog:
        """Return a snapshot of ``skills``, sorted by name."""
        return cls(revision, {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)})

    def visible_to(self, principal: Principal) -> Catalog:
        """Return what ``principal`` may see: public and restricted skills, and granted ones. Spec: SSP §4.4."""
        return self._part(
            lambda skill: skill.access is not Access.PRIVATE or principal.has(skill.name, skill.publisher)
        )

    def usable_by(self, principal: Principal) -> Catalog:
        """Return what ``principal`` may read, install and invoke: public or granted skills. Spec: SSP §7.3."""
        return self._part(lambda skill: skill.access is Access.PUBLIC or principal.has(skill.name, skill.publisher))

    def only(self, names: Iterable[str]) -> Catalog:
        """Return the skills of these names."""
        return Catalog(self.revision, SkillSubset(self.skills, sorted(names)))

    def without(self, other: Catalog) -> Catalog:
        """Return the skills whose names are not in ``other``."""
        return self.only(() if self.skills is other.skills else self.skills.keys() - other.skills.keys())

    def _part(self, belongs: Callable[[Skill], bool]) -> Catalog:
        names = [name for name, skill in self.skills.items() if belongs(skill)]
        return self if len(names) == len(self.skills) else Catalog(self.revision, SkillSubset(self.skills, names))


class SkillSubset(Mapping[str, Skill]):
    """Some skills of a mapping, by name, each looked up on access."""

    __slots__ = ("_names", "whole")

    def __init__(self, skills: Mapping[str, Skill], names: Iterable[str]) -> None:
        self.whole = skills
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Skill:
        if name not in self._names:
            raise KeyError(name)
        return self.whole[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def keys(self) -> KeysView[str]:
        """Return the names as a set."""
        return self._names.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _encode(value: Any) -> Any:
    """Return the packed form of a value that the encoder does not know: a digest takes half the bytes of its text."""
    return bytes.fromhex(value.hex) if isinstance(value, Digest) else dict(value)


def _decode(kind: type, value: Any) -> Any:
    return _digest(value) if kind is Digest else value


def _digest(raw: bytes) -> Digest:
    return Digest("sha256:" + raw.hex())


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode)
_decoder = msgspec.msgpack.Decoder(Skill, dec_hook=_decode)


def pack_skill(skill: Skill) -> bytes:
    """Return ``skill`` as bytes."""
    return _encoder.encode(skill)


def unpack_skill(data: bytes) -> Skill:
    """Return the skill that :func:`pack_skill` packed; the ledger may hold rows that lack the last fields."""
    return _decoder.decode(data)


class _File(msgspec.Struct, array_like=True):
    path: str
    size: int
    raw_digest: bytes


class _Artifact(msgspec.Struct, array_like=True):
    artifact_type: ArtifactType
    media_type: str
    extension: str
    size: int
    raw_digest: bytes

    @property
    def digest(self) -> Digest:
        """The digest in its written form."""
        return _digest(self.raw_digest)


class _Sharing(msgspec.Struct, array_like=True):
    name: str
    description: str
    version: str
    capability_type: str
    tags: tuple[str, ...] = ()


class SkillSummary(msgspec.Struct, array_like=True):
    """The fields of :func:`pack_skill` that lists show; the others stay undecoded."""

    publisher: str
    name: str
    version: str
    description: str
    files: list[_File]
    artifact: _Artifact
    license: str | None
    compatibility: msgspec.Raw
    allowed_tools: msgspec.Raw
    metadata: dict[str, str] | None
    access: str
    kind: str
    scenes: tuple[str, ...]
    capabilities: tuple[str, ...]
    identifiers: tuple[str, ...] | None
    sharing: _Sharing | None
    action: msgspec.Raw
    findings: msgspec.Raw
    skill_type: str | None = None
    requires: tuple[str, ...] = ()
    state: tuple[str, str, str] | None = None

    def blobs(self) -> Iterator[tuple[Digest, int]]:
        """Yield digest and size of the artifact and of each file."""
        yield self.artifact.digest, self.artifact.size
        for file in self.files if self.artifact.artifact_type != "skill-md" else ():  # else the artifact is the file
            yield _digest(file.raw_digest), file.size


_summary_decoder = msgspec.msgpack.Decoder(SkillSummary)


def read_summary(packed: bytes) -> SkillSummary:
    """Return the fields of a packed skill that lists show."""
    return _summary_decoder.decode(packed)


def summarize(skills: Mapping[str, Skill], name: str) -> SkillSummary:
    """Return the fields of a skill that lists show: twice as fast as the skill itself where it is packed."""
    while isinstance(skills, SkillSubset):
        skills = skills.whole
    return read_summary(skills.packed(name) if isinstance(skills, PackedSkills) else pack_skill(skills[name]))


class SkillChanges(NamedTuple):
    """The names that differ between two mappings of skills."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class PackedSkills(Mapping[str, Skill]):
    """A read-only mapping of name to skill over packed bytes, sorted; each skill is unpacked when it is read.

    It knows how it differs from the mapping that it was :meth:`updated` from, which it does not keep alive.
    """

    __slots__ = ("_identity", "_origin", "_packed")

    def __init__(self, packed: dict[str, bytes], origin: tuple[object, SkillChanges] | None = None) -> None:
        self._packed = packed
        self._identity = object()
        self._origin = origin

    def __getitem__(self, name: str) -> Skill:
        return unpack_skill(self._packed[name])

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def keys(self) -> KeysView[str]:
        """Return the names as a set."""
        return self._packed.keys()

    def packed(self, name: str) -> bytes:
        """Return the packed bytes of a skill."""
        return self._packed[name]

    def updated(self, changed: Mapping[str, bytes], removed: Iterable[str]) -> PackedSkills:
        """Return these skills without those that are ``removed``, and with those that were added or ``changed``."""
        packed = self._packed.copy()
        gone = [name for name in removed if name not in changed and packed.pop(name, None) is not None]
        added = sorted(changed.keys() - packed.keys())
        differing = sorted(name for name in changed.keys() & packed.keys() if packed[name] != changed[name])
        packed.update(changed)
        changes = SkillChanges(tuple(added), tuple(differing), tuple(gone))
        return PackedSkills(dict(sorted(packed.items())) if added else packed, (self._identity, changes))

    def changes_since(self, before: PackedSkills) -> SkillChanges:
        """Return what differs from an earlier mapping; takes 12 ms for 50,000 skills unless it is the origin."""
        if before is self:
            return SkillChanges((), (), ())
        if self._origin is not None and self._origin[0] is before._identity:
            return self._origin[1]
        now, earlier = self._packed, before._packed
        others = list(compress(now, map(is_not, now.values(), map(earlier.get, now))))
        added = tuple(name for name in others if name not in earlier)
        return SkillChanges(
            added,
            changed=tuple(name for name in others if name in earlier and now[name] != earlier[name]),
            removed=tuple(earlier.keys() - now.keys()) if len(earlier) + len(added) > len(now) else (),
        )


class SeenSkill(NamedTuple):
    """A packed skill, and whether everyone may know of it, and use it."""

    packed: bytes
    is_known: bool
    is_usable: bool


class SkillSets(NamedTuple):
    """Every skill, those that everyone may know of, and those that everyone may use; equal ones are one mapping."""

    everything: PackedSkills
    known: PackedSkills
    usable: PackedSkills

    def updated(self, changed: Mapping[str, SeenSkill], removed: Collection[str]) -> SkillSets:
        """Return the sets without the skills that are ``removed``, and with those that were added or ``changed``."""
        everything = self.everything.updated({name: one.packed for name, one in changed.items()}, removed)
        some = {name: one.packed for name, one in changed.items() if one.is_known}
        is_same, gone = self.known is self.everything and len(some) == len(changed), {*removed, *changed}
        known = everything if is_same else self.known.updated(some, gone)
        fewer = {name: one.packed for name, one in changed.items() if one.is_usable}
        is_same = self.usable is self.known and len(fewer) == len(some)
        return SkillSets(everything, known, known if is_same else self.usable.updated(fewer, gone))


def no_skills() -> SkillSets:
    """Return the sets of no skill."""
    nothing = PackedSkills({})
    return SkillSets(nothing, nothing, nothing)


class FacetValue(NamedTuple):
    """One value of a facet, and the number of matching skills that have it."""

    value: str
    skills: int


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: words in any order; a skill must have one of the chosen values of each named facet.

    Empty ``text`` matches all, sorted by name. ``after`` is ``next`` of the previous page. ``order`` is one of
    :data:`ORDERS`, where it is not the best first.
    """

    text: str = ""
    facets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limit: int = 20
    after: str | None = None
    counted: bool = True
    order: str = ""


#: By name; the last two only on a registry, which knows when packages changed and how often they are fetched.
ORDERS: Final = ("name", "updated", "downloads")


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Names of the found skills, best first; ``total`` and ``facets`` (most frequent first) cover all pages."""

    names: tuple[str, ...]
    total: int
    facets: Mapping[str, tuple[FacetValue, ...]] = field(default_factory=dict)
    next: str | None = None


class Explanation(NamedTuple):
    """Why skills match: name → column (``name``, ``description``, ``tags``, ``files``) → pieces, and which match.

    ``corrections`` are words of the query that no skill has → the similar word of the hits.
    """

    matches: Mapping[str, Mapping[str, Sequence[tuple[str, bool]]]] = {}
    corrections: Mapping[str, str] = {}


_CURSOR_FORM: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def encode_cursor(data: bytes) -> str:
    """Return the cursor that holds ``data``."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_cursor(cursor: str, max_length: int) -> bytes:
    """Return the bytes in a cursor of at most ``max_length`` characters; empty for any other text."""
    if len(cursor) > max_length or not _CURSOR_FORM.fullmatch(cursor):
        return b""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        return b""
    return data if encode_cursor(data) == cursor else b""
