"""Fuzz the archive reader: ``python tests/fuzz/fuzz_archive.py [CORPUS] [-max_total_time=60]``.

Input that begins as a gzip or zip is read as an archive. Any other is read as an inflated tar whose header
checksums are put right first, because a mutation behind two checksums would reach nothing. Seeds are the
archives of ``tests/corpus/archives``, and their tars inflated.
"""

import gzip
import zlib

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import TESTS, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire import limits
    from skillwire.errors import DecodeError, TrustError, ValidationError
    from skillwire.trust.archive import read_archive
    from skillwire.trust.archive.plan import ArchivePlan, plan_entries
    from skillwire.trust.archive.tar import read_tar
    from skillwire.trust.paths import check_path, collision_key

ARCHIVES = TESTS / "corpus" / "archives"
SEED_BYTES = 16 * 1024
BLOCK = 512


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Read ``data``; only the three errors may come out, and a plan must be safe."""
    try:
        plan = read_archive(data) if data[:2] in {b"\x1f\x8b", b"PK"} else plan_entries(read_tar(mend(data)))
    except (DecodeError, ValidationError, TrustError):
        return
    check(plan)


def mend(stream: bytes) -> bytearray:
    """Return ``stream`` with the checksum of every block that looks like a tar header put right."""
    mended = bytearray(stream)
    for start in range(0, len(mended) - BLOCK + 1, BLOCK):
        if mended[start + 257 : start + 262] == b"ustar":
            mended[start + 148 : start + 156] = b" " * 8
            mended[start + 148 : start + 156] = b"%06o\0 " % sum(mended[start : start + BLOCK])
    return mended


def check(plan: ArchivePlan) -> None:
    """Fail unless every path is safe, none meets another, and the bounds hold."""
    paths = [file.path for file in plan.files]
    assert paths == sorted(check_path(path) for path in paths)
    keys = {collision_key(path) for path in paths}
    assert len(keys) == len(paths)
    assert not any(key.rpartition("/")[0] in keys for key in keys)
    assert "SKILL.md" in paths
    assert len(paths) <= limits.ARCHIVE_ENTRIES
    assert sum(len(file.content) for file in plan.files) <= limits.ARCHIVE_TOTAL_BYTES


def seeds() -> dict[str, bytes]:
    """Return the small archives of the corpus, and their tars."""
    found: dict[str, bytes] = {}
    for archive in sorted(ARCHIVES.glob("*/*.*")):
        content = archive.read_bytes()
        if len(content) > SEED_BYTES:
            continue
        found[archive.name] = content
        try:
            stream = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):  # a zip, or a gzip that is broken on purpose
            continue
        if len(stream) <= SEED_BYTES:
            found[f"{archive.name}.tar"] = stream
    return found


if __name__ == "__main__":
    fuzz("archive", TestOneInput, seeds(), max_bytes=2 * SEED_BYTES)
