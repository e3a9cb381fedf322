"""What we answer for the Skills Protocol: lists, descriptions and files of skills; no executions, which take time.

:class:`SkillsRpc` is made of an :class:`~skillwire.protocols.skills_rpc.index.SkillIndex` that was already narrowed to
its audience. A skill that the audience may know of and not use is listed and described with what the catalog tells;
its files are refused. One that it may not know of is not there: no answer tells the two apart.

Each method takes its parameters and gives JSON, as bytes. Nothing here waits but ``read_blob``, which a server calls
in a thread, or not, as it sees fit.

Spec: SKP; specs §4. Trust: parameters are a stranger's. A path is judged before anything is looked for, and what it
names is looked for among the files of the skill alone, by their digests: no path of a file system is ever made of it.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import NotFoundError, Place, StorageError, TrustError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.protocols.skills_rpc.guide import GUIDE, load_guide
from skillwire.protocols.skills_rpc.index import dotted_name
from skillwire.protocols.skills_rpc.manifest import full_manifest, known_frontmatter, known_manifest
from skillwire.protocols.skills_rpc.messages import DescribedSkill, FileContent
from skillwire.protocols.skills_rpc.results import encode_described, encode_file
from skillwire.trust.paths import check_path, show

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill, SkillFile
    from skillwire.protocols.skills_rpc.index import SkillIndex
    from skillwire.protocols.skills_rpc.messages import DescribeSkill, ListSkills, LoadGuide, ReadSkillFile

_SKILL_MD: Final = "SKILL.md"
_SKILL_TOML: Final = "skill.toml"
_LATEST: Final = "latest"
_SHOWN: Final = 80


class _Found(NamedTuple):
    """A skill, whether it may be used, and where its files are."""

    skill: Skill
    is_usable: bool
    read: Callable[[Digest], bytes | None]


class SkillsRpc:
    """The skills of one audience, told by the methods of the protocol.

    Args:
        index: what it may know of.
        usable: names in the catalog of what it may read and execute.
        read_blob: gives the bytes of a file by its digest; None where they are lost.
    """

    def __init__(self, index: SkillIndex, usable: Container[str], read_blob: Callable[[Digest], bytes | None]) -> None:
        self._index = index
        self._usable = usable
        self._read_blob = read_blob

    def list_skills(self, params: ListSkills) -> bytes:
        """Return a page of skills. Spec: SKP ``list_skills``.

        Raises:
            UsageError: ``CURSOR``.
        """
        return self._index.page(params)

    def describe_skill(self, params: DescribeSkill) -> bytes:
        """Return the manifest of a skill, and its SKILL.md as far as it is asked for. Spec: SKP ``describe_skill``.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``.
            TrustError: ``PERMISSION_DENIED`` for the SKILL.md of a skill that may not be used.
        """
        found = self._find(params.name, params.version)
        if not found.is_usable:
            if params.detail == "full":
                raise _not_opened(params.name)
            told = known_frontmatter(found.skill) if params.detail == "summary" else None
            return encode_described(DescribedSkill(known_manifest(found.skill), told))
        manifest = full_manifest(found.skill, _content_of(found, _SKILL_TOML))
        if params.detail == "manifest":
            return encode_described(DescribedSkill(manifest))
        skill_md = _content_of(found, _SKILL_MD) or b""
        frontmatter = dict(parse_skill_md(skill_md).fields)
        content = skill_md.decode() if params.detail == "full" else None
        return encode_described(DescribedSkill(manifest, frontmatter, content))

    def read_skill_file(self, params: ReadSkillFile) -> bytes:
        """Return one file of a skill. Spec: SKP ``read_skill_file``, "Security".

        Raises:
            TrustError: a ``PATH_...`` code; ``PERMISSION_DENIED``.
            NotFoundError: ``SKILL_NOT_FOUND``, ``FILE_NOT_FOUND``.
            ValidationError: ``ENCODING`` for a file that is no text, ``LIMIT_SIZE``.
        """
        path = _judged(params.path)
        found = self._find(params.name, params.version)
        if not found.is_usable:
            raise _not_opened(params.name)
        file = _file_of(found.skill, path)
        if file is None:
            fix = "Its SKILL.md names the files that matter; paths are relative to the skill's folder."
            raise NotFoundError("FILE_NOT_FOUND", f"{params.name} has no file {show(path)}", fix=fix)
        if file.size > limits.RPC_FILE_BYTES:
            raise _too_large(found.skill, file)
        return encode_file(_as_told(_read(found, file), file, params))

    def load_skills_protocol_guide(self, _params: LoadGuide) -> bytes:
        """Return the guide. Spec: specs §4."""
        content = _content_of(self._find(GUIDE, None, must_be_usable=True), _SKILL_MD) or b""
        return msgspec.json.encode({"content": content.decode()})

    def usable(self, name: str, version: str | None = None) -> Skill:
        """Return a skill that is to be executed, or shown to code.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``.
            TrustError: ``PERMISSION_DENIED``.
        """
        found = self._find(name, version)
        if not found.is_usable:
            raise _not_opened(name)
        return found.skill

    def name_of(self, dotted: str) -> str | None:
        """Return the name in the catalog of the skill of this dotted name, or None."""
        skill = self._index.find(dotted)
        return None if skill is None else skill.name

    def _find(self, name: str, version: str | None, *, must_be_usable: bool = False) -> _Found:
        skill = self._index.find(name)
        if skill is not None and not (must_be_usable and skill.name not in self._usable):
            found = _Found(skill, skill.name in self._usable, self._read_blob)
        elif name == GUIDE:
            guide = load_guide()
            found = _Found(guide.skill, is_usable=True, read=guide.read)
        else:
            raise _not_found(name, called=self._index.skills.get(name))
        if version not in {None, _LATEST, found.skill.version}:
            raise _not_found(name, version, found.skill.version)
        return found


def _judged(path: str) -> str:
    try:
        return check_path(path)
    except TrustError as error:
        fix = "Give a plain path relative to the skill's folder, such as SKILL.md or references/api.md."
        raise TrustError(error.code, error.message, place=Place("/params/path"), fix=fix) from None


def _file_of(skill: Skill, path: str) -> SkillFile | None:
    return next((file for file in skill.files if file.path == path), None)


def _content_of(found: _Found, path: str) -> bytes | None:
    file = _file_of(found.skill, path)
    return None if file is None else _read(found, file)


def _read(found: _Found, file: SkillFile) -> bytes:
    content = found.read(file.digest)
    if content is None:
        raise StorageError("STORAGE", f"the bytes of {show(file.path)} are not where they should be")
    return content


def _as_told(content: bytes, file: SkillFile, params: ReadSkillFile) -> FileContent:
    if params.encoding == "base64":
        return FileContent(b64encode(content).decode("ascii"), "base64")
    try:
        return FileContent(content.decode())
    except UnicodeDecodeError:
        raise ValidationError(
            "ENCODING",
            f"{show(file.path)} is no text",
            place=Place("/params/path"),
            fix='Ask for it with "encoding": "base64".',
        ) from None


def _not_found(
    name: str, version: str | None = None, published: str | None = None, called: Skill | None = None
) -> NotFoundError:
    """Return the error; ``called`` is a skill that has this name in other protocols."""
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
    return TrustError(
        "PERMISSION_DENIED", message, fix="Send the credential that it was opened to, or ask its publisher for one."
    )


def _too_large(skill: Skill, file: SkillFile) -> ValidationError:
    message = f"{show(file.path)} has {file.size:,} bytes, at most {limits.RPC_FILE_BYTES:,} are read in an answer"
    fix = f"Download it: GET /.well-known/agent-skills/{skill.name}/{file.path}."
    return ValidationError("LIMIT_SIZE", message, place=Place("/params/path"), fix=fix)
