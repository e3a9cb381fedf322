"""From located skills to their files: out of the blob store, or fetched, verified, unpacked in memory.

Only what was chosen is fetched. An artifact whose digest is known is looked up first, so a skill that was
seen once is never downloaded again, and ``offline`` works for it. A large artifact goes into the store as it comes,
and what breaks off is continued the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError, Place, SkillwireError, StorageError, TrustError
from skillwire.model.digest import Digest
from skillwire.model.skill import FileContent
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_artifact, fetch_files
from skillwire.resolver.document import noted
from skillwire.resolver.flow import fetch_all, work
from skillwire.resolver.reference import reference_to
from skillwire.trust.archive import plan_files, read_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.ports import Download
    from skillwire.protocols.agent_skills.messages import IndexEntry
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Files, LocatedSkill, Session
    from skillwire.trust.archive import ArchiveFormat
    from skillwire.wire.exchange import Exchange

#: What came for a skill: an artifact's verified bytes, the digest of a large one that lies in the blob store, single
#: files, or why it cannot be had.
Fetched = bytes | Digest | list[FileContent] | SkillwireError
_SKILL_MD: Final = "SKILL.md"


def fetch_contents(
    skills: Sequence[LocatedSkill], session: Session, on_done: Callable[[], object] = lambda: None
) -> Flow[list[Fetched]]:
    """Return what was fetched for each skill, or why it cannot be had, in order; nothing is opened yet.

    ``on_done`` is called for each.
    """
    known: list[Fetched | None] = yield from work(lambda: [_look_up(skill, session, on_done) for skill in skills])
    missing = [skill for skill, content in zip(skills, known, strict=True) if content is None]
    fetched = iter((yield from _fetch_missing(missing, session, on_done)) if missing else ())
    return [content if content is not None else next(fetched) for content in known]


def _look_up(skill: LocatedSkill, session: Session, on_done: Callable[[], object]) -> Fetched | None:
    content: Fetched | None = list(skill.files) if skill.files is not None else None
    if skill.ref.has_no_artifact:
        content = no_digest(skill.ref, is_logged_in=session.credential_for(skill.ref.origin) is not None)
    if content is None and skill.entry.digest is not None:
        content = session.blobs.read(skill.entry.digest)
        if content is not None and len(content) > limits.DOWNLOAD_PIECE_BYTES:
            content = skill.entry.digest  # read again when its turn comes, so that several are not in memory at once
    if content is None and session.offline:
        content = FetchError("OFFLINE", f"{skill.ref.name} is not in the cache", place=Place(skill.entry.url))
    if content is not None:
        on_done()
    return content


def no_digest(ref: SkillRef, *, is_logged_in: bool) -> TrustError:
    """Return the error that says why a skill that has no artifact cannot be had, and what to do.

    ``is_logged_in`` says whether its origin was asked with a credential.
    """
    if ref.rpc is not None:
        message = f"{ref.name} is a skill of an endpoint, which gives no digest that files could be verified by"
        fix = f"It is read and called there: skillwire show {reference_to(ref)}. Or add it where an index lists it."
        return TrustError("NO_DIGEST", message, place=Place(ref.rpc.endpoint), fix=fix)
    called = f"It is called, not installed: skillwire show {reference_to(ref)} says how."
    message = f"only Skill Sharing lists {ref.name}, and gives no digest that files could be verified by"
    if ref.shared is None:
        return TrustError("NO_DIGEST", message, place=Place(ref.origin), fix=called)
    place, is_knowledge = Place(ref.shared.descriptor_url), ref.shared.capability_type == "knowledge"
    if ref.shared.access != "public" and not is_logged_in:
        # Its files may well be published there, for those who may see them.
        message = f"{ref.name} is {ref.shared.access}, and nobody is logged in there"
        login = f"Run skillwire login {parse_url(ref.origin).origin}."
        return TrustError("NO_DIGEST", message, place=place, fix=login if is_knowledge else f"{login} Or: {called}")
    asking = "Ask the provider to publish it by Agent Skills Discovery, too, as skillwire serve and build do."
    return TrustError("NO_DIGEST", message, place=place, fix=asking if is_knowledge else called)


def _fetch_missing(
    skills: Sequence[LocatedSkill], session: Session, on_done: Callable[[], object]
) -> Flow[list[Fetched]]:
    downloads: list[Download | None] = yield from work(lambda: [_download(skill, session) for skill in skills])
    try:
        exchanges = [_exchange(*row, session) for row in zip(skills, downloads, strict=True)]
        fetched = yield from fetch_all(exchanges, on_done)
        rows = list(zip(skills, downloads, fetched, strict=True))
        if None in fetched:
            return (yield from work(lambda: [_keep(*row) for row in rows]))
        return [_keep(*row) for row in rows]
    finally:
        for download in downloads:
            if download is not None:
                download.close()


def _download(skill: LocatedSkill, session: Session) -> Download | None:
    digest = skill.entry.digest
    return None if digest is None or skill.entry.artifact_type != "archive" else session.blobs.download(digest)


def _exchange(
    skill: LocatedSkill, download: Download | None, session: Session
) -> Exchange[bytes | None] | Exchange[list[FileContent]]:
    authorization = session.credential_for(skill.entry.url)
    if skill.entry.artifact_type == "files":
        return fetch_files(skill.entry, authorization=authorization)
    return fetch_artifact(skill.entry, authorization=authorization, sink=download)


def _keep(
    skill: LocatedSkill, download: Download | None, fetched: bytes | list[FileContent] | SkillwireError | None
) -> Fetched:
    """Return what was fetched; what went into ``download`` is made a blob."""
    if fetched is not None:
        return fetched
    assert download is not None  # noqa: S101  # an exchange without one ends with bytes
    assert skill.entry.digest is not None  # noqa: S101  # same
    try:
        download.keep()
    except StorageError as error:
        return error
    return skill.entry.digest


def open_content(skill: LocatedSkill, fetched: Fetched, session: Session) -> Files:
    """Return the files that were fetched, and keep an artifact for the next time.

    Raises:
        SkillwireError: what ``fetched`` is instead of content; from the archive reader.
        StorageError: ``STORAGE`` when the blob store has lost what it was given.
    """
    if isinstance(fetched, SkillwireError):
        raise fetched
    if isinstance(fetched, Digest):
        content = session.blobs.read(fetched)
        if content is None:
            raise StorageError("STORAGE", "the artifact is not in the cache any more", place=Place(skill.entry.url))
        return open_artifact(skill.entry, content)
    if not isinstance(fetched, bytes):
        return plan_files(fetched).files
    files = open_artifact(skill.entry, fetched)
    try:
        session.blobs.put(fetched)
    except StorageError as error:
        session.report(noted(error))
    return files


def open_artifact(entry: IndexEntry, content: bytes) -> Files:
    """Return the files that verified artifact bytes hold.

    Raises:
        TrustError, DecodeError: from the archive reader, with the artifact's URL as place.
    """
    if entry.artifact_type == "skill-md":
        return (FileContent(_SKILL_MD, content),)
    try:
        return read_archive(content, expected_format=_stated_format(entry.url)).files
    except SkillwireError as error:
        error.place = error.place or Place(entry.url)
        raise


def _stated_format(url: str) -> ArchiveFormat | None:
    """Return the format that the extension in a URL states, if any."""
    path = parse_url(url).target.partition("?")[0].lower()
    if path.endswith(".zip"):
        return "zip"
    return "tar.gz" if path.endswith((".tar.gz", ".tgz")) else None
