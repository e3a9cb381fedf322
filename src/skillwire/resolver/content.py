"""From located skills to their files: out of the blob store, or fetched, verified, unpacked in memory.

Only what was chosen is fetched. An artifact whose digest is known is looked up first, so a skill that was
seen once is never downloaded again, and ``offline`` works for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import FetchError, Place, SkillwireError
from skillwire.model.skill import FileContent
from skillwire.protocols.agent_skills.client import fetch_artifact, fetch_files
from skillwire.resolver.flow import fetch_all, work
from skillwire.trust.archive import plan_files, read_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.protocols.agent_skills.messages import IndexEntry
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Files, LocatedSkill, Session
    from skillwire.wire.exchange import Exchange

_SKILL_MD: Final = "SKILL.md"


def read_contents(
    skills: Sequence[LocatedSkill], session: Session, on_done: Callable[[], object] = lambda: None
) -> Flow[list[Files | SkillwireError]]:
    """Return the files of each skill, or why they cannot be had, in order. ``on_done`` is called for each."""
    known = yield from work(lambda: [_look_up(skill, session) for skill in skills])
    missing = [number for number, content in enumerate(known) if content is None]
    exchanges = [_exchange(skills[number], session) for number in missing]
    fetched = iter((yield from fetch_all(exchanges, on_done)) if exchanges else ())

    def unpack() -> list[Files | SkillwireError]:
        contents = [content if content is not None else next(fetched) for content in known]
        return [_open(skill.entry, content, session) for skill, content in zip(skills, contents, strict=True)]

    return (yield from work(unpack))


def _look_up(skill: LocatedSkill, session: Session) -> bytes | list[FileContent] | None:
    if skill.files is not None:
        return list(skill.files)
    return session.blobs.read(skill.entry.digest) if skill.entry.digest is not None else None


def _exchange(skill: LocatedSkill, session: Session) -> Exchange[bytes | list[FileContent]]:
    if session.offline:
        raise FetchError("OFFLINE", f"{skill.ref.name} is not in the cache", place=Place(skill.entry.url))
    authorization = session.credential_for(skill.entry.url)
    if skill.entry.artifact_type == "files":
        return fetch_files(skill.entry, authorization=authorization)
    return fetch_artifact(skill.entry, authorization=authorization)


def _open(
    entry: IndexEntry, content: bytes | list[FileContent] | SkillwireError, session: Session
) -> Files | SkillwireError:
    if isinstance(content, SkillwireError):
        return content
    try:
        if not isinstance(content, bytes):
            return plan_files(content).files
        files = open_artifact(entry, content)
    except SkillwireError as error:
        return error
    session.blobs.put(content)
    return files


def open_artifact(entry: IndexEntry, content: bytes) -> Files:
    """Return the files that verified artifact bytes hold.

    Raises:
        TrustError, DecodeError: from the archive reader, with the artifact's URL as place.
    """
    if entry.artifact_type == "skill-md":
        return (FileContent(_SKILL_MD, content),)
    try:
        return read_archive(content).files
    except SkillwireError as error:
        error.place = error.place or Place(entry.url)
        raise
