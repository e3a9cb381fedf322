"""``skills.lock``: what is installed, from where, and what its bytes must be. JSON, sorted, made to be diffed.

:func:`verify` compares installed files with the lock, :func:`remove` removes them.

Trust: a lock comes with a project, so it is as hostile as any file of a cloned repository. A row is accepted only in
the form that we write: a skill of a folder has no URL, every other one has three normalized URLs, with the index below
the origin, and a repository as its own origin. So no row passes for a local one, and none injects text into a message.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from skillwire.errors import (
    ConflictError,
    DecodeError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    ValidationError,
    did_you_mean,
    one_line,
)
from skillwire.limits import LOCK_BYTES
from skillwire.model.digest import Digest
from skillwire.model.package import parse_range, parse_requirement
from skillwire.model.ref import LOCAL, GitFacts, InstallLocation, Lock, LockedSkill
from skillwire.model.skill import is_skill_name
from skillwire.model.url import parse_url
from skillwire.resolver.git_references import check_ref
from skillwire.trust.guarded_json import load_json
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import Flow, work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from skillwire.ports import SkillsFolder


LOCK_NAME: Final = "skills.lock"
_FORMAT: Final = 1
_REMOTE_TYPES: Final = frozenset({"skill-md", "archive", "files", "git"})
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_GIT: Final = ("commit", "path", "tree")
_OBJECT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)


def encode_lock(lock: Lock) -> bytes:
    """Return the bytes of ``skills.lock``."""
    skills = {
        name: {
            "origin": skill.origin,
            "index": skill.index,
            "url": skill.url,
            "version": skill.version,
            "digest": skill.digest,
            "type": skill.artifact_type,
            "first_seen": skill.first_seen,
            "agents": list(skill.agents),
            "folders": list(skill.placement.folders),
            "links": list(skill.placement.links),
            "files": dict(sorted(skill.files.items())),
            **({"git": dict(zip(_GIT, skill.git, strict=False))} if skill.git else {}),
            **({"wanted": skill.wanted} if skill.wanted else {}),
            **({"capabilities": list(skill.capabilities)} if skill.capabilities else {}),
            **({"requires": dict(sorted(skill.requires.items()))} if skill.requires else {}),
        }
        for name, skill in sorted(lock.skills.items())
    }
    return (json.dumps({"version": _FORMAT, "skills": skills}, indent=2, ensure_ascii=False) + "\n").encode()


def decode_lock(data: bytes, source: str) -> Lock:
    """Return the lock of ``data``; raise ``JSON_*`` or ``LOCK_FORM``, with the place."""
    document = load_json(data, max_bytes=LOCK_BYTES, source=source)
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        raise ValidationError("LOCK_FORM", "not a lock of version 1", place=SourceLocation(source))
    skills = document.get("skills")
    if not isinstance(skills, dict):
        raise ValidationError("LOCK_FORM", "the lock has no object named skills", place=SourceLocation(source))
    return Lock({name: _read_skill(name, item, f"{source}#/skills/{name}") for name, item in skills.items()})


def _read_skill(name: str, item: object, source: str) -> LockedSkill:
    if not is_skill_name(name) or not isinstance(item, dict):
        raise ValidationError("LOCK_FORM", "not a locked skill", place=SourceLocation(source))
    fields = cast("dict[str, Any]", item)
    try:
        locked = LockedSkill(
            name=name,
            origin=_string(fields["origin"]),
            index=_string(fields["index"]),
            url=_string(fields["url"]),
            version=None if fields["version"] is None else _string(fields["version"]),
            digest=None if fields["digest"] is None else Digest.parse(fields["digest"]),
            artifact_type=fields["type"],  # checked below
            first_seen=_string(fields["first_seen"]),
            agents=tuple(_string(agent) for agent in fields["agents"]),
            placement=InstallLocation(
                tuple(check_path(_string(folder)) for folder in fields["folders"]),
                tuple(check_path(_string(link)) for link in fields["links"]),
            ),
            files={check_path(path): _hex(value) for path, value in fields["files"].items()},
            wanted=_read_range(fields.get("wanted", ""), is_git="git" in fields),
            git=_read_git(fields["git"]) if "git" in fields else None,
            capabilities=tuple(_string(one) for one in fields.get("capabilities", ())),
            requires={
                parse_requirement(_string(text)).text: _string(met) for text, met in fields.get("requires", {}).items()
            },
        )
        _check_origin(locked)
    except (KeyError, TypeError, AttributeError, ValueError, SkillwireError) as error:
        raise DecodeError(
            "LOCK_FORM", f"the entry is malformed: {one_line(error)}", place=SourceLocation(source)
        ) from error
    return locked


def _check_origin(locked: LockedSkill) -> None:
    """Check that type, origin and URLs of a row agree."""
    if not locked.placement.folders:
        raise ValueError("it names no folder")
    if locked.artifact_type == "folder":
        if not locked.origin.startswith(LOCAL) or locked.index or locked.digest is not None or "://" in locked.url:
            raise ValueError("a skill of a folder has no URL and no digest")
        return
    if (locked.artifact_type == "git") != (locked.git is not None) or (locked.git and locked.digest is None):
        raise ValueError("a skill of a repository has a commit and a digest")
    is_here = locked.git and not locked.index and "://" not in locked.url  # a repository of this machine
    if locked.git and locked.origin != (f"{LOCAL}{locked.url}" if is_here else locked.url):
        raise ValueError("a skill of a repository has its URL as its origin")
    if not is_here:
        _check_urls(locked)


def _check_urls(locked: LockedSkill) -> None:
    if locked.artifact_type not in _REMOTE_TYPES:
        raise ValueError(f"unknown type {ascii(locked.artifact_type)[:40]}")
    if locked.origin != str(parse_url(locked.origin)).removesuffix("/"):
        raise ValueError("the origin is not in its written form")
    if any(url != str(parse_url(url)) for url in (locked.index, locked.url)):
        raise ValueError("a URL is not in its written form")
    if not f"{locked.index}/".startswith(f"{locked.origin}/"):
        raise ValueError("the index is not at the origin")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {ascii(value)[:60]}")
    return value


def _hex(value: object) -> str:
    if not _HEX.fullmatch(_string(value)):
        raise TypeError(f"not a SHA-256: {ascii(value)[:60]}")
    return cast("str", value)


def _read_git(value: object) -> GitFacts:
    fields = cast("dict[str, Any]", value)
    commit, path, tree = (_string(fields[key]) for key in _GIT)
    if not (_OBJECT.fullmatch(commit) and _OBJECT.fullmatch(tree)):
        raise ValueError("a commit or tree has not 40 hexadecimal characters")
    return GitFacts(commit, check_path(path) if path else "", tree)


def _read_range(value: object, *, is_git: bool) -> str:
    text = _string(value)
    if text and is_git:
        return check_ref(text)
    return text if not text or text.startswith("sha256:") else parse_range(text).text


class Deviation(NamedTuple):
    """A difference between an installed skill and the lock; ``path`` is the text of a requirement that is not met."""

    name: str
    path: str
    problem: Literal["missing", "changed", "added"]


class Verification(NamedTuple):
    """The skills that were compared with the lock, and every difference."""

    skills: list[LockedSkill]
    deviations: list[Deviation]


def select(lock: Lock, names: Sequence[str]) -> list[LockedSkill]:
    """Return the locked skills of these names, or all; raise ``NOT_INSTALLED`` for an unknown name."""
    for name in names:
        if name not in lock.skills:
            fix = did_you_mean(name, lock.skills)
            raise NotFoundError("NOT_INSTALLED", f"{ascii(name)[1:-1][:120]} is not installed here", fix=fix)
    return [lock.skills[name] for name in (names or sorted(lock.skills))]


def verify(folder: SkillsFolder, names: Sequence[str]) -> Flow[Verification]:
    """Compare the installed files of these skills, or of all, with the lock."""

    def compare() -> Verification:
        lock = folder.read_lock()
        skills = select(lock, names)
        rows = [row for locked in skills for row in find_deviations(locked, folder)]
        return Verification(skills, [*rows, *(row for locked in skills for row in _unmet(locked, lock))])

    return work(compare)


def _unmet(locked: LockedSkill, lock: Lock) -> Iterator[Deviation]:
    """Yield the requirements of a skill that no installed skill meets, as missing."""
    for text, name in locked.requires.items():
        other = lock.skills.get(name)
        if other is None or other.version not in parse_requirement(text).versions:
            yield Deviation(locked.name, text, "missing")


def find_deviations(locked: LockedSkill, folder: SkillsFolder) -> list[Deviation]:
    """Return every difference between the installed files of a skill and its lock."""
    name, expected, found = locked.name, locked.files, folder.installed_files(locked.placement, locked.name)
    if found is None:
        return [Deviation(name, ".", "missing")]
    return [
        *(Deviation(name, place, "missing") for place in folder.missing_places(locked.placement, name)),
        *(Deviation(name, path, "missing") for path in expected.keys() - found.keys()),
        *(Deviation(name, path, "added") for path in found.keys() - expected.keys()),
        *(Deviation(name, path, "changed") for path in expected.keys() & found.keys() if expected[path] != found[path]),
    ]


def requiring(lock: Lock, names: Collection[str]) -> dict[str, str]:
    """Return the name of each other skill that requires one of ``names``, and what it requires."""
    return {
        locked.name: text
        for locked in lock.skills.values()
        for text, met in locked.requires.items()
        if met in names and locked.name not in names
    }


def remove(folder: SkillsFolder, names: Sequence[str], *, overwrite: bool = False) -> Flow[list[LockedSkill]]:
    """Remove all of these skills from disk and lock, or none; return what they were.

    Raises ConflictError (``DEPENDENCY_NEEDED``) where another one requires one of them, unless ``overwrite``.
    """

    def take_away() -> list[LockedSkill]:
        change = folder.change()
        try:
            lock = folder.read_lock()
            skills = select(lock, names) if names else []
            for requirer, text in {} if overwrite else requiring(lock, names).items():
                raise ConflictError("DEPENDENCY_NEEDED", f"{requirer} requires {text}")
            for locked in skills:
                change.take_away(locked.name, locked.placement)
            change.commit(lock.without(names))
        finally:
            change.close()
        return skills

    return work(take_away)
