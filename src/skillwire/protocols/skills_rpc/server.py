"""What a server answers for the Skills Protocol: lists, descriptions and files of skills.

A :class:`SkillsRpc` is made from a :class:`SkillIndex` already reduced to what the caller may see. A skill that the
caller may see but not use is listed and described from the catalog; its files are refused. A hidden skill is answered
like an absent one. Methods take parameters and return JSON bytes; only ``read_blob`` may block.

A list is sorted by dotted name and encoded once, in one text per level of detail with each skill's end, so a page costs
only its sending: 10,000 skills take 4 MiB, and no skill values are kept. An index of fewer skills shares the text of a
larger one and holds numbers. A namespace is a prefix (``salesforce`` and ``salesforce.leads`` both contain
``salesforce.leads.sync``), so it is one range of the sorted names, found by bisection. A cursor holds
``namespace/name``, a name and not a number, so pages neither repeat nor skip a skill when others come and go; a forged
one only reaches pages that need no cursor.

A described manifest always has the protocol's fields first and in order, with defaults; the document follows as read.
The skill ``skills.protocol.guide`` teaches a model to use an endpoint. It is a skill folder in this package, known at
every endpoint unless a published skill has its name. Spec: SKP; specs §0, §4. Trust: parameters are hostile. A path is
checked, then looked up among the skill's own files; it never becomes a file-system path.
"""

from __future__ import annotations

import re
from array import array
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import NotFoundError, SourceLocation, StorageError, TrustError, UsageError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.publish import PreparedSkill, prepare_files
from skillwire.model import skill as model
from skillwire.model.catalog import decode_cursor, encode_cursor
from skillwire.model.digest import Digest
from skillwire.model.skill import SKILL_MD, SKILL_TOML, Skill, SkillFile
from skillwire.protocols.skills_rpc.codec import encode_described, encode_page
from skillwire.protocols.skills_rpc.messages import (
    DescribedSkill,
    DescribeSkill,
    FileContent,
    ListedSkill,
    ListSkills,
    LoadGuide,
    ReadSkillFile,
)
from skillwire.trust.guarded_toml import load_toml
from skillwire.trust.paths import check_path, show

_FIX: Final = "Ask again without cursor, and continue with the next_cursor of that answer; keep the namespace."
#: The dotted name of the guide.
GUIDE: Final = "skills.protocol.guide"
_GUIDE_FOLDER: Final = "skills-protocol-guide"
#: The characters on both sides of the dot: what begins with ``a.`` lies between ``a.`` and ``a/``.
_DOT, _AFTER_DOT = ".", "/"
_SHOWN: Final = 80
#: Parts of a relative path that name nothing: ``./`` and doubled slashes.
_SUPERFLUOUS: Final = re.compile(r"(?:(?<=/)|^(?!/))(?:\.?/)+")


def encode_list_cursor(namespace: str | None, last: str) -> str:
    """Return the cursor after the skill ``last`` of a list of ``namespace``, or of all skills."""
    return encode_cursor(f"{namespace or ''}/{last}".encode())


def decode_list_cursor(cursor: str, namespace: str | None) -> str:
    """Return the name before the page. Raises UsageError (``CURSOR``), also for a cursor of another namespace."""
    try:
        of, slash, last = decode_cursor(cursor, limits.RPC_CURSOR_LENGTH).decode().partition("/")
    except UnicodeDecodeError:
        slash = ""
    if not slash:
        raise _refused("it is no cursor of list_skills")
    if of != (namespace or ""):
        raise _refused("it is of another namespace")
    return last


def _refused(why: str) -> UsageError:
    return UsageError("CURSOR", f"the cursor cannot be used: {why}", place=SourceLocation("/params/cursor"), fix=_FIX)


class Guide(NamedTuple):
    """The guide's skill, its files by digest, and its SKILL.md."""

    skill: Skill
    contents: Mapping[Digest, bytes]
    text: str


@cache
def load_guide() -> Guide:
    """Return the guide."""
    folder = resources.files(__package__).joinpath("guide", _GUIDE_FOLDER)
    files = tuple(model.FileContent(name, folder.joinpath(name).read_bytes()) for name in (SKILL_MD, SKILL_TOML))
    prepared = prepare_files(_GUIDE_FOLDER, files, "skills")
    if not isinstance(prepared, PreparedSkill):
        raise TypeError(f"the guide cannot be published: {prepared.findings}")
    digests, contents = [file.digest for file in prepared.skill.files], [bytes(file.content) for file in prepared.files]
    return Guide(prepared.skill, dict(zip(digests, contents, strict=True)), contents[0].decode())


class _Text:
    """Fragments of JSON in one piece, joined by commas."""

    def __init__(self, fragments: Iterable[bytes]) -> None:
        ends, text = array("Q"), bytearray()
        for fragment in fragments:
            text += fragment
            ends.append(len(text))
            text += b","
        self._ends, self._text = ends, bytes(text)

    def part(self, first: int, after: int) -> bytes:
        """Return the fragments from number ``first`` up to, and without, ``after``."""
        start = self._ends[first - 1] + 1 if first else 0
        return self._text[start : self._ends[after - 1]] if after > first else b""


class IndexTexts(NamedTuple):
    """The shared part of indexes: sorted dotted names, catalog names, and the text of each level of detail."""

    dotted: Sequence[str]
    catalog: Sequence[str]
    names: _Text
    summaries: _Text


class SkillIndex:
    """The listed skills of a caller; immutable.

    Indexing a catalog of 10,000 skills takes 0.1 s; an index ``within`` a larger one shares its text and takes 3 ms.
    ``numbers`` are the skills' positions in the text.
    """

    def __init__(self, skills: Mapping[str, Skill], within: SkillIndex | None = None) -> None:
        self.skills = skills
        self.written: IndexTexts = _write(skills) if within is None else within.written
        self.numbers: Sequence[int]
        if within is None or len(skills) == len(within):
            self.numbers = range(len(self.written.dotted)) if within is None else within.numbers
        else:
            self.numbers = array("I", [n for n in within.numbers if self.written.catalog[n] in skills])

    def __len__(self) -> int:
        return len(self.numbers)

    def find(self, dotted: str) -> Skill | None:
        """Return the skill of this dotted name, or None."""
        place = bisect_left(self.numbers, dotted, key=self.written.dotted.__getitem__)
        if place == len(self.numbers) or self.written.dotted[self.numbers[place]] != dotted:
            return None
        return self.skills.get(self.written.catalog[self.numbers[place]])

    def page(self, asked: ListSkills) -> bytes:
        """Return the requested page as JSON. Raises UsageError (``CURSOR``)."""
        key = self.written.dotted.__getitem__
        start, stop = 0, len(self.numbers)
        if asked.namespace:
            start = bisect_left(self.numbers, asked.namespace + _DOT, key=key)
            stop = bisect_left(self.numbers, asked.namespace + _AFTER_DOT, lo=start, key=key)
        if asked.cursor is not None:
            last_name = decode_list_cursor(asked.cursor, asked.namespace)
            start = max(start, bisect_right(self.numbers, last_name, key=key))
        end = min(start + min(asked.limit, limits.RPC_PAGE), stop)
        text = self.written.summaries if asked.detail == "summary" else self.written.names
        is_last = end >= stop
        cursor = None if is_last else encode_list_cursor(asked.namespace, self.written.dotted[self.numbers[end - 1]])
        if start >= end:
            return encode_page(b"", cursor)
        first, last = self.numbers[start], self.numbers[end - 1]
        if last - first == end - 1 - start:  # neighbours in the text, too
            return encode_page(text.part(first, last + 1), cursor)
        return encode_page(b",".join([text.part(one, one + 1) for one in self.numbers[start:end]]), cursor)


def list_entry(skill: Skill) -> ListedSkill:
    """Return a skill's entry in a list. Spec: SKP ``list_skills``."""
    return ListedSkill(dotted_name(skill), skill.version, skill.description, namespace_of(skill), skill.kind)


def dotted_name(skill: Skill) -> str:
    """Return the name of a skill in the Skills Protocol. Spec: specs §0."""
    if skill.identifiers is not None:
        return skill.identifiers.skills_rpc
    return f"{skill.publisher.lower()}.{skill.name}".replace("-", ".")


def namespace_of(skill: Skill) -> str:
    """Return the namespace of a skill: as stated, else the first part of its dotted name."""
    stated = skill.identifiers.namespace if skill.identifiers is not None else ""
    return stated or dotted_name(skill).partition(_DOT)[0]


def _write(skills: Mapping[str, Skill]) -> IndexTexts:
    entries = ((name, list_entry(skill)) for name, skill in skills.items())
    encode = msgspec.json.encode
    rows = sorted((one.name, name, encode(ListedSkill(one.name, one.version)), encode(one)) for name, one in entries)
    dotted, catalog, names, summaries = zip(*rows, strict=True) if rows else ((), (), (), ())
    return IndexTexts(dotted, catalog, _Text(names), _Text(summaries))


def known_manifest(skill: Skill) -> dict[str, Any]:
    """Return the manifest that the catalog alone provides."""
    facts = skill.sharing
    manifest = {**_head(skill), "access": skill.access.value}
    if facts is not None and facts.inputs:
        manifest["inputs"] = {
            one.name: {"type": one.input_type, "description": one.description, "required": one.required}
            for one in facts.inputs
        }
    return manifest


def _head(skill: Skill) -> dict[str, Any]:
    return {
        "name": dotted_name(skill),
        "version": skill.version,
        "description": skill.description,
        "kind": skill.kind,
        "namespace": namespace_of(skill),
        "tags": list(skill.sharing.tags) if skill.sharing is not None else [],
    }


class _Found(NamedTuple):
    """A skill, whether it may be used, and where its files are."""

    skill: Skill
    is_usable: bool
    read: Callable[[Digest], bytes | None]


class SkillsRpc:
    """The protocol's methods for the skills of one caller.

    ``index`` is of visible skills; ``usable`` are catalog names of those that the caller may read and execute.
    ``read_blob`` returns the bytes of a file by its digest, or None.
    """

    def __init__(self, index: SkillIndex, usable: Container[str], read_blob: Callable[[Digest], bytes | None]) -> None:
        self._index = index
        self._usable = usable
        self._read_blob = read_blob

    def list_skills(self, params: ListSkills) -> bytes:
        """Return a page of skills. Spec: SKP ``list_skills``. Raises UsageError (``CURSOR``)."""
        return self._index.page(params)

    def describe_skill(self, params: DescribeSkill) -> bytes:
        """Return the manifest of a skill, and its SKILL.md if requested. Spec: SKP ``describe_skill``.

        Raises NotFoundError, and TrustError (``PERMISSION_DENIED``) for the SKILL.md of a skill that may not be used.
        """
        found = self._find(params.name, params.version)
        if not found.is_usable:
            if params.detail == "full":
                raise _not_opened(params.name)
            about = {"name": found.skill.name, "description": found.skill.description}
            frontmatter = about if params.detail == "summary" else None
            return encode_described(DescribedSkill(known_manifest(found.skill), frontmatter))
        artifact = found.skill.artifact
        describe = partial(DescribedSkill, artifact_type=artifact.artifact_type, digest=str(artifact.digest))
        skill_toml = _content_of(found, "skill.toml")
        document = load_toml(skill_toml, source="skill.toml") if skill_toml is not None else {}
        manifest = {**_head(found.skill), **document}
        if params.detail == "manifest":
            return encode_described(describe(manifest))
        skill_md = _content_of(found, SKILL_MD) or b""
        frontmatter = dict(parse_skill_md(skill_md, description=found.skill.description).fields)
        content = skill_md.decode() if params.detail == "full" else None
        return encode_described(describe(manifest, frontmatter, content))

    def read_skill_file(self, params: ReadSkillFile) -> bytes:
        """Return one file of a skill. Spec: SKP ``read_skill_file``, "Security".

        Raises TrustError (``PATH_...``, ``PERMISSION_DENIED``), NotFoundError, ValidationError (``ENCODING``,
        ``LIMIT_SIZE``).
        """
        try:  # links in a SKILL.md are often ./like/this
            path = check_path(_SUPERFLUOUS.sub("", params.path))
        except TrustError as error:
            fix = "Give a plain path relative to the skill's folder, such as SKILL.md or references/api.md."
            raise TrustError(error.code, error.message, place=SourceLocation("/params/path"), fix=fix) from None
        found = self._find_usable(params.name, params.version)
        file = found.skill.find_file(path)
        if file is None:
            fix = "Its SKILL.md names the files that matter; paths are relative to the skill's folder."
            raise NotFoundError("FILE_NOT_FOUND", f"{params.name} has no file {show(path)}", fix=fix)
        if file.size > limits.RPC_FILE_BYTES:
            message = f"{show(path)} has {file.size:,} bytes, at most {limits.RPC_FILE_BYTES:,} are read in an answer"
            fix = f"Download it: GET /.well-known/agent-skills/{found.skill.name}/{path}."
            raise ValidationError("LIMIT_SIZE", message, place=SourceLocation("/params/path"), fix=fix)
        content = _read(found, file)
        if params.encoding == "base64":
            return msgspec.json.encode(FileContent(b64encode(content).decode("ascii"), "base64"))
        try:
            return msgspec.json.encode(FileContent(content.decode()))
        except UnicodeDecodeError:
            message, fix = f"{show(path)} is no text", 'Request it with "encoding": "base64".'
            raise ValidationError("ENCODING", message, place=SourceLocation("/params/path"), fix=fix) from None

    def load_skills_protocol_guide(self, _params: LoadGuide) -> bytes:
        """Return the guide. Spec: specs §4."""
        content = _content_of(self._find(GUIDE, None, must_be_usable=True), SKILL_MD) or b""
        return msgspec.json.encode({"content": content.decode()})

    def usable(self, name: str, version: str | None = None) -> Skill:
        """Return a skill to be executed or mounted. Raises NotFoundError, TrustError (``PERMISSION_DENIED``)."""
        return self._find_usable(name, version).skill

    def name_of(self, dotted: str) -> str | None:
        """Return the name in the catalog of the skill of this dotted name, or None."""
        skill = self._index.find(dotted)
        return None if skill is None else skill.name

    def _find_usable(self, name: str, version: str | None) -> _Found:
        found = self._find(name, version)
        if not found.is_usable:
            raise _not_opened(name)
        return found

    def _find(self, name: str, version: str | None, *, must_be_usable: bool = False) -> _Found:
        skill = self._index.find(name)
        if skill is not None and not (must_be_usable and skill.name not in self._usable):
            found = _Found(skill, skill.name in self._usable, self._read_blob)
        elif name == GUIDE:
            guide = load_guide()
            found = _Found(guide.skill, is_usable=True, read=guide.contents.get)
        else:
            raise _not_found(name, called=self._index.skills.get(name))
        if version not in {None, "latest", found.skill.version}:
            raise _not_found(name, version, found.skill.version)
        return found


def _content_of(found: _Found, path: str) -> bytes | None:
    file = found.skill.find_file(path)
    return None if file is None else _read(found, file)


def _read(found: _Found, file: SkillFile) -> bytes:
    content = found.read(file.digest)
    if content is None:
        raise StorageError("STORAGE", f"the bytes of {show(file.path)} are not where they should be")
    return content


def _not_found(
    name: str, version: str | None = None, published: str | None = None, called: Skill | None = None
) -> NotFoundError:
    shown, fix = ascii(name)[:_SHOWN], "List the skills with list_skills; a name is dotted, such as example.leads.sync."
    details: dict[str, Any] = {"name": name[:_SHOWN]}
    if version is None:
        fix = fix if called is None else f"Its name here is {dotted_name(called)}."
        return NotFoundError("SKILL_NOT_FOUND", f"there is no skill {shown}", fix=fix, details=details)
    message = f"there is no version {ascii(version)[:_SHOWN]} of {shown}"
    fix = f"Version {published} is published; leave version out for the latest."
    return NotFoundError("SKILL_NOT_FOUND", message, fix=fix, details={**details, "published": published})


def _not_opened(name: str) -> TrustError:
    message = f"the skill {ascii(name)[:_SHOWN]} may be known, and was not opened to you"
    fix = "Send the credential that it was opened to, or ask its publisher for one."
    return TrustError("PERMISSION_DENIED", message, fix=fix)
