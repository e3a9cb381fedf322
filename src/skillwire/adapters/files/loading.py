"""Loading skill folders: reading, checking, hashing and packing them, many at once and only those that changed.

A large number of folders is spread over worker processes: ``python -m skillwire.adapters.files.loading`` reads folders
from standard input and writes results to standard output. :mod:`multiprocessing` is not used because it would run the
main module of the program that mounts our server again. A folder that changes while it is read is read again, so no
skill is published half old and half new.

A folder's signature covers path, kind, size, mode, inode and both times of each entry that can belong to a skill. An
editor that keeps size and modification time still changes the inode or the change time, which no program can set. Two
changes within one clock tick of the file system look alike, so a signature whose newest change is very recent is not
*settled*: seeing it again does not prove that nothing changed.

A build record keeps, for each folder, its signature and the skill that it held, so that the next run reads only what
changed. It is a cache file per destination, ignored when it is unreadable or comes from another version of skillwire,
another deflate or another context such as another publisher. The skill's bytes go to a blob store, to be served, or
into the staging folder of a static site.
"""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from queue import SimpleQueue
from stat import S_ISDIR
from threading import Thread
from typing import Any, BinaryIO, Final, NamedTuple, cast

import deflate
import msgspec

from skillwire.adapters.files.atomic import cache_directory, storage_error, write_atomically
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.codes import CODES
from skillwire.errors import SkillwireError, SourceLocation, StorageError, UsageError
from skillwire.folder.files import is_junk, raise_machine_error
from skillwire.folder.publish import PreparedSkill, RefusedFolder, prepare
from skillwire.model.access import Access
from skillwire.model.catalog import Catalog, pack_skill
from skillwire.model.digest import Digest
from skillwire.model.skill import Finding
from skillwire.protocols.agent_skills.server import IndexResponse, Site, VersionsResponse, artifact_name, skill_paths
from skillwire.protocols.skill_sharing import descriptor_path
from skillwire.protocols.skill_sharing.judge import JUDGES
from skillwire.protocols.skill_sharing.server import Sharing, encode_descriptor
from skillwire.version import VERSION

SkillWriter = Callable[[PreparedSkill], object]

#: Longer than a tick of any file system's clock that keeps fractions of a second (Linux: 10 ms at most).
_TICK_NS: Final = 50_000_000


class Signature(NamedTuple):
    """A folder's signature; ``settled`` when an equal signature later means an unchanged folder."""

    value: str
    settled: bool


def sign_folder(folder: str) -> Signature:
    """Return the signature of ``folder``; one of its own for a folder that it may not read. Raises StorageError."""
    now = time.time_ns()
    lines: list[str] = []
    newest = _collect(folder, "", lines)
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return Signature(hashlib.blake2b(text, digest_size=16).hexdigest(), now - newest > _TICK_NS)


def _collect(folder: str, prefix: str, lines: list[str]) -> int:
    """Add a line for each entry to ``lines``; return the time of the newest change, in nanoseconds."""
    newest = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if is_junk(name):
                    continue
                seen = entry.stat(follow_symlinks=False)
                mode, changed = seen.st_mode, seen.st_ctime_ns
                line = f"{prefix}{name}\0{mode}\0{seen.st_size}\0{seen.st_mtime_ns}\0{changed}\0{seen.st_ino}"
                lines.append(line)
                if changed > newest:  # noqa: PLR1730  # a call for each of 50,000 files costs too much
                    newest = changed
                if S_ISDIR(mode):
                    newest = max(newest, _collect(entry.path, f"{prefix}{name}/", lines))
    except OSError as error:  # removed or unreadable: the next reader reports it
        raise_machine_error(error, folder)
        lines.append(f"{prefix}\0{error.errno}")
    return newest


_FORMAT: Final = 8


class FolderRecord(NamedTuple):
    """A folder's signature (:func:`sign_folder`) and its skill then, in packed form."""

    signature: str
    packed: bytes


class BuildRecord:
    """The record of one destination; a record of another ``context`` is ignored."""

    def __init__(self, place: Path, *context: str) -> None:
        name = hashlib.blake2b(str(place).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        self.path = cache_directory() / "builds" / name
        self._stamp = [_FORMAT, VERSION, deflate.__version__, *context]

    def read(self) -> dict[str, FolderRecord]:
        """Return the records by the folder's absolute path; empty when unusable."""
        try:
            content = self.path.read_bytes()
            stamp, rows = msgspec.msgpack.decode(content, type=tuple[list[Any], dict[str, tuple[str, bytes]]])
        except (OSError, msgspec.MsgspecError, UnicodeError):  # absent or damaged: everything is read again
            return {}
        return {folder: FolderRecord(*row) for folder, row in rows.items()} if stamp == self._stamp else {}

    def write(self, records: Mapping[str, FolderRecord]) -> None:
        """Replace the stored records. Raises StorageError (``STORAGE``)."""
        try:
            content = msgspec.msgpack.encode((self._stamp, records))
        except UnicodeEncodeError:  # a folder whose path is not UTF-8: nothing is recorded, everything read again
            return
        write_atomically(self.path, content, mode=0o600)

    def forget(self) -> None:
        """Remove the record."""
        self.path.unlink(missing_ok=True)


def blob_writer(directory: str) -> SkillWriter:
    """Return the writer that puts a skill's files and artifact into the blob store ``directory``."""
    blobs = FileBlobs(Path(directory))

    def write(prepared: PreparedSkill) -> None:
        for content in (*(file.content for file in prepared.files), prepared.artifact):
            blobs.put(bytes(content))

    return write


class SiteWriter:
    """Writes a skill below ``directory``, at every path of a static site that depends on this skill alone.

    Paths with equal content are hard links to one file: a third of the time and space. Later builds replace files and
    never write into them. With a ``base_url``, which descriptors need, the skill's descriptor is written too.

    ``pages``, if any, is ``module:function`` and its arguments after ``base_url``; the result makes a skill's pages.
    """

    def __init__(self, directory: str, base_url: str, *pages: str) -> None:
        self._directory = directory
        self._base_url = base_url
        self._folders = {directory}
        self._make_pages = resolve_name(pages[0])(base_url, *pages[1:]) if pages else lambda _: ()

    def __call__(self, prepared: PreparedSkill) -> None:
        """Write a public skill's files; nothing for other skills. Raises StorageError (``STORAGE``)."""
        skill = prepared.skill
        if skill.access is not Access.PUBLIC:
            return
        bodies = {file.digest: held.content for file, held in zip(skill.files, prepared.files, strict=True)}
        bodies[skill.artifact.digest] = prepared.artifact
        written: dict[Digest, str] = {}
        site = Site(Catalog.of([skill]), self._base_url)
        for path in skill_paths(skill.name, artifact_name(skill), [file.path for file in skill.files]):
            answer = site.lookup(path)
            if isinstance(answer, IndexResponse | VersionsResponse):
                self.write(path, answer.encode())
            elif answer is not None and answer.digest in written:
                self._link(written[answer.digest], path)
            elif answer is not None:
                self.write(path, bodies[answer.digest])
                written[answer.digest] = path
        if self._base_url:
            described = Sharing({skill.name: skill}, skill.publisher, self._base_url).describe(skill.name)
            content = bodies[described] if isinstance(described, Digest) else encode_descriptor(described)
            self.write(descriptor_path(skill.name), content)
        for path, page in self._make_pages(prepared):
            self.write(path, page)

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write one file; ``path`` is the path of its URL. Raises StorageError (``STORAGE``)."""
        target = self._directory + path
        try:
            self._make_folder(target[: target.rindex("/")])
            with open(target, "xb") as file:  # noqa: PTH123  # one Path object for each file costs too much
                file.write(content)
        except OSError as error:
            raise storage_error(error, Path(target)) from error

    def _link(self, path: str, other: str) -> None:
        target = self._directory + other
        try:
            self._make_folder(target[: target.rindex("/")])
            os.link(self._directory + path, target)
        except OSError:  # not every file system has links; copying reports any other error
            self.write(other, Path(self._directory + path).read_bytes())

    def _make_folder(self, folder: str) -> None:
        if folder not in self._folders:
            self._make_folder(folder[: folder.rindex("/")])
            with suppress(FileExistsError):  # another process was first
                os.mkdir(folder)  # noqa: PTH102  # as above
            self._folders.add(folder)


_MODULE: Final = "skillwire.adapters.files.loading"
#: A worker must have at least so many folders to itself; fewer are loaded before it has started.
_WORTH_A_WORKER: Final = 50
#: Handed to a worker at once: enough that it seldom waits, few enough that all workers end together.
_BATCH: Final = 20
_ATTEMPTS: Final = 3
_LENGTH: Final = struct.Struct("<I")
#: Where the bytes go → what makes the writer.
_WRITERS: Final[dict[str, Callable[..., SkillWriter]]] = {
    "blobs": blob_writer,
    "nothing": lambda: lambda _: None,
    "stage": SiteWriter,
}


class LoadJob(NamedTuple):
    """How folders are loaded: for which publisher, and where the bytes go.

    ``writer`` is a key of ``_WRITERS``, whose value makes the writer from ``arguments``.
    """

    publisher: str
    writer: str
    arguments: tuple[str, ...]


class LoadResult(NamedTuple):
    """The result of loading ``folder``; ``packed`` is None when it cannot be published; see ``findings``.

    ``access`` is private in doubt; ``signature`` is empty when the folder changed too recently to rely on it.
    """

    folder: str
    signature: str
    packed: bytes | None
    findings: tuple[Finding, ...]
    access: Access


def published_roots(folders: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return ``folders`` as absolute paths. Raises UsageError (``FOLDER_MISSING``) when one does not exist."""
    roots = [Path(os.path.abspath(folder)) for folder in folders]  # noqa: PTH100  # without its dots, and links kept
    for root in roots:
        if not root.is_dir():
            raise UsageError("FOLDER_MISSING", "there is no such folder", place=SourceLocation(str(root)))
    return [str(root) for root in roots]


def load_folders(job: LoadJob, folders: Sequence[str]) -> Iterator[LoadResult]:
    """Load each of ``folders``, absolute paths, in any order. Raises StorageError (``STORAGE``, ``WORKER_LOST``)."""
    workers = min(os.cpu_count() or 1, len(folders) // _WORTH_A_WORKER)
    if workers > 1:
        batches = deque(folders[start : start + _BATCH] for start in range(0, len(folders), _BATCH))
        results: SimpleQueue[list[LoadResult] | Exception | None] = SimpleQueue()
        threads = [Thread(target=_drive, args=(job, batches, results), daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            while workers:
                result = results.get()
                if isinstance(result, Exception):
                    raise result
                if result is None:
                    workers -= 1
                else:
                    yield from result
        finally:  # also when the caller stops early
            batches.clear()
            for thread in threads:
                thread.join()
        return
    write = _WRITERS[job.writer](*job.arguments)
    for folder in folders:
        yield load_folder(folder, job.publisher, write)


def load_folder(folder: str, publisher: str, write: SkillWriter) -> LoadResult:
    """Load one skill folder and store its bytes. Raises StorageError (``STORAGE``)."""
    for _ in range(_ATTEMPTS):
        before = sign_folder(folder)
        prepared = prepare(Path(folder), publisher, judges=JUDGES)
        if sign_folder(folder).value == before.value:
            break
    else:
        message, fix = "the folder changes while it is read", CODES["FOLDER_UNSTEADY"].fix
        finding = Finding("FOLDER_UNSTEADY", "error", message, SourceLocation(folder), fix)
        access = prepared.access if isinstance(prepared, RefusedFolder) else prepared.skill.access
        return LoadResult(folder, "", None, (finding,), access)
    signature = before.value if before.settled else ""
    if isinstance(prepared, RefusedFolder):
        return LoadResult(folder, signature, None, prepared.findings, prepared.access)
    write(prepared)
    return LoadResult(folder, signature, pack_skill(prepared.skill), prepared.findings, prepared.skill.access)


def _drive(
    job: LoadJob, batches: deque[Sequence[str]], results: SimpleQueue[list[LoadResult] | Exception | None]
) -> None:
    command = [sys.executable, "-m", _MODULE]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:  # noqa: S603  # ours
            requests, answers = cast("BinaryIO", worker.stdin), cast("BinaryIO", worker.stdout)
            _send(requests, job)
            with suppress(IndexError):  # another thread has taken the last batch
                while True:
                    _send(requests, [os.fsencode(folder) for folder in batches.popleft()])
                    results.put([_read_loaded(row) for row in _receive(answers)])
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        results.put(StorageError("WORKER_LOST", f"a worker ended before its work: {type(error).__name__}"))
    except Exception as error:  # noqa: BLE001  # raised where the results are waited for
        results.put(error)
    else:
        results.put(None)


def _work(requests: BinaryIO, answers: BinaryIO) -> None:
    job = LoadJob(*_receive(requests))
    write = _WRITERS[job.writer](*job.arguments)
    with suppress(EOFError):
        while True:
            folders = map(os.fsdecode, _receive(requests))
            try:
                _send(answers, [_row(load_folder(folder, job.publisher, write)) for folder in folders])
            except SkillwireError as error:
                _send(answers, {"code": error.code, "message": error.message, "place": error.place})


def _send(stream: BinaryIO, message: object) -> None:
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: BinaryIO) -> Any:
    """Return the next message. Raises EOFError when the other side has ended, StorageError when it failed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    message = msgspec.msgpack.decode(stream.read(*_LENGTH.unpack(head)))
    if isinstance(message, dict):
        place = message["place"]
        raise StorageError(message["code"], message["message"], place=place and SourceLocation(*place))
    return message


def _row(loaded: LoadResult) -> tuple[object, ...]:
    return os.fsencode(loaded.folder), loaded.signature, loaded.packed, loaded.findings, loaded.access.value


def _read_loaded(row: list[Any]) -> LoadResult:
    folder, signature, packed, findings, access = row
    found = msgspec.convert(findings, tuple[Finding, ...])
    return LoadResult(os.fsdecode(folder), signature, packed, found, Access(access))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to us too; our parent decides
    _work(sys.stdin.buffer, sys.stdout.buffer)
