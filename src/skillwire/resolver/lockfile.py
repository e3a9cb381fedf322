"""``skills.lock``: what is installed, from where, and what its bytes must be. JSON, sorted, made to be diffed.

Trust: a lock comes with a project, so it is as hostile as any file of a cloned repository. A row is taken only
when it is what we would have written: a skill of a folder has no URL at all, every other one has three that
are in their one written form, the index below the origin. So no row can pass for a local one, and none can
carry anything into a message.

What is installed: choose from it, compare it on disk with the lock, take it away.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from skillwire.errors import DecodeError, NotFoundError, SkillwireError, SourceLocation, ValidationError, one_line
from skillwire.limits import LOCK_BYTES
from skillwire.model.digest import Digest
from skillwire.model.install import InstallLocation, Lock, LockedSkill
from skillwire.model.skill import is_skill_name
from skillwire.model.url import parse_url
from skillwire.resolver.references import LOCAL
from skillwire.trust.guarded_json import load_json
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.ports import SkillsFolder
    from skillwire.wire.exchange import Flow


LOCK_NAME: Final = "skills.lock"
_FORMAT: Final = 1
_REMOTE_TYPES: Final = frozenset({"skill-md", "archive", "files"})
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def encode_lock(lock: Lock) -> bytes:
    """Return the bytes of ``skills.lock``."""
    skills = {name: _skill_object(skill) for name, skill in sorted(lock.skills.items())}
    return (json.dumps({"version": _FORMAT, "skills": skills}, indent=2, ensure_ascii=False) + "\n").encode()


def _skill_object(skill: LockedSkill) -> dict[str, Any]:
    return {
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
    }


def decode_lock(data: bytes, source: str) -> Lock:
    """Return the lock that ``data`` holds.

    Raises:
        DecodeError, ValidationError: ``JSON_*`` or ``LOCK_FORM``, with the place.
    """
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
            artifact_type=_string(fields["type"]),
            first_seen=_string(fields["first_seen"]),
            agents=tuple(_string(agent) for agent in fields["agents"]),
            placement=InstallLocation(
                tuple(check_path(_string(folder)) for folder in fields["folders"]),
                tuple(check_path(_string(link)) for link in fields["links"]),
            ),
            files={check_path(path): _hex(value) for path, value in fields["files"].items()},
        )
        _check_places(locked)
    except (KeyError, TypeError, AttributeError, ValueError, SkillwireError) as error:
        raise DecodeError(
            "LOCK_FORM", f"the entry is malformed: {one_line(error)}", place=SourceLocation(source)
        ) from error
    return locked


def _check_places(locked: LockedSkill) -> None:
    """Check that a row says one thing about where its skill came from and where it stands."""
    if not locked.placement.folders:
        raise ValueError("it names no folder")
    if locked.artifact_type == "folder":
        if not locked.origin.startswith(LOCAL) or locked.index or locked.digest is not None or "://" in locked.url:
            raise ValueError("a skill of a folder has no URL and no digest")
        return
    if locked.artifact_type not in _REMOTE_TYPES:
        raise ValueError(f"unknown type {ascii(locked.artifact_type)[:40]}")
    if locked.origin != str(parse_url(locked.origin)).removesuffix("/"):
        raise ValueError("the origin is not in its written form")
    if any(url != str(parse_url(url)) for url in (locked.index, locked.url)):
        raise ValueError("a URL is not in its written form")
    if not locked.index.startswith(locked.origin):
        raise ValueError("the index is not at the origin")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {ascii(value)[:60]}")
    return value


def _hex(value: object) -> str:
    if not _HEX.fullmatch(_string(value)):
        raise TypeError(f"not a SHA-256: {ascii(value)[:60]}")
    return cast("str", value)


class Deviation(NamedTuple):
    """One thing that is not as the lock says."""

    name: str
    path: str
    problem: Literal["missing", "changed", "added"]


class Verification(NamedTuple):
    """What was compared with the lock, and everything that is not as it says."""

    skills: list[LockedSkill]
    deviations: list[Deviation]


def select(lock: Lock, names: Sequence[str]) -> list[LockedSkill]:
    """Return the locked skills of these names, or all.

    Raises:
        NotFoundError: ``NOT_INSTALLED``.
    """
    for name in names:
        if name not in lock.skills:
            fix = did_you_mean(name, lock.skills)
            raise NotFoundError("NOT_INSTALLED", f"{ascii(name)[1:-1][:120]} is not installed here", fix=fix)
    return [lock.skills[name] for name in (names or sorted(lock.skills))]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the question after a name that is not ``known``; None when none of those looks like it."""
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(close)}?" if close else None


def verify(folder: SkillsFolder, names: Sequence[str]) -> Flow[Verification]:
    """Compare what stands on disk with the lock; return what was compared, and every deviation."""

    def look() -> Verification:
        skills = select(folder.read_lock(), names)
        return Verification(skills, [row for locked in skills for row in _find_deviations(locked, folder)])

    return (yield from work(look))


def _find_deviations(locked: LockedSkill, folder: SkillsFolder) -> list[Deviation]:
    standing = folder.installed_files(locked.placement, locked.name)
    if standing is None:
        return [Deviation(locked.name, ".", "missing")]
    return [
        *(Deviation(locked.name, place, "missing") for place in folder.missing_places(locked.placement, locked.name)),
        *(Deviation(locked.name, path, "missing") for path in locked.files.keys() - standing.keys()),
        *(Deviation(locked.name, path, "added") for path in standing.keys() - locked.files.keys()),
        *(Deviation(locked.name, path, "changed") for path in _changed(locked.files, standing)),
    ]


def _changed(locked: Mapping[str, str], standing: Mapping[str, str]) -> list[str]:
    return [path for path, digest in locked.items() if path in standing and standing[path] != digest]


def remove(folder: SkillsFolder, names: Sequence[str]) -> Flow[list[LockedSkill]]:
    """Take skills away, and out of the lock; as a whole."""

    def take_away() -> list[LockedSkill]:
        change = folder.change()
        try:
            lock = folder.read_lock()
            skills = select(lock, names) if names else []
            for locked in skills:
                change.take_away(locked.name, locked.placement)
            change.commit(lock.without(names))
        finally:
            change.close()
        return skills

    return (yield from work(take_away))
