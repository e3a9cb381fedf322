"""Unpacking, beside the standard library: ``python bench/unpack.py [ROUNDS]``.

Three skills (12 files of text, 900 small files, 20 MB, half of it incompressible), each as ``.tar.gz``
and ``.zip``. One round unpacks with ours and with the standard library (``tarfile`` with its ``data``
filter, ``zipfile``), in turns, each into an empty folder in memory where the system has one. Both read
from bytes and write the same files; ours also checks far more. Compared are time and processor time. The goal
is at most 1.0.
"""

from __future__ import annotations

import gc
import io
import random
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from comparison import Goal, compare
from skillwire.trust.archive import read_archive, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Unpacker = Callable[[bytes, Path], None]
    Files = Mapping[str, bytes]

ROUNDS = 15
SENTENCE = "the skill reads a form and fills it from the table of fields which the reference file describes"


def workloads() -> dict[str, Files]:
    """Return the three skills, the same in every run."""
    words = SENTENCE.split()
    noise = random.Random(2026)  # noqa: S311 -- content that is the same in every run, no secret

    def text(size: int) -> bytes:
        return " ".join(noise.choices(words, k=size // 5)).encode()[:size]

    skill = {"SKILL.md": text(8_000)}
    folders = ("references", "scripts", "assets")
    return {
        "12 files": skill | {f"{folders[n % 3]}/file-{n}.md": text(6_000) for n in range(11)},
        "900 files": skill | {f"references/topic-{n % 30}/page-{n}.md": text(600) for n in range(899)},
        "20 MB": skill | {f"assets/{n}.bin": noise.randbytes(1_250_000) + text(1_250_000) for n in range(8)},
    }


def tar_gz(files: Files) -> bytes:
    """Return a common ``.tar.gz`` of ``files``."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zipped(files: Files) -> bytes:
    """Return a common ``.zip`` of ``files``."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return stream.getvalue()


def ours(content: bytes, destination: Path) -> None:
    """Unpack as skillwire does."""
    unpack(read_archive(content), destination)


def standard_tar(content: bytes, destination: Path) -> None:
    """Unpack as a careful user of tarfile does."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        tar.extractall(destination, filter="data")


def standard_zip(content: bytes, destination: Path) -> None:
    """Unpack as a user of zipfile does."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(destination)  # noqa: S202 -- the bench made the archive itself


def measure(unpacker: Unpacker, content: bytes, files: Files, base: Path) -> tuple[float, float]:
    """Return the time and the processor time, in ms, of one unpacking into a new folder that was seen to be right."""
    destination = base / "skill"
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    unpacker(content, destination)
    milliseconds = (time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3
    assert {str(path.relative_to(destination)) for path in destination.rglob("*") if path.is_file()} == set(files)
    shutil.rmtree(destination)
    return milliseconds


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    shared_memory = Path("/dev/shm")  # noqa: S108 -- memory, so that the disk's mood is not measured
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as folder:
        for name, files in workloads().items():
            for suffix, content, theirs, peer in (
                ("tar.gz", tar_gz(files), standard_tar, "tarfile"),
                ("zip", zipped(files), standard_zip, "zipfile"),
            ):
                pairs = [
                    (measure(ours, content, files, Path(folder)), measure(theirs, content, files, Path(folder)))
                    for _ in range(rounds)
                ]
                mine, their = zip(*pairs, strict=True)
                for measured, place in ((f"unpack {name}, {suffix}", 0), (f"unpack {name}, {suffix}, CPU", 1)):
                    our_times, their_times = [times[place] for times in mine], [times[place] for times in their]
                    compare(measured, our_times, their_times, Goal("at most", 1.0), peer=peer)


if __name__ == "__main__":
    main()
