"""Loading skill folders, many of them on all cores.

Reading, checking, hashing and packing a skill is work for a processor, so a large number is spread over worker
processes: ``python -m skillwire.adapters.files.loading`` takes folders from its standard input and gives what it
found on its standard output. Processes of our own, and not :mod:`multiprocessing`, because that would run the
main module of whoever mounts our server once more.

A folder that changes while it is read is read again, so that no skill is published half old and half new.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from skillwire.adapters.files.keeping import KeepBlobs, KeepNothing, KeepStaged
from skillwire.adapters.files.signature import sign_folder
from skillwire.adapters.files.skill_rows import finding_rows, pack_skill, read_findings
from skillwire.codes import CODES
from skillwire.errors import Place, SkillwireError, StorageError, UsageError
from skillwire.folder.lint_manifest import lint_executor
from skillwire.folder.publish import Refused, prepare
from skillwire.model.access import Access
from skillwire.model.finding import Finding
from skillwire.protocols.skill_sharing.lint import lint_sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from skillwire.adapters.files.keeping import Keeper
    from skillwire.folder.publish import Prepared

_MODULE: Final = "skillwire.adapters.files.loading"
#: A worker must have at least so many folders to itself; fewer are loaded before it has started.
_WORTH_A_WORKER: Final = 50
#: Handed to a worker at once: enough that it seldom waits, few enough that all workers end together.
_BATCH: Final = 20
_ATTEMPTS: Final = 3
_PUBLISHER: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", re.ASCII)
#: What the protocols add to the rules of a skill.
PROTOCOL_JUDGES: Final = (lint_sharing,)
#: The same, and the rules for what comes from a folder.
JUDGES: Final = (*PROTOCOL_JUDGES, lint_executor)
_LENGTH: Final = struct.Struct("<I")
_KEEPERS: Final[dict[str, Callable[..., Keeper]]] = {
    "blobs": KeepBlobs,
    "nothing": KeepNothing,
    "stage": KeepStaged,
}


class Job(NamedTuple):
    """How folders are loaded: for which publisher, and where the bytes go (a key of ``_KEEPERS``, arguments)."""

    publisher: str
    keeper: str
    arguments: tuple[str, ...]


class Loaded(NamedTuple):
    """What loading ``folder`` gave.

    ``packed`` is the skill (:mod:`skillwire.adapters.files.skill_rows`), None when it cannot be published;
    ``findings`` then say why. ``access`` is who may see it, as far as the folder tells
    (:mod:`skillwire.folder.stated_access`). ``signature`` is empty when the folder changed too lately to rely on it.
    """

    folder: str
    signature: str
    packed: bytes | None
    findings: tuple[Finding, ...]
    access: Access


def published_roots(folders: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return ``folders`` as absolute paths.

    Raises:
        UsageError: ``FOLDER_MISSING`` when one is not there.
    """
    roots = [Path(os.path.abspath(folder)) for folder in folders]  # noqa: PTH100  # without its dots, and links kept
    for root in roots:
        if not root.is_dir():
            raise UsageError("FOLDER_MISSING", "there is no such folder", place=Place(str(root)))
    return [str(root) for root in roots]


def check_publisher(publisher: str) -> str:
    """Return ``publisher``.

    Raises:
        UsageError: ``PUBLISHER_FORM`` when it cannot stand in identifiers and URLs as it is.
    """
    if not _PUBLISHER.fullmatch(publisher):
        raise UsageError("PUBLISHER_FORM", f"not a publisher's name: {ascii(publisher)[:80]}")
    return publisher


def load_folders(job: Job, folders: Sequence[str]) -> Iterator[Loaded]:
    """Load each of ``folders``, absolute paths; the results come in any order.

    Raises:
        StorageError: ``STORAGE`` when bytes cannot be kept, ``WORKER_LOST``.
    """
    workers = min(os.cpu_count() or 1, len(folders) // _WORTH_A_WORKER)
    if workers > 1:
        yield from _load_aside(job, folders, workers)
        return
    keep = _KEEPERS[job.keeper](*job.arguments)
    for folder in folders:
        yield load_folder(folder, job.publisher, keep)


def load_folder(folder: str, publisher: str, keep: Keeper) -> Loaded:
    """Load one skill folder and keep its bytes.

    Raises:
        StorageError: ``STORAGE`` when they cannot be kept.
    """
    for _ in range(_ATTEMPTS):
        before = sign_folder(folder)
        prepared = prepare(Path(folder), publisher, judges=JUDGES)
        if sign_folder(folder).value == before.value:
            break
    else:
        message, fix = "the folder changes while it is read", CODES["FOLDER_UNSTEADY"].fix
        finding = Finding("FOLDER_UNSTEADY", "error", message, Place(folder), fix)
        return Loaded(folder, "", None, (finding,), _access(prepared))
    signature = before.value if before.settled else ""
    if isinstance(prepared, Refused):
        return Loaded(folder, signature, None, prepared.findings, prepared.access)
    keep(prepared)
    return Loaded(folder, signature, pack_skill(prepared.skill), prepared.findings, prepared.skill.access)


def _access(prepared: Prepared | Refused) -> Access:
    return prepared.access if isinstance(prepared, Refused) else prepared.skill.access


def _load_aside(job: Job, folders: Sequence[str], workers: int) -> Iterator[Loaded]:
    """Spread ``folders`` over ``workers`` processes, each driven by a thread of this one."""
    batches = deque(folders[start : start + _BATCH] for start in range(0, len(folders), _BATCH))
    results: SimpleQueue[list[Loaded] | Exception | None] = SimpleQueue()
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
    finally:  # also when nobody wants the rest
        batches.clear()
        for thread in threads:
            thread.join()


def _drive(job: Job, batches: deque[Sequence[str]], results: SimpleQueue[list[Loaded] | Exception | None]) -> None:
    """Hand batch after batch to one worker process."""
    command = [sys.executable, "-m", _MODULE]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:  # noqa: S603  # ours
            requests, answers = cast("BinaryIO", worker.stdin), cast("BinaryIO", worker.stdout)
            _send(requests, job)
            for batch in _taken(batches):
                _send(requests, [os.fsencode(folder) for folder in batch])
                results.put([_read_loaded(row) for row in _receive(answers)])
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        results.put(StorageError("WORKER_LOST", f"a worker ended before its work: {type(error).__name__}"))
    except Exception as error:  # noqa: BLE001  # raised where the results are waited for
        results.put(error)
    else:
        results.put(None)


def _taken(batches: deque[Sequence[str]]) -> Iterator[Sequence[str]]:
    with suppress(IndexError):  # another thread has taken the last one
        while True:
            yield batches.popleft()


def _work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Be a worker process until there is nothing more to read."""
    job = Job(*_receive(requests))
    keep = _KEEPERS[job.keeper](*job.arguments)
    with suppress(EOFError):
        while True:
            folders = map(os.fsdecode, _receive(requests))
            try:
                _send(answers, [_row(load_folder(folder, job.publisher, keep)) for folder in folders])
            except SkillwireError as error:
                _send(answers, {"code": error.code, "message": error.message, "place": error.place})


def _send(stream: BinaryIO, message: object) -> None:
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: BinaryIO) -> Any:
    """Return the next message.

    Raises:
        EOFError: the other side has ended.
        StorageError: the other side failed.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    message = msgspec.msgpack.decode(stream.read(*_LENGTH.unpack(head)))
    if isinstance(message, dict):
        place = message["place"]
        raise StorageError(message["code"], message["message"], place=place and Place(*place))
    return message


def _row(loaded: Loaded) -> tuple[object, ...]:
    findings = finding_rows(loaded.findings)
    return os.fsencode(loaded.folder), loaded.signature, loaded.packed, findings, loaded.access.value


def _read_loaded(row: list[Any]) -> Loaded:
    folder, signature, packed, findings, access = row
    return Loaded(os.fsdecode(folder), signature, packed, read_findings(findings), Access(access))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to us too; our parent decides
    _work(sys.stdin.buffer, sys.stdout.buffer)
