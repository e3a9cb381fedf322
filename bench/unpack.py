"""Unpacking, beside the standard library: ``python bench/unpack.py [ROUNDS]``.

Three skills (12 files of text, 900 small files, 20 MB of which half does not compress), each as ``.tar.gz``
and ``.zip``. One round unpacks with ours and with the standard library (``tarfile`` with its ``data``
filter, ``zipfile``), in turns, each into an empty folder in memory where the system has one. Both read
from bytes and write the same files; ours also checks far more. Printed is the ratio ours / theirs of the
times of one round: minimum, median, maximum. The goal is a median of at most 1.0.
"""

from __future__ import annotations

import gc
import io
import random
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

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


def measure(unpacker: Unpacker, content: bytes, files: Files, base: Path) -> float:
    """Return the seconds of one unpacking into a new folder, once the result is seen to be right."""
    destination = base / "skill"
    gc.collect()
    start = time.perf_counter()
    unpacker(content, destination)
    seconds = time.perf_counter() - start
    assert {str(path.relative_to(destination)) for path in destination.rglob("*") if path.is_file()} == set(files)
    shutil.rmtree(destination)
    return seconds


def main() -> None:
    """Print one line for each workload and format."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    shared_memory = Path("/dev/shm")  # noqa: S108 -- memory, so that the disk's mood is not measured
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as folder:
        print(f"{'workload':<10} {'format':<7} {'ours':>9} {'standard':>9}   ratio: min / median / max")
        for name, files in workloads().items():
            for suffix, content, theirs in (
                ("tar.gz", tar_gz(files), standard_tar),
                ("zip", zipped(files), standard_zip),
            ):
                pairs = [
                    (measure(ours, content, files, Path(folder)), measure(theirs, content, files, Path(folder)))
                    for _ in range(rounds)
                ]
                ratios = sorted(mine / their for mine, their in pairs)
                mine, their = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
                print(
                    f"{name:<10} {suffix:<7} {mine:>6.1f} ms {their:>6.1f} ms   "
                    f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}"
                )


if __name__ == "__main__":
    main()
