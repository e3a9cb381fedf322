"""Every archive of the corpus, hostile and benign, judged from outside the process that unpacks it.

The seven invariants of ``expectations.json`` are held for each: (1) nothing outside the destination
changes, (2) a refusal leaves no destination, (3) no special file, no dangerous mode, (4) no link,
(5) bounded bytes, (6) bounded memory, and time in ``bench/time_limits.py``, (7) nothing is executed or imported.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile_archives import CODES_OF_CLASSES, EXPECTATIONS

from skillwire.codes import CODES

HERE = Path(__file__).parent
LIMITS = EXPECTATIONS["limits"]
ARCHIVES: list[dict[str, Any]] = EXPECTATIONS["archives"]
CANARY = Path(EXPECTATIONS["canary"])

#: What a link that stays inside becomes: a copy of what it leads to.
COPIES = {
    "benign/tar_symlink_inside.tar.gz": {
        "references/alias.md": "references/REF.md",
        "docs/REF.md": "references/REF.md",
        "docs/alias.md": "references/REF.md",
    },
    "benign/zip_symlink_inside.zip": {"alias.md": "references/REF.md"},
}


@pytest.fixture
def canary():
    """The folder that hostile absolute targets point at; the lock keeps a second run of the tests away."""
    lock = os.open(CANARY.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        shutil.rmtree(CANARY, ignore_errors=True)
        CANARY.mkdir(mode=0o700)
        for name in ("victim.txt", "swap.txt"):
            (CANARY / name).write_text("untouched")
        yield CANARY
        shutil.rmtree(CANARY)
    finally:
        os.close(lock)


def snapshot(folder):
    """Return everything below ``folder`` that a stranger could have changed, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else None
        found[str(path)] = (info.st_mode, info.st_uid, info.st_mtime_ns, info.st_nlink, content)
    return found


def surroundings(box):
    """Return what is around the destination; the folder's own time changes when the destination appears."""
    found = {path: value for path, value in snapshot(box).items() if not path.startswith(str(box / "dest"))}
    return found | {str(box): found[str(box)][:2]}


def make_box(base):
    """Return a folder with the files that hostile archives aim at beside the destination."""
    box = base / "box"
    (box / "outside").mkdir(parents=True)
    (box / "outside" / "file.txt").write_text("untouched")
    (box / "evil.txt").write_text("untouched")
    return box


def check_tree(archive, destination):
    """Yield what is wrong with an unpacked folder: invariants 3, 4 and 5, and the expected files."""
    files: dict[str, list[object]] = {}
    total = 0
    for path in (destination, *destination.rglob("*")):
        info = path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISREG(info.st_mode):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[str(path.relative_to(destination))] = [digest, mode == 0o755]
            total += info.st_size
            if info.st_nlink != 1:
                yield f"{path} is linked to elsewhere"
        elif not stat.S_ISDIR(info.st_mode):
            yield f"{path} is neither file nor folder"
        if mode not in ({0o755} if stat.S_ISDIR(info.st_mode) else {0o644, 0o755}):
            yield f"{path} has mode {mode:o}"
    if total > LIMITS["max_total_bytes"]:
        yield f"{total} bytes were written"
    if "files" in archive:
        wanted = {path: archive["files"][target] for path, target in COPIES.get(archive["file"], {}).items()}
        if files != archive["files"] | wanted:
            yield f"the files differ: {files.items() ^ (archive['files'] | wanted).items()}"


def check_outcome(archive, answer, destination):
    """Yield what is wrong with what the unpacking answered and left."""
    refusals = {CODES_OF_CLASSES[code] for code in archive.get("codes", ()) if code in CODES_OF_CLASSES}
    if answer["code"] is not None:
        if archive["expect"] == "accept" or answer["code"] not in refusals:
            yield f"refused with {answer['code']}, expected {archive['expect']} {refusals or ''}"
        if os.path.lexists(destination):
            yield "refused, and yet the destination is there"
    elif archive["expect"] == "reject":
        yield "accepted"
    else:
        yield from check_tree(archive, destination)
    if answer["growth"] > LIMITS["max_rss_growth_bytes"]:
        yield f"took {answer['growth']} bytes"
    if answer["events"]:
        yield f"did more than unpack: {answer['events']}"


def test_every_archive_behaves_as_expected(tmp_path, canary, capsys):
    before = snapshot(canary)
    wrong: list[str] = []
    answers: list[dict[str, Any]] = []
    command = [sys.executable, "-I", str(HERE / "unpack_child.py"), str(LIMITS["max_rss_growth_bytes"])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, umask=0o022) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number, archive in enumerate(ARCHIVES):
            box = make_box(tmp_path / str(number))
            around = surroundings(box)
            task = {
                "archive": str(HERE / "archives" / archive["file"]),
                "format": archive["format"],
                "destination": str(box / EXPECTATIONS["destination_name"]),
            }
            child.stdin.write(json.dumps(task) + "\n")
            child.stdin.flush()
            answers.append(json.loads(child.stdout.readline()))
            faults = [*check_outcome(archive, answers[-1], Path(task["destination"]))]
            faults += ["something outside the destination changed"] * (surroundings(box) != around)
            faults += ["the canary changed"] * (snapshot(canary) != before)
            wrong += [f"{archive['file']}: {fault}" for fault in faults]
            shutil.rmtree(tmp_path / str(number))
        child.stdin.close()
        assert child.wait() == 0
    outcomes = Counter(
        archive["expect"] + (" -> accepted" if answer["code"] is None else " -> refused")
        for archive, answer in zip(ARCHIVES, answers, strict=True)
    )
    with capsys.disabled():
        largest = max(answer["growth"] for answer in answers)
        print(f" {dict(outcomes)}, at most {largest / 2**20:.0f} MiB each ", end="")  # noqa: T201 -- the counts are reported
    assert not wrong, "\n".join(wrong)


def test_the_corpus_is_whole():
    assert Counter(archive["expect"] for archive in ARCHIVES) == EXPECTATIONS["counts"]
    for archive in ARCHIVES:
        content = (HERE / "archives" / archive["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == archive["sha256"]


def test_each_class_of_refusal_is_one_code_of_ours():
    named = {code for archive in ARCHIVES for code in archive.get("codes", ())}
    assert named - {"MODE_FORBIDDEN"} == CODES_OF_CLASSES.keys()
    assert len(set(CODES_OF_CLASSES.values())) == len(CODES_OF_CLASSES)
    assert set(CODES_OF_CLASSES.values()) <= CODES.keys()
